"""The seam between the adapter and the network: one POST, answered by a status, headers and chunks of bytes.

`Transport` and `Reply` are all that the adapter knows. The engines behind them are in
`hermes_providers.engines` and chosen by name; any other object that satisfies `Transport` is given to
`from_profile(transport=...)`. What an engine owes:

- `post` waits at most as long as `clock.begin_wait(loop.time())` says, also for a free connection, and then
  raises `ProviderError` (timeout) with `clock.explanation`. `Reply.read` does the same for each wait.
- No retry, no redirect, no cookie, no header beyond those given and what HTTP demands (host, length,
  connection).
- Leaving the context of `post` gives the connection back when the body was read to its end, and ends it
  otherwise, whoever cancels meanwhile. No more than `HttpOptions.max_connections` requests are under way.
- A connection that was kept and has died or expired is not used.
- Each event loop has its own connections; those of a loop that was closed are let go.

The tests in `tests/engines/` run over every engine.
"""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, cast

from msgspec import Struct

from hermes_messages import ConfigurationError, UnknownNameError
from hermes_providers.engine_names import ENGINES
from hermes_providers.timeouts import StreamClock, Timeouts

__all__ = ["HttpOptions", "Reply", "Transport", "make_transport"]


class HttpOptions(Struct, frozen=True, kw_only=True):
    """How to reach hosts. `proxy` is an address; None asks the usual environment variables. A proxy's
    password never shows in the repr. `direct` asks no environment and takes no proxy. Past `max_connections`,
    requests wait for a free one. `keep_alive` None keeps connections to https addresses only: a plain one is
    cheap to open anew, and model servers that people run themselves (llama.cpp) close theirs after a stream
    without saying so, which loses the next request. Kept ones are closed after 30 seconds without use.

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

    def keeps(self, url: str) -> bool:
        """Whether a connection to `url` is kept for the next request."""
        return url.startswith("https:") if self.keep_alive is None else self.keep_alive

    def __repr__(self) -> str:
        proxy = None if self.proxy is None else "***"
        return f"HttpOptions(max_connections={self.max_connections}, proxy={proxy!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("max_connections", self.max_connections), ("proxy", None if self.proxy is None else "***")]


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


def make_transport(engine: str, timeouts: Timeouts, options: HttpOptions | None = None) -> Transport:
    """The engine of that name; nothing is opened.

    Raises `MissingDependencyError` with the line that installs it, `ConfigurationError` for an option that it
    does not have, `UnknownNameError` for the name of no engine.
    """
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    module, name = ENGINES[engine]
    make = getattr(importlib.import_module(module), name)
    return cast("Callable[[Timeouts, HttpOptions | None], Transport]", make)(timeouts, options)
