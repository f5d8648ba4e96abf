"""When an agent is open and in which event loop, what runs beside its conversation, and how it is closed."""

from __future__ import annotations

import asyncio
import warnings
from typing import Final

from hermes_loop.background import BackgroundWork, running_turn
from hermes_loop.conversation import Conversation
from hermes_loop.follow_ups import FollowUps
from hermes_loop.journal import Journal
from hermes_loop.loop_bound import LoopBound
from hermes_loop.shielding import Bounds, finish_despite_cancel
from hermes_loop.turn_state import TurnState
from hermes_loop.wiring import Wiring
from hermes_messages import ConfigurationError

__all__ = ["Lifecycle"]

CLOSE_LIMIT_S: Final = 10.0
CLOSE_BOUNDS: Final = Bounds(limit_s=4 * CLOSE_LIMIT_S + 1)


class Lifecycle:
    """One agent's."""

    def __init__(self, wiring: Wiring, session_id: str) -> None:
        self._session_id = session_id
        self._conversation: Conversation | None = None
        self._bound: LoopBound | None = None
        self._closing = False
        self._close_after_turn = False
        self.wiring = wiring
        self.background: BackgroundWork = BackgroundWork()
        self.current: TurnState | None = None
        """The turn that holds the agent's lock."""
        self.is_open: bool = False
        self.follow_ups: FollowUps | None = None
        """The messages that wait for the end of a turn; set by whoever runs the turns, once there is one."""

    @property
    def conversation(self) -> Conversation:
        """What the agent remembers; there once it was opened."""
        assert self._conversation is not None
        return self._conversation

    @property
    def inside_its_turn(self) -> bool:
        """Whether the caller is a tool, hook or callback of the turn that is running."""
        return running_turn.get() is self and self.current is not None

    def interrupt(self) -> bool:
        """Stop the running turn at its next safe boundary; whether a turn was running."""
        if self.current is None:
            return False
        self.current.interrupt.request()
        return True

    def refuse_when_closed(self) -> None:
        """Raises `ConfigurationError` for a turn that waited while the agent was closed."""
        if self._closing or not self.is_open:
            raise ConfigurationError("the agent was closed while this turn waited; nothing was sent")

    def bind(self) -> LoopBound:
        """What belongs to the running event loop; made anew when the one before is gone."""
        loop = asyncio.get_running_loop()
        if self._bound is None or self._bound.loop is not loop:
            if self._bound is not None and self._bound.loop.is_running():
                raise ConfigurationError("this agent is in use by another event loop; one loop at a time")
            self._bound = LoopBound(loop)
            self.background = BackgroundWork()
            self.current = None
            self._closing = self._close_after_turn = False
        return self._bound

    async def initialize(self) -> LoopBound:
        """Open what the agent runs on, once; again in a new event loop. What belongs to that loop."""
        bound = self.bind()
        if self.is_open and bound.opened and not bound.opening.locked():
            return bound
        async with bound.opening:
            if self.is_open:
                if not bound.opened:
                    await self.wiring.reopen()
                    bound.opened = True
                return bound
            await self.wiring.open()
            bound.opened = True
            self.is_open = True
            if self._conversation is None:
                self._conversation = Conversation(Journal(self.wiring.store, self._session_id))
            else:
                self._conversation.journal.go_on_with(self.wiring.store)
            return bound

    async def close(self) -> None:
        """See `AIAgent.close`."""
        bound = self.bind()
        if self.inside_its_turn:
            self._closing = self._close_after_turn = True
            self.interrupt()
            return
        async with bound.opening:
            self._closing = True
            try:
                if not self._is_idle(bound):
                    # The task of the follow-ups, whose last turn asked for this, can not wait for itself.
                    joins = self.follow_ups is None or not self.follow_ups.runs_here
                    # Not cut short by a cancellation: the turn still needs what is about to be closed.
                    await finish_despite_cancel(lambda: self._end_work(bound, joins=joins), CLOSE_BOUNDS)
            finally:
                self.is_open = False
                try:
                    await self.wiring.close()
                finally:
                    self._closing = False

    async def close_if_asked(self) -> None:
        """Close the agent if its turn, which just ended, asked for that."""
        if self._close_after_turn:
            self._close_after_turn = False
            await self.close()

    def _is_idle(self, bound: LoopBound) -> bool:
        """Whether no work has to be ended."""
        follow_ups = self.follow_ups
        return not bound.turns.locked() and self.background.idle and (follow_ups is None or follow_ups.idle)

    async def _end_work(self, bound: LoopBound, *, joins: bool) -> None:
        if self.follow_ups is not None:
            self.follow_ups.refuse()
        await self._end_running_turn(bound)
        if joins and self.follow_ups is not None:  # perhaps made by the turn as it ended
            await self.follow_ups.join(CLOSE_LIMIT_S)
        await self.background.cancel(CLOSE_LIMIT_S)

    async def _end_running_turn(self, bound: LoopBound) -> None:
        if not bound.turns.locked():
            return
        self.interrupt()
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S), bound.turns:
                pass
        except TimeoutError:
            label = self.wiring.label(self._session_id)
            warnings.warn(f"{label} is closed although its turn did not end", ResourceWarning, stacklevel=2)
