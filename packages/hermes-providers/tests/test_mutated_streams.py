"""Streams with values that are not what they should be: a message that can be kept, or a typed error."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from all_wires import PROFILES, WIRES, Block, model_of, streamed
from hermes_messages import ProviderError, ResponseDone, TextDelta, ToolMessage, UserMessage
from hermes_messages.protocols import ProviderOptions
from hermes_providers import from_profile
from hermes_providers.wire.output_tool import OUTPUT_VALUE_TOOL
from no_network import Came, Scripted
from wire_help import KEY, ask, collect, run

BLOCKS: list[Block] = [
    ("reasoning", ["th", "ink"]),
    ("text", ["He", "llo"]),
    ("read_file", ['{"pa', 'th":"x"}']),
    (OUTPUT_VALUE_TOOL, ['{"value":', "[1]}"]),
]
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        10**25,
        1e308,
        "",
        "x",
        "\ud800",
        [],
        {},
        [None],
        [[]],
        {"a": None},
        [{}],
        {"type": 1},
        "server_tool_use",
    ]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values within `value`."""
    match value:
        case dict():
            return [path, *(place for key, item in value.items() for place in places(item, (*path, key)))]
        case list():
            return [path, *(place for key, item in enumerate(value) for place in places(item, (*path, key)))]
        case _:
            return [path]


def changed(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """`value` with another one at `path`."""
    if not path:
        return odd
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], odd)
    return copy


def mutated(framed: bytes, choice: int, odd: Any) -> bytes:
    """An event with one of its values changed."""
    name, _, data = framed.rpartition(b"data: ")
    if data.startswith(b"[DONE]"):
        return framed
    value = json.loads(data)
    found = places(value)
    said = json.dumps(changed(value, found[choice % len(found)], odd))
    return name + b"data: " + said.encode() + b"\n\n"


async def _read(wire: str, chunks: list[bytes]) -> None:
    options = ProviderOptions(base_url="http://h.example/v1", api_key=KEY, settings={"wire": wire})
    provider = from_profile(PROFILES[wire][0], options, transport=Scripted(Came(*chunks)))
    try:
        events = await collect(provider)
    except ProviderError as error:
        json.dumps(str(error))
        return
    assert isinstance(events[-1], ResponseDone)
    response = events[-1].response
    kept = msgspec.json.encode(response)
    assert msgspec.json.decode(kept, type=type(response)) == response
    message = response.message
    if isinstance(message.content, str):
        assert message.content == "".join(item.text for item in events if isinstance(item, TextDelta))
    assert all(call.name and call.id for call in message.tool_calls)
    results = [ToolMessage(call.id, "result", call.name) for call in message.tool_calls]
    following = ask(UserMessage("hi"), message, *results, UserMessage("more"), model=model_of(wire))
    json.loads(provider._wire.builder.build(following))


@pytest.mark.parametrize("wire", WIRES)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), ODD), min_size=1, max_size=3))
@example([(-1, 2, "\ud800")])
@example([(94, 0, {"a": None}), (95, 2, True)])  # a block of no known kind gets the second half of an input
def test_any_values_that_are_not_what_they_should_be(wire: str, changes: list[tuple[int, int, Any]]) -> None:
    chunks = streamed(wire, BLOCKS)
    for place, choice, odd in changes:
        chunks[place % len(chunks)] = mutated(chunks[place % len(chunks)], choice, odd)
    run(_read(wire, chunks))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("odd", ["\ud800", [{}], {"a": None}, "server_tool_use"])
def test_each_value_in_turn(wire: str, odd: Any) -> None:
    """Every single value of the stream is once half a character, a list, an object, another kind of block."""
    chunks = streamed(wire, BLOCKS)

    async def main() -> None:
        for place, framed in enumerate(chunks):
            for choice in range(_count(framed)):
                await _read(wire, [*chunks[:place], mutated(framed, choice, odd), *chunks[place + 1 :]])

    run(main())


@pytest.mark.parametrize("wire", WIRES)
def test_values_that_are_nested_too_deep(wire: str) -> None:
    chunks = streamed(wire, BLOCKS)
    deep = b"[" * 3000 + b"]" * 3000

    async def main() -> None:
        for place, framed in enumerate(chunks):
            for choice in range(0, _count(framed), 3):
                odd = mutated(framed, choice, "deep").replace(b'"deep"', deep)
                await _read(wire, [*chunks[:place], odd, *chunks[place + 1 :]])
                await _read(wire, [odd.rpartition(b"data: ")[2]])

    run(main())


def _count(framed: bytes) -> int:
    data = framed.rpartition(b"data: ")[2]
    return 0 if data.startswith(b"[DONE]") else len(places(json.loads(data)))
