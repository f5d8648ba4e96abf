"""The events of a stream as the vendors' own libraries read and write them: we read the same in both.

So the recorded answers of all wires are checked by something that we did not write, and what a vendor's types
hold is what our readers take.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from functools import partial
from typing import Any

import pytest

from all_wires import WIRES, Block, model_of, streamed
from byte_server import ByteServer, stream
from hermes_messages import ChatResponse
from hermes_messages.assembler import StreamAssembler
from hermes_messages.parts import Origin
from hermes_providers import SSEParser, classify
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.formats import make_wire
from wire_help import DONE, KEY

LIBRARIES = {
    "openai_chat": "openai",
    "openai_responses": "openai",
    "anthropic_messages": "anthropic",
    "gemini": "google.genai",
}
ANSWERS: dict[str, list[Block]] = {
    "text": [("text", ["It is ", "日本 ☀️", "."])],
    "calls": [
        ("reasoning", ["先看 ", "🌦"]),
        ("text", ["I look. "]),
        ("read_file", ['{"path": "', '東京 🗼"}']),
        ("read_file", ['{"path":"b"}']),
    ],
}

# What the libraries warn of is theirs to mend.
pytestmark = pytest.mark.filterwarnings("ignore:.*:Warning")


def library(wire: str) -> Any:
    why = f"not installed: {LIBRARIES[wire]} (dependency group vendor-types)"
    pytest.importorskip(LIBRARIES[wire], reason=why)
    return importlib.import_module(LIBRARIES[wire])


def read(wire: str, data: bytes) -> ChatResponse:
    made = make_wire(wire, WireSettings(base_url="http://host/v1", provider="p", host="host"))
    reader = made.make_reader(partial(classify, 200, {}, now=0.0))
    assembler = StreamAssembler(Origin("p", "host", "m"), wire)
    parser = SSEParser()
    for event in (*parser.feed(data), *parser.close()):
        for delta in reader.feed(event):
            assembler.feed(delta)
    for delta in reader.close():
        assembler.feed(delta)
    return assembler.finish(complete=reader.done)


async def events_of(wire: str, server: ByteServer) -> list[Any]:
    """The events of one answer as objects of the vendor's library."""
    module = library(wire)
    if wire == "gemini":
        options = {"base_url": server.base_url.removesuffix("/v1"), "api_version": "v1"}
        client = module.Client(api_key=KEY, http_options=options).aio
        answer = await client.models.generate_content_stream(model=model_of(wire), contents="hi")
        found = [item async for item in answer]
        await client.aclose()
        return found
    if wire == "anthropic_messages":
        base_url = server.base_url.removesuffix("/v1")
        async with module.AsyncAnthropic(api_key=KEY, base_url=base_url, max_retries=0) as client:
            answer = await client.messages.create(
                model=model_of(wire), max_tokens=9, messages=[], stream=True
            )
            return [item async for item in answer]
    async with module.AsyncOpenAI(api_key=KEY, base_url=server.base_url, max_retries=0) as client:
        if wire == "openai_chat":
            answer = await client.chat.completions.create(model="m", messages=[], stream=True)
        else:
            answer = await client.responses.create(model="m", input="hi", stream=True)
        return [item async for item in answer]


def written(wire: str, item: Any) -> bytes:
    """The event as the library writes it."""
    by_alias = {"by_alias": True} if wire == "gemini" else {}
    leave = {"exclude": {"sdk_http_response", "parsed", "automatic_function_calling_history"}}
    value = item.model_dump(mode="json", exclude_unset=True, **by_alias, **(leave if by_alias else {}))
    name = f"event: {value['type']}\n" if "type" in value else ""
    return f"{name}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


@pytest.mark.parametrize("kind", sorted(ANSWERS))
@pytest.mark.parametrize("wire", WIRES)
def test_what_the_library_read_and_wrote_again_is_the_same_answer(wire: str, kind: str) -> None:
    pieces = streamed(wire, ANSWERS[kind])

    async def main() -> list[Any]:
        async with ByteServer([stream(*pieces)]) as server:
            return await events_of(wire, server)

    again = b"".join(written(wire, item) for item in asyncio.run(main()))
    if wire == "openai_chat":
        again += DONE  # which the library keeps to itself
    first, second = read(wire, b"".join(pieces)), read(wire, again)
    assert first.message.content == second.message.content
    assert first.message.reasoning == second.message.reasoning
    assert [(call.id, call.name, json.loads(call.arguments)) for call in first.message.tool_calls] == [
        (call.id, call.name, json.loads(call.arguments)) for call in second.message.tool_calls
    ]
    assert (first.finish, first.usage, first.unfinished_calls) == (
        second.finish,
        second.usage,
        second.unfinished_calls,
    )
    assert (first.model, first.response_id) == (second.model, second.response_id)
    assert len(first.message.tool_calls) == (2 if kind == "calls" else 0)
