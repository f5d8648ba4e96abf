"""Child processes that do what would hold up the event loop; each ends before its owner goes on."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import suppress

from hermes_batch.supervision import OverrunError, finish, supervised

__all__ = ["WorkerError", "feed_worker", "worker_output"]

logger: logging.Logger = logging.getLogger(__name__)

_CHUNK = 1 << 18
_REAP_LIMIT_S = 10.0
_LONGEST_COMPLAINT = 2_000


class WorkerError(Exception):
    """The child failed; the text is what it said."""


async def worker_output(command: Sequence[str]) -> AsyncGenerator[bytes, None]:
    """What `command` writes to standard output, as it comes. Leaving early kills it.

    Raises `WorkerError` when it fails.
    """
    process = await start(command, stdin=DEVNULL, stdout=PIPE)
    assert process.stdout is not None
    try:
        while chunk := await process.stdout.read(_CHUNK):
            yield chunk
        await ended(process)
    finally:
        await finish(kill(process), what=f"ending {command[0]}")


async def feed_worker(command: Sequence[str], parts: AsyncIterable[bytes]) -> None:
    """Hand `parts` to the standard input of `command` and wait for its end; an exception kills it.

    Raises `WorkerError` when it fails.
    """
    process = await start(command, stdin=PIPE, stdout=DEVNULL)
    assert process.stdin is not None
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has failed: its end says why
            async for part in parts:
                process.stdin.write(part)
                await process.stdin.drain()
            process.stdin.close()
            await process.stdin.wait_closed()
        await ended(process)
    finally:
        await finish(kill(process), what=f"ending {command[0]}")


async def start(command: Sequence[str], *, stdin: int, stdout: int) -> Process:
    """Start the child in a session of its own: Ctrl-C is for the run, which ends its children in order."""
    return await asyncio.create_subprocess_exec(
        *command, stdin=stdin, stdout=stdout, stderr=PIPE, start_new_session=True
    )


async def ended(process: Process) -> None:
    """Wait for the child's end. Raises `WorkerError`. Its complaint is one line, so the pipe holds it."""
    assert process.stderr is not None
    complaint = (await process.stderr.read(_LONGEST_COMPLAINT)).decode(errors="replace").strip()
    code = await process.wait()
    if code:
        raise WorkerError(complaint or f"the reading process ended with code {code}")


async def kill(process: Process) -> None:
    """End the child if it runs, with its group, which it leads, and reap it. Bounded in time."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        await supervised(_reap(process), what=f"waiting for process {process.pid}", limit_s=_REAP_LIMIT_S)
    except OverrunError:
        logger.warning("nobody told of the end of process %d, or something holds its output", process.pid)


async def _reap(process: Process) -> None:
    for output in (process.stdout, process.stderr):
        with suppress(RuntimeError):  # somebody else reads it
            while output is not None and await output.read(_CHUNK):
                pass  # asyncio sees no end of a child whose pipe is paused, full of what nobody takes
    await process.wait()
