"""The default engine: httpx's own protocol engine, httpcore, over a pool and sockets of ours."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpcore

from hermes_messages import ErrorKind, MissingDependencyError, ProviderError
from hermes_providers.engines.hurry import begin, hurried
from hermes_providers.engines.pool import Pool, Target, target_of
from hermes_providers.engines.shared import Patience, certificates, explained, wake
from hermes_providers.outlast import finish, join
from hermes_providers.timeouts import StreamClock, Timeouts
from hermes_providers.transport import HttpOptions, Reply

if TYPE_CHECKING:
    from hermes_providers.transport import Transport

__all__ = ["HttpxTransport"]

_AHEAD_BYTES = 64 * 1024
_CLEAN_UP_S = 5.0
_FAILURES = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
    httpcore.ConnectionNotAvailable,
)
"""What httpcore raises; it has no common root for it."""


class HttpxTransport:
    """`Transport` over httpx's engine, with HTTP/2 and SOCKS as extras."""

    def __init__(self, timeouts: Timeouts, options: HttpOptions | None = None) -> None:
        self._options = options or HttpOptions()
        self._extensions = {"timeout": {"connect": timeouts.connect_s}}
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}
        self._last_headers: tuple[Mapping[str, str], list[tuple[bytes, bytes]]] = ({}, [])

    async def open(self) -> None:
        """Check the options; connections are opened when they are needed. Raises `ConfigurationError` for a
        proxy or certificates that do not work, `MissingDependencyError` for an extra that is not there."""
        options, pool = self._options, self._ready()
        if options.http2 and importlib.util.find_spec("h2") is None:
            raise MissingDependencyError("what HTTP/2 needs", "pip install 'hermes-providers[http2]'")
        if pool.proxies.any_socks and importlib.util.find_spec("socksio") is None:
            raise MissingDependencyError("what a SOCKS proxy needs", "pip install 'hermes-providers[socks]'")
        if options.ca_file or options.client_certificate:
            certificates(options, ())

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, clock: StreamClock
    ) -> AsyncIterator[Reply]:
        """Send `body` and yield the reply; the connection is released when the context is left."""
        if asyncio.get_running_loop() not in self._pools:
            await self.open()
        pool = self._ready()
        target = _target(url)
        keep = self._options.keeps(url)
        patience = pool.turns.take_free() or await pool.turns.take(clock)
        try:
            connection, reply = pool.take(target), None
            try:
                # HTTP/2 has no such header (RFC 9113 section 8.2.2), and httpcore drops none.
                last = not (keep or self._options.http2)
                host = headers.get("host", target.host)
                sent = _own_headers(host, len(body), last=last) + self._encoded(headers)
                request = httpcore.Request(
                    "POST", target.url, headers=sent, content=body, extensions=self._extensions
                )
                try:
                    head = await patience.within(clock, hurried(connection.send(request)))
                    reply = _HttpxReply(head, target.host, patience, alone=not self._options.http2)
                except _FAILURES as error:
                    raise _provider_error(error, target.host) from error
                yield reply
            finally:
                pool.give_back(connection, keep=keep and reply is not None and reply.tidy)
                if reply is not None and not reply.tidy:
                    await reply.end()
        finally:
            pool.turns.give_back(patience)

    async def close(self) -> None:
        """Close all connections; requests that run, or wait for one, end with a `ProviderError`."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            pool.turns.end()
            await finish(pool.close(), _CLEAN_UP_S)

    def _encoded(self, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        """`headers` in bytes; made anew only for others than those of the last request."""
        if headers != self._last_headers[0]:
            self._last_headers = (dict(headers), _encoded(headers))
        return self._last_headers[1]

    def _ready(self) -> Pool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            # The sockets of another loop can not be closed from this one; those of a closed one are gone.
            for other in [other for other in list(self._pools) if other.is_closed()]:
                self._pools.pop(other, None)
            pool = self._pools[loop] = Pool(self._options)
        return pool


class _HttpxReply:
    """An answer. A task reads ahead of who reads here, so that what came together is given together.

    `tidy` says that all of it was read. `alone`: no other answer can come over the same connection.
    """

    def __init__(self, response: httpcore.Response, host: str, patience: Patience, *, alone: bool) -> None:
        self.headers: Mapping[str, str] = _decoded(response.headers)
        self.tidy = False
        self._response = response
        self._host = host
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        self._alone = alone
        self._chunks: list[bytes] = []
        self._size = 0
        self._ended = False
        self._error: Exception | None = None
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    @property
    def status(self) -> int:
        return self._response.status

    async def read(self, clock: StreamClock) -> bytes:
        if not self._begun:
            self._begun = True
            work = self._read_ahead()
            # Over HTTP/1.1 nothing is held while more is waited for; over HTTP/2 a lock is.
            self._task = begin(work) if self._alone else asyncio.create_task(work)
        while not self._chunks:
            if self._error is not None:
                raise _provider_error(self._error, self._host) from self._error
            if self.tidy:
                return b""
            if self._ended:
                raise ProviderError(f"the request to {self._host} was stopped", kind=ErrorKind.TRANSPORT)
            self._arrival = self._loop.create_future()
            await self._patience.within(clock, self._arrival)
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        wake(self._room)
        return data

    async def end(self) -> None:
        """Wait until nothing reads any more. The connection was ended before, so that is soon."""
        self._ended = True
        wake(self._room)
        if self._task is not None:
            await join(self._task, _CLEAN_UP_S)

    async def _read_ahead(self) -> None:
        try:
            # To its end, come what may: a generator left in the middle would need a task to be closed.
            async for chunk in self._body():
                if chunk and not self._ended:
                    self._chunks.append(chunk)
                    self._size += len(chunk)
                    wake(self._arrival)
                while self._size >= _AHEAD_BYTES and not self._ended:
                    self._room = self._loop.create_future()
                    await self._room
            await self._response.aclose()
            self.tidy = not self._ended
        except _FAILURES as error:
            self._error = error
        finally:
            self._ended = True
            wake(self._arrival)

    def _body(self) -> AsyncIterable[bytes]:
        body = self._response.stream
        assert isinstance(body, AsyncIterable)
        if self.headers.get("content-encoding", "identity") == "identity":
            return body
        return _uncoded(self._response.headers, body)


async def _uncoded(headers: list[tuple[bytes, bytes]], body: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """A body that is compressed although we asked for no compression: httpx knows how to read that."""
    import httpx

    class Coded(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in body:
                yield chunk

    try:
        async for chunk in httpx.Response(200, headers=headers, stream=Coded()).aiter_bytes():
            yield chunk
    except httpx.DecodingError as error:
        raise httpcore.RemoteProtocolError(str(error)) from error


def _target(url: str) -> Target:
    try:
        return target_of(url)
    except ValueError as error:
        raise explained("request", urlsplit(url).netloc, error) from error


def _own_headers(host: str, length: int, *, last: bool) -> list[tuple[bytes, bytes]]:
    own = [(b"host", host.encode()), (b"content-length", b"%d" % length)]
    return [*own, (b"connection", b"close")] if last else own


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [
        (name.encode("ascii"), value.encode("ascii")) for name, value in headers.items() if name != "host"
    ]


def _decoded(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by lower-case name; values of one name are joined (RFC 9110 section 5.3)."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _provider_error(error: Exception, host: str) -> ProviderError:
    """What a failure of the transport means. What no repetition can mend is not called transport."""
    match error:
        case httpcore.ConnectTimeout():
            return explained("connect_timeout", host, error)
        case httpcore.TimeoutException():
            return explained("timeout", host, error)
        case httpcore.ConnectError():
            return explained("connect", host, error)
        case httpcore.ProxyError():
            return explained("proxy", host, error)
        case httpcore.LocalProtocolError() | httpcore.UnsupportedProtocol():
            return explained("request", host, error)
        case _:
            return explained("broken", host, error)


if TYPE_CHECKING:

    def _fits(transport: HttpxTransport) -> Transport:
        return transport
