"""OpenAI's own library, as a second opinion on chat completions.

Its types take our requests, its client sends the same, and it reads the same streams to the same message. It
is for this test only and never imported by the package.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

import pytest
from msgspec import Raw

from byte_server import ByteServer, plain, stream
from hermes_messages import (
    AssistantMessage,
    AudioPart,
    ChatRequest,
    FilePart,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.protocols import ProviderOptions
from hermes_providers import from_profile, get_profile
from hermes_providers.wire.openai_chat_request import ChatRequestBuilder
from vendor_help import settled
from wire_help import DONE, KEY, ODD_ROUND, ODD_SPEC, SPEC, answer, ask, chunk, event, text_answer

_WHY = "not installed: openai (dependency group vendor-types)"
openai: Any = pytest.importorskip("openai", reason=_WHY)
pydantic: Any = pytest.importorskip("pydantic", reason=_WHY)

ROUND: tuple[Message, ...] = (
    UserMessage("Read it."),
    AssistantMessage("Looking.", (ToolCall("call_1", "read_file", '{"path":"a"}'),), reasoning="hm"),
    ToolMessage("call_1", (TextPart("shot"), ImagePart("data:image/png;base64,AA=="))),
)
REQUESTS: dict[str, ChatRequest] = {
    "odd tools": ask(*ODD_ROUND, tools=(ODD_SPEC, SPEC)),
    "text": ask(SystemMessage("be brief"), UserMessage("hi"), max_tokens=10, temperature=0.5, seed=1),
    "round": ask(*ROUND, tools=(SPEC,), tool_choice="required", parallel_tool_calls=False),
    "calls alone": ask(ROUND[0], AssistantMessage(None, ROUND[1].tool_calls), ROUND[2], tools=(SPEC,)),  # type: ignore[union-attr]
    "parts": ask(
        UserMessage(
            (
                TextPart("a"),
                ImagePart("https://x.example/a.png", detail="low"),
                AudioPart("AAAA", "wav"),
                FilePart(filename="a.pdf", data="data:application/pdf;base64,AAAA"),
            ),
            name="ann",
        )
    ),
    "schema": ask(
        UserMessage("hi"),
        response_schema=Raw(b'{"type":"object","properties":{"a":{"type":"integer"}}}'),
        reasoning_effort="low",
        stop=("END",),
        session_id="s-1",
    ),
}
CALLS = b"".join(
    [
        event(chunk({"role": "assistant", "content": "Let me see."})),
        *(
            event(
                chunk(
                    {"tool_calls": [{"index": at, "id": f"c{at}", "type": "function", "function": function}]}
                )
            )
            for at, function in enumerate([{"name": "f", "arguments": ""}, {"name": "g", "arguments": "{}"}])
        ),
        event(chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"x":1}'}}]})),
        event(chunk({}, "tool_calls")),
        event({"id": "r1", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6}}),
        DONE,
    ]
)
STREAMS = {
    "text": text_answer("Hel", "lo 你", "好", usage={"prompt_tokens": 3, "completion_tokens": 2}),
    "calls": CALLS,
}


def body_of(request: ChatRequest) -> dict[str, Any]:
    builder = ChatRequestBuilder(
        base_url="https://api.openai.com/v1",
        provider="openai",
        host="api.openai.com",
        quirks=get_profile("openai").quirks,
    )
    value = json.loads(builder.build(request))
    assert isinstance(value, dict)
    return value


def validated(sent: dict[str, Any]) -> Any:
    types = importlib.import_module("openai.types.chat.completion_create_params")
    adapter = pydantic.TypeAdapter(types.CompletionCreateParamsStreaming)  # lazy sequences need it alive
    return settled(adapter.validate_python(sent))


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_the_librarys_types_take_our_requests_and_know_every_field(name: str) -> None:
    sent = body_of(REQUESTS[name])
    assert validated(sent) == sent


def test_the_librarys_types_would_notice_a_mistake() -> None:
    sent = body_of(REQUESTS["round"])
    sent["messages"][1]["tool_calls"][0]["function"]["arguments"] = {"path": "x"}
    with pytest.raises(pydantic.ValidationError):
        validated(sent)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_the_library_sends_what_we_send(name: str) -> None:
    ours = body_of(REQUESTS[name])

    async def main() -> dict[str, object]:
        async with (
            ByteServer([stream(STREAMS["text"])]) as server,
            openai.AsyncOpenAI(api_key=KEY, base_url=server.base_url, max_retries=0) as library,
        ):
            async for _ in await library.chat.completions.create(**ours):
                pass
            return server.requests[0].json()

    assert asyncio.run(main()) == ours


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_the_library_reads_a_stream_to_the_same_message(name: str) -> None:
    async def main() -> tuple[Any, list[Any]]:
        async with ByteServer([stream(STREAMS[name])]) as server:
            async with openai.AsyncOpenAI(api_key=KEY, base_url=server.base_url, max_retries=0) as library:
                created = await library.chat.completions.create(model="m", messages=[], stream=True)
                chunks = [one async for one in created]
            provider = from_profile("openai", ProviderOptions(api_key=KEY, base_url=server.base_url))
            ours = await answer(provider)
            await provider.close()
            return ours, chunks

    ours, chunks = asyncio.run(main())
    deltas = [choice.delta for one in chunks for choice in one.choices]
    assert ours.message.content == "".join(delta.content or "" for delta in deltas)
    calls: dict[int, list[str]] = {}
    for fragment in (call for delta in deltas for call in delta.tool_calls or ()):
        known = calls.setdefault(fragment.index, ["", "", ""])
        known[0] += fragment.id or ""
        known[1] += fragment.function.name or ""
        known[2] += fragment.function.arguments or ""
    assert [[call.id, call.name, call.arguments] for call in ours.message.tool_calls] == list(calls.values())
    usage = next(one.usage for one in chunks if one.usage is not None)
    assert ours.usage is not None
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (
        usage.prompt_tokens,
        usage.completion_tokens,
    )


def test_the_library_reads_a_plain_answer_alike() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x":"你"}'}}
    message = {"role": "assistant", "content": "Let me see.", "refusal": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}
    body = {
        "id": "r1",
        "object": "chat.completion",
        "created": 1,
        "model": "m-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}],
        "usage": usage,
    }

    async def main() -> tuple[Any, Any, Any]:
        async with (
            ByteServer([plain(json.dumps(body).encode())]) as server,
            openai.AsyncOpenAI(api_key=KEY, base_url=server.base_url, max_retries=0) as library,
        ):
            theirs = await library.chat.completions.create(model="m", messages=[])
        # What the library made of it, given to us as the plain answer, says the same once more.
        again = theirs.model_dump_json().encode()
        async with ByteServer([plain(json.dumps(body).encode()), plain(again)]) as server:
            provider = from_profile("openai", ProviderOptions(api_key=KEY, base_url=server.base_url))
            first, second = await answer(provider), await answer(provider)
            await provider.close()
        return theirs, first, second

    theirs, first, second = asyncio.run(main())
    assert first == second
    said = theirs.choices[0].message
    assert first.message.content == said.content
    assert [(one.id, one.name, one.arguments) for one in first.message.tool_calls] == [
        (one.id, one.function.name, one.function.arguments) for one in said.tool_calls
    ]
    assert (first.usage.input_tokens, first.usage.output_tokens) == (5, 6)
    assert first.message.finish_reason == theirs.choices[0].finish_reason
