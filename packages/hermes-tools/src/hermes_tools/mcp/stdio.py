"""A server that is a child process: started, spoken to over its pipes, and ended with all its children.

The transport is ours rather than the SDK's because of what servers do: print banners and odd bytes on
standard output, leave children behind that keep the pipe open, never read what they are sent, say on standard
error why they die. The session that speaks over it is the SDK's.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from hermes_tools.mcp.config import StdioServer
from hermes_tools.mcp.framing import LineBuffer, TextTail, parse_message
from hermes_tools.processes import ProcessGroup, exit_text, input_pipe, output_pipe, started
from hermes_tools.shielding import finish_despite_cancel
from hermes_tools.terminal_text import TerminalText

__all__ = ["StdioTransport", "inherited_environment"]

logger: logging.Logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 16
_END_GRACE_S = 0.3
_OWN_EXIT_S = 1.0
_STOP_LIMIT_S = 6.0

_INHERITED = frozenset(
    {
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "XDG_RUNTIME_DIR",
    }
)

MessageStreams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


def inherited_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a server gets of our environment: what programs need to run, and nothing that may be a secret."""
    return {
        name: value for name, value in environment.items() if name in _INHERITED or name.startswith("LC_")
    }


class _ServerProcess(ProcessGroup):
    """The process with our ends of its pipes."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        ends: tuple[asyncio.BaseTransport, ...],
        streams: tuple[asyncio.StreamReader, asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        super().__init__(process)
        self._ends = ends
        self.output, self.errors, self.input = streams

    async def exited(self) -> int:
        """The exit status, as asyncio gives it, once the process itself has ended."""
        return await self._process.wait()

    def close_pipes(self) -> None:
        for end in self._ends:
            end.close()


async def _start(command: Sequence[str], cwd: str | None, environment: Mapping[str, str]) -> _ServerProcess:
    """Start the process. Raises `OSError`; when it fails or is cancelled nothing is left open."""
    ours: list[asyncio.BaseTransport] = []
    theirs: list[int] = []
    try:
        output, output_end, descriptor = await output_pipe()
        ours.append(output_end)
        theirs.append(descriptor)
        errors, errors_end, descriptor = await output_pipe()
        ours.append(errors_end)
        theirs.append(descriptor)
        given, descriptor = await input_pipe()
        ours.append(given.transport)
        theirs.append(descriptor)
        process = await started(
            asyncio.create_subprocess_exec(
                *command,
                stdout=theirs[0],
                stderr=theirs[1],
                stdin=theirs[2],
                cwd=cwd,
                env=dict(environment),
                start_new_session=True,
            )
        )
    except BaseException:
        for end in ours:
            end.close()
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return _ServerProcess(process, (output_end, errors_end, given.transport), (output, errors, given))


class StdioTransport:
    """The transport of one run of `server`, for the SDK's client; `on_end` is told once why it ended.

    What is sent waits in memory, so that a server that does not read holds up nobody who gives up on it.
    """

    def __init__(
        self,
        server: StdioServer,
        environment: Mapping[str, str],
        tail: TextTail,
        on_end: Callable[[str], None],
    ) -> None:
        self._server = server
        self._environment = {**inherited_environment(environment), **server.env}
        self._tail = tail
        self._on_end = on_end
        self._process: _ServerProcess | None = None
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self._streams: list[anyio.abc.AsyncResource] = []

    async def __aenter__(self) -> MessageStreams:
        command = (self._server.command, *self._server.args)
        self._process = process = await _start(command, self._server.cwd, self._environment)
        received, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, sent = anyio.create_memory_object_stream[SessionMessage](math.inf)
        self._streams = [received, from_server, to_server, sent]
        self._tasks = [
            asyncio.create_task(self._read_to_the_end(process, received)),
            asyncio.create_task(self._write(process, sent)),
            asyncio.create_task(self._read_errors(process)),
        ]
        return from_server, to_server

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await finish_despite_cancel(self._stop, _STOP_LIMIT_S)

    async def _stop(self) -> None:
        """End the process: it is asked by the end of its input, then by signals."""
        process = self._process
        if process is None:
            return
        self._stopping = True
        process.input.close()
        leaving = asyncio.create_task(process.exited())
        await asyncio.wait({leaving}, timeout=_OWN_EXIT_S)
        leaving.cancel()
        await process.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait({*self._tasks, leaving})
        process.close_pipes()
        for stream in self._streams:
            await stream.aclose()

    async def _read_to_the_end(
        self, process: _ServerProcess, received: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Hand on messages until the process has ended or closed its output, then say so to the session.

        A child of the server may hold the output open, so its end is watched for itself.
        """
        reading = asyncio.create_task(self._read(process, received))
        leaving = asyncio.create_task(process.exited())
        try:
            await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({reading, leaving}, timeout=_END_GRACE_S)
            trouble = reading.exception() if reading.done() and not reading.cancelled() else None
            if self._stopping:
                pass  # what ends it is known
            elif trouble is not None:
                self._on_end(f"its output can not be read: {trouble}")
            elif leaving.done() and not leaving.cancelled():
                code = leaving.result()
                self._on_end(f"its process ended, {exit_text(128 - code if code < 0 else code)}")
            else:
                self._on_end("it closed its output")
            await received.aclose()
        finally:
            reading.cancel()
            leaving.cancel()
            await asyncio.wait({reading, leaving})

    async def _read(
        self, process: _ServerProcess, received: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        lines = LineBuffer()
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session has gone
            while data := await process.output.read(_CHUNK_BYTES):
                for line in lines.feed(data):
                    message = parse_message(line)
                    if message is not None:
                        await received.send(SessionMessage(message))
                    elif line.strip():
                        self._tail.add(_shown(line))

    async def _read_errors(self, process: _ServerProcess) -> None:
        text = TerminalText()
        while data := await process.errors.read(_CHUNK_BYTES):
            self._tail.add(text.feed(data))
        self._tail.add(text.finish())

    async def _write(self, process: _ServerProcess, sent: MemoryObjectReceiveStream[SessionMessage]) -> None:
        try:
            async for item in sent:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.input.write(text.encode("utf-8", errors="replace") + b"\n")
                await process.input.drain()
        except (OSError, RuntimeError) as error:  # it reads no more; the end of its output tells the session
            logger.debug("MCP server %s takes no more messages: %s", self._server.name, error)


def _shown(line: bytes) -> str:
    text = TerminalText()
    return text.feed(line[:4_096]) + text.finish()
