"""Commands that the matrix runs: so many at once, each ended with all that it started when its time is up."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from shared import run_command

__all__ = ["CommandError", "Done", "must", "run"]

LIMIT_S = 30 * 60.0
GRACE_S = 20.0
"""How long a command may clean up when its time is up or the matrix is stopped."""


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
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        code = await run_command(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            output=output,
            errors=None if errors_too else errors,
            limit_s=limit_s,
            grace_s=GRACE_S,
        )
        said, complaints = text_of(output), text_of(errors)
    if code is None:
        return Done(1, f"{said}{complaints}ended after {limit_s:.0f} s: {' '.join(map(str, command))}")
    return Done(code, f"{said}{complaints}" if code else said)


def text_of(file: IO[bytes]) -> str:
    """All that was written to a file that is open still."""
    file.seek(0)
    return file.read().decode(errors="replace")


async def must(command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """What `command` wrote to standard output. Raises `CommandError` if it failed."""
    done = await run(command, cwd=cwd, env=env, errors_too=False)
    if done.code:
        raise CommandError(f"{' '.join(map(str, command))}\n{done.tail}")
    return done.output
