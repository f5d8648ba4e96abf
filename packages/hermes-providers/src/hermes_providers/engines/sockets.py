"""Sockets of asyncio for httpcore: what httpcore reads from and writes to.

httpcore's own sockets go through layers that cost as much as the protocol itself, and a cancellation within a
handshake leaves theirs open. These are ended by a plain call (`Sockets.abort`), so that whatever a
cancellation tore in two above them is forgotten together with them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Iterable
from typing import Any, Final, cast

import httpcore

from hermes_providers.engines.shared import wake

__all__ = ["SocketStream", "Sockets"]

_FULL_BYTES: Final = 256 * 1024
_TOGETHER_BYTES: Final = 64 * 1024
_NEXT_ADDRESS_S: Final = 0.25  # RFC 8305 section 5


class _Pipe(asyncio.Protocol):
    """What came and was not read yet. Reading from the socket pauses when that is much."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.transport: asyncio.Transport | None = None
        self.received: bytearray = bytearray()
        self.ended: bool = False
        self.error: Exception | None = None
        self.closed: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._paused = False
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are none by their class

    def data_received(self, data: bytes) -> None:
        self.received += data
        if len(self.received) > _FULL_BYTES and not self._paused:
            assert self.transport is not None
            self._paused = True
            self.transport.pause_reading()
        wake(self._arrival)

    def eof_received(self) -> None:
        self.ended = True
        wake(self._arrival)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self.error = exc
        if not self.closed.done():
            self.closed.set_result(None)
        wake(self._arrival)
        wake(self._room)

    def pause_writing(self) -> None:
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        wake(self._room)
        self._room = None

    async def take(self, count: int) -> bytes:
        while not self.received:
            if self.ended:
                if self.error is not None:
                    raise httpcore.ReadError(_told(self.error)) from self.error
                return b""
            self._arrival = self._loop.create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None
        if len(self.received) <= count:
            data = bytes(self.received)
            self.received.clear()
        else:
            data = bytes(memoryview(self.received)[:count])
            del self.received[:count]
        if self._paused and len(self.received) <= _FULL_BYTES:
            assert self.transport is not None
            self._paused = False
            self.transport.resume_reading()
        return data

    async def give(self, data: bytes | memoryview) -> None:
        assert self.transport is not None
        if self.closed.done():
            raise httpcore.WriteError(_told(self.error)) from self.error
        self.transport.write(data)
        if self._room is not None:
            await self._room


class SocketStream(httpcore.AsyncNetworkStream):
    """One connection as httpcore wants it. What is written goes out together when an answer is waited for."""

    def __init__(self, pipe: _Pipe, transport: asyncio.Transport) -> None:
        self._pipe = pipe
        self._transport = transport
        self._unsent = bytearray()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """What came, at most so much; b"" at the end. Raises `httpcore.ReadError`."""
        if self._unsent:
            await self._send()
        return await self._pipe.take(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send `buffer`, at the latest before the next read. Raises `httpcore.WriteError`."""
        large = len(buffer) >= _TOGETHER_BYTES
        if not large:
            self._unsent += buffer
        if self._unsent and (large or len(self._unsent) >= _TOGETHER_BYTES):
            await self._send()
        if large:
            await self._pipe.give(memoryview(buffer))  # asyncio need not copy what of it has to wait

    async def aclose(self) -> None:
        """Close the socket, without waiting for that."""
        self._transport.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """The same connection, encrypted. Raises `httpcore.ConnectError`, `httpcore.ConnectTimeout`."""
        loop = asyncio.get_running_loop()
        await self._send()
        try:
            async with asyncio.timeout(timeout):
                secured = await loop.start_tls(
                    self._transport, self._pipe, ssl_context, server_hostname=server_hostname
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(_told(error)) from error
        except OSError as error:  # an ssl.SSLError is one
            raise httpcore.ConnectError(_told(error)) from error
        if secured is None:
            raise httpcore.ConnectError("the connection was closed within the handshake")
        self._pipe.transport = secured
        return SocketStream(self._pipe, secured)

    def get_extra_info(self, info: str) -> Any:
        """What asyncio knows of the connection, and whether something came that nobody reads."""
        if info == "is_readable":  # asked of an idle connection, where it means that the host ended it
            return bool(self._pipe.received) or self._pipe.ended
        return self._transport.get_extra_info(info)

    async def _send(self) -> None:
        data = bytes(self._unsent)
        self._unsent.clear()
        await self._pipe.give(data)


class Sockets(httpcore.AsyncNetworkBackend):
    """Opens connections and can end all that it opened, at once and without waiting."""

    def __init__(self) -> None:
        self._pipes: list[_Pipe] = []
        self._over = False

    def abort(self) -> None:
        """End every connection now. Whoever reads from one gets an error."""
        self._over = True
        for pipe in self._pipes:
            if pipe.transport is not None:
                pipe.received.clear()
                pipe.transport.abort()

    def close(self) -> None:
        """End every connection as soon as what was written is sent."""
        self._over = True
        for pipe in self._pipes:
            if pipe.transport is not None:
                pipe.transport.close()

    async def wait_closed(self) -> None:
        """Wait until the sockets are gone."""
        for pipe in self._pipes:
            await asyncio.shield(pipe.closed)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - asyncio sets TCP_NODELAY itself
    ) -> httpcore.AsyncNetworkStream:
        """A new connection. Raises `httpcore.ConnectError`, `httpcore.ConnectTimeout`."""
        loop = asyncio.get_running_loop()
        # Other loops, such as uvloop's, try the addresses of a name in turn and know no such word.
        several = isinstance(loop, asyncio.BaseEventLoop) and not _is_address(host)
        options: dict[str, Any] = {"happy_eyeballs_delay": _NEXT_ADDRESS_S} if several else {}
        try:
            async with asyncio.timeout(timeout):
                transport, pipe = await loop.create_connection(
                    lambda: _Pipe(loop),
                    host,
                    port,
                    **options,
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(_told(error)) from error
        except (OSError, UnicodeError) as error:  # the latter of a name that is none (IDNA)
            raise httpcore.ConnectError(_told(error)) from error
        self._pipes = [one for one in self._pipes if not one.closed.done()]
        self._pipes.append(pipe)
        if self._over:
            transport.abort()
            raise httpcore.ConnectError("the transport was closed")
        return SocketStream(pipe, transport)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _told(error: BaseException | None) -> str:
    return "" if error is None else str(error) or type(error).__name__
