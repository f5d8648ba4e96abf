"""What every engine does alike: its turns, its certificates, its limits of time."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from functools import lru_cache
from typing import Literal, TypeVar

from hermes_messages import ConfigurationError, ErrorKind, ProviderError
from hermes_providers.timeouts import StreamClock
from hermes_providers.transport import HttpOptions

__all__ = ["KEEP_S", "Failing", "Turns", "certificates", "explained", "wake", "within"]

T = TypeVar("T")

KEEP_S = 30.0
"""How long a connection that nobody uses is kept, in seconds."""


async def within(clock: StreamClock, work: Awaitable[T]) -> T:
    """What `work` gives. Raises `ProviderError` (timeout) when `clock` allows no further wait."""
    limit = asyncio.timeout_at(clock.begin_wait(asyncio.get_running_loop().time()))
    try:
        async with limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise ProviderError(clock.explanation, kind=ErrorKind.TIMEOUT) from None


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
        self._free = limit
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    async def take(self, clock: StreamClock) -> None:
        """Wait for a turn. Raises `ProviderError` (timeout)."""
        if self._free:
            self._free -= 1
            return
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

    def give_back(self) -> None:
        """The turn is over; the first of those who wait has it now."""
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
