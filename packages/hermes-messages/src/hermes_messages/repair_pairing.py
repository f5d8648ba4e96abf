"""Which tool result belongs to which call, when results may be late, doubled, foreign or without an id."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hermes_messages.messages import AssistantMessage, Message, ToolCall, ToolMessage

__all__ = ["Pairing", "Round", "pair_results"]


class Round:
    """The calls of the assistant message at `index`, and per call position the index of its result."""

    __slots__ = ("calls", "index", "results")

    def __init__(self, index: int, calls: tuple[ToolCall, ...]) -> None:
        self.index: int = index
        self.calls: tuple[ToolCall, ...] = calls
        self.results: dict[int, int] = {}


class Pairing:
    """All rounds by the index of their assistant message, and what became of the other results."""

    __slots__ = ("by_index", "duplicates", "late", "orphans")

    def __init__(self) -> None:
        self.by_index: dict[int, Round] = {}
        self.duplicates: set[int] = set()
        self.orphans: set[int] = set()
        self.late: set[int] = set()


class _Owed:
    """Where results of one id are owed, newest round last, and the newest round that has its result."""

    __slots__ = ("answered", "open")

    def __init__(self) -> None:
        self.open: list[tuple[Round, deque[int]]] = []
        self.answered: tuple[Round, ToolMessage] | None = None


def pair_results(messages: Sequence[Message]) -> Pairing:
    """Pair every result with a call before it: equal ids first, then, where one side has no id, by order.

    A result goes to the latest round that still owes one of its id. If a later round already has the very
    same result, it was stored twice.
    """
    pairing = Pairing()
    owed: dict[str, _Owed] = {}
    left: list[tuple[int, ToolMessage, Round | None]] = []
    newest: Round | None = None
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and message.tool_calls:
            newest = Round(index, message.tool_calls)
            pairing.by_index[index] = newest
            for call_id, positions in _positions_by_id(newest).items():
                owed.setdefault(call_id, _Owed()).open.append((newest, positions))
        elif isinstance(message, ToolMessage):
            of_id = owed.get(message.tool_call_id)
            if of_id is None or not message.tool_call_id:
                left.append((index, message, newest))
            elif not _assign(of_id, index, message):
                pairing.duplicates.add(index)
    for index, message, round_ in left:
        if round_ is None or not _assign_by_order(round_, index, message):
            pairing.orphans.add(index)
    _find_late(messages, pairing)
    return pairing


def _positions_by_id(round_: Round) -> dict[str, deque[int]]:
    positions: dict[str, deque[int]] = {}
    for position, call in enumerate(round_.calls):
        positions.setdefault(call.id, deque()).append(position)
    return positions


def _assign(owed: _Owed, index: int, message: ToolMessage) -> bool:
    """Give the result to the latest round that owes it; False when it was given before."""
    if not owed.open:
        return False
    round_, positions = owed.open[-1]
    if owed.answered is not None:
        last_round, last = owed.answered
        if last_round.index > round_.index and last.content == message.content:
            return False
    round_.results[positions.popleft()] = index
    if not positions:
        owed.open.pop()
    if owed.answered is None or owed.answered[0].index <= round_.index:
        owed.answered = (round_, message)
    return True


def _assign_by_order(round_: Round, index: int, message: ToolMessage) -> bool:
    """A result or call without an id: the first open call, one of the result's tool before others."""
    open_positions = [
        position
        for position, call in enumerate(round_.calls)
        if position not in round_.results and not (call.id and message.tool_call_id)
    ]
    if not open_positions:
        return False
    same_tool = [position for position in open_positions if round_.calls[position].name == message.name]
    round_.results[(same_tool or open_positions)[0]] = index
    return True


def _find_late(messages: Sequence[Message], pairing: Pairing) -> None:
    """A result is late when something other than a tool result stands between its round and it."""
    runs: list[int] = []
    start = 0
    for index, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            start = index
        runs.append(start)
    for round_ in pairing.by_index.values():
        pairing.late.update(place for place in round_.results.values() if runs[place] != round_.index)
