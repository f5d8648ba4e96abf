"""Which tool call a fragment belongs to, when neither `index` nor `id` can be trusted.

The rules, first match wins:

1. A known id belongs to its call, whatever the index. A head (a fragment with a name) that can not be more
   of that call means that the host used one id twice: a new call. That is so when the call is whole and the
   head brings arguments or another index, or when both index and name are others.
2. A new id is a late id for the call at its index (without an index: the last one) if that call has none and
   the fragment can be more of it; otherwise it opens a call, also on an occupied index.
3. Without an id, a known index belongs to the call that took it last; a head behind a whole call, or with
   another name before any arguments came, opens one.
4. Without an id, an unknown index opens a call when a name comes with it. A bare tail goes to the call opened
   last, unless that one is whole.
5. Without both, a name that the last call does not have opens a call; a tail goes to the last call.

"Whole" means that the arguments so far are one complete JSON object, which nothing can continue.
"""

from __future__ import annotations

import re

from hermes_messages.argument_text import parse_arguments
from hermes_messages.deltas import ToolCallChunk
from hermes_messages.errors import ArgumentsError

__all__ = ["CallTable", "OpenCall", "is_json_object"]

_STRUCTURE = re.compile(r'\\.|["{}]', re.DOTALL)
"""What tells strings and nesting apart: quotes and braces, with escaped characters taken together."""


def is_json_object(text: str) -> bool:
    """Whether `text` is exactly one JSON object, read strictly."""
    if not text.rstrip().endswith("}"):
        return False
    try:
        parse_arguments(text)
    except ArgumentsError:
        return False
    return True


class OpenCall:
    """A call that is being put together, the `place`th of its response.

    `id` and `position` are set when it is shown to the consumer.
    """

    __slots__ = (
        "_depth",
        "_fragments",
        "_hopeless",
        "_in_string",
        "_scanned",
        "host_id",
        "id",
        "index",
        "name",
        "place",
        "position",
    )

    def __init__(self, index: int | None, place: int) -> None:
        self.index: int | None = index
        self.place: int = place
        self.host_id: str | None = None
        self.name: str = ""
        self.id: str = ""
        self.position: int | None = None
        self._fragments: list[str] = []
        self._scanned = 0
        self._depth = 0
        self._in_string = False
        self._hopeless = False

    @property
    def arguments(self) -> str:
        """The argument text so far."""
        if len(self._fragments) > 1:
            self._fragments = ["".join(self._fragments)]
        return self._fragments[0] if self._fragments else ""

    def add_arguments(self, text: str) -> None:
        """More argument text."""
        self._fragments.append(text)

    def is_whole(self) -> bool:
        """Whether the arguments so far are one complete JSON object. Each character is looked at once."""
        if self._hopeless or not (self._fragments and self._fragments[-1].rstrip().endswith("}")):
            return False
        text = self.arguments
        for mark in _STRUCTURE.finditer(text, self._scanned):
            match mark.group():
                case '"':
                    self._in_string = not self._in_string
                case "{" if not self._in_string:
                    self._depth += 1
                case "}" if not self._in_string:
                    self._depth -= 1
        self._scanned = len(text)
        if self._in_string or self._depth > 0:
            return False
        self._hopeless = not is_json_object(text)  # the braces are closed: nothing can mend it
        return not self._hopeless


class CallTable:
    """The calls of one response in the order in which they were opened."""

    __slots__ = ("_by_id", "_by_index", "_next_number", "_used_ids", "calls")

    def __init__(self) -> None:
        self.calls: list[OpenCall] = []
        self._by_id: dict[str, OpenCall] = {}
        self._by_index: dict[int, OpenCall] = {}
        self._used_ids: set[str] = set()
        self._next_number: dict[str, int] = {}

    def route(self, chunk: ToolCallChunk) -> OpenCall | None:
        """The call that `chunk` belongs to, opened if need be. None for a fragment that says nothing."""
        name = chunk.name if chunk.name and not chunk.name.isspace() else None
        if not (chunk.id or name or chunk.arguments):
            return None
        call = self._route_by_id(chunk.id, chunk, name) if chunk.id else self._route_without_id(chunk, name)
        if name is not None and not call.name:
            call.name = name
        return call

    def assign_id(self, call: OpenCall) -> None:
        """Fix the id under which the call is known from now on: the host's, made unique, or a made one."""
        wanted = call.host_id or f"call_{call.place}"
        chosen = wanted
        if wanted in self._used_ids:
            number = self._next_number.get(wanted, 2)
            while chosen in self._used_ids:
                chosen = f"{wanted}_{number}"
                number += 1
            self._next_number[wanted] = number
        self._used_ids.add(chosen)
        call.id = chosen

    def _route_by_id(self, host_id: str, chunk: ToolCallChunk, name: str | None) -> OpenCall:
        known = self._by_id.get(host_id)
        if known is not None:
            if name and known.name and _is_other_call(known, chunk):
                return self._open(chunk, host_id)
            if chunk.index is not None:
                self._by_index.setdefault(chunk.index, known)
            return known
        candidate = self._last() if chunk.index is None else self._by_index.get(chunk.index)
        if candidate is None or not _may_adopt(candidate, chunk, name):
            return self._open(chunk, host_id)
        candidate.host_id = host_id
        self._by_id[host_id] = candidate
        return candidate

    def _route_without_id(self, chunk: ToolCallChunk, name: str | None) -> OpenCall:
        last = self._last()
        if chunk.index is not None and chunk.index in self._by_index:
            known = self._by_index[chunk.index]
            if name and known.name and _follows(known, chunk):
                return self._open(chunk, None)
            return known
        if last is None or (name and (chunk.index is not None or not _continues(last, name))):
            return self._open(chunk, None)
        if chunk.index is not None:
            if last.is_whole() and chunk.arguments:
                return self._open(chunk, None)
            self._by_index[chunk.index] = last
        return last

    def _open(self, chunk: ToolCallChunk, host_id: str | None) -> OpenCall:
        call = OpenCall(chunk.index, len(self.calls))
        call.host_id = host_id
        self.calls.append(call)
        if host_id is not None:
            self._by_id[host_id] = call
        if chunk.index is not None:
            self._by_index[chunk.index] = call
        return call

    def _last(self) -> OpenCall | None:
        return self.calls[-1] if self.calls else None


def _may_adopt(candidate: OpenCall, chunk: ToolCallChunk, name: str | None) -> bool:
    """Whether the new id of `chunk` can be the late id of `candidate`."""
    if candidate.host_id is not None or (name and candidate.name):
        return False
    return not (chunk.arguments and candidate.is_whole())


def _is_other_call(known: OpenCall, head: ToolCallChunk) -> bool:
    """Whether a head with the id of `known` is a call of its own."""
    other_index = head.index is not None and head.index != known.index
    if other_index and head.name != known.name:
        return True
    return (other_index or bool(head.arguments)) and known.is_whole()


def _follows(known: OpenCall, head: ToolCallChunk) -> bool:
    """Whether a head without an id, at the index of `known`, is a call of its own."""
    if head.name != known.name and not known.arguments:
        return True
    return (head.name != known.name or bool(head.arguments)) and known.is_whole()


def _continues(last: OpenCall, name: str) -> bool:
    """Whether a fragment with `name` but neither id nor index is more of the last call."""
    if not last.name:
        return True
    return name == last.name and bool(last.arguments) and not last.is_whole()
