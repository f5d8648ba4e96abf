"""What of a conversation is not durable yet, in order, and how it becomes durable.

Memory is the truth: a message is recorded here when it enters the conversation, and leaves when the store
has acknowledged it. Every write carries an identity, so writing again after a failure or a cancellation
adds nothing; `save` may therefore be called at any time.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from hermes_messages import AssistantMessage, InvariantError, Message, ToolMessage
from hermes_messages.abilities import supports
from hermes_messages.approvals import pending_to_json
from hermes_messages.protocols import (
    LeaseToken,
    NewMessage,
    PendingApproval,
    SessionStore,
    SupportsSuspension,
    ToolRound,
)
from hermes_messages.transcript_rules import TranscriptRule

__all__ = ["Journal", "RoundRecord", "with_suspension"]


class _PlainRecord(Struct):
    uid: str
    message: Message


class RoundRecord(Struct):
    """One assistant message with calls, and the results that came so far, by position.

    `pending` are the calls that wait for a decision: while there are any the round is suspended. `marked` is
    what of this the store has acknowledged.
    """

    uid: str
    message: AssistantMessage
    results: list[ToolMessage | None]
    stored: ToolRound | None = None
    saved: set[int] = field(default_factory=set)
    pending: tuple[PendingApproval, ...] = ()
    marked: tuple[PendingApproval, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every result came and is durable."""
        return len(self.saved) == len(self.results)

    def has(self, position: int, result: ToolMessage) -> bool:
        """Whether exactly this was recorded for the call at `position`."""
        return position < len(self.results) and self.results[position] is result

    def check(self, position: int, result: object) -> None:
        """Refuse what is no result of the call at `position`: it comes from the host's executor, and kept it
        would end every later turn. Raises `InvariantError`, `TypeError`."""
        if not isinstance(result, ToolMessage):
            raise TypeError(f"the tool executor gave a {type(result).__name__} as a result")
        calls = self.message.tool_calls
        if not 0 <= position < len(calls) or result.tool_call_id != calls[position].id:
            text = f"the tool executor gave a result for call {position} of the round, which has another id"
            rule = TranscriptRule.RESULT_NEEDS_CALL
            raise InvariantError(rule, text, index=position, call_id=result.tool_call_id)


class Journal:
    """The unsaved end of one conversation. With no store everything stays in memory and nothing is owed."""

    def __init__(self, store: SessionStore | None, session_id: str) -> None:
        self.store: SessionStore | None = store
        """Where it is saved."""
        self._marks = with_suspension(store)
        self._session_id = session_id
        self._records: list[_PlainRecord | RoundRecord] = []

    def go_on_with(self, store: SessionStore | None) -> None:
        """Write to `store`, the same one opened anew, from here on; what is owed stays owed."""
        self.store = store
        self._marks = with_suspension(store)

    @property
    def session_id(self) -> str:
        """The session that is written."""
        return self._session_id

    @property
    def unsaved(self) -> int:
        """How many messages, and marks of suspended rounds, the store has not acknowledged."""
        marks = (r for r in self._records if isinstance(r, RoundRecord) and self._lacks_mark(r))
        return len(self.owed()) + sum(1 for _ in marks)

    def owed(self) -> list[Message]:
        """The messages that the store has not acknowledged, in order."""
        owed: list[Message] = []
        for record in self._records:
            if isinstance(record, RoundRecord):
                if record.stored is None:
                    owed.append(record.message)
                results = enumerate(record.results)
                owed += [r for position, r in results if r is not None and position not in record.saved]
            else:
                owed.append(record.message)
        return owed

    def add(self, uid: str, message: Message) -> None:
        """Record a message that belongs to no tool round."""
        if self.store is not None:
            self._records.append(_PlainRecord(uid, message))

    def add_round(self, uid: str, message: AssistantMessage) -> RoundRecord:
        """Record an assistant message with calls; its results follow one by one."""
        record = RoundRecord(uid, message, [None] * len(message.tool_calls))
        if self.store is not None:
            self._records.append(record)
        return record

    def adopt(self, record: RoundRecord) -> None:
        """Go on with a round that was recorded elsewhere: read from the store, or by the journal before."""
        if self.store is not None:
            self._records.append(record)

    def forget(self) -> None:
        """Owe nothing any more: the conversation was replaced by what the store holds."""
        self._records.clear()

    async def save(self, lease: LeaseToken | None) -> None:
        """Write everything that is owed, in order. Raises `StoreError`; what was written stays written."""
        store = self.store
        if store is None:
            return
        while self._records:
            plain = self._leading_plain()
            if plain:
                batch = [NewMessage(record.uid, record.message) for record in plain]
                await store.append_messages_batch(self._session_id, batch, lease=lease)
                del self._records[: len(plain)]
                continue
            record = self._records[0]
            assert isinstance(record, RoundRecord)
            await self._save_round(store, record, lease)
            if not record.complete:
                return
            del self._records[0]

    async def save_result(
        self, record: RoundRecord, position: int, result: ToolMessage, lease: LeaseToken | None
    ) -> None:
        """Record the result of one call and write it into its place. Raises `StoreError`, and as
        `RoundRecord.check`."""
        record.check(position, result)
        if record.results[position] is None:
            record.results[position] = result
        if self.store is None or record.stored is None or position in record.saved:
            return
        kept = record.results[position]
        assert kept is not None
        await self.store.set_tool_result(record.stored, position, kept, lease=lease)
        record.saved.add(position)

    def _leading_plain(self) -> Sequence[_PlainRecord]:
        plain: list[_PlainRecord] = []
        for record in self._records:
            if isinstance(record, RoundRecord):
                break
            plain.append(record)
        return plain

    async def _save_round(self, store: SessionStore, record: RoundRecord, lease: LeaseToken | None) -> None:
        if record.stored is None:
            record.stored = await store.begin_tool_round(
                self._session_id, record.uid, record.message, lease=lease
            )
        for position, result in enumerate(record.results):
            if result is not None and position not in record.saved:
                await store.set_tool_result(record.stored, position, result, lease=lease)
                record.saved.add(position)
        marks = self._marks
        if marks is not None and self._lacks_mark(record):
            if record.pending:
                await marks.suspend_round(record.stored, pending_to_json(record.pending), lease=lease)
            else:
                await marks.resume_round(record.stored, lease=lease)
            record.marked = record.pending

    def _lacks_mark(self, record: RoundRecord) -> bool:
        """Whether the store has another mark than it should; the last result takes the mark away."""
        return self._marks is not None and not record.complete and record.marked != record.pending


def with_suspension(store: object | None) -> SupportsSuspension | None:
    """The store, if it keeps rounds that wait for a decision."""
    return store if supports(store, SupportsSuspension) else None
