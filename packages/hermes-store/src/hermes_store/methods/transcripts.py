"""Transcripts: appending, reading, tool rounds, suspended rounds."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from functools import partial
from itertools import count

from hermes_messages import AssistantMessage, JsonObject, JsonValue, Message, StoreError, ToolMessage
from hermes_messages.protocols import LeaseToken, NewMessage, StoredMessage, SuspendedRound, ToolRound
from hermes_store.methods.base import StoreMethods
from hermes_store.methods.decoding import as_dicts, decoded
from hermes_store.operations import lineage, reading, suspension
from hermes_store.operations import messages as rows
from hermes_store.records import InterruptedCall
from hermes_store.rows import encode_json, message_to_columns

__all__ = ["TranscriptMethods"]


class TranscriptMethods(StoreMethods):
    """Writing and reading the messages of a session."""

    _uid_process = 0
    _uid_start = ""
    _uid_numbers = count()

    async def get_messages(
        self, session_id: str, *, limit: int | None = None, before: int | None = None
    ) -> list[StoredMessage]:
        """The session's messages in order; places whose result never came are left out.

        `limit` asks for the newest so many, `before` only for those below that sequence number. A window
        never begins with the results of a round: what is missing of it comes along, beyond the limit.
        Raises `SessionNotFoundError`.
        """
        return await decoded(
            await self._backend.read(partial(reading.get_messages, session_id, limit, before))
        )

    async def get_messages_as_conversation(
        self, session_id: str, *, limit: int | None = None, include_ancestors: bool = False
    ) -> list[JsonObject]:
        """The session's messages as plain OpenAI-shape dicts, the newest `limit` as in `get_messages`; with
        `include_ancestors` the whole history of its lineage, each message once, without a limit."""
        if include_ancestors:
            _, rows = await self._backend.read(partial(lineage.conversations, session_id))
        else:
            rows = await self._backend.read(partial(reading.get_messages, session_id, limit, None))
        return await as_dicts(rows)

    async def append_message(
        self, session_id: str, message: Message, *, uid: str | None = None, lease: LeaseToken | None = None
    ) -> int:
        """Store one message; its sequence number. A known `uid` adds nothing."""
        prepared = rows.PreparedMessage.of(uid if uid is not None else self._next_uid(), message)
        return await self._backend.write(rows.Append(session_id, prepared, lease))

    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        """Store messages in order, in one transaction; their sequence numbers. A known uid adds nothing.

        Raises `SessionNotFoundError`, `LeaseLostError`.
        """
        prepared = [rows.PreparedMessage.of(new.uid, new.message) for new in messages]
        return await self._backend.write(partial(rows.append, session_id, prepared, lease))

    async def begin_tool_round(
        self, session_id: str, uid: str, message: AssistantMessage, *, lease: LeaseToken | None = None
    ) -> ToolRound:
        """Store an assistant message and keep one place for the result of each of its calls, in one
        transaction. A known uid returns the round made before; raises `StoreError` when it made none."""
        prepared, calls = rows.PreparedMessage.of(uid, message), len(message.tool_calls)
        return await self._backend.write(partial(rows.begin_round, session_id, prepared, calls, lease))

    async def set_tool_result(
        self, round_: ToolRound, position: int, message: ToolMessage, *, lease: LeaseToken | None = None
    ) -> None:
        """Store the result of the call at `position`. A second result for one place changes nothing.

        Raises `StoreError` for a position that the round does not have, `LeaseLostError`.
        """
        if not 0 <= position < len(round_.result_seqs):
            raise StoreError(
                f"the round keeps {len(round_.result_seqs)} places, none at {position}; nothing was stored"
            )
        columns = message_to_columns(message)
        await self._backend.write(partial(rows.set_result, round_, position, columns, lease))

    async def open_rounds(self, session_id: str) -> list[ToolRound]:
        """The rounds of tool calls that lack a result, oldest first."""
        return await self._backend.read(partial(rows.open_rounds, session_id))

    async def interrupted_calls(self, session_id: str) -> list[InterruptedCall]:
        """The calls that lack a result, oldest first, but for those that wait for a decision.

        For a host that knows which of its tools may run twice: it runs these again and stores what they
        answer with `set_tool_result`; `close_open_rounds`, or an agent's next turn, closes the rest. Raises
        `SessionNotFoundError`.
        """
        return await self._backend.read(partial(rows.interrupted_calls, session_id))

    async def close_open_rounds(self, session_id: str, *, lease: LeaseToken | None = None) -> int:
        """Give every call without a result one of status `unknown`; how many. For a session that died inside
        a round: nothing runs again, and the next time there is nothing to close."""
        return await self._backend.write(partial(rows.close_open_rounds, session_id, lease))

    def _next_uid(self) -> str:
        """An identity that no other process, and no other object here, gives."""
        if self._uid_process != os.getpid():
            self._uid_process, self._uid_start, self._uid_numbers = os.getpid(), uuid.uuid4().hex, count()
        return f"{self._uid_start}-{next(self._uid_numbers)}"

    async def suspend_round(
        self, round_: ToolRound, pending: JsonValue, *, lease: LeaseToken | None = None
    ) -> None:
        """Mark an open round as waiting for a person's decision, and keep `pending` (JSON) with it.

        `close_open_rounds` leaves it alone. The mark goes with the last result, or by `resume_round`.
        Raises `StoreError` when no result is missing, `LeaseLostError`.
        """
        encoded = encode_json(pending, "what is pending")
        await self._backend.write(partial(suspension.suspend, round_, encoded, lease))

    async def resume_round(self, round_: ToolRound, *, lease: LeaseToken | None = None) -> None:
        """Take the mark away; the round is an open one like others then."""
        await self._backend.write(partial(suspension.resume, round_, lease))

    async def suspended_rounds(self, session_id: str) -> list[SuspendedRound]:
        """The rounds that wait for a decision, oldest first. Raises `SessionNotFoundError`."""
        return await self._backend.read(partial(suspension.suspended, session_id))
