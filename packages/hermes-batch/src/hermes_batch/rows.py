"""One line of a dataset, read into a row or into the reason why it is none. Pure: bytes in, values out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

__all__ = ["BadRow", "PromptRow", "Row", "read_row"]


class PromptRow(Struct, frozen=True, kw_only=True):
    """A prompt to run. `index` counts the dataset's rows from 0, `line` its lines from 1.

    `content_hash` identifies what the row asks for, whatever its place in the file.
    """

    index: int
    line: int
    content_hash: str
    prompt: str
    id: str = ""
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


class _Fields(Struct, frozen=True, forbid_unknown_fields=False):
    """The keys that are read from a row; all others are carried along in `metadata`."""

    prompt: str
    id: str | int | None = None
    system: str | None = None
    toolsets: tuple[str, ...] | None = None
    max_iterations: int | None = None
    metadata: dict[str, object] | None = None


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_decode_fields = msgspec.json.Decoder(_Fields)
_canonical = msgspec.json.Encoder(order="deterministic")


def _hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def read_row(line: bytes, *, index: int, line_number: int) -> Row:
    """Read one line without its line end. A line that is no row becomes a `BadRow`, never an exception."""

    def bad(reason: str) -> BadRow:
        return BadRow(index=index, line=line_number, content_hash=_hash_of(line), reason=reason)

    try:
        keys = _decode_object.decode(line)
    except msgspec.ValidationError:
        return bad('not a JSON object; a row looks like {"prompt": "..."}')
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return bad(f"invalid JSON: {error}")
    if "prompt" not in keys:
        return bad('no "prompt" key')
    try:
        fields = _decode_fields.decode(line)
        content = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return bad(str(error) if isinstance(error, msgspec.ValidationError) else f"invalid JSON: {error}")
    if not fields.prompt.strip():
        return bad('"prompt" is empty')
    if fields.max_iterations is not None and fields.max_iterations < 1:
        return bad('"max_iterations" is less than 1')
    return PromptRow(
        index=index,
        line=line_number,
        content_hash=_hash_of(_canonical.encode(content)),
        prompt=fields.prompt,
        id="" if fields.id is None else str(fields.id),
        system=fields.system,
        toolsets=fields.toolsets,
        max_iterations=fields.max_iterations,
        metadata=fields.metadata or {},
    )
