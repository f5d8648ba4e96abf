from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_messages import ConfigurationError, MessageFormatError, ToolCall, ToolMessage
from hermes_messages.approvals import (
    Approve,
    Deny,
    Later,
    PendingApproval,
    match_decisions,
    pending_from_json,
    pending_to_json,
    read_decision,
)

CALLS = [ToolCall("a", "terminal", "{}"), ToolCall("b", "terminal", "{}")]


@given(st.lists(st.tuples(st.text(), st.text(), st.text(), st.integers(0, 99)), max_size=4))
def test_pending_approvals_survive_a_way_through_json_text(items: list[tuple[str, str, str, int]]) -> None:
    pending = tuple(
        PendingApproval(call=ToolCall(id_, "t", arguments), position=place, reason=reason)
        for id_, arguments, reason, place in items
    )
    assert pending_from_json(json.loads(json.dumps(pending_to_json(pending)))) == pending


def test_unknown_keys_of_a_call_survive_as_well() -> None:
    call = ToolCall("a", "t", "{}", extra=msgspec.Raw(b'{"index":3}'))
    [back] = pending_from_json(pending_to_json([PendingApproval(call=call, position=0, reason="why")]))
    assert back.call.extra is not None
    assert bytes(back.call.extra) == b'{"index":3}'


@pytest.mark.parametrize("value", [None, 3, {"a": 1}, [{"call": {"id": "a"}}], [{"position": 0}]])
def test_what_is_no_pending_approval_is_refused(value: object) -> None:
    with pytest.raises(MessageFormatError):
        pending_from_json(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given_", "meant"),
    [
        (True, Approve()),
        (False, Deny()),
        (Deny("no"), Deny("no")),
        ({"decision": "later"}, Later()),
        ({"decision": "approve", "arguments": "{}"}, Approve("{}")),
        ({"decision": "approve"}, Approve()),
    ],
)
def test_decisions_are_read_from_what_a_host_can_send(given_: object, meant: object) -> None:
    assert read_decision(given_) == meant


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        "yes",
        {},
        {"decision": "maybe"},
        {"decision": "approve", "arguments": 3},
        {"decision": "approve", "args": "{}"},  # other arguments were meant
    ],
)
def test_anything_unclear_is_no_approval(value: object) -> None:
    with pytest.raises(ConfigurationError, match="no decision"):
        read_decision(value)


def test_decisions_are_matched_by_call_and_checked_as_a_whole() -> None:
    done = ToolMessage("a", "x")
    assert match_decisions(CALLS, [None, None], {"b": False}) == {1: Deny()}
    for results, decisions, said in [
        ([None], {}, "1 results"),
        ([None, done], {}, "answers call 'a'"),
        ([done, None], {"a": True}, "its result already"),
        ([None, None], {"c": True}, "is not in the round"),
        ([None, None], {"a": Approve("[]")}, "'a'"),
    ]:
        with pytest.raises(ConfigurationError, match=said):
            match_decisions(CALLS, results, decisions)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="2 times"):
        match_decisions([CALLS[0], CALLS[0]], [None, None], {"a": True})


def test_an_approval_of_a_call_that_somebody_saw_fits_no_later_call_of_the_same_id() -> None:
    seen = PendingApproval(call=ToolCall("call_0", "terminal", '{"command": "ls"}'), position=0, reason="r")
    other = ToolCall("call_0", "terminal", '{"command": "rm -rf /"}')
    approval = Approve(seen=seen.fingerprint)
    assert match_decisions([seen.call], [None], {"call_0": approval}) == {0: Approve(seen=seen.fingerprint)}
    with pytest.raises(ConfigurationError, match="about another call"):
        match_decisions([other], [None], {"call_0": approval})
