"""The only module that awaits httpx: one POST, answered by a status, headers and chunks of bytes.

`Transport` and `Reply` are the seam under which another engine can be put. Clients are bound to the event
loop that runs; when another loop runs, those of the dead one are let go and new ones are made.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from typing import Protocol

import httpx
from msgspec import Struct

from hermes_messages import ConfigurationError, ErrorKind, MissingDependencyError, ProviderError
from hermes_providers.outlast import end_task, finish
from hermes_providers.timeouts import StreamClock, Timeouts

__all__ = ["HttpOptions", "HttpxTransport", "Reply", "Transport"]

_CLEAN_UP_S = 5.0
_CHUNKS_AHEAD = 16
_MAX_IDLE = 50
_KEEP_ALIVE_S = 30.0


class HttpOptions(Struct, frozen=True, kw_only=True):
    """How to reach hosts. `proxy` is an address; None asks the usual environment variables. A proxy's
    password never shows in the repr. `direct` asks no environment and takes no proxy. Past `max_connections`,
    requests wait for a free one. `keep_alive` None keeps connections to https addresses only: a plain one is
    cheap to open anew, and model servers that people run themselves (llama.cpp) close theirs after a stream
    without saying so, which loses the next request.

    `ca_file` holds the certificates to trust in place of the usual ones (PEM), `client_certificate` the files
    of a certificate and its key with which we show who we are; `tls` is a whole context in place of both.
    There is no switch to trust everyone. `http2` needs the extra `http2`; each request still has a connection
    of its own, so it helps only with hosts that demand it."""

    max_connections: int = 1000
    proxy: str | None = None
    direct: bool = False
    keep_alive: bool | None = None
    http2: bool = False
    ca_file: str | None = None
    client_certificate: tuple[str, str] | None = None
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        if self.max_connections < 1:
            raise ConfigurationError(f"max_connections must be at least 1, not {self.max_connections}")

    def __repr__(self) -> str:
        proxy = None if self.proxy is None else "***"
        return f"HttpOptions(max_connections={self.max_connections}, proxy={proxy!r})"


class Reply(Protocol):
    """An answer whose head has come."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name."""
        ...

    async def read(self, clock: StreamClock) -> bytes:
        """The next bytes of the body, b"" at its end. Raises `ProviderError` (transport, timeout)."""
        ...


class Transport(Protocol):
    """Sends requests. Leaving the context of `post` releases the connection, whatever happened inside."""

    async def open(self) -> None:
        """Make ready. Raises `ConfigurationError` for options that can not work."""
        ...

    def post(
        self, url: str, headers: Mapping[str, str], body: bytes, clock: StreamClock
    ) -> AbstractAsyncContextManager[Reply]:
        """Send and wait for the head of the answer. Raises `ProviderError` (transport, timeout)."""
        ...

    async def close(self) -> None:
        """Close all connections. Idempotent; `open` may follow."""
        ...


class _Exchange:
    """One request in a task of its own: the task alone touches httpx, so that no cancellation but its one
    reaches the clean-up inside. What it receives waits here until it is read, at most a few chunks."""

    def __init__(self, client: httpx.AsyncClient, request: httpx.Request) -> None:
        self._client = client
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._response: httpx.Response | None = None
        self._chunks: list[bytes] = []
        self._ended = False
        self._error: Exception | None = None
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self.tidy = False
        self.task = asyncio.create_task(self._run())

    @property
    def status(self) -> int:
        return self._head.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self._head.headers.items()}

    async def wait_for_head(self, clock: StreamClock) -> None:
        while self._response is None:
            if self._ended:
                raise self._failure()
            await self._wait(clock)

    async def read(self, clock: StreamClock) -> bytes:
        while not self._chunks:
            if self._error is not None:
                raise self._failure()
            if self._ended:
                return b""
            await self._wait(clock)
        data = b"".join(self._chunks)
        self._chunks.clear()
        _wake(self._room)
        return data

    @property
    def _head(self) -> httpx.Response:
        assert self._response is not None
        return self._response

    async def _run(self) -> None:
        try:
            response = await self._client.send(self._request, stream=True)
            self._response = response
            _wake(self._arrival)
            async for chunk in response.aiter_bytes():
                if chunk:
                    self._chunks.append(chunk)
                    _wake(self._arrival)
                while len(self._chunks) >= _CHUNKS_AHEAD:
                    self._room = self._loop.create_future()
                    await self._room
            self.tidy = True
        except Exception as error:  # noqa: BLE001 - kept, and raised where the reply is read
            self._error = error
        finally:
            self._ended = True
            _wake(self._arrival)

    async def _wait(self, clock: StreamClock) -> None:
        self._arrival = self._loop.create_future()
        try:
            async with asyncio.timeout_at(clock.begin_wait(self._loop.time())):
                await self._arrival
        except TimeoutError:
            raise ProviderError(clock.explanation, kind=ErrorKind.TIMEOUT) from None

    def _failure(self) -> Exception:
        host = self._request.url.netloc.decode("ascii")
        match self._error:
            case httpx.HTTPError() | httpx.StreamError() as error:
                failure = _provider_error(error, host)
                failure.__cause__ = error
                return failure
            case None:
                return ProviderError(f"the request to {host} was stopped", kind=ErrorKind.TRANSPORT)
            case error:
                return error


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class HttpxTransport:
    """`Transport` over httpx, with a pool of our own: each connection is a client with one connection.

    A request that ended tidily leaves its client for the next one; after anything else the client is closed
    whole. httpx's own pool loses connections for good when a request is cancelled at certain moments
    (https://github.com/encode/httpcore/issues/1093), and its cost grows with the square of its size.
    """

    def __init__(self, timeouts: Timeouts, options: HttpOptions | None = None) -> None:
        self._timeouts = timeouts
        self._options = options or HttpOptions()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[httpx.AsyncClient] = []
        self._busy: set[httpx.AsyncClient] = set()
        self._turns = asyncio.Semaphore(self._options.max_connections)
        self._tls: ssl.SSLContext | None = self._options.tls

    async def open(self) -> None:
        """Make a first client. Raises `ConfigurationError` for a proxy or certificates that do not work."""
        self._bind_to_running_loop()
        if not self._idle and not self._busy:
            self._idle.append(self._new_client())

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, clock: StreamClock
    ) -> AsyncIterator[Reply]:
        """Send `body` and yield the reply; the connection is released when the context is left."""
        self._bind_to_running_loop()
        turns = self._turns
        try:
            async with asyncio.timeout_at(clock.begin_wait(asyncio.get_running_loop().time())):
                await turns.acquire()
        except TimeoutError:
            busy = f"{clock.explanation}; all {self._options.max_connections} connections were in use"
            raise ProviderError(busy, kind=ErrorKind.TIMEOUT) from None
        try:
            client = self._idle.pop() if self._idle else self._new_client()
            request = client.build_request(
                "POST", url, headers=self._with_connection(url, headers), content=body
            )
            self._busy.add(client)
            exchange = _Exchange(client, request)
            try:
                await exchange.wait_for_head(clock)
                yield exchange
            finally:
                await self._end(exchange, client)
        finally:
            turns.release()

    async def close(self) -> None:
        """Close all connections; requests that run end with a `ProviderError`."""
        clients = (*self._idle, *self._busy)
        same_loop = self._loop is asyncio.get_running_loop()
        self._forget()
        if same_loop:
            await finish(_close_all(clients), _CLEAN_UP_S)

    async def _end(self, exchange: _Exchange, client: httpx.AsyncClient) -> None:
        try:
            await end_task(exchange.task, _CLEAN_UP_S)
        finally:
            ours = client in self._busy  # not after a close that came meanwhile
            self._busy.discard(client)
            if exchange.tidy and ours and len(self._idle) < _MAX_IDLE:
                self._idle.append(client)
            else:
                await finish(client.aclose(), _CLEAN_UP_S)

    def _with_connection(self, url: str, headers: Mapping[str, str]) -> dict[str, str]:
        keep = self._options.keep_alive
        keep = url.startswith("https:") if keep is None else keep
        if keep or self._options.http2:  # HTTP/2 knows no such header (RFC 9113 section 8.2.2)
            return dict(headers)
        return {**headers, "connection": "close"}

    def _bind_to_running_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._forget()  # the sockets of another loop can not be closed from this one
            self._loop = loop

    def _forget(self) -> None:
        self._loop = None
        self._idle = []
        self._busy = set()
        self._turns = asyncio.Semaphore(self._options.max_connections)

    def _new_client(self) -> httpx.AsyncClient:
        # Only the connect limit is httpx's: the others count events, which it does not know.
        timeout = httpx.Timeout(None, connect=self._timeouts.connect_s)
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_KEEP_ALIVE_S)
        try:
            return httpx.AsyncClient(
                timeout=timeout,
                limits=limits,
                proxy=self._options.proxy,
                verify=self._certificates(),
                http2=self._options.http2,
                trust_env=not self._options.direct,
            )
        except ImportError as error:
            raise _missing(error) from error
        except (ValueError, httpx.InvalidURL) as error:
            # The text of the error may hold the proxy's password, so it stays out.
            raise ConfigurationError(
                "the proxy can not be used (option proxy, or HTTP_PROXY, HTTPS_PROXY, ALL_PROXY in the "
                "environment): write it like http://host:port or socks5://host:port; nothing was sent"
            ) from error

    def _certificates(self) -> ssl.SSLContext:
        if self._tls is None:
            options = self._options
            self._tls = _tls(options.ca_file, options.client_certificate)
        return self._tls


def _missing(error: ImportError) -> MissingDependencyError:
    extra = "http2" if "h2" in str(error) else "socks"
    what = "what HTTP/2 needs" if extra == "http2" else "what a SOCKS proxy needs"
    return MissingDependencyError(what, f"pip install 'hermes-providers[{extra}]'")


async def _close_all(clients: Iterable[httpx.AsyncClient]) -> None:
    for client in clients:
        await client.aclose()


@lru_cache(maxsize=16)
def _tls(ca_file: str | None, client_certificate: tuple[str, str] | None) -> ssl.SSLContext:
    """One set of certificates for all clients: reading it takes longer than all else in making one."""
    try:
        context = ssl.create_default_context(cafile=ca_file) if ca_file else httpx.create_ssl_context()
        if client_certificate is not None:
            context.load_cert_chain(*client_certificate)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"the certificates can not be read (ca_file {ca_file!r}, client_certificate "
            f"{client_certificate and client_certificate[0]!r}): {error}; nothing was sent"
        ) from error
    return context


def _provider_error(error: httpx.HTTPError | httpx.StreamError, host: str) -> ProviderError:
    """What a failure of the transport means. What no repetition can mend is not called transport."""
    what = str(error) or type(error).__name__
    match error:
        case httpx.ConnectTimeout():
            return ProviderError(f"{host} took no connection in time (connect_s)", kind=ErrorKind.TIMEOUT)
        case httpx.TimeoutException():
            return ProviderError(f"{host} did not answer in time: {what}", kind=ErrorKind.TIMEOUT)
        case httpx.ConnectError() if _is_certificate_failure(error):
            return ProviderError(f"the certificate of {host} can not be trusted: {what}", kind=ErrorKind.AUTH)
        case httpx.ConnectError():
            return ProviderError(f"can not connect to {host}: {what}", kind=ErrorKind.TRANSPORT)
        case httpx.ProxyError():
            return ProviderError(f"the proxy before {host} failed: {what}", kind=ErrorKind.TRANSPORT)
        case httpx.LocalProtocolError() | httpx.UnsupportedProtocol():
            return ProviderError(f"the request to {host} can not be sent: {what}", kind=ErrorKind.FORMAT)
        case _:
            return ProviderError(f"the connection to {host} broke: {what}", kind=ErrorKind.TRANSPORT)


def _is_certificate_failure(error: BaseException | None) -> bool:
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
        seen += 1
    return False
