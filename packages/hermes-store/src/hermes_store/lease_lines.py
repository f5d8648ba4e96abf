"""Turns of one store that wait for the lease of a session: a line, whose first one alone asks the database.

The line has one place in the queue that all processes share, its ticket, however many stand in it. Who leaves
as the first without the lease leaves the ticket to the next; who gets the lease has used it up, and the next
takes a new one at the end. To join, to leave and to be called costs the same however long the line is.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias
from weakref import WeakKeyDictionary

from hermes_store.errors import StoreClosedError

__all__ = ["Line", "Lines", "Place"]

Place: TypeAlias = "asyncio.Future[None]"
"""Where one turn stands in a line; done once it is called."""


class Line:
    """Who waits for the lease of one session, first come first served."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self.name: str = uuid.uuid4().hex
        """The owner of its ticket, so that it never takes another's for its own."""
        self.ticket: int | None = None
        """The number of its ticket, as far as that is known. Only the first turn sets it."""
        self._places: OrderedDict[Place, None] = OrderedDict()
        self._news = asyncio.Event()
        self._empty = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._places)

    def join(self) -> Place:
        """A place at the end."""
        place: Place = asyncio.get_running_loop().create_future()
        self._places[place] = None
        return place

    def leave(self, place: Place) -> bool:
        """Give the place up; where it was the first, the next is called. Whether nobody is left."""
        was_first = self._first is place
        del self._places[place]
        if not self._places:
            self._empty.set()
        elif was_first and not self._first.done():
            self._first.set_result(None)  # one that is done by now leaves by itself, and calls the next
        return not self._places

    async def called(self, place: Place) -> None:
        """Return once the place is the first. Raises `StoreClosedError`."""
        if self._first is not place:
            await place
        self._check()

    def begin_to_ask(self) -> None:
        """What `wake` says from here on is news."""
        self._news.clear()

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until there is news. Raises `StoreClosedError`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._check()

    def wake(self) -> None:
        """The lease may have come free."""
        self._news.set()

    def close(self) -> None:
        """Send all away."""
        self._closed = True
        for place in self._places:
            if not place.done():
                place.set_result(None)
        self._news.set()

    async def emptied(self) -> None:
        """Return when nobody is left."""
        await self._empty.wait()

    @property
    def _first(self) -> Place:
        return next(iter(self._places))

    def _check(self) -> None:
        if self._closed:
            raise StoreClosedError(
                "the session store was closed while a turn waited for the lease of session "
                f"{self._session_id!r}; nothing is held"
            )


class Lines:
    """The lines of one store. Those of an event loop that is gone are gone with it."""

    def __init__(self) -> None:
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Line]] = WeakKeyDictionary()

    @contextmanager
    def place(self, session_id: str) -> Iterator[tuple[Line, Place]]:
        """Stand in the session's line."""
        lines = self._by_loop.setdefault(asyncio.get_running_loop(), {})
        line = lines.get(session_id)
        if line is None:
            line = lines[session_id] = Line(session_id)
        place = line.join()
        try:
            yield line, place
        finally:
            if line.leave(place):
                del lines[session_id]

    def get(self, session_id: str) -> Line | None:
        """The session's line, if somebody stands in it."""
        lines = self._by_loop.get(asyncio.get_running_loop())
        return None if lines is None else lines.get(session_id)

    def close(self) -> list[Line]:
        """Send all away; the lines that they leave."""
        closed = list(self._by_loop.get(asyncio.get_running_loop(), {}).values())
        for line in closed:
            line.close()
        return closed
