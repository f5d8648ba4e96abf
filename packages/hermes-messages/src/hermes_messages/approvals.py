"""Asking a person before a tool call runs: the values that are asked, answered and stored.

A call whose executor wants an approval goes one of three ways:

    Approve   it runs, with other arguments if `arguments` is given
    Deny      it does not run; the model gets a result of status `denied` with the reason
    Later     it waits as a `PendingApproval`, a value that outlives the process

>>> call = ToolCall("c1", "terminal", '{"command": "rm -r x"}')
>>> waiting = PendingApproval(call=call, position=0, reason="it deletes a folder")
>>> pending_from_json(pending_to_json([waiting])) == (waiting,)
True
>>> read_decision({"decision": "deny", "reason": "not on a Friday"})
Deny(reason='not on a Friday')
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from hermes_messages.argument_text import JsonValue, parse_arguments
from hermes_messages.errors import ArgumentsError, ConfigurationError, MessageFormatError
from hermes_messages.messages import ToolCall, ToolMessage

__all__ = [
    "ApprovalAnswer",
    "ApprovalCallback",
    "ApprovalDecision",
    "Approve",
    "Deny",
    "Later",
    "PendingApproval",
    "call_fingerprint",
    "match_decisions",
    "pending_from_json",
    "pending_to_json",
    "read_decision",
]


class Approve(Struct, frozen=True, forbid_unknown_fields=True, tag_field="decision", tag="approve"):
    """The call may run. `arguments`, the text of a JSON object, takes the place of the model's own; the
    assistant message keeps those, and the result tells the model which ones were used. `seen` is the
    fingerprint of the call that the person looked at; given, it must be that of the call which waits: hosts
    reuse ids from round to round, and a decision that comes twice could approve a call that nobody saw."""

    arguments: str | None = None
    seen: str | None = None


class Deny(Struct, frozen=True, forbid_unknown_fields=True, tag_field="decision", tag="deny"):
    """The call may not run. The model is told `reason`."""

    reason: str = ""


class Later(Struct, frozen=True, forbid_unknown_fields=True, tag_field="decision", tag="later"):
    """Nobody can say now: the call is left pending and the round comes back without its result."""


ApprovalDecision: TypeAlias = Approve | Deny | Later
"""What is decided about a call: now, or not yet."""
ApprovalAnswer: TypeAlias = ApprovalDecision | bool
"""What a host may answer: True is `Approve()`, False is `Deny()`."""

ApprovalCallback: TypeAlias = Callable[[ToolCall, str], Awaitable[ApprovalAnswer]]
"""Asks the host whether a call may run, with the reason for asking. It may take as long as it likes: no
time limit runs. It is cancelled when the turn is interrupted or cancelled. If it raises, or answers anything
else than an `ApprovalAnswer`, the call counts as denied."""


class PendingApproval(Struct, frozen=True, kw_only=True):
    """A `call` that waits for a decision: its `position` in the round, from 0, and the `reason` to ask."""

    call: ToolCall
    position: int
    reason: str

    @property
    def fingerprint(self) -> str:
        """What `Approve(seen=...)` takes: short for the call's id, name and arguments."""
        return call_fingerprint(self.call)


def call_fingerprint(call: ToolCall) -> str:
    """32 hexadecimal digits that another id, name or argument text changes."""
    parts = msgspec.json.encode([call.id, call.name, call.arguments])
    return hashlib.sha256(parts).hexdigest()[:32]


def pending_to_json(pending: Sequence[PendingApproval]) -> JsonValue:
    """`pending` as plain JSON data, to be stored until somebody decides."""
    found: JsonValue = msgspec.json.decode(msgspec.json.encode(list(pending)))
    return found


def pending_from_json(value: JsonValue) -> tuple[PendingApproval, ...]:
    """The inverse of `pending_to_json`. Raises `MessageFormatError` for anything else."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value), type=tuple[PendingApproval, ...])
    except (msgspec.MsgspecError, TypeError) as error:
        raise MessageFormatError(f"these are no pending approvals: {error}") from error


def read_decision(value: object) -> ApprovalDecision:
    """A decision given as itself, as a bool, or as JSON data (`{"decision": "approve", "arguments": "{}"}`).

    Raises `ConfigurationError` for anything else: silence is no approval.
    """
    match value:
        case Approve() | Deny() | Later():
            return value
        case True:
            return Approve()
        case False:
            return Deny()
        case Mapping():
            try:
                return msgspec.convert(dict(value), Approve | Deny | Later)
            except msgspec.ValidationError as error:
                raise ConfigurationError(f"{value!r:.200} is no decision: {error}") from None
        case _:
            raise ConfigurationError(
                f"{value!r:.200} is no decision; give Approve(), Deny(), Later(), True or False"
            )


def match_decisions(
    calls: Sequence[ToolCall],
    results: Sequence[ToolMessage | None],
    decisions: Mapping[str, ApprovalAnswer],
) -> dict[int, ApprovalDecision]:
    """The decisions by the position of their call; what `SupportsDecisions.resume` checks first.

    Raises `ConfigurationError` when `results` do not belong to `calls`, when a decision is for a call that is
    not there, is there twice, or has its result, and when changed arguments are no JSON object.
    """
    if len(results) != len(calls):
        raise ConfigurationError(f"{len(results)} results were given for a round of {len(calls)} calls")
    for position, (call, result) in enumerate(zip(calls, results, strict=True)):
        if result is not None and result.tool_call_id != call.id:
            raise ConfigurationError(
                f"the result at position {position} answers call {result.tool_call_id!r}, not {call.id!r}"
            )
    matched: dict[int, ApprovalDecision] = {}
    for call_id, answer in decisions.items():
        places = [position for position, call in enumerate(calls) if call.id == call_id]
        if len(places) != 1:
            where = f"stands in the round {len(places)} times" if places else "is not in the round"
            raise ConfigurationError(f"a decision is for call {call_id!r}, which {where}")
        if results[places[0]] is not None:
            raise ConfigurationError(f"a decision is for call {call_id!r}, which has its result already")
        decision = read_decision(answer)
        if isinstance(decision, Approve):
            _check_approval(decision, calls[places[0]])
        matched[places[0]] = decision
    return matched


def _check_approval(decision: Approve, call: ToolCall) -> None:
    if decision.seen is not None and decision.seen != call_fingerprint(call):
        raise ConfigurationError(
            f"the decision for call {call.id!r} is about another call than the one that waits; "
            "nothing was run"
        )
    if decision.arguments is not None:
        try:
            parse_arguments(decision.arguments)
        except ArgumentsError as error:
            raise ConfigurationError(f"the decision for call {call.id!r}: {error}") from None
