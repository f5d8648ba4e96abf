"""OpenAI's own library, as a second opinion: its types take our requests, and it reads the same streams to
the same messages. The library is for this test only and never imported by the package."""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

import pytest
from msgspec import Raw

from byte_server import ByteServer, plain, stream
from hermes_messages import (
    ChatRequest,
    ChatResponse,
    ErrorKind,
    JsonValue,
    ProviderError,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from hermes_messages.parts import FilePart, ImagePart, TextPart
from hermes_messages.protocols import ProviderOptions
from hermes_providers.entry_points import openai as our_openai
from responses_streams import (
    CALL as STREAMED_CALL,
)
from responses_streams import (
    CREATED,
    IN_PROGRESS,
    USAGE,
    WHOLE,
    assembled,
    call_events,
    completed,
    message_item,
    named,
    read_plainly,
    reasoning_events,
    response,
    text_events,
)
from test_responses_request import (
    CALL,
    CALL_ITEM,
    PICTURE,
    REASONING,
    builder,
    replayed,
    round_with,
    text_item,
)
from vendor_help import settled
from wire_help import KEY, ODD_ROUND, ODD_SPEC, SPEC, answer, ask

_WHY = "not installed: openai (dependency group vendor-types)"
openai: Any = pytest.importorskip("openai", reason=_WHY)
pydantic: Any = pytest.importorskip("pydantic", reason=_WHY)

_SCHEMA = Raw(b'{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}')
_TOOL_ROUND = round_with(
    replayed(REASONING, text_item("Looking.", phase="commentary"), CALL_ITEM), "Looking."
)

REQUESTS: dict[str, ChatRequest] = {
    "odd tools": ask(*ODD_ROUND, tools=(ODD_SPEC, SPEC)),
    "text": ask(UserMessage("hi")),
    "instructions": ask(SystemMessage("be brief"), UserMessage("hi"), max_tokens=100, temperature=0.5),
    "foreign round": ask(*round_with(None, "Looking."), tools=(SPEC,), tool_choice="required"),
    "own round": ask(*_TOOL_ROUND, tools=(SPEC,), parallel_tool_calls=False, reasoning_effort="low"),
    "image result": ask(*round_with(None)[:2], ToolMessage("call_1", (PICTURE,)), tools=(SPEC,)),
    "parts": ask(
        UserMessage((TextPart("a"), PICTURE, ImagePart("https://x.example/a.png", detail="low"))),
        UserMessage((FilePart(filename="a.pdf", data="data:application/pdf;base64,AAAA"),)),
        UserMessage((TextPart("b"), FilePart(file_id="file-1"))),
    ),
    "schema": ask(UserMessage("hi"), response_schema=_SCHEMA, session_id="s-1"),
}

STREAMS: dict[str, bytes] = {
    "whole": b"".join(WHOLE),
    "text": b"".join(
        [CREATED, IN_PROGRESS, *text_events(0, "Hel", "lo 你", "好"), completed(message_item("Hello 你好"))]
    ),
    "calls": b"".join(
        [
            CREATED,
            *call_events(0, '{"x"', ":1}"),
            *call_events(1, "{}", item={**STREAMED_CALL, "id": "fc_2", "call_id": "call_2"}),
            completed(STREAMED_CALL, {**STREAMED_CALL, "id": "fc_2", "call_id": "call_2", "arguments": "{}"}),
        ]
    ),
    "reasoning": b"".join([CREATED, *reasoning_events(0, "a", "b"), *text_events(1, "x"), completed()]),
    "incomplete": b"".join(
        [
            CREATED,
            *text_events(0, "Hel")[:3],
            named(
                "response.incomplete",
                response=response(
                    "incomplete",
                    message_item("Hel", status="incomplete"),
                    incomplete_details={"reason": "max_output_tokens"},
                    usage=USAGE,
                ),
            ),
        ]
    ),
}


def validated(sent: dict[str, Any]) -> Any:
    types = importlib.import_module("openai.types.responses.response_create_params")
    adapter = pydantic.TypeAdapter(types.ResponseCreateParamsStreaming)  # the lazy sequences need it alive
    return settled(adapter.validate_python(sent))


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_the_librarys_types_take_our_requests_and_know_every_field(name: str) -> None:
    sent = json.loads(builder().build(REQUESTS[name]))
    assert validated(sent) == sent, "a field that the library does not know would be missing"


def test_the_librarys_types_would_notice_a_mistake() -> None:
    sent = json.loads(builder().build(REQUESTS["foreign round"]))
    sent["input"][2]["arguments"] = {"path": "x"}
    with pytest.raises(pydantic.ValidationError):
        validated(sent)


def client(server: ByteServer) -> Any:
    return openai.AsyncOpenAI(api_key=KEY, base_url=server.base_url, max_retries=0)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_the_library_sends_what_we_send(name: str) -> None:
    ours = json.loads(builder().build(REQUESTS[name]))

    async def scenario() -> dict[str, object]:
        async with ByteServer([stream(STREAMS["text"])]) as server, client(server) as library:
            async for _ in await library.responses.create(**ours):
                pass
            assert server.requests[0].line == "POST /v1/responses HTTP/1.1"
            return server.requests[0].json()

    assert asyncio.run(scenario()) == ours


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_the_library_reads_a_stream_to_the_same_message(name: str) -> None:
    async def scenario() -> tuple[list[Any], Any]:
        async with ByteServer([stream(STREAMS[name])]) as server, client(server) as library:
            events = [
                event async for event in await library.responses.create(model="m-1", input="hi", stream=True)
            ]
        return events, events[-1].response

    events, last = asyncio.run(scenario())
    ours = assembled(STREAMS[name])[1]
    assert ours.message.content == (
        "".join(e.delta for e in events if e.type == "response.output_text.delta") or None
    )
    items = [event.item for event in events if event.type == "response.output_item.done"]
    compare(ours, items if len(items) >= len(last.output) else last.output, last)
    # The response that the library read, given to us as a plain answer, says the same once more.
    whole = json.loads(last.to_json())
    whole["output"] = whole["output"] or [json.loads(item.to_json()) for item in items]
    compare(read_plainly(whole), items if len(items) >= len(last.output) else last.output, last)


def compare(ours: ChatResponse, items: list[Any], last: Any) -> None:
    calls = [(item.call_id, item.name, item.arguments) for item in items if item.type == "function_call"]
    assert [(call.id, call.name, call.arguments) for call in ours.message.tool_calls] == calls
    texts = [part.text for item in items if item.type == "message" for part in item.content]
    assert (ours.message.content or "") == "".join(texts)
    summaries = [part.text for item in items if item.type == "reasoning" for part in item.summary]
    assert (ours.message.reasoning or "") == "\n\n".join(summaries)
    assert ours.message.replay is not None
    assert [json.loads(bytes(block)) for block in ours.message.replay.blocks] == [
        json.loads(item.to_json()) for item in items
    ]
    assert (ours.response_id, ours.model) == (last.id, last.model)
    assert ours.usage is not None
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (
        last.usage.input_tokens,
        last.usage.output_tokens,
    )


def test_the_items_that_the_library_read_go_back_as_the_library_would_send_them() -> None:
    ours = json.loads(builder().build(REQUESTS["own round"]))
    types = importlib.import_module("openai.types.responses")
    adapter = pydantic.TypeAdapter(types.ResponseInputItem)
    read = [adapter.validate_python(item) for item in ours["input"]]
    assert [item.model_dump(mode="json", exclude_unset=True) for item in read] == ours["input"]


@pytest.mark.parametrize("code", ["server_error", "rate_limit_exceeded"])
def test_both_see_an_error_in_a_stream(code: str) -> None:
    event = named("error", code=code, message="Oops", param=None, sequence_number=1)

    async def theirs(server: ByteServer) -> None:
        async with client(server) as library:
            async for _ in await library.responses.create(model="m-1", input="hi", stream=True):
                pass

    async def scenario() -> tuple[BaseException | None, ProviderError]:
        async with ByteServer([stream(CREATED, event)]) as server:
            seen = (await asyncio.gather(theirs(server), return_exceptions=True))[0]
            settings: dict[str, JsonValue] = {"wire": "openai_responses"}
            ours = our_openai(ProviderOptions(base_url=server.base_url, api_key=KEY, settings=settings))
            await ours.open()
            with pytest.raises(ProviderError) as caught:
                await answer(ours)
            await ours.close()
            return seen, caught.value

    seen, ours = asyncio.run(scenario())
    assert seen is None or isinstance(seen, openai.APIError)  # some versions hand the event on
    assert ours.kind is (ErrorKind.RATE_LIMIT if "rate" in code else ErrorKind.SERVER)


def test_the_library_reads_a_plain_answer_alike() -> None:
    value = response("completed", message_item("Hi"), {**STREAMED_CALL}, usage=USAGE)
    value |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}

    async def scenario() -> Any:
        async with ByteServer([plain(json.dumps(value).encode())]) as server, client(server) as library:
            return await library.responses.create(model="m-1", input="hi")

    theirs = asyncio.run(scenario())
    compare(read_plainly(value), theirs.output, theirs)
    assert theirs.output_text == read_plainly(value).message.content
    assert CALL.name == SPEC.name
