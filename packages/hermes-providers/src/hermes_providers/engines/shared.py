"""What every engine does alike: its turns, its certificates, its limits of time."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from contextvars import Context
from functools import lru_cache
from typing import Literal, TypeVar

from hermes_messages import ConfigurationError, ErrorKind, ProviderError
from hermes_providers.timeouts import StreamClock
from hermes_providers.transport import HttpOptions

__all__ = ["KEEP_S", "Failing", "Patience", "Turns", "certificates", "explained", "wake", "within"]

T = TypeVar("T")

KEEP_S = 30.0
"""How long a connection that nobody uses is kept, in seconds."""


class Patience:
    """Ends waits when their clock allows no more. One at a time: those of a request, then those of another.

    One timer serves them all. It is set anew only for a wait that has to end sooner than it would ring; where
    it rings too early, it moves itself. So neither the many waits of a long answer nor many requests cost a
    timer each.
    """

    __slots__ = ("_context", "_deadline", "_loop", "_rings_at", "_rung", "_task", "_timer")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = Context()  # that of a request would live as long as the timer
        self._task: asyncio.Task[object] | None = None
        self._deadline = 0.0
        self._rings_at = 0.0
        self._rung = False
        self._timer: asyncio.TimerHandle | None = None

    async def within(self, clock: StreamClock, work: Awaitable[T]) -> T:
        """What `work` gives. Raises `ProviderError` (timeout) when `clock` allows no further wait."""
        deadline = clock.begin_wait(self._loop.time())
        if deadline is None:
            return await work
        task = asyncio.current_task(self._loop)
        assert task is not None
        asked_before = task.cancelling()
        self._deadline, self._task = deadline, task
        if self._timer is None or deadline < self._rings_at:
            self._set(deadline)
        try:
            return await work
        except asyncio.CancelledError:
            if self._rung and task.cancelling() - 1 <= asked_before:  # nobody else asked for it
                raise ProviderError(clock.explanation, kind=ErrorKind.TIMEOUT) from None
            raise
        finally:
            self._task = None
            if self._rung:
                self._rung = False
                task.uncancel()

    def end(self) -> None:
        """No wait follows."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = deadline
        self._timer = self._loop.call_at(deadline, self._ring, context=self._context)

    def _ring(self) -> None:
        self._timer = None
        if self._task is None:
            return  # the next wait sets it
        if self._deadline > self._rings_at:
            self._set(self._deadline)
            return
        self._rung = True
        self._task.cancel()


async def within(clock: StreamClock, work: Awaitable[T]) -> T:
    """As `Patience.within`, for a wait that stands alone."""
    patience = Patience()
    try:
        return await patience.within(clock, work)
    finally:
        patience.end()


def wake(waiter: asyncio.Future[None] | None) -> None:
    """Whoever waits goes on."""
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class Turns:
    """At most `limit` requests at once; further ones wait in order, as long as their clock allows.

    A semaphore looks through those who were woken or cancelled and did not run yet; here nobody is looked at
    but who comes next.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._patient: list[Patience] = []
        self._free = limit
        self._ended = False
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    def take_free(self) -> Patience | None:
        """Take a turn that is free: what ends the waits of its request. None where no turn is free."""
        if not self._free:
            return None
        self._free -= 1
        return self._patient.pop() if self._patient else Patience()

    async def take(self, clock: StreamClock) -> Patience:
        """Wait for a turn: what ends the waits of its request, what a request before it left if there is.
        Raises `ProviderError` (timeout; transport where `end` came first)."""
        patience = self.take_free()
        if patience is not None:
            return patience
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        try:
            await within(clock, turn)
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it came in the same moment
                self.give_back()
            self._waiting.pop(turn, None)
            if not isinstance(error, ProviderError):
                raise
            busy = f"{error}; all {self._limit} connections were in use"
            raise ProviderError(busy, kind=ErrorKind.TIMEOUT) from None
        if self._ended:
            what = "the connections were closed while a request waited for one; it was not sent"
            raise ProviderError(what, kind=ErrorKind.TRANSPORT)
        return self._patient.pop() if self._patient else Patience()

    def end(self) -> None:
        """The connections are closed: whoever waits for one gets none."""
        self._ended = True
        while self._patient:
            self._patient.pop().end()
        while self._waiting:
            wake(self._waiting.popitem(last=False)[0])

    def give_back(self, patience: Patience | None = None) -> None:
        """The turn is over, and what ended its waits is free; the first of those who wait has it now."""
        if patience is not None:
            if self._ended:
                patience.end()
            else:
                self._patient.append(patience)
        while self._waiting:
            turn, _ = self._waiting.popitem(last=False)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def certificates(options: HttpOptions, protocols: tuple[str, ...]) -> ssl.SSLContext:
    """Whom to trust and who we are. `protocols` are offered in the handshake; a context
    is shared by all who offer the same.

    Raises `ConfigurationError` for files that can not be read.
    """
    return options.tls or _context(options.ca_file, options.client_certificate, protocols)


@lru_cache(maxsize=16)
def _context(
    ca_file: str | None, client_certificate: tuple[str, str] | None, protocols: tuple[str, ...]
) -> ssl.SSLContext:
    """One set of certificates for all connections: reading it takes longer than all else in making one."""
    import httpx

    try:
        context = ssl.create_default_context(cafile=ca_file) if ca_file else httpx.create_ssl_context()
        if client_certificate is not None:
            context.load_cert_chain(*client_certificate)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"the certificates can not be read (ca_file {ca_file!r}, client_certificate "
            f"{client_certificate and client_certificate[0]!r}): {error}; nothing was sent"
        ) from error
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


_MAX_TOLD_CHARS = 600

Failing = Literal["connect_timeout", "timeout", "connect", "proxy", "request", "broken"]

_MEANINGS: Mapping[Failing, tuple[str, ErrorKind]] = {
    "connect_timeout": ("{host} took no connection in time (connect_s)", ErrorKind.TIMEOUT),
    "timeout": ("{host} did not answer in time: {what}", ErrorKind.TIMEOUT),
    "connect": ("can not connect to {host}: {what}", ErrorKind.TRANSPORT),
    "proxy": ("the proxy before {host} failed: {what}", ErrorKind.TRANSPORT),
    "request": ("the request to {host} can not be sent: {what}", ErrorKind.FORMAT),
    "broken": ("the connection to {host} broke: {what}", ErrorKind.TRANSPORT),
}


def explained(what: Failing, host: str, error: BaseException) -> ProviderError:
    """What a failure of an engine means. What no repetition can mend is not called transport."""
    text = (str(error) or type(error).__name__)[:_MAX_TOLD_CHARS]
    if what == "connect" and _is_certificate_failure(error):
        return ProviderError(f"the certificate of {host} can not be trusted: {text}", kind=ErrorKind.AUTH)
    meaning, kind = _MEANINGS[what]
    return ProviderError(meaning.format(host=host, what=text), kind=kind)


def _is_certificate_failure(error: BaseException | None) -> bool:
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
        seen += 1
    return False
