"""What makes a session from elsewhere unfit to be stored: the rule, as a pure function.

A file may have been damaged or edited by hand, and what was stored can only be read if it is written as this
store writes it. So everything is looked at before the first row of a session is stored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from hermes_messages import AssistantMessage, Message, MessageFormatError
from hermes_store.escaping import escape, unescape
from hermes_store.rows import LARGEST_NUMBER, LONGEST_KEY, message_from_columns, role_of
from hermes_store.transfer_format import CallLine, MessageLine, SessionDump, SessionLine, StateLine
from hermes_store.transfer_numbers import original_uid

__all__ = ["find_faults"]

_Line: TypeAlias = SessionLine | MessageLine | CallLine | StateLine

_KEYS = {
    SessionLine: ("id", "lineage", "parent_id"),
    MessageLine: (),
    CallLine: ("uid",),
    StateLine: ("name",),
}
_TEXTS = {
    SessionLine: ("source", "title", "model", "provider", "cwd", "system_prompt", "end_reason"),
    MessageLine: ("text",),
    CallLine: ("model", "provider"),
    StateLine: (),
}
_ANY_SHAPE = 7
"""All bits of `shape` that there are."""


def find_faults(dump: SessionDump) -> Iterator[str | None]:
    """Why the session can not be stored, in words that go on after its name; nothing when it can.

    None comes between, once for each line or more often, so that a caller can let others go on.
    """
    if not dump.session.id:
        yield "has an empty id"
    lines: list[_Line] = [dump.session, *dump.messages, *dump.calls, *dump.state]
    for line in lines:
        yield from (f"has a {_name(line)} whose {fault}" for fault in _faults_of_values(line))
        yield None
    if not isinstance(_loaded(dump.session.metadata), dict):
        yield "has metadata that is no JSON object"
    for item in dump.state:
        if _loaded(item.value) is _NO_JSON:
            yield f"has a value {item.name!r} that is no JSON"
    yield from _faults_of_messages(dump.messages)


def _faults_of_values(line: _Line) -> Iterator[str]:
    kind = type(line)
    for name in (*_KEYS[kind], *_TEXTS[kind]):
        text = line.__getattribute__(name)
        if text is None:
            continue
        if escape(unescape(text)) != text:
            yield f"{name} is not written as this store writes it"
        elif name in _KEYS[kind] and len(text.encode()) > LONGEST_KEY:
            yield f"{name} has more than {LONGEST_KEY:,} bytes"
    for name in kind.__struct_fields__:
        value = line.__getattribute__(name)
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{name} is no finite number"
        elif isinstance(value, int) and abs(value) > LARGEST_NUMBER:
            yield f"{name} is too large"


def _faults_of_messages(lines: tuple[MessageLine, ...]) -> Iterator[str | None]:
    """Each is what it says, and the results of a round are those of a message before them."""
    uids: set[str] = set()
    askers: dict[int, AssistantMessage] = {}
    places: set[tuple[int, int]] = set()
    for line in lines:
        if line.uid in uids or not _is_uid(line.uid):
            yield f"has two messages {line.uid!r}, or one whose uid is not written as this store writes it"
        uids.add(line.uid)
        message = None if line.body is None else _decoded(line)
        if line.body is not None and message is None:
            yield f"has a message {line.uid!r} that can not be read"
        if isinstance(message, AssistantMessage):
            askers[line.seq] = message
        if line.pending is not None and (line.seq not in askers or _loaded(line.pending) is _NO_JSON):
            yield f"has a message {line.uid!r} that can not wait for a decision"
        if line.round is not None or line.body is None:
            yield from _faults_of_place(line, askers, places)
        yield None


def _faults_of_place(
    line: MessageLine, askers: Mapping[int, AssistantMessage], places: set[tuple[int, int]]
) -> Iterator[str]:
    asker = askers.get(-1 if line.round is None else line.round)
    position = -1 if line.position is None else line.position
    if line.role != "tool" or asker is None or not 0 <= position < len(asker.tool_calls):
        yield f"has a result {line.uid!r} of no call"
    elif (place := (line.round or 0, position)) in places:
        yield f"has a second result {line.uid!r} of one call"
    else:
        places.add(place)


def _decoded(line: MessageLine) -> Message | None:
    if line.body is None or not 0 <= line.shape <= _ANY_SHAPE:
        return None
    try:
        message = message_from_columns(line.shape, line.text, line.body)
    except (MessageFormatError, ValueError, RecursionError):
        return None
    return message if role_of(message) == line.role else None


def _is_uid(uid: str) -> bool:
    plain = original_uid(uid)
    text = uid if plain is None else plain
    return escape(unescape(text)) == text and len(text.encode()) <= LONGEST_KEY


_NO_JSON = object()


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NO_JSON


def _name(line: _Line) -> str:
    return str(line.__struct_config__.tag)
