"""What a call on a long history does, by count: nothing is visited again, and the bytes are copied once.

Counted are the bytecodes of the interpreter, which show every walk in Python, and the memory that making a
body takes at its peak, which shows every copy, also of C code.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest
from msgspec import Raw

from all_wires import WIRES
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    History,
    Message,
    MessageLog,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_messages.parts import Origin, Replay
from hermes_providers import get_profile
from hermes_providers.engines.sockets import Sockets
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.body_builder import BodyBuilder
from hermes_providers.wire.formats import make_wire
from wire_help import SPEC

FEW, MANY = 40, 1_600
MODELS = {"anthropic_messages": "claude-sonnet-4-5", "gemini": "gemini-3-flash"}
CASES = [*WIRES, "openai_chat with markers", "gemini with its own calls"]
COPIES = {"gemini": 2}
"""The calls of another model get what stands for a signature while the request is made."""


def made(case: str) -> tuple[BodyBuilder, str]:
    wire = case.partition(" ")[0]
    markers = case.endswith("markers")
    quirks = get_profile("openrouter").quirks if markers else None
    settings = WireSettings(base_url="http://host/v1", provider="p", host="host", quirks=quirks)
    model = "anthropic/claude-opus-5.5" if markers else MODELS.get(wire, "m-1")
    builder = make_wire(wire, settings).builder
    assert isinstance(builder, BodyBuilder)
    return builder, model


def a_round(number: int, replay: Replay | None) -> list[Message]:
    call = ToolCall(f"c{number}", "read_file", '{"path":"x"}')
    return [AssistantMessage(None, tool_calls=(call,), replay=replay), ToolMessage(call.id, "r" * 300)]


def ready(case: str, rounds: int) -> tuple[Callable[[], bytes], BodyBuilder]:
    """The next call on a conversation of so many rounds, which was sent before its last round."""
    builder, model = made(case)
    log = MessageLog([SystemMessage("Be brief."), UserMessage("Read.")])
    tools = (SPEC,)
    part = Raw(b'{"functionCall":{"name":"read_file","args":{"path":"x"}},"thoughtSignature":"s"}')
    replay = Replay(Origin("p", "host", model), "gemini", (part,)) if case.endswith("calls") else None

    def call() -> bytes:
        return builder.build(ChatRequest(model=model, history=log.view(), tools=tools))

    for number in range(rounds):
        log.extend(a_round(number, replay))
        if number >= rounds - 3:
            call()
    log.extend(a_round(rounds, replay))
    return call, builder


@contextmanager
def counted_bytecodes() -> Iterator[list[int]]:
    """Without those that the collection of other garbage may run in between."""
    counts = [0]

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes = True
        counts[0] += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.collect()
    gc.disable()
    sys._getframe().f_trace_opcodes = True  # else Python 3.12 counts nothing the first time
    sys.settrace(trace)
    try:
        yield counts
    finally:
        sys.settrace(before)
        gc.enable()


@contextmanager
def memory_at_its_peak() -> Iterator[list[int]]:
    """How much more memory than before was taken at once."""
    peaks: list[int] = []
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        yield peaks
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("case", CASES)
def test_tools_of_many_agents_are_encoded_once_where_they_are_the_same(case: str) -> None:
    builder, model = made(case)
    sent: list[bytes] = []
    for number in range(20):
        read = ToolSpec(SPEC.name, SPEC.description, Raw(bytes(SPEC.parameters)))
        history = History.of([UserMessage(f"Read {number}.")])
        builder.build(ChatRequest(model=model, history=history, tools=(read,)))
        sent.append(builder._tools_bytes)
    assert all(one is sent[0] for one in sent)
    other = ToolSpec("other", "", SPEC.parameters)
    body = builder.build(ChatRequest(model=model, history=history, tools=(other,)))
    assert b'"other"' in body
    assert b'"read_file"' not in body


@pytest.mark.parametrize("case", CASES)
def test_a_call_on_a_long_history_visits_nothing_of_it_again(case: str) -> None:
    taken: list[tuple[int, int]] = []
    for rounds in (FEW, MANY):
        call, builder = ready(case, rounds)
        before = builder.encode_calls
        with counted_bytecodes() as counts:
            call()
        taken.append((counts[0], builder.encode_calls - before))
    (few, encoded), (many, encoded_of_many) = taken
    assert encoded == encoded_of_many == 1
    assert many == few > 100


@pytest.mark.parametrize("case", CASES)
def test_a_call_on_a_long_history_copies_its_bytes_once(case: str) -> None:
    call, _ = ready(case, MANY)
    assert ("skip_thought_signature_validator" in call().decode()) == (case == "gemini")
    with memory_at_its_peak() as peaks:
        body = call()
    assert len(body) > 500_000
    assert len(body) < peaks[0] < (COPIES.get(case, 1) + 0.05) * len(body)


def test_a_large_body_is_given_to_the_socket_without_a_copy_of_ours() -> None:
    """asyncio itself copies once what the socket does not take, before Python 3.12."""

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:  # nobody reads
            sockets = Sockets()
            stream = await sockets.connect_tcp(*server.getsockname())
            body = b"x" * 30_000_000
            await stream.write(b"the head of the request")
            writing = stream.write(body)
            with memory_at_its_peak() as peaks, suppress(StopIteration):
                writing.send(None)  # as far as it gets before it waits for room
            writing.close()
            sockets.abort()
            await sockets.wait_closed()
            assert peaks[0] < 1.05 * len(body)

    asyncio.run(main())
