"""Sessions as lines of JSON: the form in which they move between files, back ends and versions.

The first line names the format. Then each session is a line of type `session`, which says how many lines of
the others follow, and these. Texts stand as in the database, after the escape rule, so a message arrives
byte for byte. Numbers of messages (`seq`, `round`, `copy_of`) only relate lines to each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from hermes_messages import StoreError

__all__ = ["CallLine", "MessageLine", "Reader", "SessionDump", "SessionLine", "StateLine", "dump_lines"]

FORMAT = "hermes-sessions"
VERSION = 1


class HeaderLine(Struct, frozen=True, tag_field="type", tag="header"):
    """The first line."""

    format: str
    version: int


class SessionLine(Struct, frozen=True, kw_only=True, tag_field="type", tag="session"):
    """A session, and how many lines belong to it."""

    id: str
    source: str
    title: str | None
    model: str | None
    provider: str | None
    cwd: str | None
    parent_id: str | None
    lineage: str | None
    system_prompt: str | None
    metadata: str
    created_at: float
    updated_at: float
    ended_at: float | None
    end_reason: str | None
    archived_at: float | None
    api_calls: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    lines: int = 0


class MessageLine(Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """A message, or with `body` null a place kept for a result; `pending` is that of its suspended round."""

    seq: int
    uid: str
    role: str
    round: int | None = None
    position: int | None = None
    shape: int
    text: str
    body: str | None
    created_at: float
    archived_at: float | None = None
    copy_of: int | None = None
    pending: str | None = None


class CallLine(Struct, frozen=True, kw_only=True, tag_field="type", tag="call"):
    """A report of usage."""

    uid: str | None
    model: str | None
    provider: str | None
    api_calls: int
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    created_at: float


class StateLine(Struct, frozen=True, kw_only=True, tag_field="type", tag="state"):
    """A named value of a session."""

    name: str
    value: str
    updated_at: float


Line = HeaderLine | SessionLine | MessageLine | CallLine | StateLine


class SessionDump(Struct, frozen=True):
    """Everything about one session."""

    session: SessionLine
    messages: tuple[MessageLine, ...]
    calls: tuple[CallLine, ...] = ()
    state: tuple[StateLine, ...] = ()


HEADER = msgspec.json.encode(HeaderLine(FORMAT, VERSION)) + b"\n"
_decoder = msgspec.json.Decoder(Line)


def dump_lines(dump: SessionDump) -> bytes:
    """The lines of a session."""
    rest = [*dump.messages, *dump.calls, *dump.state]
    first = msgspec.structs.replace(dump.session, lines=len(rest))
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (first, *rest))


class Reader:
    """Takes lines in order and gives each session when its last line came."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self._session: SessionLine | None = None
        self._lines: list[Line] = []

    def feed(self, line: bytes) -> Iterator[SessionDump]:
        """The session that `line` completes, if it does. Raises `StoreError` for what is no such line."""
        self._number += 1
        try:
            decoded = _decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise self._error(str(error)) from None
        match decoded:
            case HeaderLine(format=format_, version=version):
                if (format_, version) != (FORMAT, VERSION):
                    raise self._error(f"format {format_!r} of version {version} is not known here")
            case SessionLine():
                if self._number == 1 or self._session is not None:
                    raise self._error("a session begins where none may")
                self._session, self._lines = decoded, []
            case _:
                if self._session is None:
                    raise self._error("it belongs to no session")
                self._lines.append(decoded)
        if self._session is not None and len(self._lines) == self._session.lines:
            session, self._session = self._session, None
            yield SessionDump(
                session,
                tuple(line for line in self._lines if isinstance(line, MessageLine)),
                tuple(line for line in self._lines if isinstance(line, CallLine)),
                tuple(line for line in self._lines if isinstance(line, StateLine)),
            )

    def finish(self) -> None:
        """Raises `StoreError` when the file ends too early."""
        if self._number == 0:
            raise StoreError(f"{self._name} is empty: no sessions were imported")
        if self._session is not None:
            raise StoreError(
                f"{self._name} ends inside session {self._session.id!r}, which was not imported; "
                "those before it were"
            )

    def _error(self, what: str) -> StoreError:
        return StoreError(
            f"{self._name}, line {self._number}: {what}. Sessions before this line were imported, "
            "the rest was not"
        )
