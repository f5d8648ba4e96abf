"""What a host of the Messages wire can keep: cache markers, and bytes that stay the same."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from anthropic_help import MODEL, ask, body, builder, replay
from anthropic_requests import CALL, CALL_2, HI, INTERLEAVED, LIST, SPEC, THINKING, round_of
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    MessageLog,
    SystemMessage,
    ToolCall,
    UserMessage,
    encode_messages,
)
from hermes_messages.parts import OpaquePart
from hermes_providers.refusals import Refusals
from hermes_providers.wire.anthropic_quirks import AnthropicQuirks


def markers(value: Any) -> list[dict[str, Any]]:
    match value:
        case dict():
            own = [value["cache_control"]] if "cache_control" in value else []
            return own + [found for item in value.values() for found in markers(item)]
        case list():
            return [found for item in value for found in markers(item)]
        case _:
            return []


def test_cache_markers_stand_at_the_joints() -> None:
    sent = body(SystemMessage("S"), HI, *round_of(CALL), *round_of(CALL_2), tools=(SPEC, LIST))
    assert len(markers(sent)) == 4
    assert "cache_control" in sent["tools"][-1]
    assert "cache_control" in sent["system"][-1]
    places = [bool(markers(message)) for message in sent["messages"]]
    assert places == [False, False, True, False, True]
    long_lived = body(HI, quirks=AnthropicQuirks(cache_ttl="1h"))
    assert markers(long_lived) == [{"type": "ephemeral", "ttl": "1h"}]
    assert markers(body(HI, quirks=AnthropicQuirks(cache_markers=False))) == []


def test_there_are_never_more_than_four_cache_markers() -> None:
    own = OpaquePart(Raw(b'{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}'))
    history = (SystemMessage("S"), UserMessage((own,)), *round_of(CALL), UserMessage((own, own)))
    sent = body(*history, tools=(SPEC,), extra_body=Raw(b'{"cache_control":{"type":"ephemeral"}}'))
    assert len(markers(sent)) == 4
    assert "cache_control" in sent


def test_a_thinking_block_never_gets_a_cache_marker() -> None:
    blocks = replay({"type": "text", "text": "a"}, THINKING)
    sent = body(HI, AssistantMessage("a", replay=blocks))
    assert "cache_control" not in sent["messages"][-1]["content"][-1]
    assert "cache_control" in sent["messages"][0]["content"][-1]


def test_markers_that_a_model_refused_are_not_sent_again() -> None:
    refusals = Refusals()
    refusals.note(MODEL, "cache_control")
    assert b"cache_control" not in builder(refusals=refusals).build(ask(HI))


def test_building_changes_nothing_in_the_messages() -> None:
    messages: list[Message] = [HI, *round_of(ToolCall("a b", "f", '{"a": "x\ny"}'), blocks=INTERLEAVED)]
    stored = encode_messages(messages)
    builder().build(ask(*messages))
    assert encode_messages(messages) == stored


TURNS = st.lists(
    st.sampled_from(
        [
            (HI,),
            (UserMessage("again"),),
            (AssistantMessage("answer"),),
            tuple(round_of(CALL, CALL_2, blocks=INTERLEAVED)),
            tuple(round_of(CALL, text="text")),
            (AssistantMessage(" "),),
        ]
    ),
    min_size=1,
    max_size=8,
)


def without_markers(sent: bytes) -> bytes:
    return sent.replace(b',"cache_control":{"type":"ephemeral"}', b"")


@given(turns=TURNS)
def test_consecutive_bodies_share_their_bytes_up_to_the_last_closed_segment(turns: Any) -> None:
    made, log = builder(), MessageLog([SystemMessage("S"), HI])
    earlier: list[bytes] = []
    for turn in turns:
        log.extend(replace(message) for message in turn)  # no log holds one object twice
        sent = without_markers(made.build(ChatRequest(model=MODEL, history=log.view(), tools=(SPEC, LIST))))
        fresh = without_markers(builder().build(ask(*log.view(), tools=(SPEC, LIST))))
        assert sent == fresh, "kept bytes are those of a fresh encoding"
        roles = [message["role"] for message in json.loads(sent)["messages"]]
        assert roles == [("user", "assistant")[place % 2] for place in range(len(roles))]
        earlier.append(sent)
    for before, after in pairwise(earlier):
        # the open last turn may grow; everything in front of it stays
        closed = before.rfind(b',{"role":"user","content":[') if before.count(b'"role"') > 1 else 0
        assert after.startswith(before[: max(closed, before.index(b'"messages":['))])


def test_the_whole_earlier_body_is_a_prefix_in_a_tool_loop() -> None:
    made, log = builder(), MessageLog([SystemMessage("S"), HI])
    bodies: list[bytes] = []
    for place in range(4):
        request = ChatRequest(model=MODEL, history=log.view(), tools=(SPEC, LIST))
        bodies.append(without_markers(made.build(request)))
        log.extend(round_of(ToolCall(f"toolu_{place}", "read_file", "{}")))
    for before, after in pairwise(bodies):
        assert after.startswith(before.removesuffix(b"]}"))


def test_a_long_history_is_encoded_once() -> None:
    made, log = builder(), MessageLog([HI])
    for place in range(50):
        log.extend(round_of(ToolCall(f"toolu_{place}", "read_file", "{}")))
        made.build(ChatRequest(model=MODEL, history=log.view(), tools=(SPEC,)))
    assert made.encode_calls <= 2 * 50 + 2
