"""The engine `aiohttp` (extra `aiohttp`): faster where many requests run at once. No httpx in its path.

Of aiohttp's own limits, timeouts, retries, redirects, cookies and environment none is used.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec import Struct

from hermes_messages import ConfigurationError, MissingDependencyError, ProviderError

try:
    import aiohttp
except ImportError as _missing:
    raise MissingDependencyError(
        "the engine 'aiohttp'", "pip install 'hermes-providers[aiohttp]'"
    ) from _missing

from hermes_providers.engines.shared import KEEP_S, Turns, certificates, explained
from hermes_providers.outlast import finish
from hermes_providers.proxies import Proxy, ProxyTable
from hermes_providers.timeouts import StreamClock, Timeouts
from hermes_providers.transport import HttpOptions, Reply

if TYPE_CHECKING:
    from hermes_providers.transport import Transport

__all__ = ["AiohttpTransport"]

_CLEAN_UP_S: Final = 5.0
_PROTOCOLS: Final = ("http/1.1",)
_FAILURES: Final = (aiohttp.ClientError, OSError, ValueError)
_MAX_HEADER_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 256 * 1024
_WHOLE_BYTES: Final = 1024 * 1024
_MAX_WAYS: Final = 256


class _Way(Struct, frozen=True, eq=False):
    """How requests get to one address. `headers` are added to theirs, `proxy_headers` only the proxy sees."""

    session: aiohttp.ClientSession
    headers: Mapping[str, str]
    proxy: str | None
    proxy_headers: Mapping[str, str] | None


class _Bound:
    """What belongs to one event loop: turns, proxies, and a session for each way to treat connections."""

    def __init__(self, options: HttpOptions, timeout: aiohttp.ClientTimeout) -> None:
        self.turns: Turns = Turns(options.max_connections)
        self.proxies: ProxyTable = ProxyTable(options.proxy, os.environ, direct=options.direct)
        if self.proxies.any_socks:
            raise ConfigurationError(
                "the engine 'aiohttp' has no SOCKS; use the default engine with 'hermes-providers[socks]', "
                "or an http proxy"
            )
        self._options = options
        self._timeout = timeout
        self._sessions: dict[tuple[bool, bool], aiohttp.ClientSession] = {}
        self.ways: dict[str, _Way] = {}  # found once

    def way(self, url: str) -> _Way:
        """Find out how requests get to `url`."""
        if len(self.ways) >= _MAX_WAYS:
            self.ways.clear()
        found = self.ways[url] = self._new_way(url)
        return found

    def _new_way(self, url: str) -> _Way:
        proxy = self.proxies.find(url)
        tunnel = url.startswith("https:")
        secure = tunnel or (proxy is not None and proxy.scheme == "https")
        # Not within the proxy's address, which aiohttp shows in its errors.
        who = {} if proxy is None or proxy.user is None else {"proxy-authorization": _basic(proxy)}
        return _Way(
            session=self._session(secure=secure, keep=self._options.keeps(url)),
            headers={} if tunnel else who,
            proxy=None if proxy is None else proxy.address,
            proxy_headers=who if tunnel else None,
        )

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()

    def _session(self, *, secure: bool, keep: bool) -> aiohttp.ClientSession:
        found = self._sessions.get((secure, keep))
        if found is None:
            found = self._sessions[secure, keep] = self._new_session(secure=secure, keep=keep)
        return found

    def _new_session(self, *, secure: bool, keep: bool) -> aiohttp.ClientSession:
        tls: ssl.SSLContext | bool = certificates(self._options, _PROTOCOLS) if secure else True
        resolver = aiohttp.ThreadedResolver()
        if keep:
            connector = aiohttp.TCPConnector(limit=0, ssl=tls, resolver=resolver, keepalive_timeout=KEEP_S)
        else:
            connector = aiohttp.TCPConnector(limit=0, ssl=tls, resolver=resolver, force_close=True)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            trust_env=False,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
        )


class AiohttpTransport:
    """`Transport` over aiohttp. Without HTTP/2 and SOCKS."""

    def __init__(self, timeouts: Timeouts, options: HttpOptions | None = None) -> None:
        """Raises `ConfigurationError` for `http2`."""
        self._options = options or HttpOptions()
        if self._options.http2:
            raise ConfigurationError("the engine 'aiohttp' has no HTTP/2; the default engine has")
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=timeouts.connect_s)
        self._bounds: dict[asyncio.AbstractEventLoop, _Bound] = {}

    async def open(self) -> None:
        """Check the options; connections are opened when they are needed. Raises `ConfigurationError` for a
        proxy or certificates that do not work."""
        await self.ready()
        if self._options.ca_file or self._options.client_certificate:
            certificates(self._options, _PROTOCOLS)

    def post(
        self, url: str, headers: Mapping[str, str], body: bytes, clock: StreamClock
    ) -> AbstractAsyncContextManager[Reply]:
        """Send `body` and give the reply; the connection is released when the context is left."""
        return _Exchange(self, self._bounds.get(asyncio.get_running_loop()), url, headers, body, clock)

    async def close(self) -> None:
        """Close all connections; requests that run, or wait for one, end with a `ProviderError`."""
        bound = self._bounds.pop(asyncio.get_running_loop(), None)
        await self._forget_closed_loops()
        if bound is not None:
            bound.turns.end()
            await finish(bound.close(), _CLEAN_UP_S)

    async def ready(self) -> _Bound:
        """What belongs to the loop that runs now."""
        loop = asyncio.get_running_loop()
        bound = self._bounds.get(loop)
        if bound is None:
            await self._forget_closed_loops()
            bound = self._bounds[loop] = _Bound(self._options, self._timeout)
        return bound

    async def _forget_closed_loops(self) -> None:
        """What belongs to another loop that lives is left alone and not let go either: collected, aiohttp's
        objects would take their sockets out of that loop's selector, after a fork the parent's."""
        for loop, bound in list(self._bounds.items()):
            if loop.is_closed():
                self._bounds.pop(loop, None)
                await bound.close()  # the sockets went with their loop; this only tells aiohttp so


class _Exchange:
    """One request, and once it is entered its `Reply`, which is read as it comes. One object for both costs
    less than a generator and objects for each request."""

    __slots__ = (
        "_body",
        "_bound",
        "_clock",
        "_headers",
        "_patience",
        "_response",
        "_transport",
        "_turns",
        "_url",
        "status",
    )

    status: int

    def __init__(
        self,
        transport: AiohttpTransport,
        bound: _Bound | None,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        clock: StreamClock,
    ) -> None:
        self._transport = transport
        self._bound = bound
        self._url = url
        self._headers = headers
        self._body = body
        self._clock = clock

    async def __aenter__(self) -> Reply:
        clock = self._clock
        bound = self._bound or await self._transport.ready()
        turns = self._turns = bound.turns
        patience = self._patience = turns.take_free() or await turns.take(clock)
        try:
            response = await patience.within(clock, self._sent(bound))
        except BaseException as error:
            turns.give_back(patience)
            if isinstance(error, _FAILURES):
                raise _provider_error(error, urlsplit(self._url).netloc) from error
            raise
        self._response = response
        self.status = response.status
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if not self._response.closed:  # one that was read to its end has given its connection back
                self._response.close()
        finally:
            self._turns.give_back(self._patience)

    def _sent(self, bound: _Bound) -> Awaitable[aiohttp.ClientResponse]:
        """The head of the answer, once it came. Raises aiohttp's errors."""
        url, body, headers = self._url, self._body, self._headers
        way = bound.ways.get(url) or bound.way(url)
        is_large = len(body) > _WHOLE_BYTES
        if is_large:
            headers = {**headers, "content-length": str(len(body))}
        return way.session.post(
            url,
            headers={**headers, **way.headers} if way.headers else headers,
            data=_pieces(body) if is_large else body,
            allow_redirects=False,
            proxy=way.proxy,
            proxy_headers=way.proxy_headers,
        )

    @property
    def headers(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for given, value in self._response.headers.items():
            name = given.lower()
            found[name] = f"{found[name]}, {value}" if name in found else value
        return found

    async def read(self, clock: StreamClock) -> bytes:
        content = self._response.content
        try:
            came = content.read_nowait()
            if came or content.at_eof():
                return came
            return await self._patience.within(clock, content.readany())
        except (*_FAILURES, RuntimeError) as error:  # the latter of a connection that was closed under it
            raise _provider_error(error, self._response.url.authority) from error


def _basic(proxy: Proxy) -> str:
    """Who we are to a proxy (RFC 7617)."""
    return "Basic " + b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """A large body in pieces: as a whole, aiohttp warns of it and writes it in one go."""
    for start in range(0, len(body), _PIECE_BYTES):
        yield body[start : start + _PIECE_BYTES]


def _provider_error(error: Exception, host: str) -> ProviderError:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return explained("connect_timeout", host, error)
        case TimeoutError():
            return explained("timeout", host, error)
        case aiohttp.ClientHttpProxyError() | aiohttp.ClientProxyConnectionError():
            return explained("proxy", host, error)
        case aiohttp.ClientConnectorError():
            return explained("connect", host, error)
        case aiohttp.InvalidURL() | ValueError():
            return explained("request", host, error)
        case _:
            return explained("broken", host, error)


if TYPE_CHECKING:

    def _fits(transport: AiohttpTransport) -> Transport:
        return transport
