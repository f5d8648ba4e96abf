"""A session on every wire: each request begins with the whole of the one before, cache markers left aside.

"The whole" is everything up to the end of the list of messages. Where a wire merges neighbours of one role,
the last message of the earlier request is still open, so its closing brackets are no part of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec
import pytest
from msgspec import Raw

from all_wires import WIRES, Block, streamed
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    MessageLog,
    SystemMessage,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_messages.assembler import StreamAssembler
from hermes_messages.parts import ImagePart, Origin, TextPart
from hermes_providers import ChatQuirks, SSEParser, classify
from hermes_providers.wire.base import WireFormat, WireSettings
from hermes_providers.wire.formats import make_wire
from wire_help import SPEC

MODELS = {
    "openai_chat": "m-1",
    "openai_responses": "gpt-5",
    "anthropic_messages": "claude-sonnet-4-5",
    "gemini": "gemini-3-flash",
}
LISTS = {"openai_chat": "messages", "openai_responses": "input", "anthropic_messages": "messages"}
MARKER = b',"cache_control":{"type":"ephemeral"}'
TOOLS = (SPEC, ToolSpec.from_schema("天气", "", {"type": "object"}))
IMAGE = ImagePart("data:image/png;base64,iVBORw0KGgo=")

ROUND: list[Block] = [
    ("reasoning", ["先看 ", "first"]),
    ("text", ["I look. "]),
    ("read_file", ['{"path": ', '"a 🗼"}']),
    ("read_file", ['{"path":"b"}']),
]
ANSWER: list[Block] = [("reasoning", ["now I know"]), ("text", ["It is ", "日本 ☀️"])]


def made(wire: str) -> WireFormat:
    quirks = ChatQuirks(reasoning_echo="reasoning_content") if wire == "openai_chat" else None
    return make_wire(wire, WireSettings(base_url="http://host/v1", provider="p", host="host", quirks=quirks))


def said(wire: str, blocks: list[Block], ids: str) -> AssistantMessage:
    """The message that an answer of the host becomes, with what it wants back."""
    reader = made(wire).make_reader(lambda payload: classify(200, {}, payload, now=0.0))
    assembler = StreamAssembler(Origin("p", "host", MODELS[wire]), wire)
    parser = SSEParser()
    for event in (*parser.feed(b"".join(streamed(wire, blocks, ids=ids))), *parser.close()):
        for delta in reader.feed(event):
            assembler.feed(delta)
    for delta in reader.close():
        assembler.feed(delta)
    return assembler.finish(complete=reader.done).message


def bodies(wire: str) -> Iterator[bytes]:
    """The bodies of a session: turns, rounds of parallel calls, notes in between, images, a failed turn."""
    builder = made(wire).builder
    log = MessageLog([SystemMessage("Be brief. 简短"), UserMessage("Read both files.")])

    def sent() -> bytes:
        request = ChatRequest(
            model=MODELS[wire],
            history=log.view(),
            tools=TOOLS,
            max_tokens=4000,
            reasoning_effort="low",
            session_id="s-1",
        )
        return builder.build(request)

    for turn in range(3):
        for number in range(3):
            yield sent()
            message = said(wire, ROUND, f"{turn}_{number}_")
            calls = message.tool_calls
            log.append(message)
            log.append(ToolMessage(calls[0].id, "contents of a", "read_file"))
            result = (TextPart("a picture"), IMAGE) if number == 1 else "contents of b"
            log.append(ToolMessage(calls[1].id, result, "read_file", status="error" if number == 2 else "ok"))
            if number == 1:
                log.append(UserMessage("A note in between: only the second one."))  # steering
        yield sent()
        log.append(said(wire, ANSWER, ""))
        log.append(UserMessage(f"And now? {turn}"))
        if turn == 1:
            log.append(UserMessage("Are you there?"))  # behind a turn that failed


def end_of_list(wire: str, body: bytes) -> int:
    raw = bytes(msgspec.json.decode(body, type=dict[str, Raw])[LISTS.get(wire, "contents")])
    return body.index(raw) + len(raw) - 1


@pytest.mark.parametrize("wire", WIRES)
def test_each_request_begins_with_the_whole_earlier_one(wire: str) -> None:
    merged = len(b"]}") if wire in {"anthropic_messages", "gemini"} else 0
    earlier = b""
    count = 0
    for marked in bodies(wire):
        body = marked.replace(MARKER, b"")
        assert wire != "anthropic_messages" or marked != body
        if earlier:
            kept = end_of_list(wire, earlier) - merged
            shared = os.path.commonprefix([earlier, body])  # noqa: RUF071 - bytes are what is meant
            assert len(shared) >= kept, (earlier[len(shared) :][:99], body[len(shared) :][:99])
            assert len(body) > len(earlier)
        earlier = body
        count += 1
    assert count == 12
    assert "先看".encode() in earlier or wire == "gemini"  # there, unsigned thoughts stay at home


@pytest.mark.parametrize("wire", WIRES)
def test_a_session_that_was_loaded_again_sends_the_same_bytes(wire: str) -> None:
    assert list(bodies(wire)) == list(bodies(wire))
