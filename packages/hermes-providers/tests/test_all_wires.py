"""What must hold on every wire alike: an answer is the same however it was cut on its way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from all_wires import WIRES, Block, model_of, provider_for, streamed
from byte_server import ByteServer, stream
from hermes_messages import (
    ChatRequest,
    ChatResponse,
    FinishReason,
    History,
    MessageFormatError,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallArgumentsDelta,
    UserMessage,
)
from hermes_messages.assembler import StreamAssembler
from hermes_messages.parts import Origin
from hermes_providers import SSEParser, classify
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.formats import make_wire
from wire_help import collect, cut, run

ANSWER: list[Block] = [
    ("reasoning", ["先看一下", "天气 🌦", " …", "\u2028 then answer"]),
    ("text", ["Ich schaue ", "nach 🧭, ", "日本", "語 é", "\r\n\r\ndata: not an event"]),
    ("get_weather", ['{"city": "', "東京 🗼", '", "days": [1', ",2]}"]),
    ("get_weather", ['{"city":"Zür', 'ich","note":"a\\nb\\u2029 \\"q\\""}']),
]


def whole(blocks: Sequence[Block], kind: str) -> str:
    return "".join("".join(pieces) for name, pieces in blocks if name == kind)


def read(wire: str, pieces: Sequence[bytes]) -> tuple[list[StreamEvent], ChatResponse]:
    """What the pure parts make of the pieces of a body."""
    made = make_wire(wire, WireSettings(base_url="http://host/v1", provider="p", host="host"))
    reader = made.make_reader(partial(classify, 200, {}, now=0.0))
    assembler = StreamAssembler(Origin("p", "host", "m"), wire)
    parser = SSEParser()
    told: list[StreamEvent] = []
    for piece in pieces:
        for event in parser.feed(piece):
            for delta in reader.feed(event):
                told += assembler.feed(delta)
    for event in parser.close():
        for delta in reader.feed(event):
            told += assembler.feed(delta)
    for delta in reader.close():
        told += assembler.feed(delta)
    return told, assembler.finish(complete=reader.done)


@pytest.mark.parametrize("wire", WIRES)
def test_a_list_of_dicts_for_a_history_is_told_before_a_request(wire: str) -> None:
    made = make_wire(wire, WireSettings(base_url="http://host/v1", provider="p", host="host"))
    for listed in ([{"role": "user", "content": "hi"}], [UserMessage("hi")]):
        request = ChatRequest(model="m", history=cast("History", listed))
        with pytest.raises(MessageFormatError, match="a History is needed here, not list"):
            made.builder.build(request)


def test_the_recorded_answer_is_read_whole_on_each_wire() -> None:
    for wire in WIRES:
        _, response = read(wire, streamed(wire, ANSWER))
        message = response.message
        assert message.reasoning == whole(ANSWER, "reasoning"), wire
        assert message.content == whole(ANSWER, "text"), wire
        assert [json.loads(call.arguments) for call in message.tool_calls] == [
            json.loads("".join(pieces)) for name, pieces in ANSWER if name == "get_weather"
        ]
        assert len({call.id for call in message.tool_calls}) == 2
        assert response.finish is FinishReason.TOOL_CALLS
        assert response.usage is not None
        assert (response.usage.input_tokens, response.usage.output_tokens) == (11, 7)
        assert response.unfinished_calls == ()


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("wire", WIRES)
def test_a_cut_at_any_single_byte_gives_the_same_message(wire: str, *, ascii_only: bool) -> None:
    data = b"".join(streamed(wire, ANSWER, ascii_only=ascii_only))
    _, expected = read(wire, [data])
    for place in range(len(data)):
        assert read(wire, [data[:place], data[place:]])[1] == expected, place
    assert read(wire, [data[place : place + 1] for place in range(len(data))])[1] == expected


@given(places=st.lists(st.integers(min_value=0), max_size=40))
@pytest.mark.parametrize("wire", WIRES)
def test_any_cutting_gives_the_same_message_and_the_same_deltas(wire: str, places: list[int]) -> None:
    data = b"".join(streamed(wire, ANSWER))
    told, expected = read(wire, [data])
    told_cut, response = read(wire, cut(data, places))
    assert response == expected
    assert told_cut == told  # events do not depend on the network's chunks


@given(
    text=st.text(st.characters(codec="utf-16", min_codepoint=32), min_size=1, max_size=30),
    thought=st.text(st.characters(codec="utf-16", min_codepoint=0x10000), max_size=5),
    places=st.lists(st.integers(min_value=0), max_size=8),
)
@pytest.mark.parametrize("wire", WIRES)
def test_characters_cut_by_utf_16_units_come_whole(
    wire: str, text: str, thought: str, places: list[int]
) -> None:
    """Hosts that cut text by such units escape one half of a character in each of two events."""
    arguments = json.dumps({"q": text}, ensure_ascii=False)
    blocks: list[Block] = [
        ("reasoning", units_cut(thought, places)),
        ("text", units_cut("a " + text, places)),
        ("search", units_cut(arguments, places)),
    ]
    told, response = read(wire, streamed(wire, blocks, ascii_only=True))
    assert response.message.content == "a " + text
    assert (response.message.reasoning or "") == thought
    assert json.loads(response.message.tool_calls[0].arguments) == {"q": text}
    assert "".join(e.text for e in told if isinstance(e, TextDelta)) == "a " + text
    assert "".join(e.text for e in told if isinstance(e, ReasoningDelta)) == thought
    shown = "".join(e.text for e in told if isinstance(e, ToolCallArgumentsDelta))
    assert json.loads(shown) == {"q": text}
    response.message.content.encode()  # what is told can be written down


def units_cut(text: str, places: Sequence[int]) -> list[str]:
    """`text` cut anywhere between UTF-16 units, halves of characters included."""
    units = text.encode("utf-16-le")
    bounds = [0, *sorted(place % (len(units) // 2 + 1) * 2 for place in places), len(units)]
    pieces = [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(bounds)]
    return [piece for piece in pieces if piece]


@pytest.mark.parametrize("wire", WIRES)
def test_a_half_character_whose_other_half_never_comes_costs_one_character(wire: str) -> None:
    for pieces, expected in (
        (["a\ud83d", "b"], "a\ufffdb"),
        (["a\ud83d"], "a\ufffd"),
        (["a", "\ude00b"], "a\ufffdb"),
        (["a\ud83d", "\ud83d\ude00"], "a\ufffd😀"),
    ):
        _, response = read(wire, streamed(wire, [("text", pieces)], ascii_only=True))
        assert response.message.content == expected


@pytest.mark.parametrize("wire", WIRES)
def test_a_character_cut_between_events_comes_whole_over_a_socket(wire: str) -> None:
    async def main() -> None:
        pieces = streamed(wire, [("text", ["It is \ud83c", "\udf1e now"])], ascii_only=True)
        async with ByteServer([stream(*pieces)]) as server:
            provider = provider_for(wire, server.base_url)
            request = ChatRequest(model=model_of(wire), history=History.of([UserMessage("hi")]))
            told = await collect(provider, request)
            await provider.close()
        assert "".join(event.text for event in told if isinstance(event, TextDelta)) == "It is 🌞 now"

    run(main())
