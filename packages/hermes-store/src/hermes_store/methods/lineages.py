"""Compression and replacement, and the way back to what was before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hermes_messages import ConfigurationError
from hermes_messages.protocols import LeaseToken, NewMessage, SessionRecord
from hermes_store.methods.base import StoreMethods
from hermes_store.methods.decoding import as_dicts
from hermes_store.operations import lineage
from hermes_store.operations.messages import PreparedMessage
from hermes_store.records import Conversations
from hermes_store.rows import key_text

__all__ = ["LineageMethods"]


class LineageMethods(StoreMethods):
    """Other messages in the place of a conversation; nothing is deleted."""

    async def replace_messages(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        """Archive the session's messages and store `messages` in their place, in one transaction.

        Their sequence numbers. A message whose uid is known is carried over: its history has it once. The
        same messages again change nothing. Raises `StoreError` inside a tool round, `SessionNotFoundError`,
        `LeaseLostError`, `ConfigurationError` for a uid that is given twice.
        """
        prepared = [PreparedMessage.of(new.uid, new.message) for new in messages]
        return await self._backend.write(partial(lineage.replace, session_id, prepared, lease))

    async def archive_and_compact(
        self,
        session_id: str,
        messages: Sequence[NewMessage],
        *,
        child_session_id: str | None = None,
        lease: LeaseToken | None = None,
    ) -> str:
        """Put the compressed conversation `messages` in the place of the session's; the id that goes on.

        Without `child_session_id` that is the session itself, its old messages archived. With it the session
        ends with the reason `compression` and a child begins, which takes over its description, state and
        turn lease. One transaction; a repeated call changes nothing. Raises as `replace_messages`, and
        `StoreError` when the session was compressed into another child before.
        """
        if child_session_id is None:
            await self.replace_messages(session_id, messages, lease=lease)
            return session_id
        if not child_session_id:
            raise ConfigurationError("a session id must not be empty; nothing was stored")
        key_text(child_session_id, "a session id")
        prepared = [PreparedMessage.of(new.uid, new.message) for new in messages]
        return await self._backend.write(
            partial(lineage.compact_into_child, session_id, child_session_id, prepared, lease)
        )

    async def resolve_resume_session_id(self, session_id: str) -> str:
        """The newest session of the lineage, where the conversation goes on; an unknown id is its own."""
        return await self._backend.read(partial(lineage.tip, session_id))

    async def get_compression_lineage(self, session_id: str) -> list[SessionRecord]:
        """The sessions of the lineage, from the first to the newest; none for an unknown id."""
        return await self._backend.read(partial(lineage.lineage_records, session_id))

    async def get_resume_conversations(self, session_id: str) -> Conversations:
        """What the model goes on with, and what a person may read of the whole lineage, from one snapshot.

        Raises `SessionNotFoundError`.
        """
        live, history = await self._backend.read(partial(lineage.conversations, session_id))
        return Conversations(await as_dicts(live), await as_dicts(history))
