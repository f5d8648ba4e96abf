"""Messages that wait for the end of the running turn, and then open the next one by themselves."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator

from hermes_loop.background import running_turn, stop_tasks
from hermes_messages import ConfigurationError, HermesError
from hermes_messages.protocols import ConversationResult

__all__ = ["FollowUp", "FollowUpHeldError", "FollowUps"]

logger: logging.Logger = logging.getLogger(__name__)


class FollowUpHeldError(HermesError):
    """Not now: the conversation waits for a person's decision. The message keeps its place."""


class FollowUpWithdrawnError(HermesError):
    """Not any more: the message was taken back while it waited for the lock."""


class FollowUp:
    """A message that opens a turn of its own. Await it for the result of that turn.

    Cancelling who awaits it does not cancel the turn; `withdraw` takes back what has not begun.
    """

    def __init__(self, text: str, may_wait: Callable[[], bool]) -> None:
        self._text = text
        self._may_wait = may_wait
        self._begun = False
        self._outcome: asyncio.Future[ConversationResult] = asyncio.get_running_loop().create_future()
        self._outcome.add_done_callback(_retrieved)

    def __await__(self) -> Generator[object, None, ConversationResult]:
        if not self._outcome.done() and not self._may_wait():
            raise ConfigurationError(
                "a follow-up begins when this turn has ended: its turn can not wait for it"
            )
        return asyncio.shield(self._outcome).__await__()

    @property
    def text(self) -> str:
        """What was given to `follow_up`."""
        return self._text

    @property
    def begun(self) -> bool:
        """Whether its turn has begun."""
        return self._begun

    @property
    def done(self) -> bool:
        """Whether its turn has ended, or will never begin."""
        return self._outcome.done()

    def withdraw(self) -> bool:
        """Take the message back; whether that was possible. Awaiting it raises `CancelledError` then."""
        if self._begun or self._outcome.done():
            return False
        self._outcome.cancel()
        return True

    def begin(self) -> None:
        """Its turn begins now. Raises `FollowUpWithdrawnError`."""
        if self._outcome.done():
            raise FollowUpWithdrawnError("the follow-up was withdrawn")
        self._begun = True

    def finish(self, outcome: ConversationResult | BaseException) -> None:
        """Tell who waits."""
        if self._outcome.done():
            return
        if isinstance(outcome, asyncio.CancelledError):
            self._outcome.cancel()
        elif isinstance(outcome, BaseException):
            self._outcome.set_exception(outcome)
        else:
            self._outcome.set_result(outcome)


class FollowUps:
    """The messages of one agent that wait, in order, and the task that runs their turns."""

    def __init__(self, run: Callable[[FollowUp], Awaitable[ConversationResult]]) -> None:
        self._run = run
        self._waiting: deque[FollowUp] = deque()
        self._running: asyncio.Task[object] | None = None
        self._current: FollowUp | None = None

    def add(self, follow_up: FollowUp) -> None:
        """Let it wait for its turn, which may be the next."""
        self._waiting.append(follow_up)
        self.wake()

    def wake(self) -> None:
        """Go on with what waits, if anything does and nobody is at it."""
        if not self._waiting or (self._running is not None and not self._running.done()):
            return
        context = contextvars.copy_context()
        context.run(running_turn.set, None)
        self._running = asyncio.create_task(self._drain(), name="follow-ups", context=context)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._waiting and (self._running is None or self._running.done())

    @property
    def runs_here(self) -> bool:
        """Whether the caller is the task that runs the turns."""
        return self._running is not None and self._running is asyncio.current_task()

    def refuse(self) -> None:
        """Nothing begins any more; who waits is told. A turn that began goes on."""
        for follow_up in self._waiting:
            if not follow_up.begun:
                follow_up.finish(
                    ConfigurationError("the agent was closed before this follow-up began; nothing was sent")
                )
        self._waiting.clear()

    async def join(self, limit_s: float) -> None:
        """Wait until the turn that began has ended, at most `limit_s` seconds, then stop the task.

        One that has not begun is stopped at once: it may wait for what the caller holds.
        """
        task = self._running
        if task is None:
            return
        if self._current is None or self._current.begun:
            await asyncio.wait({task}, timeout=limit_s)
        if not task.done():
            await stop_tasks((task,), limit_s)

    async def _drain(self) -> None:
        while self._waiting:
            follow_up = self._current = self._waiting[0]
            if follow_up.done:
                self._waiting.popleft()
                continue
            try:
                outcome: ConversationResult | BaseException = await self._run(follow_up)
            except FollowUpHeldError:
                return
            except FollowUpWithdrawnError:
                continue
            except asyncio.CancelledError as error:
                follow_up.finish(error)
                self.refuse()
                raise
            except Exception as error:  # handed to who awaits the follow-up; nobody has to
                bug = not isinstance(error, HermesError)
                logger.warning("a follow-up could not be run: %s", error, exc_info=bug)
                outcome = error
            if self._waiting and self._waiting[0] is follow_up:
                self._waiting.popleft()
            follow_up.finish(outcome)


def _retrieved(outcome: asyncio.Future[ConversationResult]) -> None:
    """Nobody has to await a follow-up."""
    if not outcome.cancelled():
        outcome.exception()
