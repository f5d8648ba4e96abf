"""Commands that the matrix runs: so many at once, each ended with all that it started when its time is up."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CommandError", "Done", "must", "run"]

LIMIT_S = 30 * 60.0


class CommandError(Exception):
    """A command that had to succeed did not; the message holds its last words."""


@dataclass(frozen=True)
class Done:
    """How a command ended; `output` is all that it wrote."""

    code: int
    output: str

    @property
    def tail(self) -> str:
        """Its last words."""
        return self.output[-6000:].strip()


async def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
    errors_too: bool = True,
) -> Done:
    """Run `command` and wait for it; without `errors_too` the output is what it wrote to standard output."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT if errors_too else asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limit_s):
            output, errors = await process.communicate()
    except TimeoutError:
        return Done(1, f"ended after {limit_s:.0f} s: {' '.join(map(str, command))}")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    code = process.returncode if process.returncode is not None else 1
    text = output.decode(errors="replace")
    return Done(code, text if not code or errors_too else text + errors.decode(errors="replace"))


async def must(command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """What `command` wrote to standard output. Raises `CommandError` if it failed."""
    done = await run(command, cwd=cwd, env=env, errors_too=False)
    if done.code:
        raise CommandError(f"{' '.join(map(str, command))}\n{done.tail}")
    return done.output
