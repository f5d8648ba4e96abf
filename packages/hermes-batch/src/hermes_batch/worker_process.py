"""Child processes that do what would hold up the event loop; each ends before its owner goes on."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress

from hermes_batch.supervision import finish

__all__ = ["WorkerError", "worker_output"]

_CHUNK = 1 << 18
_LONGEST_COMPLAINT = 2_000


class WorkerError(Exception):
    """The child failed; the text is what it said."""


async def worker_output(command: Sequence[str]) -> AsyncGenerator[bytes, None]:
    """What `command` writes to standard output, as it comes. Leaving early kills it.

    Raises `WorkerError` when it fails.
    """
    # A session of its own: Ctrl-C is for the run, which ends its children in order.
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    assert process.stdout is not None
    try:
        while chunk := await process.stdout.read(_CHUNK):
            yield chunk
        await ended(process)
    finally:
        await finish(kill(process), what=f"ending {command[0]}")


async def ended(process: Process) -> None:
    """Wait for the child's end. Raises `WorkerError`. Its complaint is one line, so the pipe holds it."""
    assert process.stderr is not None
    complaint = (await process.stderr.read(_LONGEST_COMPLAINT)).decode(errors="replace").strip()
    code = await process.wait()
    if code:
        raise WorkerError(complaint or f"the reading process ended with code {code}")


async def kill(process: Process) -> None:
    """End the child if it runs, and reap it."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
