"""What each subset of the wheels must do, run inside an environment that holds this subset and nothing else.

    python -I -W error checks_inside.py hermes-messages,hermes-loop

Imports nothing but the standard library and the wheels that are named. Each check says which wheels it needs
and which must be missing; all that fit are run. Prints one JSON object: the names of the checks that passed,
and the tracebacks of those that failed.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_messages import JsonObject, JsonValue

Check = Callable[[], Awaitable[None]]

MODULES = {
    "hermes-messages": ("hermes_messages",),
    "hermes-loop": ("hermes_loop", "run_agent"),
    "hermes-providers": ("hermes_providers",),
    "hermes-tools": ("hermes_tools",),
    "hermes-store": ("hermes_store", "hermes_state"),
    "hermes-batch": ("hermes_batch", "batch_runner"),
}
CHECKS: list[Fitting] = []
ANSWER = (
    'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m",'
    '"choices":[{"index":0,"delta":{"role":"assistant","content":"four"},"finish_reason":"stop"}]}\n\n'
    "data: [DONE]\n\n"
)


@dataclass(frozen=True)
class Fitting:
    """A check and the subsets that it fits."""

    check: Check
    needs: frozenset[str]
    without: frozenset[str]

    def fits(self, present: frozenset[str]) -> bool:
        """Whether the check is one for an environment with these wheels."""
        return self.needs <= present and not self.without & present


def check(*needs: str, without: tuple[str, ...] = ()) -> Callable[[Check], Check]:
    """Register a check for environments with the wheels `needs` and without those in `without`."""

    def register(function: Check) -> Check:
        wheels, missing = (frozenset(f"hermes-{name}" for name in names) for names in (needs, without))
        CHECKS.append(Fitting(function, wheels, missing))
        return function

    return register


async def must_name(line: str, work: Callable[[], Awaitable[object]]) -> None:
    """`work` must raise the error for what is not installed, with this line that installs it."""
    from hermes_messages import MissingDependencyError

    try:
        await work()
    except MissingDependencyError as error:
        assert error.install == line, (error.install, line)
        assert line in str(error), str(error)
    else:
        raise AssertionError(f"nothing said: {line}")


async def chat(**options: object) -> str | None:
    """What an agent with these options answers."""
    from hermes_loop import AIAgent

    async with AIAgent(**options) as agent:  # type: ignore[arg-type]
        return await agent.chat("What is 2 + 2?")


def scripted(*steps: object) -> object:
    """A provider that needs no wheel but hermes-messages; it answers "four" when `steps` are none."""
    from hermes_messages.testing import ScriptedProvider, text

    return ScriptedProvider(steps or [text("four")])  # type: ignore[arg-type]


async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One chat completion, streamed, whatever was asked."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))
    body = ANSWER.encode()
    start = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n"
    writer.write(start.encode() + b"connection: close\r\n\r\n" + body)
    await writer.drain()
    writer.close()


async def with_host(work: Callable[[str], Awaitable[str | None]]) -> None:
    """`work` is given the address of a host and must come back with its answer."""
    server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await work(f"http://127.0.0.1:{port}/v1") == "four"


@check("messages")
async def messages_are_read_and_written() -> None:
    from hermes_messages import Transcript, messages_from_dicts
    from hermes_messages.openai_shape import to_dicts

    dicts: list[JsonObject] = [
        {"role": "user", "content": "2 + 2?", "x_unknown": [1]},
        {"role": "assistant", "content": "four"},
    ]
    messages = messages_from_dicts(dicts)
    assert to_dicts(messages) == dicts
    transcript = Transcript()
    for message in messages:
        transcript.append(message)


@check("messages")
async def doubles_keep_the_promises_of_the_protocols() -> None:
    from hermes_messages.testing import MemoryStore, check_store

    await check_store(MemoryStore)


@check("loop")
async def a_turn_runs_on_parts_of_a_host() -> None:
    from hermes_messages.testing import MemoryStore, SimpleExecutor

    answer = await chat(provider=scripted(), tools=SimpleExecutor([]), session_db=MemoryStore())
    assert answer == "four"


@check("loop", without=("providers",))
async def a_provider_by_name_names_its_wheel() -> None:
    await must_name("pip install hermes-providers", lambda: chat(provider="openrouter"))
    await must_name("pip install hermes-providers", lambda: chat(base_url="http://127.0.0.1:9/v1", model="m"))


@check("loop", without=("tools",))
async def toolsets_and_tools_name_their_wheel() -> None:
    from hermes_messages.testing import ToolDouble

    line = "pip install hermes-tools"
    await must_name(line, lambda: chat(provider=scripted(), enabled_toolsets=["file"]))
    await must_name(line, lambda: chat(provider=scripted(), tools=[ToolDouble("t")]))


@check("loop", without=("store",))
async def a_store_by_path_names_its_wheel() -> None:
    line = "pip install hermes-store"
    await must_name(line, lambda: chat(provider=scripted(), session_db="state.db"))
    await must_name(line, lambda: chat(provider=scripted(), session_db="postgresql://host/name"))
    assert not Path("state.db").exists()


@check("providers")
async def a_provider_streams_an_answer() -> None:
    from hermes_messages import ChatRequest, History, ResponseDone, UserMessage
    from hermes_messages.protocols import ProviderOptions
    from hermes_providers import custom

    async def ask(address: str) -> str | None:
        provider = custom(ProviderOptions(base_url=address, model="m"))
        await provider.open()
        request = ChatRequest(model="m", history=History.of([UserMessage("2 + 2?")]))
        events = [event async for event in provider.stream(request)]
        await provider.close()
        assert isinstance(events[-1], ResponseDone)
        content = events[-1].response.message.content
        assert isinstance(content, str)
        return content

    await with_host(ask)


@check("providers")
async def parts_of_extras_of_providers_name_their_extra() -> None:
    from hermes_messages.protocols import ProviderOptions
    from hermes_providers import custom
    from hermes_providers.entry_points import local

    async def open_with(settings: dict[str, JsonValue]) -> None:
        address = "http://127.0.0.1:9/v1"
        provider = custom(ProviderOptions(base_url=address, model="m", settings=settings))
        await provider.open()

    async def open_local() -> None:
        await local(ProviderOptions()).open()

    for part, settings in (
        ("aiohttp", {"engine": "aiohttp"}),
        ("http2", {"http2": True}),
        ("socks", {"proxy": "socks5://127.0.0.1:9"}),
    ):
        await must_name(f"pip install 'hermes-providers[{part}]'", lambda given=settings: open_with(given))  # type: ignore[misc]
    await must_name("pip install 'hermes-providers[local]'", open_local)


@check("tools")
async def a_tool_of_a_host_and_a_built_in_one_run() -> None:
    from hermes_messages import ToolCall
    from hermes_messages.protocols import ExecutorOptions, RoundContext
    from hermes_messages.testing import InterruptFlag
    from hermes_tools import build_executor, tool

    async def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    async def on_result(position: int, message: object) -> None:
        assert position in {0, 1}
        assert message

    executor = build_executor(["file"], ExecutorOptions(cwd=".", own_tools=(tool(double),)))
    await executor.open()
    calls = [
        ToolCall("1", "double", '{"number": 2}'),
        ToolCall("2", "write_file", '{"path": "a.txt", "content": "four"}'),
    ]
    context = RoundContext(
        session_id="s", task_id="t", turn_id="1", cwd=".", interrupt=InterruptFlag(), on_result=on_result
    )
    outcome = await executor.execute(calls, context)
    await executor.close()
    assert [result and result.status for result in outcome.results] == ["ok", "ok"], outcome.results
    assert outcome.results[0] is not None
    assert outcome.results[0].content == "4"
    assert Path("a.txt").read_text() == "four"


@check("tools")
async def parts_of_extras_of_tools_name_their_extra() -> None:
    from hermes_messages.protocols import ExecutorOptions
    from hermes_tools import build_executor
    from hermes_tools.builtin.web import WebToolset

    async def mcp() -> None:
        options = ExecutorOptions(cwd=".", settings={"mcp_servers": {"s": {"command": "true"}}})
        await build_executor([], options).open()

    await must_name("pip install 'hermes-tools[mcp]'", mcp)
    reason = WebToolset().unavailable_reason()
    assert reason is not None
    assert "pip install 'hermes-tools[web]'" in reason


@check("store")
async def a_session_is_kept_and_found() -> None:
    from hermes_messages import UserMessage
    from hermes_store import SessionDB

    async with SessionDB("s.db") as store:
        session = await store.create_session(source="matrix")
        await store.append_message(session, UserMessage("storks go south"), uid="1")
    async with SessionDB("s.db") as store:
        assert [hit.session_id for hit in await store.search_messages("storks")] == [session]


@check("store")
async def postgresql_names_its_extra() -> None:
    from hermes_store import SessionDB

    async def use() -> None:
        async with SessionDB("postgresql://127.0.0.1:9/none") as store:
            await store.create_session(source="matrix")

    await must_name("pip install 'hermes-store[postgres]'", use)


@check("batch")
async def a_batch_runs_with_agents_of_a_host() -> None:
    from hermes_batch import BatchRunner
    from hermes_batch.testing import ScriptedAgents, conversation

    Path("prompts.jsonl").write_text('{"prompt": "2 + 2?"}\n{"prompt": "1 + 3?"}\n')
    runner = BatchRunner(
        Path("prompts.jsonl"),
        run_name="sums",
        output_dir=Path(),
        require_reasoning=False,
        agent_factory=ScriptedAgents(lambda prompt: conversation(prompt, answer="four")),
    )
    statistics = await runner.run()
    assert statistics.ok == 2
    assert len(Path("sums/trajectories.jsonl").read_text().splitlines()) == 2


async def run_default_agents(name: str, base_url: str | None = None) -> int:
    """How many rows a run with our own agents finishes."""
    from hermes_batch import BatchRunner

    Path(f"{name}.jsonl").write_text('{"prompt": "2 + 2?"}\n')
    runner = BatchRunner(
        Path(f"{name}.jsonl"),
        run_name=name,
        output_dir=Path(),
        require_reasoning=False,
        base_url=base_url,
        model="m",
    )
    return (await runner.run()).ok


@check("batch", without=("loop",))
async def the_default_agents_name_the_extra() -> None:
    await must_name("pip install 'hermes-batch[agent]'", lambda: run_default_agents("none"))
    assert not Path("none").exists()


def name_missing_part(line: str) -> Awaitable[None]:
    """The default agents name what they lack, and leave nothing behind."""

    async def run() -> int:
        return await run_default_agents("part", base_url="http://127.0.0.1:9/v1")

    return must_name(line, run)


@check("batch", "loop", without=("tools",))
async def the_default_agents_name_the_tools() -> None:
    await name_missing_part("pip install hermes-tools")


@check("batch", "loop", "tools", without=("providers",))
async def the_default_agents_name_the_providers() -> None:
    await name_missing_part("pip install hermes-providers")


@check("batch", "loop", "tools", "providers", without=("store",))
async def the_default_agents_name_the_store() -> None:
    await name_missing_part("pip install hermes-store")


@check("loop", "providers")
async def a_provider_by_name_answers() -> None:
    await with_host(lambda address: chat(provider="custom", base_url=address, model="m"))


@check("loop", "tools")
async def toolsets_by_name_run() -> None:
    from hermes_messages.testing import call, calls, text

    steps = (calls(call("write_file", {"path": "b.txt", "content": "four"})), text("four"))
    assert await chat(provider=scripted(*steps), enabled_toolsets=["file"], cwd=".") == "four"
    assert Path("b.txt").read_text() == "four"


@check("loop", "store")
async def a_store_by_path_keeps_the_turn() -> None:
    from hermes_store import SessionDB

    assert await chat(provider=scripted(), session_db="turn.db", session_id="s") == "four"
    async with SessionDB("turn.db") as store:
        assert len(await store.get_messages_as_conversation("s")) >= 2


@check("batch", "loop", "providers", "tools", "store")
async def the_default_agents_run() -> None:
    async def run(address: str) -> str | None:
        done = await run_default_agents("whole", base_url=address)
        return "four" if done == 1 else f"{done} rows"

    await with_host(run)


def nothing_else_is_there(present: frozenset[str]) -> None:
    """The wheels that are not of the subset can not be imported, and those of it come from no source tree."""
    for wheel, modules in MODULES.items():
        for module in modules:
            found = importlib.util.find_spec(module)
            assert found is not None or wheel not in present, f"{module} can not be imported"
            assert found is None or wheel in present, f"{module} is there, and {wheel} is not of this subset"
            assert found is None or "site-packages" in str(found.origin), (
                f"{module} comes from {found.origin}"
            )
    ours = {d.name for d in importlib.metadata.distributions() if d.name.startswith("hermes")}
    assert ours == present, ours


def run_all(present: frozenset[str]) -> dict[str, object]:
    """Every check that fits, each in an empty directory and an event loop of its own."""
    passed: list[str] = []
    failed: dict[str, str] = {}
    fitting = [fitting for fitting in CHECKS if fitting.fits(present)]
    for one in fitting:
        name = one.check.__name__
        try:
            with tempfile.TemporaryDirectory() as folder, chdir(folder):
                asyncio.run(asyncio.wait_for(one.check(), 60))
        except Exception:  # noqa: BLE001 - whatever it is, it is told and fails the cell
            failed[name] = traceback.format_exc()
        else:
            passed.append(name)
    return {"passed": passed, "failed": failed}


def main() -> None:
    """Run what fits the subset that the command line names."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN"))]:
        del os.environ[name]
    present = frozenset(sys.argv[1].split(","))
    nothing_else_is_there(present)
    print(json.dumps(run_all(present)))


if __name__ == "__main__":
    main()
