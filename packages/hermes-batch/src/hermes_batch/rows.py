"""One line of a dataset, read into a row or into the reason why it is none. Pure: bytes in, values out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from hermes_batch.line_splitting import LongLine
from hermes_messages import HermesError, SystemMessage, UserMessage, content_text, validate
from hermes_messages.openai_shape import messages_from_dicts, to_dicts

if TYPE_CHECKING:
    from hermes_messages.argument_text import JsonObject
else:  # a row is read back from bytes by its types, and msgspec can not read a type that names itself
    JsonObject = dict[str, object]

__all__ = ["BadRow", "PromptRow", "Row", "read_row"]


class PromptRow(Struct, frozen=True, kw_only=True):
    """A conversation to run. `index` counts the dataset's rows from 0, `line` its lines from 1.

    `turns` are what the user says, one after the other, each after the answer to the one before; `history` is
    what was said before the first of them, in OpenAI shape. `content_hash` identifies what the row asks for,
    whatever its place in the file. `cwd` is a directory that exists, to work in; `image` the container image
    for commands. `metadata` holds the row's own and all keys that mean nothing here.
    """

    index: int
    line: int
    content_hash: str
    turns: tuple[str | UserMessage, ...]
    history: tuple[JsonObject, ...] = ()
    id: str = ""
    """The row's own, "" where it has none."""
    cwd: str | None = None
    system: str | None = None
    """The system message; None: the one that the agents have by themselves."""
    toolsets: tuple[str, ...] | None = None
    """None: those of the run."""
    max_iterations: int | None = None
    """None: that of the run."""
    metadata: Mapping[str, object] = {}
    image: str | None = None


class BadRow(Struct, frozen=True, kw_only=True):
    """A line that is no row, for a `reason` in words. It ends as an error record.

    It takes an `index` like any other row; `line` counts from 1, `content_hash` is that of its bytes.
    """

    index: int
    line: int
    content_hash: str
    reason: str


Row = PromptRow | BadRow


class _NoRowError(Exception):
    """Why a line is no row."""


class _Asked(Struct, frozen=True):
    """What the `prompt` of a row says."""

    turns: tuple[str | UserMessage, ...]
    history: tuple[JsonObject, ...] = ()
    system: str | None = None


class _Fields(Struct, frozen=True):
    """The keys that are read from a row; all others are carried along in `metadata`."""

    prompt: str | list[object]
    id: str | int | None = None
    cwd: str | None = None
    system: str | None = None
    toolsets: tuple[str, ...] | None = None
    max_iterations: int | None = None
    metadata: dict[str, object] | None = None
    image: str | None = None


_HASH_DIGITS = 32
_KNOWN = frozenset(_Fields.__struct_fields__)
_NUMBERS = frozenset({"id", "max_iterations"})

_canonical = msgspec.json.Encoder(order="deterministic")


def _hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_HASH_DIGITS]


def read_row(line: bytes | LongLine, *, index: int, line_number: int) -> Row:
    """Read one line without its line end. A line that is no row becomes a `BadRow`, never an exception."""
    if isinstance(line, LongLine):
        reason = f"{line.length:,} bytes are too long for a row"
        return BadRow(index=index, line=line_number, content_hash=line.digest[:_HASH_DIGITS], reason=reason)
    try:
        content = _object(line)
        fields = _fields(content)
        asked = _asked(fields.prompt, fields.system)
    except _NoRowError as error:
        return BadRow(index=index, line=line_number, content_hash=_hash_of(line), reason=str(error))
    others = {key: value for key, value in content.items() if key not in _KNOWN}
    return PromptRow(
        index=index,
        line=line_number,
        content_hash=_hash_of(_canonical.encode(content)),
        turns=asked.turns,
        history=asked.history,
        id="" if fields.id is None else str(fields.id),
        cwd=fields.cwd,
        system=asked.system,
        toolsets=fields.toolsets,
        max_iterations=fields.max_iterations,
        metadata=others | (fields.metadata or {}),
        image=fields.image,
    )


def _object(line: bytes) -> dict[str, object]:
    content = _decoded(line)
    if not isinstance(content, dict):
        raise _NoRowError('not a JSON object; a row looks like {"prompt": "..."}')
    return content


def _decoded(line: bytes) -> object:
    """What a line says. Writers of Python's put NaN or Infinity, which is no JSON, where a number is missing:
    that is null, as it is in the rows of an iterable and of Parquet."""
    try:
        try:
            decoded: object = msgspec.json.decode(line)
        except ValueError:
            if b"NaN" not in line and b"Infinity" not in line:
                raise
            loaded = json.loads(line.decode(), parse_constant=lambda _: None)
            decoded = msgspec.json.decode(json.dumps(loaded, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise _NoRowError(f"invalid JSON: {error}") from error
    return decoded


def _fields(content: dict[str, object]) -> _Fields:
    if "prompt" not in content:
        raise _NoRowError('no "prompt" key')
    try:
        # In the order of the line, by which the first mistake is told, in whatever process that is.
        fields = msgspec.convert({key: _counted(content, key) for key in content if key in _KNOWN}, _Fields)
    except msgspec.ValidationError as error:
        raise _NoRowError(str(error)) from error
    if fields.max_iterations is not None and fields.max_iterations < 1:
        raise _NoRowError('"max_iterations" is less than 1')
    if fields.image is not None and not fields.image.strip():
        raise _NoRowError('"image" is empty')
    return fields


def _counted(content: Mapping[str, object], key: str) -> object:
    """The value of `key`. Tables have whole numbers as floats where one of a column is missing."""
    value = content[key]
    if key in _NUMBERS and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _asked(prompt: str | list[object], system: str | None) -> _Asked:
    """A text is one turn, a list of texts several, a list of messages a conversation that goes on."""
    if isinstance(prompt, str):
        if not prompt.strip():
            raise _NoRowError('"prompt" is empty')
        return _Asked((prompt,), system=system)
    texts = [item for item in prompt if isinstance(item, str)]
    messages = [item for item in prompt if isinstance(item, dict)]
    if prompt and len(messages) == len(prompt):
        return _conversation(messages, system)
    if len(texts) != len(prompt):
        raise _NoRowError('"prompt" is neither a text, a list of texts nor a list of messages')
    if not texts or not all(text.strip() for text in texts):
        raise _NoRowError('"prompt" is empty')
    return _Asked(tuple(texts), system=system)


def _conversation(dicts: Sequence[JsonObject], system: str | None) -> _Asked:
    try:
        messages = messages_from_dicts(dicts)
    except HermesError as error:
        raise _NoRowError(f'"prompt": {error}') from error
    if broken := validate(messages):
        raise _NoRowError(f'"prompt": {broken[0]}')
    if isinstance(messages[0], SystemMessage):
        if system is not None:
            raise _NoRowError('a system message in "prompt" and a "system" key; give one of them')
        system = content_text(messages[0].content)
        messages = messages[1:]
    last = messages[-1] if messages else None
    if not isinstance(last, UserMessage):
        raise _NoRowError('"prompt" is a list of messages whose last is not a user message')
    said = last.content if isinstance(last.content, str) else last
    if isinstance(said, str) and not said.strip():
        raise _NoRowError('"prompt" ends with an empty user message')
    return _Asked((said,), tuple(to_dicts(messages[:-1])), system)
