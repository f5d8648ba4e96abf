"""How the runners run commands and end: what they started ends with them, also when they are told to stop.

Standard library only.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

__all__ = ["end", "run_command", "run_until_stopped"]

Result = TypeVar("Result")
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_stopped(work: Coroutine[object, object, Result]) -> Result:
    """`asyncio.run`, in which each signal that asks a process to stop cancels `work`, so that it cleans up.

    Then it exits with 128 and the signal's number, as shells count. A signal that comes while `work` cleans
    up cancels it once more. SIGINT is heard also where a shell that starts this in the background had it
    ignored; what is started from here hears it, too.
    """
    heard: list[int] = []

    async def listen() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(number: int) -> None:
            heard.append(number)
            task.cancel()

        for number in STOPPING:
            loop.add_signal_handler(number, stop, number)
        return await work

    try:
        return asyncio.run(listen())
    except asyncio.CancelledError:
        if not heard:
            raise
        sys.exit(128 + heard[0])


async def run_command(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: IO[bytes],
    errors: IO[bytes] | None = None,
    limit_s: float,
    grace_s: float,
) -> int | None:
    """The exit code of `command`; None where it did not end within `limit_s` and was ended.

    It reads nothing and writes to `output` and `errors`, without which that is one file, too. All that it
    started ends with it, see `end`.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=errors or output,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limit_s):
            return await process.wait()
    except TimeoutError:
        return None
    finally:
        await end(process, grace_s)


async def end(process: asyncio.subprocess.Process, grace_s: float) -> None:
    """End the group of `process`, which leads it: interrupt it, so that it ends what it started outside of
    its group, and kill what is left of the group after `grace_s`, or at once if this is cancelled."""
    try:
        if process.returncode is None:
            send(process, signal.SIGINT)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await process.wait()
    finally:
        send(process, signal.SIGKILL)
        await process.wait()


def send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """A signal to all of the group, of which nobody may be left; macOS calls a dead one EPERM."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
