"""One line of a dataset, read into a row or into the reason why it is none. Pure: bytes in, values out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

__all__ = ["BadRow", "PromptRow", "Row", "read_row"]


class PromptRow(Struct, frozen=True, kw_only=True):
    """A prompt to run. `index` counts the dataset's rows from 0, `line` its lines from 1.

    `content_hash` identifies what the row asks for, whatever its place in the file. `cwd` is a directory that
    exists, to work in. `metadata` holds the row's own and all keys that mean nothing here.
    """

    index: int
    line: int
    content_hash: str
    prompt: str
    id: str = ""
    cwd: str | None = None
    system: str | None = None
    toolsets: tuple[str, ...] | None = None
    max_iterations: int | None = None
    metadata: Mapping[str, object] = {}


class BadRow(Struct, frozen=True, kw_only=True):
    """A line that is no row, and why. It takes an index like any other row and ends as an error record."""

    index: int
    line: int
    content_hash: str
    reason: str


Row = PromptRow | BadRow


class _Fields(Struct, frozen=True):
    """The keys that are read from a row; all others are carried along in `metadata`."""

    prompt: str
    id: str | int | None = None
    cwd: str | None = None
    system: str | None = None
    toolsets: tuple[str, ...] | None = None
    max_iterations: int | None = None
    metadata: dict[str, object] | None = None


_KNOWN = frozenset(_Fields.__struct_fields__)
_NOT_YET = {"image": "a container for each row"}

_canonical = msgspec.json.Encoder(order="deterministic")


def _hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def read_row(line: bytes, *, index: int, line_number: int) -> Row:
    """Read one line without its line end. A line that is no row becomes a `BadRow`, never an exception."""

    def bad(reason: str) -> BadRow:
        return BadRow(index=index, line=line_number, content_hash=_hash_of(line), reason=reason)

    try:
        content: object = msgspec.json.decode(line)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        return bad(f"invalid JSON: {error}")
    if not isinstance(content, dict):
        return bad('not a JSON object; a row looks like {"prompt": "..."}')
    if "prompt" not in content:
        return bad('no "prompt" key')
    try:
        fields = msgspec.convert(content, _Fields)
    except msgspec.ValidationError as error:
        return bad(str(error))
    if not fields.prompt.strip():
        return bad('"prompt" is empty')
    if fields.max_iterations is not None and fields.max_iterations < 1:
        return bad('"max_iterations" is less than 1')
    for key, meaning in _NOT_YET.items():
        if content.get(key) is not None:
            return bad(f'"{key}" ({meaning}) is not supported yet')
    others = {key: value for key, value in content.items() if key not in _KNOWN}
    return PromptRow(
        index=index,
        line=line_number,
        content_hash=_hash_of(_canonical.encode(content)),
        prompt=fields.prompt,
        id="" if fields.id is None else str(fields.id),
        cwd=fields.cwd,
        system=fields.system,
        toolsets=fields.toolsets,
        max_iterations=fields.max_iterations,
        metadata=others | (fields.metadata or {}),
    )
