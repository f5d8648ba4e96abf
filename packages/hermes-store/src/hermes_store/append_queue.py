"""Which appends go into the database together, where transactions run side by side.

Appends wait in lanes, each with one worker that takes a group at a time. Most stand in the shared lane,
whatever their sessions. There nobody waits for a lock: a session that another transaction holds gets a lane
of its own, whose worker waits for it, so that the other sessions do not have to. The lane goes when it is
empty. The next appends to such a session take a lane of their own at once: it may be held again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

__all__ = ["SHARED", "AppendQueue", "Lane"]

MAX_GROUP = 64
"""Appends of one transaction at most: bounds the time for which their sessions are held."""
MAX_GROUP_SIZE = 1_000_000
"""Characters of a group, but for its first: one may be larger alone."""

APART_AGAIN = 16
"""So many appends to a session that was held get a lane of their own before the shared one is tried again."""
MOST_REMEMBERED = 1_000
"""Sessions of which it is known that they were held."""

Lane: TypeAlias = str | None
"""The id of the session whose lane it is, or `SHARED`."""
SHARED: Final = None
"""The lane of all others."""


class _Append(Protocol):
    @property
    def session_id(self) -> str: ...

    @property
    def size(self) -> int: ...


A = TypeVar("A", bound=_Append)


class AppendQueue(Generic[A]):
    """Appends that nobody works on yet, in the order of their coming."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, deque[A]] = {}
        self._were_held: dict[str, int] = {}

    def submit(self, append: A) -> tuple[Lane, bool]:
        """Let it wait. In which lane, and whether this lane needs a worker, since it has none."""
        lane: Lane = append.session_id if self._is_apart(append.session_id) else SHARED
        is_new = lane not in self._lanes
        self._lanes.setdefault(lane, deque()).append(append)
        return lane, is_new

    def withdraw(self, append: A) -> bool:
        """Take it out again; False when it is in a group already, or out."""
        for lane in (append.session_id, SHARED):
            with suppress(KeyError, ValueError):
                self._lanes[lane].remove(append)
                return True
        return False

    def take(self, lane: Lane) -> list[A]:
        """For the lane's worker: the next group. None left ends the lane, and the worker's work."""
        waiting = self._lanes[lane]
        group: list[A] = []
        size = 0
        while waiting and len(group) < MAX_GROUP:
            size += waiting[0].size
            if group and size > MAX_GROUP_SIZE:
                break
            group.append(waiting.popleft())
        if not group:
            del self._lanes[lane]
        return group

    def put_back(self, lane: Lane, group: Sequence[A]) -> None:
        """For the lane's worker: what was taken last and not done goes to the head again."""
        self._lanes[lane].extendleft(reversed(group))

    def set_apart(self, held: Sequence[A]) -> list[Lane]:
        """For the shared lane's worker: the sessions of `held` were not free. Their new lanes, with these and
        all that waits for the same sessions. Which of the lanes are new: each of them needs a worker."""
        sessions = list(dict.fromkeys(append.session_id for append in held))
        if len(self._were_held) > MOST_REMEMBERED:
            self._were_held.clear()
        self._were_held.update(dict.fromkeys(sessions, APART_AGAIN))
        fresh: list[Lane] = [session_id for session_id in sessions if session_id not in self._lanes]
        apart: dict[str, deque[A]] = {session_id: deque() for session_id in sessions}
        stay: deque[A] = deque()
        for append in (*held, *self._lanes[SHARED]):
            apart.get(append.session_id, stay).append(append)
        for session_id, waiting in apart.items():
            waiting.extend(self._lanes.get(session_id, ()))
            self._lanes[session_id] = waiting
        self._lanes[SHARED] = stay
        return fresh

    def _is_apart(self, session_id: str) -> bool:
        if session_id in self._lanes:
            return True
        left = self._were_held.pop(session_id, 0)
        if left > 1:
            self._were_held[session_id] = left - 1
        shared = self._lanes.get(SHARED, ())
        return left > 0 and all(append.session_id != session_id for append in shared)

    def take_all(self, lane: Lane) -> list[A]:
        """All that waits in a lane, which stays."""
        waiting = self._lanes.get(lane)
        taken = list(waiting or ())
        if waiting:
            waiting.clear()
        return taken
