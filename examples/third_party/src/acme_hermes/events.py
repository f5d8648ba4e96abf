"""What happens to sessions, as values, and the state that follows from them. No file is touched here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hermes_messages import (
    AssistantMessage,
    JsonObject,
    Message,
    SessionNotFoundError,
    StoreError,
    ToolMessage,
    Usage,
    add_usage,
)
from hermes_messages.protocols import NewMessage, SessionInfo, SessionRecord, StoredMessage, ToolRound

__all__ = ["Appended", "Counted", "Ended", "Event", "Made", "MetaSet", "ResultSet", "RoundBegun", "Sessions"]


class Made(Struct, frozen=True, tag=True):
    """A session begins. `info` is its `SessionInfo` as an object: msgspec can not read that type back."""

    id: str
    info: dict[str, Any]
    at: float


class Appended(Struct, frozen=True, tag=True):
    """Messages at the end of a session; those that are known are not among them."""

    id: str
    messages: tuple[NewMessage, ...]
    at: float


class RoundBegun(Struct, frozen=True, tag=True):
    """A message with calls, and a place for the result of each."""

    id: str
    uid: str
    message: AssistantMessage
    at: float


class ResultSet(Struct, frozen=True, tag=True):
    """A result takes its place."""

    id: str
    seq: int
    message: ToolMessage
    at: float


class MetaSet(Struct, frozen=True, tag=True):
    """What is given is set; keys of `metadata` are merged."""

    id: str
    system_prompt: str | None
    metadata: dict[str, Any]
    at: float


class Counted(Struct, frozen=True, tag=True):
    """Usage is added to the totals."""

    id: str
    usage: Usage | None
    api_calls: int


class Ended(Struct, frozen=True, tag=True):
    """The session ends."""

    id: str
    reason: str
    at: float


Event = Made | Appended | RoundBegun | ResultSet | MetaSet | Counted | Ended


class Session:
    """One session: places in order, each with its message or still empty."""

    def __init__(self, made: Made) -> None:
        self.id, self.info, self.created_at = made.id, SessionInfo(**made.info), made.at
        self.updated_at = made.at
        self.system_prompt = self.info.system_prompt
        self.metadata: JsonObject = dict(self.info.metadata)
        self.places: list[StoredMessage | None] = []
        self.seqs: dict[str, int] = {}
        self.rounds: dict[str, ToolRound] = {}
        self.usage: Usage | None = None
        self.api_calls = 0
        self.ended: Ended | None = None

    def add(self, uid: str, message: Message, at: float) -> int:
        """Store a message at the end; its sequence number, which begins at 1."""
        self.places.append(None)
        self.seqs[uid] = len(self.places)
        self.put(len(self.places), uid, message, at)
        return len(self.places)

    def put(self, seq: int, uid: str, message: Message, at: float) -> None:
        """Fill a place."""
        self.places[seq - 1] = StoredMessage(seq=seq, uid=uid, message=message, created_at=at)
        self.updated_at = at

    def stored(self) -> list[StoredMessage]:
        """The messages that are there, in order."""
        return [place for place in self.places if place is not None]

    def record(self) -> SessionRecord:
        """The session as the Protocol shows it."""
        return SessionRecord(
            id=self.id,
            source=self.info.source,
            title=self.info.title,
            model=self.info.model,
            provider=self.info.provider,
            cwd=self.info.cwd,
            parent_session_id=self.info.parent_session_id,
            system_prompt=self.system_prompt,
            metadata=dict(self.metadata),
            created_at=self.created_at,
            updated_at=self.updated_at,
            ended_at=self.ended.at if self.ended else None,
            end_reason=self.ended.reason if self.ended else None,
            message_count=len(self.stored()),
            api_calls=self.api_calls,
            usage=self.usage or Usage(),
        )


class Sessions:
    """All sessions. A method that starts with `plan` checks, and says which event is to be written."""

    def __init__(self) -> None:
        self._all: dict[str, Session] = {}

    def find(self, session_id: str) -> Session | None:
        """The session, or None."""
        return self._all.get(session_id)

    def get(self, session_id: str) -> Session:
        """The session. Raises `SessionNotFoundError`."""
        if session_id not in self._all:
            raise SessionNotFoundError(session_id)
        return self._all[session_id]

    def plan_append(self, session_id: str, messages: Sequence[NewMessage], at: float) -> Appended | None:
        """Those of `messages` that are not known yet."""
        known = self.get(session_id).seqs
        fresh = {new.uid: new for new in messages if new.uid not in known}
        return Appended(session_id, tuple(fresh.values()), at) if fresh else None

    def plan_round(
        self, session_id: str, uid: str, message: AssistantMessage, at: float
    ) -> RoundBegun | None:
        """A round, unless it is known."""
        known = uid in self.get(session_id).seqs
        return None if known else RoundBegun(session_id, uid, message, at)

    def plan_result(
        self, round_: ToolRound, position: int, message: ToolMessage, at: float
    ) -> ResultSet | None:
        """A result, unless its place is taken. Raises `StoreError` for a place that is not in the round."""
        session = self.get(round_.session_id)
        if not 0 <= position < len(round_.result_seqs):
            raise StoreError(f"the round has {len(round_.result_seqs)} calls, none at {position}")
        seq = round_.result_seqs[position]
        taken = session.places[seq - 1] is not None
        return None if taken else ResultSet(round_.session_id, seq, message, at)

    def round_of(self, session_id: str, uid: str) -> ToolRound:
        """The round that began with the message `uid`. Raises `StoreError` when that was no round."""
        found = self.get(session_id).rounds.get(uid)
        if found is None:
            raise StoreError(f"{uid} is the message of no round")
        return found

    def apply(self, event: Event) -> None:
        """The state after `event`, which was checked before it was written."""
        if isinstance(event, Made):
            self._all[event.id] = Session(event)
            return
        session = self.get(event.id)
        match event:
            case Appended(messages=messages, at=at):
                for new in messages:
                    session.add(new.uid, new.message, at)
            case RoundBegun(uid=uid, message=message, at=at):
                first = session.add(uid, message, at)
                session.places += [None] * len(message.tool_calls)
                seqs = tuple(range(first + 1, len(session.places) + 1))
                session.rounds[uid] = ToolRound(event.id, first, seqs)
            case ResultSet(seq=seq, message=result, at=at):
                session.put(seq, f"result-{seq}", result, at)
            case MetaSet(system_prompt=prompt, metadata=metadata, at=at):
                session.system_prompt = session.system_prompt if prompt is None else prompt
                session.metadata.update(metadata)
                session.updated_at = at
            case Counted(usage=usage, api_calls=calls):
                session.usage = add_usage(session.usage, usage)
                session.api_calls += calls
            case Ended():
                session.ended = event


def encode(event: Event) -> bytes:
    """One line. Raises `StoreError` for text that no JSON file can hold."""
    try:
        return msgspec.json.encode(event) + b"\n"
    except (UnicodeError, TypeError) as error:
        raise StoreError(f"this can not be stored: {error}; nothing was written") from error


_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def decode_lines(data: bytes) -> tuple[list[Event], int]:
    """The events of a file, and how many of its bytes are whole: a death inside a write leaves half a line.

    Raises `StoreError` for a whole line that can not be read: that is damage, not an unfinished write.
    """
    events: list[Event] = []
    whole = 0
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            events.append(_decoder.decode(line))
        except msgspec.DecodeError as error:
            raise StoreError(f"the file is damaged at byte {whole}: {error}") from error
        whole += len(line)
    return events, whole
