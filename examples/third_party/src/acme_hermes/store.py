"""Sessions in one append-only file of JSON lines: a call is one line, on the disk when the call returns."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiofiles
import aiofiles.os
import msgspec
from aiofiles.threadpool.binary import AsyncFileIO

from acme_hermes.events import Counted, Ended, Event, Made, MetaSet, Sessions, decode_lines, encode
from hermes_messages import AssistantMessage, JsonValue, StoreBusyError, StoreError, ToolMessage, Usage
from hermes_messages.protocols import (
    LeaseToken,
    NewMessage,
    SessionInfo,
    SessionRecord,
    SessionStore,
    StoredMessage,
    ToolRound,
)

__all__ = ["JsonLinesStore", "make_store"]

_fsync = aiofiles.os.wrap(os.fsync)
_SCHEME = "jsonl://"


class JsonLinesStore:
    """A `SessionStore` on one file, which one process has at a time. The first call opens it.

    It has no leases, so agents in one process exclude each other by a lock of the loop's, and other processes
    are kept out of the file altogether (`StoreBusyError`). A cancelled call goes on to its end behind the
    scenes: it has happened whole, and the next call waits for it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._sessions = Sessions()
        self._file: AsyncFileIO | None = None
        self._size = 0
        self._closed = False
        self._lock = asyncio.Lock()
        self._running: set[asyncio.Task[object]] = set()

    async def ensure_session(self, session_id: str, info: SessionInfo) -> SessionRecord:
        """The session, made when it is not there."""
        own = msgspec.json.decode(_json(info), type=dict[str, Any])

        def plan() -> Made | None:
            return None if self._sessions.find(session_id) else Made(session_id, own, time.time())

        await self._write(plan)
        return self._sessions.get(session_id).record()

    async def get_session(self, session_id: str) -> SessionRecord | None:
        """The session, or None."""
        await self._write(lambda: None)
        found = self._sessions.find(session_id)
        return None if found is None else found.record()

    async def get_messages(self, session_id: str) -> list[StoredMessage]:
        """Its messages in order."""
        await self._write(lambda: None)
        return self._sessions.get(session_id).stored()

    async def append_messages_batch(
        self,
        session_id: str,
        messages: Sequence[NewMessage],
        *,
        lease: LeaseToken | None = None,  # noqa: ARG002
    ) -> tuple[int, ...]:
        """Store messages in order, as one line."""
        await self._write(lambda: self._sessions.plan_append(session_id, messages, time.time()))
        seqs = self._sessions.get(session_id).seqs
        return tuple(seqs[new.uid] for new in messages)

    async def begin_tool_round(
        self,
        session_id: str,
        uid: str,
        message: AssistantMessage,
        *,
        lease: LeaseToken | None = None,  # noqa: ARG002
    ) -> ToolRound:
        """Store a message with calls, and a place for each result."""
        await self._write(lambda: self._sessions.plan_round(session_id, uid, message, time.time()))
        return self._sessions.round_of(session_id, uid)

    async def set_tool_result(
        self,
        round_: ToolRound,
        position: int,
        message: ToolMessage,
        *,
        lease: LeaseToken | None = None,  # noqa: ARG002
    ) -> None:
        """Store the result of one call; the first one stays."""
        await self._write(lambda: self._sessions.plan_result(round_, position, message, time.time()))

    async def update_session_meta(
        self,
        session_id: str,
        *,
        system_prompt: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Set what is given."""
        own = msgspec.json.decode(_json(metadata or {}), type=dict[str, Any])

        def plan() -> MetaSet:
            self._sessions.get(session_id)
            return MetaSet(session_id, system_prompt, own, time.time())

        await self._write(plan)

    async def update_token_counts(self, session_id: str, usage: Usage | None, *, api_calls: int) -> None:
        """Add to the totals."""

        def plan() -> Counted:
            self._sessions.get(session_id)
            return Counted(session_id, usage, api_calls)

        await self._write(plan)

    async def end_session(self, session_id: str, reason: str) -> None:
        """Mark the session as ended."""

        def plan() -> Ended:
            self._sessions.get(session_id)
            return Ended(session_id, reason, time.time())

        await self._write(plan)

    async def close(self) -> None:
        """Finish what is being written, and give the file back."""
        self._closed = True
        while self._running:
            await asyncio.wait(self._running)
        file, self._file = self._file, None
        if file is not None:
            await file.close()

    async def _write(self, plan: Callable[[], Event | None]) -> None:
        """Run `plan` when all earlier writes are done, and put its event on the disk, whoever cancels us."""
        if self._closed:
            raise StoreError(f"{self.path} is closed; nothing was written")
        task: asyncio.Task[object] = asyncio.create_task(self._write_in_turn(plan))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(_seen)
        await asyncio.shield(task)

    async def _write_in_turn(self, plan: Callable[[], Event | None]) -> None:
        async with self._lock:
            file = self._file or await self._open()
            event = plan()
            if event is None:
                return
            line = encode(event)
            try:
                await file.write(line)
                await _fsync(file.fileno())
            except OSError as error:
                await self._forget_half_a_line(file)
                raise StoreError(f"{self.path}: {error}; nothing of this call was kept") from error
            self._size += len(line)
            self._sessions.apply(event)

    async def _open(self) -> AsyncFileIO:
        """Read what is there, cut off what a death left half written."""
        try:
            await aiofiles.os.makedirs(self.path.parent, exist_ok=True)
            file = await aiofiles.open(self.path, "a+b", buffering=0)
        except OSError as error:
            raise StoreError(f"{self.path} can not be opened: {error}") from error
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)  # returns at once
            await file.seek(0)
            events, self._size = decode_lines(await file.read())
            await file.truncate(self._size)
        except BlockingIOError as error:
            await file.close()
            raise StoreBusyError(f"{self.path} is in use by another process") from error
        except BaseException:
            await file.close()
            raise
        for event in events:
            self._sessions.apply(event)
        self._file = file
        return file

    async def _forget_half_a_line(self, file: AsyncFileIO) -> None:
        """After a full disk: what was written of the line must not be read as one later."""
        try:
            await file.truncate(self._size)
        except OSError as error:
            self._closed = True
            raise StoreError(f"{self.path} can not be mended: {error}; open it again") from error


def _seen(task: asyncio.Task[object]) -> None:
    """Its caller may have been cancelled: then nobody else looks at what it raised."""
    if not task.cancelled():
        task.exception()


def _json(value: object) -> bytes:
    """A copy that shares nothing with the caller's. Raises `StoreError` for what is no JSON."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeError, TypeError) as error:
        raise StoreError(f"this can not be stored: {error}; nothing was written") from error


def make_store(target: str) -> SessionStore:
    """What the entry point `jsonl` names: `jsonl:///absolute/path` or `jsonl://path`. Nothing is opened."""
    return JsonLinesStore(target.removeprefix(_SCHEME))


if TYPE_CHECKING:

    def _fits(store: JsonLinesStore) -> SessionStore:
        return store
