"""Messages and sessions as database columns, and back, without loss.

A message's text stands in a column of its own (`text`), where search and people can read it; everything else
is the message's JSON in `body`. When the content is plain text the body leaves it out, so it is stored once.
`shape` says how to put the two together again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, fields, replace

from hermes_messages import (
    ConfigurationError,
    JsonObject,
    JsonValue,
    Message,
    MessageFormatError,
    Usage,
    content_text,
    decode_message,
    encode_message,
)
from hermes_messages.protocols import SessionRecord, StoredMessage
from hermes_store.backend import Row
from hermes_store.escaping import escape, unescape

__all__ = [
    "LARGEST_NUMBER",
    "LONGEST_KEY",
    "MessageColumns",
    "check_figures",
    "decode_metadata",
    "encode_json",
    "encode_metadata",
    "key_text",
    "message_from_columns",
    "message_to_columns",
    "optional_escape",
    "prompt_hash",
    "role_of",
    "session_from_row",
    "stored_message_from_row",
    "within_rows",
]

T = TypeVar("T")

TEXT_IN_COLUMN = 1
"""Bit of `shape`: the content is plain text, kept in `text` alone."""
BODY_ESCAPED = 2
"""Bit of `shape`: strings of the body went through the escape rule (they hold lone surrogates)."""
RAW_QUOTED = 4
"""Bit of `shape`: data kept as raw bytes stands in the body as a JSON string of these bytes. They would not
come back as they are: they spell a lone surrogate, or are no JSON by themselves."""


LONGEST_KEY = 2_000
"""Bytes of an id, a uid or a name. PostgreSQL's indexes hold little more; SQLite is held to the same, so that
sessions can move."""


LARGEST_NUMBER = 2**60
"""The largest figure that is stored; sums of some stay within a column of 64 bits."""


MessageColumns: TypeAlias = tuple[str, int, str, str]
"""What of a message goes into which column: role, shape, text, body."""


def role_of(message: Message) -> str:
    """The message's role, which is its tag."""
    return str(message.__struct_config__.tag)


def message_to_columns(message: Message) -> MessageColumns:
    """The columns of `message`. The inverse is `message_from_columns`."""
    content = message.content
    if isinstance(content, str):
        shape, text, rest = TEXT_IN_COLUMN, content, replace(message, content="")
    else:
        shape, text, rest = 0, content_text(content), message
    body = _exact_body(rest)
    if body is None:
        shape |= BODY_ESCAPED | RAW_QUOTED
        body = encode_message(_map_values(rest, escape, _quote)).decode()
    return role_of(message), shape, escape(text), body


def message_from_columns(shape: int, text: str, body: str) -> Message:
    """The message that `message_to_columns` took apart."""
    message = decode_message(body)
    if shape & BODY_ESCAPED:
        message = _map_values(message, unescape, _unquote if shape & RAW_QUOTED else _as_it_is)
    if shape & TEXT_IN_COLUMN:
        message = replace(message, content=unescape(text))
    return message


def stored_message_from_row(row: Row) -> StoredMessage:
    """From the columns seq, uid, shape, text, body, created_at."""
    seq, uid, shape, text, body, created_at = row
    return StoredMessage(
        seq=seq, uid=unescape(uid), message=message_from_columns(shape, text, body), created_at=created_at
    )


def session_from_row(row: Row) -> SessionRecord:
    """From the columns that `operations.sessions.SELECT_SESSION` names, in its order."""
    (id_, source, title, model, provider, cwd, parent, prompt, metadata, *rest) = row
    (created_at, updated_at, ended_at, end_reason, message_count, api_calls, *usage) = rest
    return SessionRecord(
        id=unescape(id_),
        source=unescape(source),
        title=_optional_unescape(title),
        model=_optional_unescape(model),
        provider=_optional_unescape(provider),
        cwd=_optional_unescape(cwd),
        parent_session_id=_optional_unescape(parent),
        system_prompt=_optional_unescape(prompt),
        metadata=decode_metadata(metadata),
        created_at=created_at,
        updated_at=updated_at,
        ended_at=ended_at,
        end_reason=_optional_unescape(end_reason),
        message_count=message_count,
        api_calls=api_calls,
        usage=Usage(*usage),
    )


def encode_metadata(metadata: Mapping[str, JsonValue]) -> str:
    """Metadata as ASCII JSON, which holds any text. Raises `ConfigurationError` for what is no JSON."""
    return encode_json(dict(metadata), "session metadata")


def encode_json(value: JsonValue, what: str) -> str:
    """`value` as ASCII JSON. Raises `ConfigurationError`, which calls it `what`, for what is no JSON."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{what} must be JSON: {error}; nothing was stored") from None


def decode_metadata(text: str) -> JsonObject:
    """The inverse of `encode_metadata`."""
    return cast("JsonObject", json.loads(text))


def prompt_hash(prompt: str) -> str:
    """The name under which a system prompt is stored once, for all sessions that have it."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


def key_text(text: str, what: str) -> str:
    """`text` after the escape rule, for a column that an index keeps apart: at most `LONGEST_KEY` bytes.

    Raises `ConfigurationError`, which calls it `what`.
    """
    escaped = escape(text)
    if len(escaped) > LONGEST_KEY // 4 and (size := len(escaped.encode())) > LONGEST_KEY:
        raise ConfigurationError(
            f"{what} has {size:,} bytes, {LONGEST_KEY:,} are the most; nothing was stored"
        )
    return escaped


def within_rows(number: int) -> int:
    """`number` as a count of rows or a sequence number: from 0, and not beyond what any table holds."""
    return min(max(number, 0), LARGEST_NUMBER)


def check_figures(usage: Usage | None, api_calls: int) -> None:
    """Raises `ConfigurationError` for usage that no column holds."""
    figures = {"api_calls": api_calls} | (asdict(usage) if usage is not None else {})
    for name, figure in figures.items():
        whole = isinstance(figure, int) and abs(figure) <= LARGEST_NUMBER
        cost = name == "cost_usd" and isinstance(figure, float) and math.isfinite(figure)
        if figure is not None and not whole and not cost:
            raise ConfigurationError(f"{name}={figure!r} is no figure that can be stored; nothing was stored")


def optional_escape(text: str | None) -> str | None:
    """`escape`, with None left alone."""
    return None if text is None else escape(text)


def _optional_unescape(text: str | None) -> str | None:
    return None if text is None else unescape(text)


def _exact_body(message: Message) -> str | None:
    """The message's own encoding, or None when it would not read back as the same message."""
    try:
        body = encode_message(message).decode()
        return body if decode_message(body) == message else None
    except (MessageFormatError, UnicodeDecodeError):
        return None


def _quote(raw: Raw) -> Raw:
    return Raw(msgspec.json.encode(escape(bytes(raw).decode("utf-8", "surrogateescape"))))


def _unquote(raw: Raw) -> Raw:
    return Raw(unescape(msgspec.json.decode(raw, type=str)).encode("utf-8", "surrogateescape"))


def _as_it_is(raw: Raw) -> Raw:
    return raw


def _map_values(value: T, text_rule: Callable[[str], str], raw_rule: Callable[[Raw], Raw]) -> T:
    """`value` with the rules applied to every string and all raw data of its structs and tuples."""

    def mapped(item: object) -> object:
        if isinstance(item, str):
            return text_rule(item)
        if isinstance(item, Raw):
            return raw_rule(item)
        if isinstance(item, tuple):
            return tuple(mapped(part) for part in item)
        if isinstance(item, Struct):
            changed = {field.name: mapped(item.__getattribute__(field.name)) for field in fields(item)}
            return replace(item, **changed)
        return item

    return cast("T", mapped(value))
