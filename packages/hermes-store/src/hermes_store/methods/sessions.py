"""Sessions: records, titles, metadata, usage, state."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial

from hermes_messages import ConfigurationError, JsonValue, Usage
from hermes_messages.protocols import LeaseToken, SessionInfo, SessionRecord
from hermes_store.methods.base import StoreMethods
from hermes_store.operations import accounts, sessions
from hermes_store.records import CallRecord, ModelUsage
from hermes_store.rows import check_figures, encode_json, encode_metadata, key_text, within_rows
from hermes_store.search_query import split_words

__all__ = ["SessionMethods"]


class SessionMethods(StoreMethods):
    """Making, finding, describing, ending and deleting sessions."""

    async def ensure_session(self, session_id: str, info: SessionInfo) -> SessionRecord:
        """The session, made from `info` when it does not exist yet. Raises `ConfigurationError`."""
        if not session_id:
            raise ConfigurationError("a session id must not be empty; nothing was stored")
        key_text(session_id, "a session id")
        key_text(info.parent_session_id or "", "the id of a parent")
        metadata = encode_metadata(info.metadata)
        return await self._backend.write(partial(sessions.ensure_session, session_id, info, metadata))

    async def create_session(
        self,
        session_id: str | None = None,
        source: str = "library",
        *,
        title: str | None = None,
        model: str | None = None,
        provider: str | None = None,
        cwd: str | None = None,
        parent_session_id: str | None = None,
        system_prompt: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> str:
        """The id of the session: `session_id`, or a new one. One that exists is left as it is."""
        info = SessionInfo(
            source=source,
            title=title,
            model=model,
            provider=provider,
            cwd=cwd,
            parent_session_id=parent_session_id,
            system_prompt=system_prompt,
            metadata=metadata or {},
        )
        record = await self.ensure_session(session_id if session_id is not None else uuid.uuid4().hex, info)
        return record.id

    async def get_session(self, session_id: str) -> SessionRecord | None:
        """The session, or None."""
        return await self._backend.read(partial(sessions.get_session, session_id))

    async def list_sessions(
        self, *, source: str | None = None, limit: int = 50, offset: int = 0, include_archived: bool = False
    ) -> list[SessionRecord]:
        """Sessions, last changed first."""
        return await self.search_sessions(
            "", source=source, limit=limit, offset=offset, include_archived=include_archived
        )

    async def search_sessions(
        self,
        query: str = "",
        *,
        source: str | None = None,
        limit: int = 20,
        offset: int = 0,
        include_archived: bool = False,
    ) -> list[SessionRecord]:
        """Sessions whose title or id contains every word of `query`, last changed first."""
        words = split_words(query)
        window = (within_rows(limit), within_rows(offset))
        return await self._backend.read(
            partial(sessions.list_sessions, source, words, *window, include_archived)
        )

    async def set_session_title(self, session_id: str, title: str | None) -> None:
        """Name the session; None takes its name away. Raises `SessionNotFoundError`."""
        await self._backend.write(partial(sessions.set_title, session_id, title))

    async def update_session_meta(
        self,
        session_id: str,
        *,
        system_prompt: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Set what is given; `metadata` keys are merged into those stored. Raises `SessionNotFoundError`."""
        encode_metadata(metadata or {})
        await self._backend.write(partial(sessions.update_meta, session_id, system_prompt, metadata))

    async def update_token_counts(
        self,
        session_id: str,
        usage: Usage | None,
        *,
        api_calls: int = 1,
        model: str | None = None,
        provider: str | None = None,
        uid: str | None = None,
    ) -> None:
        """Note what a call cost and add it to the session's totals. Raises `SessionNotFoundError`.

        `model` and `provider` are the session's own unless said. A known `uid` adds nothing.
        """
        key_text(uid or "", "the uid of a call")
        check_figures(usage, api_calls)
        await self._backend.write(
            partial(accounts.add_usage, session_id, usage, api_calls, model, provider, uid)
        )

    async def get_calls(self, session_id: str) -> list[CallRecord]:
        """Every report of usage, in order. Raises `SessionNotFoundError`."""
        return await self._backend.read(partial(accounts.calls, session_id))

    async def get_usage_by_model(self, session_id: str | None = None) -> list[ModelUsage]:
        """What each model cost, in one session or in all. Raises `SessionNotFoundError`."""
        return await self._backend.read(partial(accounts.usage_by_model, session_id))

    async def get_session_state(self, session_id: str, name: str) -> JsonValue:
        """The value that the session keeps under `name` (`todos`, ...), or None."""
        return await self._backend.read(partial(accounts.get_state, session_id, name))

    async def set_session_state(self, session_id: str, name: str, value: JsonValue) -> None:
        """Keep a JSON value under `name`; None removes it. Not fenced by leases, and carried over when the
        session is compressed. Raises `SessionNotFoundError`, `ConfigurationError`."""
        key_text(name, "the name of a state")
        encoded = None if value is None else encode_json(value, f"the state {name!r}")
        await self._backend.write(partial(accounts.set_state, session_id, name, encoded))

    async def end_session(self, session_id: str, reason: str) -> None:
        """Mark the session as ended. Raises `SessionNotFoundError`."""
        await self._backend.write(partial(sessions.end_session, session_id, reason))

    async def reopen_session(self, session_id: str) -> None:
        """Take the mark of `end_session` away. Raises `SessionNotFoundError`."""
        await self._backend.write(partial(sessions.reopen_session, session_id))

    async def delete_session(self, session_id: str, *, lease: LeaseToken | None = None) -> bool:
        """Delete the session with its messages. False when there was none. Raises `LeaseLostError`."""
        return await self._backend.write(partial(sessions.delete_session, session_id, lease))
