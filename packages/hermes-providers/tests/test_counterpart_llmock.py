"""All wires against llmock, a server of others that speaks them, breaks them, and judges the client.

It is installed by the group `vendor-types`; `LLMOCK` names another command that starts it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from counterparts import serving
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ErrorKind,
    FinishReason,
    History,
    Message,
    ProviderError,
    ResponseDone,
    SystemMessage,
    TextDelta,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpProvider, from_profile
from wire_help import KEY, collect, run

pytestmark = pytest.mark.timeout(900)

WEATHER = ToolSpec.from_schema(
    "get_weather",
    "The weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
PLAIN: dict[str, Any] = {"trust_env": False, "verify": False}
"""No proxy, and no list of authorities to read, which takes longer than a test: nothing here is encrypted."""
WIRES: dict[str, tuple[str, str, str]] = {
    "openai_chat": ("openai", "/v1", "gpt-4o-mini"),
    "openai_responses": ("openai", "/v1", "gpt-4o-mini"),
    "anthropic_messages": ("anthropic", "/anthropic", "claude-sonnet-4-5"),
    "gemini": ("google", "/gemini/v1beta", "gemini-2.5-flash"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    command = os.environ.get("LLMOCK") or shutil.which("llmock")
    assert command is not None
    with serving(
        lambda port: [command, "serve", "--port", str(port), "--log-level", "error"], "/health"
    ) as root:
        yield root


@pytest.fixture(params=sorted(WIRES))
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def provider_for(server: str, wire: str, **settings: Any) -> HttpProvider:
    profile, path, _ = WIRES[wire]
    return from_profile(
        profile, ProviderOptions(api_key=KEY, base_url=server + path, settings={"wire": wire, **settings})
    )


def ask(wire: str, *messages: Message, tools: tuple[ToolSpec, ...] = ()) -> ChatRequest:
    given = messages or (SystemMessage("Be brief."), UserMessage("What is the weather in Paris?"))
    return ChatRequest(model=WIRES[wire][2], history=History.of(given), tools=tools, max_tokens=200)


def scenario(server: str, *behaviours: dict[str, Any]) -> None:
    httpx.post(f"{server}/_llmock/reset", **PLAIN).raise_for_status()
    if not behaviours:
        return
    sent = httpx.post(
        f"{server}/_llmock/scenario", json={"behaviors": list(behaviours)}, **PLAIN
    ).raise_for_status()
    assert sent.json()["queued"] == len(behaviours)


def findings(server: str) -> list[Any]:
    """What it has to say against the client, warnings included."""
    found: list[Any] = httpx.get(f"{server}/_llmock/verdict", **PLAIN).json()["findings"]
    return found


def failure(server: str, wire: str, **settings: Any) -> ProviderError:
    async def main() -> ProviderError:
        provider = provider_for(server, wire, **settings)
        with pytest.raises(ProviderError) as caught:
            await collect(provider, ask(wire))
        await provider.close()
        return caught.value

    return run(main())


def test_text_and_usage(server: str, wire: str) -> None:
    scenario(server, {"type": "reply", "text": "It is sunny."})

    async def main() -> None:
        provider = provider_for(server, wire)
        events = await collect(provider, ask(wire))
        last = events[-1]
        assert isinstance(last, ResponseDone)
        assert last.response.message.content == "It is sunny."
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "It is sunny."
        assert last.response.finish is FinishReason.STOP
        usage = last.response.usage
        assert usage is not None
        assert usage.input_tokens
        assert usage.output_tokens
        await provider.close()

    run(main())


def test_whole_tool_round(server: str, wire: str) -> None:
    scenario(server)

    async def main() -> None:
        provider = provider_for(server, wire)
        messages: list[Message] = [SystemMessage("Be brief."), UserMessage("What is the weather in Paris?")]
        first = (await collect(provider, ask(wire, *messages, tools=(WEATHER,))))[-1]
        assert isinstance(first, ResponseDone)
        message = first.response.message
        assert first.response.finish is FinishReason.TOOL_CALLS
        assert [call.name for call in message.tool_calls] == ["get_weather"]
        assert "city" in json.loads(message.tool_calls[0].arguments)
        assert isinstance(message, AssistantMessage)
        messages += [message, ToolMessage(message.tool_calls[0].id, "21 degrees", "get_weather")]
        second = (await collect(provider, ask(wire, *messages, tools=(WEATHER,))))[-1]
        assert isinstance(second, ResponseDone)
        assert second.response.message.content
        assert not second.response.message.tool_calls
        await provider.close()

    run(main())
    assert findings(server) == []


@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        (429, {ErrorKind.RATE_LIMIT}),
        (500, {ErrorKind.SERVER}),
        (503, {ErrorKind.OVERLOADED, ErrorKind.SERVER}),
        (529, {ErrorKind.OVERLOADED}),
        (401, {ErrorKind.AUTH}),
        (400, {ErrorKind.FORMAT}),
    ],
)
def test_statuses_are_typed_and_nothing_is_sent_twice(
    server: str, wire: str, status: int, kinds: set[ErrorKind]
) -> None:
    behaviour: dict[str, Any] = {"type": "fail", "status": status}
    if status == 429:
        behaviour["retry_after"] = 3
    scenario(server, behaviour)
    error = failure(server, wire)
    assert error.kind in kinds
    assert error.status == status
    if status == 429:
        assert error.retry_after_s == 3
    assert httpx.get(f"{server}/_llmock/requests", **PLAIN).json()["count"] == 1


@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        ("disconnect", {ErrorKind.TRANSPORT}),
        ("truncate", {ErrorKind.TRANSPORT}),
        ("malformed", {ErrorKind.SERVER, ErrorKind.TRANSPORT}),
    ],
)
def test_broken_streams_are_no_answers(server: str, wire: str, fault: str, kinds: set[ErrorKind]) -> None:
    scenario(
        server,
        {"type": "reply", "text": "one two three four five six seven"},
        {"type": "stream_fault", "kind": fault, "after_chunks": 2},
    )
    assert failure(server, wire).kind in kinds


def test_stalled_stream_ends_by_our_clock(server: str, wire: str) -> None:
    scenario(server, {"type": "stream_fault", "kind": "stall", "after_chunks": 2, "stall_seconds": 30})
    assert failure(server, wire, between_events_s=0.3).kind is ErrorKind.TIMEOUT


def test_slow_first_token_is_waited_for_or_ended_by_our_clock(server: str, wire: str) -> None:
    slow = {"type": "slow_first_token", "seconds": 0.5}
    scenario(server, {"type": "reply", "text": "Late."}, slow)

    async def main() -> None:
        provider = provider_for(server, wire, first_event_s=300)
        last = (await collect(provider, ask(wire)))[-1]
        assert isinstance(last, ResponseDone)
        assert last.response.message.content == "Late."
        await provider.close()

    run(main())
    assert findings(server) == []
    scenario(server, {"type": "reply", "text": "Late."}, {**slow, "seconds": 20})
    # The wait between events where a host says at once that it works on it, else the one for the first event.
    assert failure(server, wire, first_event_s=0.4, between_events_s=0.4).kind is ErrorKind.TIMEOUT


@pytest.mark.parametrize("fault", ["malformed_arguments", "unknown_tool"])
def test_broken_calls_are_never_lost_in_silence(server: str, wire: str, fault: str) -> None:
    scenario(server, {"type": "tool_fault", "kind": fault})

    async def main() -> None:
        provider = provider_for(server, wire)
        last = (await collect(provider, ask(wire, tools=(WEATHER,))))[-1]
        assert isinstance(last, ResponseDone)
        response = last.response
        assert len(response.message.tool_calls) + len(response.unfinished_calls) == 1
        if fault == "unknown_tool":
            assert response.message.tool_calls[0].name != "get_weather"
        await provider.close()

    run(main())
    assert findings(server) == []


FAULTS: dict[str, dict[str, Any]] = {
    "a rate limit": {"type": "fail", "status": 429, "retry_after": 0.4},
    "an overload": {"type": "fail", "status": 529, "retry_after": 0.3},
    "a server's fault": {"type": "fail", "status": 500},
    "a lost connection": {"type": "stream_fault", "kind": "disconnect", "after_chunks": 2},
    "an early end": {"type": "stream_fault", "kind": "truncate", "after_chunks": 2},
    "a broken chunk": {"type": "stream_fault", "kind": "malformed", "after_chunks": 2},
    "a stall": {"type": "stream_fault", "kind": "stall", "after_chunks": 2, "stall_seconds": 30},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_who_does_what_our_errors_say_passes_its_verdict(server: str, wire: str, fault: str) -> None:
    """The errors tell enough to behave well: what to send again, and how long to wait before."""
    # Where it would not hear of our hanging up otherwise, the answer is too long to be sent ahead.
    text = "one two three four five six seven " * (500 if fault == "a broken chunk" else 1)
    scenario(server, {"type": "reply", "text": text, "times": 3}, FAULTS[fault])

    async def main() -> None:
        provider = provider_for(server, wire, between_events_s=0.5)
        with pytest.raises(ProviderError) as caught:
            await collect(provider, ask(wire))
        error = caught.value
        if "retry_after" in FAULTS[fault]:
            assert error.retry_after_s == pytest.approx(FAULTS[fault]["retry_after"])
        assert error.kind not in {ErrorKind.FORMAT, ErrorKind.AUTH, ErrorKind.UNKNOWN}
        await asyncio.sleep(error.retry_after_s or 0.3)
        last = (await collect(provider, ask(wire)))[-1]
        assert isinstance(last, ResponseDone)
        assert last.response.message.content == text
        await provider.close()

    run(main())
    verdict = httpx.get(f"{server}/_llmock/verdict", **PLAIN).json()
    assert (verdict["passed"], verdict["findings"], verdict["calls"]) == (True, [], 1)
    assert verdict["faults_injected"] == 1
