"""The pool of the default engine: connections of httpcore over sockets of ours, last in, first out.

httpx's pool loses connections for good when a request is cancelled at certain moments
(https://github.com/encode/httpcore/issues/1093), and its cost grows with the square of its size. Here each
request has a connection to itself; after anything but a tidy end it is thrown away whole, by a plain call
that no cancellation can tear in two.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections import deque
from functools import lru_cache

import httpcore
from msgspec import Struct

from hermes_providers.engines.shared import KEEP_S, Turns, certificates
from hermes_providers.engines.sockets import Sockets
from hermes_providers.proxies import Proxy, ProxyTable
from hermes_providers.transport import HttpOptions

__all__ = ["Connection", "Pool", "Target", "target_of"]

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_PLAIN = re.compile(
    rf"(https?)://(127\.0\.0\.1|(?=[^/:]*[a-z])(?:{_LABEL}\.)*{_LABEL})"
    r"(?::(?!80(?:/|$)|443(?:/|$)|0)([0-9]{1,4}|[1-5][0-9]{4}))?"
    r"((?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)*/?)"
)
"""Addresses that mean what they say. Others are read by httpx, which takes long to import."""
_HTTP1 = ("http/1.1",)
_HTTP2 = ("http/1.1", "h2")


class Target(Struct, frozen=True, eq=False):
    """An address as httpcore wants it, the host that a request names, and where connections lead to."""

    url: httpcore.URL
    origin: httpcore.Origin
    host: str
    place: str


@lru_cache(maxsize=256)
def target_of(url: str) -> Target:
    """What `url` means. Raises `ValueError` for one that means nothing."""
    plain = _PLAIN.fullmatch(url)
    if plain is not None:
        scheme, name, port, path = plain.groups()
        found = httpcore.URL(
            scheme=scheme, host=name, port=None if port is None else int(port), target=path or "/"
        )
        host = name if port is None else f"{name}:{port}"
        return Target(found, found.origin, host, f"{scheme}://{host}")
    import httpx

    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(str(error)) from error
    found = httpcore.URL(
        scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path
    )
    host = parsed.netloc.decode("ascii")
    return Target(found, found.origin, host, f"{parsed.scheme}://{host}")


class Connection:
    """One connection, or one way through a proxy with room for one. `since` is when it became idle."""

    __slots__ = ("_http", "_sockets", "place", "since")

    def __init__(self, target: Target, options: HttpOptions, proxy: Proxy | None) -> None:
        self.place: str = target.place
        self.since: float = 0.0
        self._sockets = Sockets()
        self._http = _http_over(self._sockets, target.origin, options, proxy)

    @property
    def is_good(self) -> bool:
        """Whether the next request may go over it; one through a proxy is looked after by httpcore."""
        http = self._http
        if isinstance(http, httpcore.AsyncHTTPConnection):
            return http.is_idle() and not http.has_expired()
        return True

    async def send(self, request: httpcore.Request) -> httpcore.Response:
        """The head of the answer. Raises httpcore's errors."""
        return await self._http.handle_async_request(request)

    def close(self) -> None:
        """End it as soon as what was written is sent."""
        self._sockets.close()

    def abort(self) -> None:
        """End it now; who reads from it gets an error."""
        self._sockets.abort()

    async def wait_closed(self) -> None:
        """Wait until its sockets are gone."""
        await self._sockets.wait_closed()


class Pool:
    """The connections of one transport in one event loop. None is used by two requests at once."""

    def __init__(self, options: HttpOptions) -> None:
        """Raises `ConfigurationError` for a proxy that can not work."""
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.turns: Turns = Turns(options.max_connections)
        self.proxies: ProxyTable = ProxyTable(options.proxy, os.environ, direct=options.direct)
        self._options = options
        self._idle: dict[str, deque[Connection]] = {}
        self._busy: set[Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, target: Target) -> Connection:
        """A kept connection that still works, else a new one, not open yet."""
        kept = self._idle.get(target.place)
        while kept:
            connection = kept.pop()
            if connection.is_good:
                break
            connection.close()
        else:
            connection = Connection(target, self._options, self.proxies.find(target.place))
        self._busy.add(connection)
        return connection

    def give_back(self, connection: Connection, *, keep: bool) -> None:
        """Keep a connection for the next request, or end it."""
        ours = connection in self._busy  # not after a close that came meanwhile
        self._busy.discard(connection)
        if not (keep and ours and connection.is_good):
            connection.abort()
            return
        connection.since = self.loop.time()
        self._idle.setdefault(connection.place, deque()).append(connection)
        if self._sweep is None:
            self._sweep = self.loop.call_later(KEEP_S, self._close_expired)

    async def close(self) -> None:
        """End all connections and wait until their sockets are gone."""
        self.stop()
        idle = [connection for kept in self._idle.values() for connection in kept]
        busy = list(self._busy)
        self._idle.clear()
        self._busy.clear()
        for connection in idle:
            connection.close()
        for connection in busy:
            connection.abort()
        for connection in (*idle, *busy):
            await connection.wait_closed()

    def stop(self) -> None:
        """No timer any more."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _close_expired(self) -> None:
        line = self.loop.time() - KEEP_S
        for place, kept in list(self._idle.items()):
            while kept and kept[0].since <= line:
                kept.popleft().close()
            if not kept:
                del self._idle[place]
        self._sweep = self.loop.call_later(KEEP_S / 2, self._close_expired) if self._idle else None


def _http_over(
    sockets: Sockets, where: httpcore.Origin, options: HttpOptions, proxy: Proxy | None
) -> httpcore.AsyncHTTPConnection | httpcore.AsyncConnectionPool:
    tls = _tls(options, secure=where.scheme == b"https")
    if proxy is None:
        return httpcore.AsyncHTTPConnection(
            where, ssl_context=tls, keepalive_expiry=KEEP_S, http2=options.http2, network_backend=sockets
        )
    who = None if proxy.user is None else (proxy.user.encode(), (proxy.password or "").encode())
    address = httpcore.URL(scheme=proxy.scheme, host=proxy.host, port=proxy.port, target=b"")
    if proxy.is_socks:
        return httpcore.AsyncSOCKSProxy(
            address,
            proxy_auth=who,
            ssl_context=tls,
            max_connections=1,
            keepalive_expiry=KEEP_S,
            http2=options.http2,
            network_backend=sockets,
        )
    return httpcore.AsyncHTTPProxy(
        address,
        proxy_auth=who,
        ssl_context=tls,
        proxy_ssl_context=_tls(options, secure=proxy.scheme == "https"),
        max_connections=1,
        keepalive_expiry=KEEP_S,
        http2=options.http2,
        network_backend=sockets,
    )


def _tls(options: HttpOptions, *, secure: bool) -> ssl.SSLContext | None:
    return certificates(options, _HTTP2 if options.http2 else _HTTP1) if secure else None
