"""An answer in a given form where a host has tools and no schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from byte_server import ByteServer, plain, stream
from hermes_messages import ChatResponse, FinishReason, TextDelta, ToolCallStarted
from hermes_messages.protocols import ProviderOptions
from hermes_providers import from_profile
from hermes_providers.wire.output_tool import OUTPUT_TOOL
from wire_help import DONE, KEY, SPEC, ask, chunk, collect, event, run

SCHEMA = Raw(b'{"type":"object","properties":{"city":{"type":"string"}}}')


def fragment(index: int | None, **more: Any) -> dict[str, Any]:
    function = {key: more.pop(key) for key in ("name", "arguments") if key in more}
    return {"index": index, "function": function, **more}


def calls(*fragments: dict[str, Any]) -> bytes:
    return b"".join(event(chunk({"tool_calls": [one]})) for one in fragments)


async def ask_groq(script: Any, **more: Any) -> tuple[list[Any], ChatResponse, dict[str, Any]]:
    async with ByteServer([script]) as server:
        provider = from_profile("groq", ProviderOptions(api_key=KEY, base_url=server.base_url))
        events = await collect(provider, ask(response_schema=SCHEMA, **more))
        await provider.close()
        return events[:-1], events[-1].response, server.requests[0].json()  # type: ignore[union-attr]


@pytest.mark.parametrize("index", [0, None])
def test_arguments_of_the_tool_are_the_answer(index: int | None) -> None:
    script = stream(
        calls(
            fragment(index, id="c1", name=OUTPUT_TOOL, arguments='{"ci'),
            fragment(index, arguments='ty":"Os'),
            fragment(index, arguments='lo"}'),
        ),
        event(chunk({}, "tool_calls")) + DONE,
    )
    events, response, sent = run(ask_groq(script))
    assert response.message.content == '{"city":"Oslo"}'
    assert response.message.tool_calls == ()
    assert response.finish is FinishReason.STOP
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == '{"city":"Oslo"}'
    assert not [e for e in events if isinstance(e, ToolCallStarted)]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": OUTPUT_TOOL}}
    assert sent["tools"][0]["function"]["parameters"] == json.loads(bytes(SCHEMA))
    assert "response_format" not in sent


def test_own_tools_can_be_called_first() -> None:
    script = stream(
        calls(fragment(0, id="c1", name="read_file", arguments='{"path":"a"}')),
        event(chunk({}, "tool_calls")) + DONE,
    )
    _, response, sent = run(ask_groq(script, tools=(SPEC,)))
    assert [call.name for call in response.message.tool_calls] == ["read_file"]
    assert response.finish is FinishReason.TOOL_CALLS
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["read_file", OUTPUT_TOOL]
    assert "tool_choice" not in sent


def test_calls_beside_the_answer_stay_calls() -> None:
    script = stream(
        calls(
            fragment(0, id="c1", name="read_file", arguments=""),
            fragment(1, id="c2", name=OUTPUT_TOOL, arguments='{"city":'),
            fragment(0, arguments='{"path":"a"}'),
            fragment(1, arguments='"Oslo"}'),
        ),
        event(chunk({}, "tool_calls")) + DONE,
    )
    _, response, _ = run(ask_groq(script, tools=(SPEC,)))
    assert [call.arguments for call in response.message.tool_calls] == ['{"path":"a"}']
    assert response.message.content == '{"city":"Oslo"}'
    assert response.finish is FinishReason.TOOL_CALLS


def test_plain_answer() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": OUTPUT_TOOL, "arguments": '{"city":"Oslo"}'}}
    body = {"choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    _, response, _ = run(ask_groq(plain(json.dumps(body).encode())))
    assert (response.message.content, response.finish) == ('{"city":"Oslo"}', FinishReason.STOP)


def test_answer_that_was_cut_off_says_so() -> None:
    script = stream(
        calls(fragment(0, id="c1", name=OUTPUT_TOOL, arguments='{"ci')), event(chunk({}, "length")) + DONE
    )
    _, response, _ = run(ask_groq(script))
    assert (response.message.content, response.finish) == ('{"ci', FinishReason.LENGTH)
