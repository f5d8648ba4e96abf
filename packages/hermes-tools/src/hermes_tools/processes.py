"""Child processes: started in a group of their own, read without waiting for their children, always reaped.

The output goes through a pipe that is ours, so that the end of the process is seen when the process ends, not
when the last of its children closes the pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from hermes_tools import files
from hermes_tools.shielding import finish_despite_cancel

__all__ = ["ChildProcess", "ProcessGroup", "exit_text", "input_pipe", "output_pipe", "started"]

logger: logging.Logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 16
TERM_GRACE_S = 1.0
KILL_WAIT_S = 1.0
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.1
_MISSED_EXIT_POLL_S = 0.5
_LATE_NOTICE_S = 1.5
_STOP_LIMIT_S = 3.7
_START_LIMIT_S = 1.3
_QUIET_S = 0.1
_REST_LIMIT_S = 1.0


class ProcessGroup:
    """A child that leads a process group of its own (`start_new_session=True`), none of whose streams is a
    pipe of asyncio's. Whoever has it must `stop` it or see its end with `wait`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid: int = process.pid

    async def wait(self) -> int | None:
        """The exit code once the process has ended: 128+n for signal n, None where the system lost it.

        An end that asyncio misses is found by asking the system now and then.
        """
        waiting = asyncio.ensure_future(self._process.wait())
        try:
            while True:
                await asyncio.wait({waiting}, timeout=_MISSED_EXIT_POLL_S)
                if waiting.done():
                    return _shell_code(waiting.result())
                ended, code = await _exit_status(self.pid)
                if ended:  # asyncio's own notice may be late on a busy machine; it closes what is open there
                    await asyncio.wait({waiting}, timeout=_LATE_NOTICE_S)
                    return _shell_code(waiting.result()) if waiting.done() else code
        finally:
            if not waiting.done():
                waiting.cancel()
                await asyncio.wait({waiting}, timeout=_MISSED_EXIT_POLL_S)

    async def group_lives(self) -> bool:
        """Whether a process of the group is left, be it only a child of the one that was started.

        A dead one that nobody has waited for yet does not count, where the system tells (`/proc`).
        """
        return _signal_group(self.pid, 0) and await files.group_lives(self.pid)

    async def stop(self) -> None:
        """End the whole group: TERM, a moment, KILL; returns when it is gone. Bounded, whoever cancels."""
        await finish_despite_cancel(self._stop, _STOP_LIMIT_S)

    async def _stop(self) -> None:
        if self._process.returncode is None or await self.group_lives():
            _signal_group(self.pid, signal.SIGTERM)
            if not await self._gone_within(TERM_GRACE_S):
                _signal_group(self.pid, signal.SIGKILL)
                if not await self._gone_within(KILL_WAIT_S):
                    logger.warning("process group %d did not end after SIGKILL", self.pid)
                    return
        await self.wait()  # asyncio closes its side once it has seen the end, too

    async def _gone_within(self, limit_s: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        pause_s = _FIRST_PAUSE_S
        while True:
            ended = self._process.returncode is not None or (await _exit_status(self.pid))[0]
            if ended and not await self.group_lives():
                return True
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class ChildProcess(ProcessGroup):
    """A running child whose output is read, and that may be given input. Its user must `close_pipes`, too."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        output: asyncio.StreamReader,
        pipe: asyncio.ReadTransport,
        given: asyncio.StreamWriter | None = None,
    ) -> None:
        super().__init__(process)
        self._output = output
        self._pipe = pipe
        self._input = given

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        with_input: bool = False,
        drop_errors: bool = False,
        on_lost_output: Callable[[bytes], Awaitable[None]] | None = None,
    ) -> ChildProcess:
        """Start `command`; its output and errors come in one stream, or with `drop_errors` its output alone.
        Without `with_input` it has no input.

        Raises `OSError` when it can not be started. When cancelled, nothing is left running; `on_lost_output`
        gets what it wrote until then, since it runs before it is known here that it does.
        """
        output, pipe, write_end = await output_pipe()
        given: asyncio.StreamWriter | None = None
        read_end: int = asyncio.subprocess.DEVNULL
        try:
            try:
                if with_input:
                    given, read_end = await input_pipe()
                process = await started(
                    asyncio.create_subprocess_exec(
                        *command,
                        stdin=read_end,
                        stdout=write_end,
                        stderr=asyncio.subprocess.DEVNULL if drop_errors else write_end,
                        cwd=cwd,
                        env=dict(environment),
                        start_new_session=True,
                    )
                )
            finally:
                os.close(write_end)
                if read_end >= 0:
                    os.close(read_end)
        except BaseException:
            if on_lost_output is not None:
                await finish_despite_cancel(lambda: _hand_over(output, on_lost_output), _REST_LIMIT_S)
            pipe.close()
            if given is not None:
                given.transport.abort()
            raise
        return cls(process, output, pipe, given)

    async def write(self, data: bytes) -> None:
        """Give it input; returns once all but a small rest is in its pipe.

        Raises `BrokenPipeError` when its input is closed, on either side.
        """
        if self._input is None or self._input.is_closing():
            raise BrokenPipeError("the input of the process is closed")
        self._input.write(data)
        try:
            await self._input.drain()
        except ConnectionError as error:
            raise BrokenPipeError("the process has closed its input") from error

    def unwritten(self) -> int:
        """How many bytes of the input wait for the process to read."""
        return self._input.transport.get_write_buffer_size() if self._input is not None else 0

    def end_input(self) -> None:
        """Let the process see the end of its input, after what was written. Again does nothing."""
        if self._input is not None:
            self._input.close()

    async def read(self) -> bytes:
        """The next piece of output; empty once everyone who could write has closed the pipe."""
        return await self._output.read(CHUNK_BYTES)

    def close_pipes(self) -> None:
        """Close our ends of the pipes. Again does nothing."""
        self._pipe.close()
        if self._input is not None and (not self._input.is_closing() or self.unwritten()):
            self._input.transport.abort()


async def started(work: Coroutine[Any, Any, asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """The process, which leads a group of its own. When we are cancelled, once or again, while it is being
    started, it is ended and waited for; asyncio alone would not wait after a second cancellation."""
    starting = asyncio.ensure_future(work)

    async def end() -> None:
        await asyncio.wait({starting})
        if not starting.cancelled() and starting.exception() is None:
            await ProcessGroup(await starting).stop()

    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await finish_despite_cancel(end, _START_LIMIT_S + _STOP_LIMIT_S)
        raise


async def _hand_over(output: asyncio.StreamReader, taker: Callable[[bytes], Awaitable[None]]) -> None:
    """Give on what is in a pipe, to its end unless a process that left the group holds it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_QUIET_S):
            while chunk := await output.read(CHUNK_BYTES):
                await taker(chunk)


async def output_pipe() -> tuple[asyncio.StreamReader, asyncio.ReadTransport, int]:
    """What reads a new pipe, and the end to write to, which the caller closes."""
    read_end, write_end = os.pipe()
    output = asyncio.StreamReader(limit=CHUNK_BYTES)
    try:
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(output), io.FileIO(read_end, "rb")
        )
    except BaseException:
        os.close(write_end)
        raise
    return output, pipe, write_end


async def input_pipe() -> tuple[asyncio.StreamWriter, int]:
    """What writes to a new pipe, and the end to read from, which the caller closes."""
    read_end, write_end = os.pipe()
    loop = asyncio.get_running_loop()
    try:
        pipe, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), io.FileIO(write_end, "wb")
        )
    except BaseException:
        os.close(read_end)
        raise
    return asyncio.StreamWriter(pipe, protocol, None, loop), read_end


def exit_text(code: int | None) -> str:
    """An exit code in words: `exit code 1`, `exit code 137, SIGKILL`."""
    if code is None:
        return "exit code unknown"
    if code > 128:
        with contextlib.suppress(ValueError):
            return f"exit code {code}, {signal.Signals(code - 128).name}"
    return f"exit code {code}"


def _shell_code(code: int) -> int:
    return 128 - code if code < 0 else code


async def _exit_status(pid: int) -> tuple[bool, int | None]:
    """Whether the child has ended, as the system says, and with what code; its entry is left for asyncio."""
    try:
        status = await files.exit_status(pid)
    except ChildProcessError:
        return True, None
    if status is None:
        return False, None
    killed = status.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
    return True, 128 + status.si_status if killed else status.si_status


def _signal_group(pid: int, number: int) -> bool:
    """Send a signal to a process group; whether it exists (a group that holds only zombies does)."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
