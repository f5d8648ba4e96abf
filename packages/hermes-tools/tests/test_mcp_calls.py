"""What a call of a misbehaving server may come to, and the questions that it asks the user."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any

import pytest

from hermes_messages import ToolMessage
from mcp_help import Servers, once

# -- what a call may come to -------------------------------------------------------------------------------


def test_a_call_that_is_never_answered_times_out_and_the_server_is_told(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> ToolMessage:
        async with Servers(bench, ["silent call"], timeout=0.3) as servers:
            await servers.refresh()
            result = await servers.call("silent-call__echo")
            await wait_until(lambda: servers.counted("cancelled"))
            return result

    result = run_async(main())
    assert result.status == "timed_out"
    assert result.content == "MCP server 'silent-call' gave no answer within 0.3 s; it was told to stop."


def test_an_answer_of_5_megabytes_arrives_whole(bench: Any, run_async: Any) -> None:
    async def main() -> str:
        async with Servers(bench, ["big answer"]) as servers:
            await servers.refresh()
            [tool] = servers.toolset.tools
            context = servers.executor._make_context(bench.call(tool.spec.name), bench.context())
            return await tool.run({}, context)

    text = run_async(main())
    assert len(text.encode()) == 5 * 1024 * 1024 + 1
    assert text.endswith("xx\u00e9 end")


def test_bytes_that_are_no_utf_8_are_replaced(bench: Any, run_async: Any) -> None:
    assert once(bench, run_async, "odd bytes").content == "odd \ufffd byte"


def test_half_a_surrogate_pair_does_not_lose_the_answer(bench: Any, run_async: Any) -> None:
    assert once(bench, run_async, "surrogates").content == "half ?"


def test_notifications_and_requests_before_the_answer_do_no_harm(bench: Any, run_async: Any) -> None:
    assert once(bench, run_async, "notification between").content == "still here"


def test_invisible_text_of_a_server_goes_and_a_flag_stays(bench: Any, run_async: Any) -> None:
    flag = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    assert once(bench, run_async, "invisible text").content == f"fine text {flag}"


def test_an_error_result_is_an_error(bench: Any, run_async: Any) -> None:
    result = once(bench, run_async, "error result")
    assert (result.status, result.content) == ("error", "no such city")


def test_an_answer_that_breaks_the_protocol_names_the_place(bench: Any, run_async: Any) -> None:
    result = once(bench, run_async, "broken answer")
    assert result.status == "error"
    assert "its answer does not follow the protocol: " in str(result.content)
    assert "text: Field required" in str(result.content)


def test_an_error_without_a_text_still_says_something(bench: Any, run_async: Any) -> None:
    result = once(bench, run_async, "error without text")
    assert result.content == "MCP server 'error-without-text': an error without a text (code -32000)"


def test_content_that_is_no_text_becomes_a_note(bench: Any, run_async: Any) -> None:
    assert str(once(bench, run_async, "all kinds").content).split("\n") == [
        "[image: image/png, 5 bytes, not shown]",
        "[audio: audio/wav, 5 bytes, not shown]",
        "[resource link: file:///a A: first]",
        "[resource file:///b (text/plain)]",
        "body",
        "[resource file:///c: 5 bytes, not shown]",
        '{"a":[1,2]}',
    ]


def test_a_server_gets_its_own_settings_and_none_of_our_secrets(
    bench: Any, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-host-0123")
    monkeypatch.setenv("SOMETHING", "of the host")
    mode = "tells its environment"
    told = json.loads(
        str(once(bench, run_async, mode, env={"MODE": "fast", "SERVICE_TOKEN": "tok-123456"}).content)
    )
    assert told["MODE"] == "fast"
    assert told["SERVICE_TOKEN"] == "[hidden]"
    assert told["PATH"] == os.environ["PATH"]
    assert not {"OPENAI_API_KEY", "SOMETHING"} & set(told)


def test_a_server_that_tells_its_own_credential_tells_neither_model_nor_host(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    """In its guidance, descriptions, schemas, progress and errors, and when it can not start. A schema stays
    one: its names and numbers are no texts, whatever they are like."""
    token = 'tok-"0123456789"'
    env = {"SERVICE_TOKEN": token, "FIELD_KEY": "description", "NUMBER_KEY": "90071992"}
    heard: list[str] = []

    async def main() -> None:
        async with Servers(bench, ["tells", "exits at once"], env=env) as servers:
            snapshot = await servers.refresh()
            [absent] = snapshot.unavailable
            assert absent.reason.endswith("no licence file for [hidden]")
            assert snapshot.guidance.endswith("Be kind. Use [hidden].")
            [tool] = snapshot.tools
            assert tool.description == "with [hidden]"
            schema = json.loads(bytes(tool.parameters))
            assert schema["properties"]["description"]["default"] == "[hidden]"
            assert schema["properties"]["most"]["maximum"] == 2**53 - 1
            assert schema["required"] == ["description"]
            given = {"description": "words"}
            result = await servers.call(tool.name, given, tool_progress=lambda _, text: heard.append(text))
            assert "[hidden] is too old" in result.content
            await wait_until(lambda: heard)

    run_async(main())
    assert heard == [f"1 {'.' * 285} [hidden]"]


# -- questions to the user ---------------------------------------------------------------------------------


def test_a_question_goes_to_the_clarify_callback_and_its_answer_back(bench: Any, run_async: Any) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []

    async def clarify(question: str, choices: Sequence[str]) -> str:
        asked.append((question, tuple(choices)))
        return "many" if len(asked) == 1 else "12"

    async def main() -> ToolMessage:
        async with Servers(bench, ["asks"]) as servers:
            await servers.refresh()
            return await servers.call("asks__echo", clarify=clarify)

    assert json.loads(run_async(main()).content) == {"action": "accept", "content": {"n": 12}}
    assert asked[0][0].startswith("The MCP server 'asks' asks: How many?\nn")
    assert "That can not be used" in asked[1][0]


def test_a_question_that_nobody_can_answer_is_declined(bench: Any, run_async: Any) -> None:
    assert json.loads(str(once(bench, run_async, "asks").content)) == {"action": "decline"}


def test_the_time_that_a_person_takes_does_not_count(bench: Any, run_async: Any) -> None:
    async def clarify(question: str, choices: Sequence[str]) -> str:
        await asyncio.sleep(2.0)
        return "3"

    async def main() -> ToolMessage:
        async with Servers(bench, ["asks"], timeout=1.5) as servers:
            await servers.refresh()
            return await servers.call("asks__echo", clarify=clarify)

    assert json.loads(run_async(main()).content)["content"] == {"n": 3}


def test_a_question_ends_with_the_call_that_it_belongs_to(bench: Any, run_async: Any) -> None:
    ended: list[str] = []

    async def main() -> None:
        asked = asyncio.Event()

        async def clarify(question: str, choices: Sequence[str]) -> str:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(question)
            return ""

        async with Servers(bench, ["asks"]) as servers:
            await servers.refresh()
            call = asyncio.create_task(servers.call("asks__echo", clarify=clarify))
            await asked.wait()
            call.cancel()
            await asyncio.wait({call})
            assert call.cancelled()
            await asyncio.sleep(0)
            assert len(ended) == 1

    run_async(main())


def test_a_callback_that_fails_cancels_the_question(bench: Any, run_async: Any) -> None:
    async def clarify(question: str, choices: Sequence[str]) -> str:
        raise OSError("the terminal is gone")

    async def main() -> ToolMessage:
        async with Servers(bench, ["asks"]) as servers:
            await servers.refresh()
            return await servers.call("asks__echo", clarify=clarify)

    assert json.loads(run_async(main()).content) == {"action": "cancel"}
