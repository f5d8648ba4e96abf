"""What a store in memory keeps of one session."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from hermes_messages.argument_text import JsonObject, JsonValue
from hermes_messages.messages import Message
from hermes_messages.parts import content_text
from hermes_messages.protocols.store import (
    MessageHit,
    NewMessage,
    SessionInfo,
    SessionRecord,
    StoredMessage,
    SuspendedRound,
    ToolRound,
)
from hermes_messages.usage import Usage

__all__ = ["MemorySession", "Place", "copied", "words_of"]


class Place:
    """A place in the order of a session: a message, or one kept for a result."""

    __slots__ = ("archived", "created_at", "message", "seq", "uid")

    def __init__(self, seq: int, uid: str) -> None:
        self.seq: int = seq
        self.uid: str = uid
        self.message: Message | None = None
        self.created_at: float = 0.0
        self.archived: bool = False


class MemorySession:
    """A session: its places in order, its rounds, and what is kept beside them."""

    def __init__(self, session_id: str, info: SessionInfo, now: float) -> None:
        self.id = session_id
        self.info = info
        self.system_prompt: str | None = info.system_prompt
        self.metadata: JsonObject = copied(info.metadata)
        self.created_at: float = now
        self.updated_at: float = now
        self.ended_at: float | None = None
        self.end_reason: str | None = None
        self.places: list[Place] = []
        self.by_uid: dict[str, Place] = {}
        self.rounds: dict[str, ToolRound] = {}
        self.api_calls = 0
        self.usage: Usage = Usage()
        self.lineage = session_id
        self.state: dict[str, JsonValue] = {}
        self.suspended: dict[int, SuspendedRound] = {}

    def stored(self) -> list[StoredMessage]:
        """The conversation as it is now."""
        return [
            StoredMessage(seq=place.seq, uid=place.uid, message=place.message, created_at=place.created_at)
            for place in self.places
            if place.message is not None and not place.archived
        ]

    def is_open(self, round_: ToolRound) -> bool:
        """Whether a result of the round is missing."""
        return any(self.places[seq - 1].message is None for seq in round_.result_seqs)

    def holds(self, messages: Sequence[NewMessage]) -> bool:
        """Whether the conversation is exactly `messages`."""
        return [(item.uid, item.message) for item in self.stored()] == [
            (new.uid, new.message) for new in messages
        ]

    def replace(self, messages: Sequence[NewMessage], now: float) -> None:
        """Archive the conversation and put `messages` in its place."""
        for place in self.places:
            place.archived = True
        for new in messages:
            self.put(self.add_place(new.uid), new.message, now)

    def add_place(self, uid: str) -> Place:
        """A new place at the end, known by `uid` from now on."""
        place = Place(len(self.places) + 1, uid)
        self.places.append(place)
        self.by_uid[uid] = place
        return place

    def put(self, place: Place, message: Message, now: float) -> None:
        """Store `message` at `place`."""
        place.message = message
        place.created_at = self.updated_at = now

    def record(self) -> SessionRecord:
        """What the Protocol tells of a session."""
        return SessionRecord(
            id=self.id,
            source=self.info.source,
            title=self.info.title,
            model=self.info.model,
            provider=self.info.provider,
            cwd=self.info.cwd,
            parent_session_id=self.info.parent_session_id,
            system_prompt=self.system_prompt,
            metadata=copied(self.metadata),
            created_at=self.created_at,
            updated_at=self.updated_at,
            ended_at=self.ended_at,
            end_reason=self.end_reason,
            message_count=len(self.stored()),
            api_calls=self.api_calls,
            usage=self.usage,
        )

    def search(self, words: Sequence[str], role: str | None) -> list[tuple[int, MessageHit]]:
        """How often the words come, and where, for each message that contains them all."""
        hits = []
        for place in self.places:
            if place.message is None:
                continue
            message_role = str(place.message.__struct_config__.tag)
            text = content_text(place.message.content)
            lowered = text.lower()
            if (role is None or role == message_role) and all(word in lowered for word in words):
                begin = lowered.index(words[0])
                end = begin + len(words[0])
                snippet = f"{text[max(0, begin - 40) : begin]}>>>{text[begin:end]}<<<{text[end : end + 40]}"
                hit = MessageHit(session_id=self.id, seq=place.seq, role=message_role, snippet=snippet)
                hits.append((sum(lowered.count(word) for word in words), hit))
        return hits


def words_of(query: str) -> list[str]:
    """The words of a query, in small letters."""
    return re.findall(r"\w+", query.lower())


def copied(metadata: Mapping[str, JsonValue]) -> JsonObject:
    """A copy that shares nothing, as a store makes one. Raises `TypeError` for what is no JSON."""
    copy: JsonObject = json.loads(json.dumps(metadata))  # msgspec refuses a lone surrogate, stores keep it
    return copy
