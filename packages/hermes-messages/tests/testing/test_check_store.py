"""The check passes for a good store and names each promise that a bad one breaks."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import pytest
from msgspec.structs import replace

from hermes_messages import (
    AssistantMessage,
    JsonValue,
    Message,
    SessionNotFoundError,
    StoreError,
    ToolMessage,
    Usage,
    UserMessage,
    content_text,
)
from hermes_messages.protocols import (
    LeaseToken,
    NewMessage,
    SessionInfo,
    SessionRecord,
    SessionStore,
    StoredMessage,
    ToolRound,
)
from hermes_messages.testing import ConformanceError, MemoryStore, check_store
from hermes_messages.testing.conformance import message_checks
from store_check_help import assert_found, checks_of


class EnsureOverwrites(MemoryStore):
    async def ensure_session(self, session_id: str, info: SessionInfo) -> SessionRecord:
        self._sessions.pop(session_id, None)
        return await super().ensure_session(session_id, info)


class MakesSessions(MemoryStore):
    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        await self.ensure_session(session_id, SessionInfo())
        return await super().append_messages_batch(session_id, messages, lease=lease)


class Changing(MemoryStore):
    """A store that changes each message that it stores."""

    def change(self, message: Message) -> Message:
        return message

    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        changed = [NewMessage(new.uid, self.change(new.message)) for new in messages]
        return await super().append_messages_batch(session_id, changed, lease=lease)


class ForgetsReasoning(Changing):
    def change(self, message: Message) -> Message:
        if isinstance(message, AssistantMessage) and message.reasoning == "":
            return AssistantMessage(message.content, message.tool_calls)
        return message


class DropsNul(Changing):
    def change(self, message: Message) -> Message:
        if isinstance(message, UserMessage) and isinstance(message.content, str):
            return UserMessage(message.content.replace("\0", ""), message.name, message.extra)
        return message


class ChokesOnSurrogates(Changing):
    def change(self, message: Message) -> Message:
        content_text(message.content).encode()
        return message


class NewestFirst(MemoryStore):
    async def get_messages(self, session_id: str) -> list[StoredMessage]:
        return (await super().get_messages(session_id))[::-1]


class WrongNumbers(MemoryStore):
    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        seqs = await super().append_messages_batch(session_id, messages, lease=lease)
        return tuple(seq + 1 for seq in seqs)


class NoEmptyBatch(MemoryStore):
    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        if not messages:
            raise StoreError("nothing to append")
        return await super().append_messages_batch(session_id, messages, lease=lease)


class AppendsTwice(MemoryStore):
    """It knows messages by their place and not by their uid."""

    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        number = len(self.calls)
        renamed = [NewMessage(f"{number}/{at}", new.message) for at, new in enumerate(messages)]
        return await super().append_messages_batch(session_id, renamed, lease=lease)


class OneUidForAll(MemoryStore):
    """Uids count for the whole store."""

    def __init__(self) -> None:
        super().__init__()
        self.uids: set[str] = set()

    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        own = self._sessions[session_id].by_uid if session_id in self._sessions else {}
        fresh = [new for new in messages if new.uid in own or new.uid not in self.uids]
        self.uids.update(new.uid for new in messages)
        return await super().append_messages_batch(session_id, fresh, lease=lease)


class KeepsNoPlaces(MemoryStore):
    """Results are appended as they come."""

    async def set_tool_result(
        self, round_: ToolRound, position: int, message: ToolMessage, *, lease: LeaseToken | None = None
    ) -> None:
        uid = f"{round_.assistant_seq}/{position}"
        await self.append_messages_batch(round_.session_id, [NewMessage(uid, message)], lease=lease)


class NewRoundEachTime(MemoryStore):
    async def begin_tool_round(
        self, session_id: str, uid: str, message: AssistantMessage, *, lease: LeaseToken | None = None
    ) -> ToolRound:
        uid = f"{uid}/{len(self.calls)}"
        return await super().begin_tool_round(session_id, uid, message, lease=lease)


class LastResultWins(MemoryStore):
    async def set_tool_result(
        self, round_: ToolRound, position: int, message: ToolMessage, *, lease: LeaseToken | None = None
    ) -> None:
        session = self._writable(round_.session_id, lease)
        session.places[round_.result_seqs[position] - 1].message = message


class UnknownIsZero(MemoryStore):
    async def update_token_counts(self, session_id: str, usage: Usage | None, *, api_calls: int) -> None:
        usage = usage or Usage(cache_read_tokens=0)
        await super().update_token_counts(session_id, usage, api_calls=api_calls)


class ReplacesMetadata(MemoryStore):
    async def update_session_meta(
        self,
        session_id: str,
        *,
        system_prompt: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> None:
        if metadata is not None:
            self._session(session_id).metadata.clear()
        await super().update_session_meta(session_id, system_prompt=system_prompt, metadata=metadata)


class LosesConcurrentWrites(MemoryStore):
    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        session = self._session(session_id)
        before = list(session.places)
        seqs = await super().append_messages_batch(session_id, messages, lease=lease)
        own = {new.uid for new in messages}
        session.places = before + [place for place in session.places if place.uid in own]
        return seqs


class OneByOne(MemoryStore):
    """A batch is many small transactions."""

    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        seqs: list[int] = []
        for new in messages:
            seqs += await super().append_messages_batch(session_id, [new], lease=lease)
        return tuple(seqs)


class StuckAfterCancel(MemoryStore):
    """A cancelled call leaves its lock held."""

    stuck = False

    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        if self.stuck:
            raise StoreError("locked")
        self.stuck = True
        seqs = await super().append_messages_batch(session_id, messages, lease=lease)
        self.stuck = False
        return seqs


class RoundInTwoSteps(MemoryStore):
    """The assistant message first, the places later."""

    async def begin_tool_round(
        self, session_id: str, uid: str, message: AssistantMessage, *, lease: LeaseToken | None = None
    ) -> ToolRound:
        session = self._session(session_id)
        if uid in session.by_uid and uid not in session.rounds:
            return ToolRound(session_id, session.by_uid[uid].seq, ())
        if uid not in session.by_uid:
            await self.append_messages_batch(session_id, [NewMessage(uid, message)], lease=lease)
            await asyncio.sleep(0)
            places = [session.add_place(f"{uid}/{at}").seq for at in range(len(message.tool_calls))]
            session.rounds[uid] = ToolRound(session_id, session.by_uid[uid].seq, tuple(places))
        return session.rounds[uid]


class AnyPosition(MemoryStore):
    async def set_tool_result(
        self, round_: ToolRound, position: int, message: ToolMessage, *, lease: LeaseToken | None = None
    ) -> None:
        position = min(position, len(round_.result_seqs) - 1)
        await super().set_tool_result(round_, position, message, lease=lease)


class CountsFromTheEnd(MemoryStore):
    async def set_tool_result(
        self, round_: ToolRound, position: int, message: ToolMessage, *, lease: LeaseToken | None = None
    ) -> None:
        position = range(len(round_.result_seqs))[position]
        await super().set_tool_result(round_, position, message, lease=lease)


class ForgetsTheModel(MemoryStore):
    async def ensure_session(self, session_id: str, info: SessionInfo) -> SessionRecord:
        return await super().ensure_session(session_id, replace(info, model=None))


class ForgetsTheCache(MemoryStore):
    async def update_token_counts(self, session_id: str, usage: Usage | None, *, api_calls: int) -> None:
        known = usage and replace(usage, cache_write_tokens=None)
        await super().update_token_counts(session_id, known, api_calls=api_calls)


class SharesMetadata(MemoryStore):
    async def update_session_meta(
        self,
        session_id: str,
        *,
        system_prompt: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> None:
        await super().update_session_meta(session_id, system_prompt=system_prompt, metadata=metadata)
        self.__dict__.setdefault("given", {}).setdefault(session_id, {}).update(metadata or {})

    async def get_session(self, session_id: str) -> SessionRecord | None:
        record = await super().get_session(session_id)
        given = self.__dict__.get("given", {}).get(session_id, {})
        return record and replace(record, metadata={**record.metadata, **given})


class EndsNothing(MemoryStore):
    async def end_session(self, session_id: str, reason: str) -> None:
        with suppress(SessionNotFoundError):
            await super().end_session(session_id, reason)


class GivesItsOwnList(MemoryStore):
    """Whoever got the messages once sees those that come later."""

    async def get_messages(self, session_id: str) -> list[StoredMessage]:
        given = self.__dict__.setdefault("given", {}).setdefault(session_id, [])
        given[:] = await super().get_messages(session_id)
        return given  # type: ignore[no-any-return]

    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        seqs = await super().append_messages_batch(session_id, messages, lease=lease)
        await self.get_messages(session_id)
        return seqs


class ClosesOnce(MemoryStore):
    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("already closed")
        await super().close()


class OddWhenClosed(MemoryStore):
    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        if self.closed:
            raise ValueError("no active connection")
        return await super().append_messages_batch(session_id, messages, lease=lease)


BROKEN: list[tuple[Callable[[], SessionStore], str]] = [
    (EnsureOverwrites, "ensure_session_makes_it_once"),
    (MakesSessions, "unknown_sessions_are_not_written"),
    (ForgetsReasoning, "messages_come_back_as_they_were"),
    (DropsNul, "text_survives"),
    (ChokesOnSurrogates, "a_lone_surrogate_does_no_harm"),
    (NewestFirst, "order_is_kept"),
    (WrongNumbers, "order_is_kept"),
    (NoEmptyBatch, "an_empty_batch_is_nothing"),
    (AppendsTwice, "a_known_uid_adds_nothing"),
    (OneUidForAll, "uids_belong_to_their_session"),
    (KeepsNoPlaces, "results_stand_in_call_order"),
    (NewRoundEachTime, "a_known_round_is_returned"),
    (LastResultWins, "a_second_result_changes_nothing"),
    (SharesMetadata, "totals_and_metadata_add_up"),
    (UnknownIsZero, "totals_and_metadata_add_up"),
    (ReplacesMetadata, "totals_and_metadata_add_up"),
    (LosesConcurrentWrites, "concurrent_appends_are_all_kept"),
    (OneByOne, "a_cancelled_append_happens_whole_or_not_at_all"),
    (StuckAfterCancel, "a_cancelled_append_happens_whole_or_not_at_all"),
    (RoundInTwoSteps, "a_cancelled_round_happens_whole_or_not_at_all"),
    (ForgetsTheModel, "ensure_session_makes_it_once"),
    (EndsNothing, "unknown_sessions_are_not_written"),
    (GivesItsOwnList, "order_is_kept"),
    (ForgetsTheCache, "totals_and_metadata_add_up"),
    (CountsFromTheEnd, "a_wrong_position_is_refused"),
    (AnyPosition, "a_wrong_position_is_refused"),
    (ClosesOnce, "close_is_idempotent"),
    (OddWhenClosed, "a_closed_store_raises_store_errors"),
]


def test_the_memory_store_passes() -> None:
    asyncio.run(check_store(MemoryStore, limit_s=600))


def test_stores_on_the_same_data_pass() -> None:
    shared = MemoryStore()

    class View(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self._sessions = shared._sessions
            self._leases = shared._leases
            self._lease_numbers = shared._lease_numbers

    asyncio.run(check_store(View, reopen=View, limit_s=600))


def test_a_store_that_forgets_is_found() -> None:
    with pytest.raises(ConformanceError) as caught:
        asyncio.run(check_store(MemoryStore, reopen=MemoryStore, limit_s=600))
    assert [promise.check for promise in caught.value.broken] == ["everything_survives_reopening"]


@pytest.mark.parametrize(("make", "promise"), BROKEN)
def test_a_broken_promise_is_found(make: Callable[[], SessionStore], promise: str) -> None:
    assert_found(make, promise)


def test_every_check_was_seen_to_fail() -> None:
    seen = {promise for _, promise in BROKEN}
    assert checks_of(message_checks.MessageChecks) == seen


def test_a_store_without_leases_and_search_needs_neither() -> None:
    class Plain:
        """Only `SessionStore`."""

        def __init__(self) -> None:
            inner = MemoryStore()
            self.ensure_session = inner.ensure_session
            self.get_session = inner.get_session
            self.get_messages = inner.get_messages
            self.append_messages_batch = inner.append_messages_batch
            self.begin_tool_round = inner.begin_tool_round
            self.set_tool_result = inner.set_tool_result
            self.update_session_meta = inner.update_session_meta
            self.update_token_counts = inner.update_token_counts
            self.end_session = inner.end_session
            self.close = inner.close

    asyncio.run(check_store(Plain, limit_s=600))
