"""Fitting a given or stored history to what is stored already. Pure, apart from the one repair at its end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from hermes_loop.journal import with_suspension
from hermes_messages import (
    AssistantMessage,
    LeaseLostError,
    Message,
    MessageFormatError,
    StoreError,
    ToolCall,
    ToolMessage,
)
from hermes_messages.approvals import pending_from_json
from hermes_messages.openai_shape import to_dicts
from hermes_messages.protocols import (
    LeaseToken,
    SessionStore,
    StoredMessage,
    ToolRound,
)

__all__ = [
    "OpenRound",
    "answered",
    "begin_again",
    "close_open_rounds",
    "find_open_rounds",
    "superseded_results",
    "unknown_result",
    "unsaved_tail",
    "waits_for_decision",
]

logger: logging.Logger = logging.getLogger(__name__)

UNKNOWN_RESULT: Final = (
    "Unknown: the process ended before the result of this call was recorded. "
    "It may have run, wholly or in part. Check before you run it again."
)
SUPERSEDED_RESULT: Final = (
    "Denied: superseded. The user wrote a new message instead of deciding on this call. It did not run."
)


class OpenRound(Struct, frozen=True):
    """A stored round some of whose results never came."""

    uid: str
    seq: int
    message: AssistantMessage
    missing: tuple[int, ...]


def find_open_rounds(stored: Sequence[StoredMessage]) -> list[OpenRound]:
    """The stored rounds with missing results, in order."""
    found: list[OpenRound] = []
    for index, row in enumerate(stored):
        message = row.message
        if not isinstance(message, AssistantMessage) or not message.tool_calls:
            continue
        answered: set[str] = set()
        for later in stored[index + 1 :]:
            if not isinstance(later.message, ToolMessage):
                break
            answered.add(later.message.tool_call_id)
        missing = tuple(i for i, call in enumerate(message.tool_calls) if call.id not in answered)
        if missing:
            found.append(OpenRound(row.uid, row.seq, message, missing))
    return found


def answered(messages: Sequence[Message], superseded: frozenset[str] = frozenset()) -> Sequence[Message]:
    """`messages`, valid but for their end, with a result for each call that is open there, so that a user
    message can follow: "denied" for the ids in `superseded`, else "unknown". In the order of the calls, as
    they are stored."""
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results.append(message)
            continue
        if isinstance(message, AssistantMessage) and len(results) < len(message.tool_calls):
            known = {result.tool_call_id: result for result in results}
            whole = [
                known.get(call.id) or (_superseded(call) if call.id in superseded else unknown_result(call))
                for call in message.tool_calls
            ]
            return (*messages[: len(messages) - len(results)], *whole)
        break
    return messages


def unsaved_tail(stored: Sequence[Message], given: Sequence[Message]) -> Sequence[Message]:
    """The messages of `given` that have to be written although `stored` is there.

    What both begin with is there already. So is a window: a host that hands over only the newest part of
    what is stored owes what stands behind that. The longer of the two counts, for a window may begin with
    the words with which the session began.
    """
    old = [to_dicts([message]) for message in stored]
    new = [to_dicts([message]) for message in given]
    shorter = min(len(old), len(new))
    common = 0
    while common < shorter and old[common] == new[common]:
        common += 1
    return given[max(common, _overlap(old, new, common)) :]


def _overlap(old: Sequence[object], new: Sequence[object], least: int) -> int:
    """How many of the first of `new` are the last of `old`, when they are more than `least`; else 0."""
    for size in range(min(len(old), len(new)), least, -1):
        if old[-size] == new[0] and old[-size:] == new[:size]:
            return size
    return 0


async def close_open_rounds(
    store: SessionStore, session_id: str, rounds: Sequence[OpenRound], lease: LeaseToken | None
) -> None:
    """Put an explicit result into every empty place, in the store, once. No call runs again.

    Calls that were cut off get "unknown" ones. Those that wait for a decision did not run: they are denied,
    for a new message supersedes the question.
    """
    waiting = await _waiting_calls(store, session_id)
    for round_ in rounds:
        stored = await begin_again(store, session_id, round_, lease)
        if stored is None:
            continue
        for position in round_.missing:
            call = round_.message.tool_calls[position]
            is_waiting = (round_.seq, call.id) in waiting
            result = _superseded(call) if is_waiting else unknown_result(call)
            await store.set_tool_result(stored, position, result, lease=lease)


async def begin_again(
    store: SessionStore, session_id: str, round_: OpenRound, lease: LeaseToken | None
) -> ToolRound | None:
    """The places of a stored round; None where it has none to fill. Raises `StoreError` for a lost lease."""
    try:
        return await store.begin_tool_round(session_id, round_.uid, round_.message, lease=lease)
    except LeaseLostError:
        raise
    except StoreError as error:
        # Stored by someone else in another way: it has no places to fill. It is repaired in memory.
        logger.warning("session %s: an open round can not be closed in the store: %s", session_id, error)
        return None


async def waits_for_decision(store: SessionStore, session_id: str, round_: OpenRound) -> bool:
    """Whether a call of the round waits for a person."""
    return any(seq == round_.seq for seq, _ in await _waiting_calls(store, session_id))


def superseded_results(message: AssistantMessage) -> list[ToolMessage]:
    """A result for each call, to be used where none came before the user went on."""
    return [_superseded(call) for call in message.tool_calls]


async def _waiting_calls(store: SessionStore, session_id: str) -> frozenset[tuple[int, str]]:
    """The calls that wait for a decision: the number of their assistant message, and their id."""
    marks = with_suspension(store)
    if marks is None:
        return frozenset()
    waiting: set[tuple[int, str]] = set()
    for marked in await marks.suspended_rounds(session_id):
        try:
            pending = pending_from_json(marked.pending)
        except MessageFormatError as error:  # marked by someone else: nobody knows what ran
            logger.warning("session %s: the mark of a suspended round: %s", session_id, error)
            continue
        waiting.update((marked.round.assistant_seq, item.call.id) for item in pending)
    return frozenset(waiting)


def unknown_result(call: ToolCall) -> ToolMessage:
    """The result of a call of which nobody knows whether it ran."""
    return ToolMessage(tool_call_id=call.id, content=UNKNOWN_RESULT, name=call.name, status="unknown")


def _superseded(call: ToolCall) -> ToolMessage:
    return ToolMessage(tool_call_id=call.id, content=SUPERSEDED_RESULT, name=call.name, status="denied")
