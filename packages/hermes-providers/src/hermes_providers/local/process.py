"""A llama.cpp server as a child process: started, watched and always stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import anyio
import msgspec

from hermes_messages.errors import ConfigurationError, ErrorKind, MissingDependencyError, ProviderError
from hermes_providers.local.options import (
    LocalServerOptions,
    child_arguments,
    child_command,
    child_environment,
)

__all__ = ["LocalServer", "LocalServerError"]

_LOG_TAIL_BYTES = 16_384
_LOG_LINES_SHOWN = 12
_REPORT_LIMIT_BYTES = 65_536
_HEALTH_PAUSE_S = 0.05
_REAP_LIMIT_S = 5.0
_DEATH_NOTICE_S = 0.5
_REPORTED_FAULTS_OF_THE_CALLER = frozenset({"model", "template"})


class LocalServerError(ProviderError):
    """The local model server could not start, or died. `log_tail` is the end of what it printed.

    Its kind says whether another try makes sense: `server` for one that died or has its port taken, since the
    next try starts a new one; `timeout` for one that was not ready in time; `not_found` for a program that
    is not there to be run; `unknown` for a wrong use of this object.
    """

    def __init__(self, message: str, *, kind: ErrorKind = ErrorKind.SERVER, log_tail: str = "") -> None:
        self.log_tail = log_tail
        shown = "\n  ".join(log_tail.splitlines()[-_LOG_LINES_SHOWN:])
        text = f"{message}\nits last log lines:\n  {shown}" if shown else message
        super().__init__(text, kind=kind)


class _Report(msgspec.Struct, frozen=True):
    """The child's one line on standard output."""

    event: str
    url: str = ""
    kind: str = ""
    message: str = ""


class _Child(asyncio.SubprocessProtocol):
    """What the event loop tells about the child. Callbacks, so no task has to read its pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.report: asyncio.Future[bytes] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.drained: asyncio.Future[None] = loop.create_future()
        self._stdout = bytearray()
        self._log = bytearray()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self._log += data
            del self._log[:-_LOG_TAIL_BYTES]
            return
        if self.report.done():
            return
        self._stdout += data
        line, newline, _ = self._stdout.partition(b"\n")
        if newline or len(line) > _REPORT_LIMIT_BYTES:
            self.report.set_result(bytes(line))

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if not self.drained.done():
            self.drained.set_result(None)

    def log_tail(self) -> str:
        text = self._log.decode("utf-8", errors="replace")
        return "".join(char for char in text if char.isprintable() or char == "\n").strip()


class LocalServer:
    """One llama.cpp server on a loopback port, for as long as the `async with` block runs::

        async with LocalServer() as server:
            ...  # POST {server.base_url}/chat/completions

    The child sits in a session of its own, so the terminal's Ctrl-C reaches only us, and we stop it. It
    also ends by itself when this process is gone, SIGKILL included: it reads from a pipe (the lifeline)
    whose other end nobody but this process holds.

    Belongs to the event loop that started it. `program` replaces the child program and is for tests.
    """

    def __init__(
        self, options: LocalServerOptions | None = None, *, program: Sequence[str] | None = None
    ) -> None:
        self.options: LocalServerOptions = options or LocalServerOptions()
        self._program = None if program is None else list(program)
        self._child: _Child | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._cut_lifeline: weakref.finalize[[int], LocalServer] | None = None
        self._url = ""
        self._ending = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def base_url(self) -> str:
        """Where the OpenAI-compatible wires are, such as `http://127.0.0.1:40123/v1`."""
        if not self._url:
            raise LocalServerError("the local model server has not been started", kind=ErrorKind.UNKNOWN)
        return f"{self._url}/v1"

    @property
    def model(self) -> str:
        """The model's name on the wire."""
        return self.options.alias

    @property
    def pid(self) -> int | None:
        """Process id of the child; None before the start."""
        return None if self._transport is None else self._transport.get_pid()

    async def start(self) -> None:
        """Start the child and return when it answers.

        Raises ConfigurationError (no such model file, not GGUF, unreadable template),
        MissingDependencyError (with the line that installs what is missing) and LocalServerError (port in
        use, not ready in time, died). After any error, CancelledError included, no process is left.
        """
        if self._child is not None:
            raise LocalServerError(
                "this local model server was already started; make a new LocalServer", kind=ErrorKind.UNKNOWN
            )
        if self._program is None:
            command = child_command(self.options)
        else:
            command = [*self._program, *child_arguments(self.options)]
        try:
            await self._spawn(command)
            async with asyncio.timeout(self.options.start_timeout_s):
                self._url = await self._await_report()
                await self._await_health()
        except TimeoutError:
            await self.close()
            raise self._error(
                f"the local model server was not ready within {self.options.start_timeout_s:g} s",
                ErrorKind.TIMEOUT,
            ) from None
        except BaseException:
            await self.close()
            raise

    def dead(self) -> bool:
        """True as soon as the event loop knows that the child has ended."""
        return self._child is not None and self._child.exited.done()

    def raise_if_dead(self) -> None:
        """Raise LocalServerError with the end of the log if the child has ended by itself."""
        if self.dead() and not self._ending:
            raise self._died()

    async def explain_failure(self) -> LocalServerError | None:
        """After a failed request: the error to show if the server is gone, else None.

        A broken connection may be seen before the death behind it, so this waits for that, at most 0.5 s.
        """
        if self._child is None or self._ending:
            return None
        await asyncio.wait({self._child.exited}, timeout=_DEATH_NOTICE_S)
        if not self.dead():
            return None
        await asyncio.wait({self._child.drained}, timeout=_DEATH_NOTICE_S)
        return self._died()

    def abandon(self) -> None:
        """Let the child end by itself, without waiting; for a server whose event loop is gone."""
        if self._cut_lifeline is not None:
            self._cut_lifeline()

    async def close(self) -> None:
        """Stop the child and wait until it is gone. Safe to repeat.

        SIGTERM first, SIGKILL after `stop_grace_s`, or at once when this call is cancelled: the server
        keeps nothing that a kill could lose. A cancellation is raised again when the child is gone.
        """
        self._ending = True
        child, transport = self._child, self._transport
        self.abandon()
        if child is None or transport is None:
            return
        cancelled: asyncio.CancelledError | None = None
        if not child.exited.done():
            self._signal(signal.SIGTERM)
            try:
                await asyncio.wait({child.exited}, timeout=self.options.stop_grace_s)
            except asyncio.CancelledError as error:
                cancelled = error
        self._signal(signal.SIGKILL)
        cancelled = await _outlast_cancel(child.exited, _REAP_LIMIT_S) or cancelled
        transport.close()
        cancelled = await _outlast_cancel(child.drained, _REAP_LIMIT_S) or cancelled
        if cancelled is not None:
            raise cancelled

    async def _spawn(self, command: list[str]) -> None:
        loop = asyncio.get_running_loop()
        child = _Child(loop)
        child_end, our_end = os.pipe()
        # Cut too when this object is dropped unclosed, or the interpreter ends: the child then ends itself.
        self._cut_lifeline = weakref.finalize(self, os.close, our_end)
        try:
            transport, _ = await loop.subprocess_exec(
                lambda: child,
                *command,
                stdin=child_end,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=child_environment(os.environ),
                start_new_session=True,
            )
        except OSError as error:
            absent = isinstance(error, (FileNotFoundError, PermissionError))
            raise LocalServerError(
                f"the local model server can not be run: {error}",
                kind=ErrorKind.NOT_FOUND if absent else ErrorKind.SERVER,
            ) from error
        finally:
            os.close(child_end)
        self._child, self._transport = child, transport

    async def _await_report(self) -> str:
        """Wait for the child's one line, or its end; returns the address of the server."""
        assert self._child is not None
        line, exited, drained = self._child.report, self._child.exited, self._child.drained
        await _any_done(line, exited)
        if not line.done():
            # The last line of a process that is gone may still be in the pipe.
            await _any_done(line, drained, limit_s=_DEATH_NOTICE_S)
        if not line.done():
            raise self._died()
        try:
            report = msgspec.json.decode(line.result(), type=_Report)
        except msgspec.DecodeError:
            report = _Report(event="")
        match report:
            case _Report(event="ready", url=url) if url.startswith("http://127.0.0.1:"):
                return url
            case _Report(event="error", kind=kind, message=message):
                raise await self._reported(kind, message)
            case _:
                raise self._error(
                    f"the local model server reported {line.result()[:80]!r}, which is no report"
                )

    async def _reported(self, kind: str, message: str) -> ConfigurationError | LocalServerError:
        assert self._child is not None
        match kind:
            case "import":
                return MissingDependencyError(
                    f"a working llama.cpp server ({message})", "pip install 'hermes-providers[local]'"
                )
            case kind if kind in _REPORTED_FAULTS_OF_THE_CALLER:
                return ConfigurationError(message)
            case "port":
                return LocalServerError(f"{message}; choose another one, or 0 for a free one")
            case _:
                # Why it failed is in the log only, and the log comes through another pipe.
                await asyncio.wait({self._child.drained}, timeout=_DEATH_NOTICE_S)
                return self._error(message)

    async def _await_health(self) -> None:
        while not await _healthy(self._url):
            self.raise_if_dead()
            await anyio.sleep(_HEALTH_PAUSE_S)

    def _signal(self, number: signal.Signals) -> None:
        if self.dead() or self.pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _died(self) -> LocalServerError:
        code = None if self._transport is None else self._transport.get_returncode()
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        return self._error(f"the local model server (pid {self.pid}) ended {how}")

    def _error(self, message: str, kind: ErrorKind = ErrorKind.SERVER) -> LocalServerError:
        log_tail = "" if self._child is None else self._child.log_tail()
        return LocalServerError(message, kind=kind, log_tail=log_tail)


async def _any_done(
    *futures: asyncio.Future[bytes] | asyncio.Future[None], limit_s: float | None = None
) -> None:
    """Wait until one of them is done, at most `limit_s` seconds; cancels none of them."""
    await asyncio.wait([*futures], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)


async def _healthy(url: str) -> bool:
    """True if `GET /health` is answered with 200 (llama.cpp says 503 while it loads)."""
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    try:
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        status = await reader.readline()
    except OSError:
        return False
    finally:
        writer.close()
    return status.split(b" ")[1:2] == [b"200"]


async def _outlast_cancel(future: asyncio.Future[None], limit_s: float) -> asyncio.CancelledError | None:
    """Wait for `future`, at most `limit_s` seconds, whoever cancels us meanwhile; returns a cancellation."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + limit_s
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not future.done() and (left := deadline - clock()) > 0:
            try:
                await asyncio.wait({future}, timeout=left)
            except asyncio.CancelledError as error:
                cancelled = error
    return cancelled
