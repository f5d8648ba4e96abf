"""What the tolerant reader of OpenAI dicts may meet, and the notebook in which it writes that down."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Raw, Struct

from hermes_messages.argument_text import JsonValue
from hermes_messages.errors import MessageFormatError
from hermes_messages.hygiene import replace_surrogates

__all__ = ["Notebook", "Quirk", "QuirkKind"]


class QuirkKind(StrEnum):
    """Everything that the tolerant reader overlooks; a closed list."""

    NULL_KEY = "null_key"
    """A null where the key should be absent."""
    NULL_CONTENT = "null_content"
    """A null where text belongs, read as empty; as content beside calls null is no quirk."""
    MISSING_CONTENT = "missing_content"
    """No key `content` where there has to be one, read as empty."""
    LIST_CONTENT = "list_content"
    """A part list where most hosts only send text (system, assistant, tool)."""
    BARE_PART = "bare_part"
    """One part, or a string inside a part list, where a list of parts belongs."""
    DATA_CONTENT = "data_content"
    """A tool result that is an object, a number or a boolean, kept as its JSON text."""
    UNKNOWN_PART = "unknown_part"
    """A part of a kind that is not known here, kept as an `OpaquePart`."""
    DEVELOPER_ROLE = "developer_role"
    """The role `developer`, read as `system`."""
    ARGUMENTS_AS_DATA = "arguments_as_data"
    """Arguments as an object (or another JSON value), kept as compact JSON text in the order given."""
    MISSING_ARGUMENTS = "missing_arguments"
    """A call without arguments, or with null."""
    NUMERIC_ID = "numeric_id"
    """An id that is a number, read as its digits."""
    MISSING_ID = "missing_id"
    """A call or result without an id, which is "" then."""
    MISSING_NAME = "missing_name"
    """A call without the name of a tool, which is "" then."""
    FLAT_CALL = "flat_call"
    """A tool call with name and arguments beside the id and not inside `function`."""
    EMPTY_CALL_LIST = "empty_call_list"
    """`tool_calls` with nothing in it, read as no calls."""
    TWO_REASONINGS = "two_reasonings"
    """`reasoning` and `reasoning_content` both present; a differing second one stays in `extra`."""
    UNEXPECTED_TYPE = "unexpected_type"
    """A known key with a value of a foreign type, kept in `extra`."""
    LONE_SURROGATE = "lone_surrogate"
    """Half a character, which no UTF-8 text can hold, read as U+FFFD."""


class Quirk(Struct, frozen=True):
    """One deviation met: its `kind`, the `index` of the message (from 0), the `path` in it (`$.content`)."""

    kind: QuirkKind
    index: int
    path: str = "$"


class Notebook:
    """The quirks and errors of one message, and the reading of text that they are about."""

    __slots__ = ("_index", "_quirks")

    def __init__(self, index: int, quirks: list[Quirk]) -> None:
        self._index = index
        self._quirks = quirks

    def clean(self, text: str, path: str) -> str:
        """`text` without lone surrogates."""
        cleaned = replace_surrogates(text)
        if cleaned is not text:
            self.note(QuirkKind.LONE_SURROGATE, path)
        return cleaned

    def encoded(
        self, value: JsonValue | Mapping[str, JsonValue], path: str, *, strict: bool = False
    ) -> bytes:
        """`value` as compact JSON. With `strict`, numbers that JSON does not have are refused."""
        if strict and _holds_odd_number(value):
            raise self.error("NaN and infinity are no JSON numbers", path)
        try:
            return msgspec.json.encode(value)
        except UnicodeEncodeError:
            self.note(QuirkKind.LONE_SURROGATE, path)
            return msgspec.json.encode(_scrubbed(value))
        except (TypeError, RecursionError, ValueError, OverflowError) as error:
            raise self.error(f"this can not be written as JSON: {error}", path) from error

    def note(self, kind: QuirkKind, path: str) -> None:
        """Write down a quirk."""
        self._quirks.append(Quirk(kind, self._index, path))

    def error(self, reason: str, path: str) -> MessageFormatError:
        """The error to raise for what can not be read."""
        return MessageFormatError(reason, index=self._index, path=path)

    def raw(self, extra: dict[str, JsonValue], path: str) -> Raw | None:
        """Unknown keys as the bytes of one JSON object; None when there are none."""
        return Raw(self.encoded(extra, path)) if extra else None


def _scrubbed(value: object) -> object:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {_scrubbed(key): _scrubbed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(item) for item in value]
    return value


def _holds_odd_number(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(_holds_odd_number(item) for item in value.values())
    return isinstance(value, list | tuple) and any(_holds_odd_number(item) for item in value)
