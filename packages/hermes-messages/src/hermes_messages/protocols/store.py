"""The joint between the loop and a session store.

Writes may carry a `LeaseToken`. While a lease on a session is held, a transcript write without its token,
or under an older one, raises `LeaseLostError` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hermes_messages.argument_text import JsonValue
from hermes_messages.messages import AssistantMessage, Message, ToolMessage
from hermes_messages.usage import Usage

__all__ = [
    "LeaseToken",
    "MessageHit",
    "NewMessage",
    "SessionInfo",
    "SessionRecord",
    "SessionStore",
    "StoreFactory",
    "StoredMessage",
    "SupportsCompression",
    "SupportsLeaseQueue",
    "SupportsLeases",
    "SupportsSearch",
    "SupportsSessionState",
    "SupportsSuspension",
    "SuspendedRound",
    "ToolRound",
]


class LeaseToken(Struct, frozen=True):
    """The right to write a session's transcript. `number` grows with every holder."""

    session_id: str
    """The session whose turns it lets write."""
    holder: str
    """Who has it, for people and logs."""
    number: int
    expires_at: float
    """Seconds since the epoch, by the store's clock; unless refreshed, another may take it then."""


class SessionInfo(Struct, frozen=True, kw_only=True):
    """What a new session starts with. `source` says what made it (`library`, `batch`, ...)."""

    source: str = "library"
    title: str | None = None
    """A name for people."""
    model: str | None = None
    """The model that the session is held with."""
    provider: str | None = None
    """The host of that model."""
    cwd: str | None = None
    """The directory that the session works in."""
    parent_session_id: str | None = None
    """The session that this one continues or was started by."""
    system_prompt: str | None = None
    """The system message that it begins with."""
    metadata: Mapping[str, JsonValue] = {}
    """Any JSON of yours; it is stored as it is."""


class SessionRecord(Struct, frozen=True, kw_only=True):
    """A session as stored. Times are seconds since the epoch."""

    id: str
    """Names the session in every call."""
    source: str
    """What made it."""
    title: str | None
    """A name for people."""
    model: str | None
    """The model that the session is held with."""
    provider: str | None
    """The host of that model."""
    cwd: str | None
    """The directory that the session works in."""
    parent_session_id: str | None
    """The session that this one continues or was started by."""
    system_prompt: str | None
    """The system message that it begins with."""
    metadata: Mapping[str, JsonValue]
    """What `SessionInfo.metadata` was, with later changes."""
    created_at: float
    """When the session was made."""
    updated_at: float
    """When a message or a value of the session was last written."""
    ended_at: float | None
    """When the session was closed, if it was."""
    end_reason: str | None
    """The word that it was closed with."""
    message_count: int
    """Messages in the transcript."""
    api_calls: int
    """Requests to models, all turns together."""
    usage: Usage
    """Tokens of all turns together."""


class NewMessage(Struct, frozen=True):
    """A message to store. `uid` is its identity in its session: a second append of it adds nothing."""

    uid: str
    message: Message
    """Stored as it is; of calls with results to come `begin_tool_round` is the way."""


class StoredMessage(Struct, frozen=True, kw_only=True):
    """A message as stored; `seq` orders the session's messages and may have gaps."""

    seq: int
    uid: str
    """Its identity in its session, as it was appended with."""
    message: Message
    """What was appended."""
    created_at: float
    """When it was stored."""


class ToolRound(Struct, frozen=True):
    """An assistant message with calls that is durable, and the places kept for its results, in call order."""

    session_id: str
    """Where it stands."""
    assistant_seq: int
    """The `seq` of the message with the calls."""
    result_seqs: tuple[int, ...]
    """One for each call, also while its result is owed."""


class SessionStore(Protocol):
    """Durable sessions. What a call acknowledged survives the death of the process.

    Every method may raise `StoreError`; those that take the id of a session, save `ensure_session` and
    `get_session`, raise `SessionNotFoundError` for one that is not there. What is given and returned is the
    caller's own: changing it later changes nothing that is stored. A cancelled call has either happened
    whole or not at all, and the next call on the store works.
    """

    async def ensure_session(self, session_id: str, info: SessionInfo) -> SessionRecord:
        """The session, made from `info` when it does not exist yet."""
        ...

    async def get_session(self, session_id: str) -> SessionRecord | None:
        """The session, or None."""
        ...

    async def get_messages(self, session_id: str) -> list[StoredMessage]:
        """All its messages in order. Places whose result never came are left out."""
        ...

    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        """Store messages in order, in one transaction; their sequence numbers. A known uid adds nothing.

        Raises `SessionNotFoundError`, `LeaseLostError`.
        """
        ...

    async def begin_tool_round(
        self, session_id: str, uid: str, message: AssistantMessage, *, lease: LeaseToken | None = None
    ) -> ToolRound:
        """Store an assistant message and keep one place for the result of each of its calls, in one
        transaction. A known uid returns the round made before."""
        ...

    async def set_tool_result(
        self, round_: ToolRound, position: int, message: ToolMessage, *, lease: LeaseToken | None = None
    ) -> None:
        """Store the result of the call at `position`. A second result for one place changes nothing."""
        ...

    async def update_session_meta(
        self,
        session_id: str,
        *,
        system_prompt: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Set what is given; `metadata` keys are merged into those stored. Not fenced by leases."""
        ...

    async def update_token_counts(self, session_id: str, usage: Usage | None, *, api_calls: int) -> None:
        """Add to the session's totals."""
        ...

    async def end_session(self, session_id: str, reason: str) -> None:
        """Mark the session as ended."""
        ...

    async def close(self) -> None:
        """Close the store. Idempotent."""
        ...


@runtime_checkable
class SupportsLeases(Protocol):
    """A store in which turns of one session in several processes exclude each other."""

    async def try_acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float
    ) -> LeaseToken | None:
        """The lease, or None while someone else holds it. Never waits. The session need not exist yet."""
        ...

    async def refresh_session_turn_lease(self, lease: LeaseToken, ttl_s: float) -> LeaseToken:
        """Hold on for another `ttl_s` seconds. Raises `LeaseLostError` when it is someone else's by now."""
        ...

    async def release_session_turn_lease(self, lease: LeaseToken) -> None:
        """Give it back. A lease that was lost before is left alone."""
        ...


@runtime_checkable
class SupportsLeaseQueue(Protocol):
    """A store in which turns wait for the lease in the order of their arrival. Several objects of it, as in
    several processes, may have it in turns instead, if each comes to its turn."""

    async def acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float, *, wait_s: float | None = None
    ) -> LeaseToken:
        """The lease, after those who asked this object before. A cancelled wait leaves nothing held and no
        place taken.

        Raises `StoreBusyError` when it did not come within `wait_s` seconds.
        """
        ...


class SuspendedRound(Struct, frozen=True):
    """A round of tool calls that waits for a decision. `pending` is what was given to `suspend_round`."""

    round: ToolRound
    """As `begin_tool_round` gave it."""
    pending: JsonValue


@runtime_checkable
class SupportsSuspension(Protocol):
    """A store that marks rounds which wait for a person, so that nobody closes them meanwhile."""

    async def suspend_round(
        self, round_: ToolRound, pending: JsonValue, *, lease: LeaseToken | None = None
    ) -> None:
        """Mark an open round and keep `pending` (JSON) with it, in place of what was kept before. The last
        result takes the mark away. Raises `StoreError` for a round whose results are all there."""
        ...

    async def resume_round(self, round_: ToolRound, *, lease: LeaseToken | None = None) -> None:
        """Take the mark away; the round is an open one like others then."""
        ...

    async def suspended_rounds(self, session_id: str) -> list[SuspendedRound]:
        """The marked rounds, oldest first. Raises `SessionNotFoundError`."""
        ...


@runtime_checkable
class SupportsSessionState(Protocol):
    """A store that keeps small named values (`todos`, ...) for a session. Not fenced by leases."""

    async def get_session_state(self, session_id: str, name: str) -> JsonValue:
        """The value, or None. Raises `SessionNotFoundError`."""
        ...

    async def set_session_state(self, session_id: str, name: str, value: JsonValue) -> None:
        """Keep a JSON value; None removes it. Raises `SessionNotFoundError`."""
        ...


@runtime_checkable
class SupportsCompression(Protocol):
    """A store in which a shorter conversation takes the place of a long one, whose history is kept."""

    async def archive_and_compact(
        self,
        session_id: str,
        messages: Sequence[NewMessage],
        *,
        child_session_id: str | None = None,
        lease: LeaseToken | None = None,
    ) -> str:
        """Put `messages` in the place of the session's, in one transaction; the id of the one that goes on.

        Without `child_session_id` the old messages are archived and the session goes on; with it the session
        ends and a child of the same lineage, and lease, begins. A message whose uid is known is carried over.
        A repeated call changes nothing. Raises `StoreError` inside a tool round and for a second child,
        `SessionNotFoundError`, `LeaseLostError`.
        """
        ...

    async def resolve_resume_session_id(self, session_id: str) -> str:
        """The newest session of the lineage; an unknown id is its own."""
        ...


class MessageHit(Struct, frozen=True, kw_only=True):
    """A message that a search found. `snippet` shows the place, matches between `>>>` and `<<<`."""

    session_id: str
    """Where it stands."""
    seq: int
    """Its place there, as in `StoredMessage.seq`."""
    role: str
    """Who speaks there: `user`, `assistant`, `tool` or `system`."""
    snippet: str


@runtime_checkable
class SupportsSearch(Protocol):
    """A store whose messages can be searched."""

    async def search_messages(
        self, query: str, *, session_id: str | None = None, role: str | None = None, limit: int = 20
    ) -> list[MessageHit]:
        """Messages that contain all words of `query`, best first. Any text is a valid query."""
        ...


class StoreFactory(Protocol):
    """What an entry point of the group `hermes.stores` names (ours: `sqlite`). Nothing is opened."""

    def __call__(self, target: str) -> SessionStore:
        """A store on `target`, a path or an address. Raises `ConfigurationError`."""
        ...
