"""What a model said goes back on the Gemini wire: ids, signatures, parts, and bytes that stay."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemini_help import NEW, OLD, SIGNATURE, builder, call_part, contents, replayed
from gemini_requests import CALL, DUMMY, OTHER, own_round, rounds
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    History,
    Message,
    MessageLog,
    SystemMessage,
    ToolCall,
    UserMessage,
)
from hermes_messages.parts import Replay
from hermes_providers.wire.gemini_quirks import GeminiQuirks
from wire_help import SPEC


def ids_of(sent: list[dict[str, Any]]) -> list[str | None]:
    fields = [part.get("functionCall") or part.get("functionResponse") for c in sent for part in c["parts"]]
    return [field.get("id") for field in fields if field]


@pytest.mark.parametrize("history", [rounds(CALL, OTHER), own_round()], ids=["foreign", "own"])
def test_ids_go_to_the_generations_that_know_them(history: list[Message]) -> None:
    wanted = ["call_1", "call_2", "call_1", "call_2"]
    assert ids_of(contents(*history)) == wanted
    assert ids_of(contents(*history, model="gemini-flash-latest")) == wanted
    for model in (OLD, "gemini-1.5-pro", "models/gemini-2.0-flash", "gemma-3-27b-it"):
        assert ids_of(contents(*history, model=model)) == [None] * 4
    always = GeminiQuirks(call_ids="always")
    assert ids_of(contents(*history, model=OLD, quirks=always)) == wanted


def test_own_parts_of_an_older_model_lose_the_ids_that_it_does_not_take_back() -> None:
    assert ids_of(contents(*own_round(model=OLD), model=OLD)) == [None] * 4


def test_result_has_no_id_where_the_hosts_own_call_had_none() -> None:
    assert ids_of(contents(*own_round(with_ids=False))) == [None] * 4


def test_one_response_stays_one_content_with_its_signature_where_it_was() -> None:
    sent = contents(*own_round())
    assert sent[1] == {
        "role": "model",
        "parts": [
            {"text": "Looking."},
            call_part("read_file", SIGNATURE, id="call_1", args={"path": "x"}),
            call_part("now", id="call_2", args={}),
        ],
    }


def signatures(sent: list[dict[str, Any]]) -> list[str | None]:
    return [part.get("thoughtSignature") for c in sent for part in c["parts"] if "functionCall" in part]


def test_dummy_signature_only_on_the_first_call_of_a_step_of_the_current_turn() -> None:
    earlier: list[Message] = [*rounds(CALL, OTHER), AssistantMessage("done")]
    current = [*rounds(CALL, OTHER), *rounds(OTHER, CALL, ask_first=False)]
    assert signatures(contents(*earlier, *current)) == [None, None, DUMMY, None, DUMMY, None]
    assert signatures(contents(*earlier, *current, AssistantMessage("x"), UserMessage("new"))) == [None] * 6


def test_real_signatures_are_never_joined_by_a_dummy() -> None:
    assert signatures(contents(*own_round())) == [SIGNATURE, None]
    mixed: list[Message] = [*own_round(), *rounds(CALL, OTHER, ask_first=False)]
    assert signatures(contents(*mixed)) == [SIGNATURE, None, DUMMY, None]


def test_older_models_get_no_dummy() -> None:
    assert signatures(contents(*rounds(CALL, OTHER), model=OLD)) == [None, None]
    always = GeminiQuirks(signatures="always")
    assert signatures(contents(*rounds(), model=OLD, quirks=always)) == [DUMMY]


@pytest.mark.parametrize(
    "replay",
    [
        replayed(call_part("read_file", SIGNATURE, id="call_1", args={"path": "x"}), model=OLD),
        replayed(call_part("read_file", SIGNATURE, id="call_1", args={"path": "x"}), wire="openai_chat"),
        replayed(call_part("read_file", SIGNATURE, id="call_1", args={"path": "y"})),
        replayed(call_part("read_file", SIGNATURE, id="other", args={"path": "x"})),
        replayed({"text": "I said more."}, call_part("read_file", SIGNATURE, args={"path": "x"})),
        replayed({"text": "", "thoughtSignature": SIGNATURE}),
        replayed("nonsense"),
    ],
    ids=["other model", "other wire", "arguments edited", "id changed", "text edited", "call gone", "broken"],
)
def test_parts_that_are_foreign_or_say_something_else_are_not_sent(replay: Replay) -> None:
    call = ToolCall("call_1", "read_file", '{"path":"x"}')
    assert signatures(contents(*rounds(call, replay=replay))) == [DUMMY]
    text = json.dumps(contents(*rounds(call, replay=replay)))
    assert SIGNATURE not in text
    assert "said more" not in text


def test_fields_that_only_a_response_has_are_not_sent() -> None:
    part = {**call_part("f", SIGNATURE, id="a", args={}), "partMetadata": {"x": 1}, "thought": None}
    part["functionCall"] = {"name": "f", "id": "a", "args": {}, "willContinue": False}
    sent = contents(*rounds(ToolCall("a", "f", "{}"), replay=replayed(part)))
    assert sent[1]["parts"] == [call_part("f", SIGNATURE, id="a", args={})]


def test_signed_text_goes_back_as_the_part_that_it_was() -> None:
    parts = [{"text": "Hel"}, {"text": "lo", "thoughtSignature": SIGNATURE}]
    said = AssistantMessage("Hello", replay=replayed(*parts))
    assert contents(UserMessage("a"), said, UserMessage("b"))[1]["parts"] == parts


def common_prefix(left: bytes, right: bytes) -> int:
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), len(left))


def test_consecutive_bodies_share_everything_up_to_the_last_part_of_the_contents() -> None:
    messages: list[Message] = [SystemMessage("be brief")]
    for number in range(4):
        call = ToolCall(f"call_{number}", "read_file", '{"path":"x"}')
        part = call_part("read_file", SIGNATURE, id=call.id, args={"path": "x"})
        messages += [UserMessage(f"question {number}"), *rounds(call, replay=replayed(part))[1:]]
        messages += [UserMessage("a note"), AssistantMessage(f"answer {number}")]
    log, made, previous = MessageLog(), builder(), b""
    for message in messages:
        log.append(message)
        if isinstance(message, SystemMessage):
            continue
        current = made.build(ChatRequest(model=NEW, history=log.view(), tools=(SPEC,)))
        # A content may still grow, so the end that counts is that of its last part.
        assert common_prefix(previous, current) >= previous.rfind(b']}],"tools":')
        previous = current
    assert made.encode_calls < 60


@given(
    st.lists(
        st.sampled_from(
            [
                UserMessage("u"),
                UserMessage(" "),
                AssistantMessage("t"),
                AssistantMessage(""),
                *rounds(CALL, OTHER)[1:],
                own_round()[1],
            ]
        ),
        min_size=1,
    ),
    st.sampled_from([NEW, OLD]),
)
def test_growing_log_and_fresh_log_give_the_same_alternating_contents(
    messages: list[Message], model: str
) -> None:
    log, kept = MessageLog([UserMessage("first")]), builder()
    for message in messages:
        log.append(message)
        again = kept.build(ChatRequest(model=model, history=log.view()))
        assert again == builder().build(ChatRequest(model=model, history=History.of(list(log.view()))))
        roles = [content["role"] for content in json.loads(again)["contents"]]
        assert all(a != b for a, b in pairwise(roles))
