"""What runs inside a container around a command, and what it tells us through the command's output. Pure.

The client of a container's engine knows neither the number of the process in there, nor whether it left
something running, and its own end does not end the command. So a small script says all that, marked with a
token that nobody can guess, in the one stream that there is.
"""

from __future__ import annotations

import secrets
from typing import Final

from msgspec import Struct

__all__ = ["GO", "KEEP_ALIVE", "LIVES", "SCRIPT", "STOP", "CommandEnd", "CommandStream", "new_token"]

KEEP_ALIVE: Final = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
"""What the container itself runs; a shell that waits also reaps what commands leave behind."""

SCRIPT: Final = r"""
exec 2>/dev/null
cd -- "$2" || { printf '%s nodir\n' "$1"; exit 126; }
printf '%s start %s\n' "$1" "$$"
read -r go && [ "$go" = go ] || exit 125
shell=/bin/bash
[ -x "$shell" ] || shell=/bin/sh
[ "$3" = input ] || exec </dev/null
( exec "$shell" -c "$4" ) 2>&1
code=$?
left=0
for stat in /proc/[0-9]*/stat; do
    read -r line <"$stat" || continue
    pid=${line%% *}
    set -- "$1" ${line##*) }
    [ "$4" = "$$" ] && [ "$2" != Z ] && [ "$pid" != "$$" ] && left=1
done
printf '%s end %s %s\n' "$1" "$code" "$left"
exit "$code"
"""
"""Arguments: the token, the directory, `input` or `none`, the command. It begins only when it reads `go`: a
client that goes away before leaves nothing running. The engine makes it the leader of a process group."""

GO: Final = b"go\n"

# `--` before the group is not understood by every shell (busybox), nor is `-s` with it.
LIVES: Final = 'kill -0 "-$1" 2>/dev/null'
"""Argument: the group."""

STOP: Final = """
kill -TERM "-$1" 2>/dev/null || exit 0
i=0
while kill -0 "-$1" 2>/dev/null && [ "$i" -lt 20 ]; do sleep 0.05; i=$((i+1)); done
kill -KILL "-$1" 2>/dev/null
exit 0
"""
"""Argument: the group. It takes about a second at most."""


def new_token() -> str:
    """What marks the script's own lines. Its first character comes once."""
    return f"@hermes-{secrets.token_hex(16)}"


class CommandEnd(Struct, frozen=True):
    """How the command ended, and whether it left processes in its group."""

    code: int
    left: bool


class CommandStream:
    """Parts the output of `SCRIPT` into the command's own bytes and what the script says."""

    def __init__(self, token: str) -> None:
        self._mark = token.encode()
        self._held = b""
        self.pid: int | None = None
        self.no_directory: bool = False
        self.end: CommandEnd | None = None

    def feed(self, data: bytes) -> bytes:
        """Take a piece; the command's own bytes in it, as far as no mark can begin in them."""
        rest = self._held + data
        own: list[bytes] = []
        while (start := rest.find(self._mark)) >= 0:
            own.append(rest[:start])
            line, newline, after = rest[start:].partition(b"\n")
            if not newline:
                self._held = rest[start:]
                return b"".join(own)
            self._hear(line[len(self._mark) :].split())
            rest = after
        start = rest.rfind(self._mark[:1])
        whole = start if start >= 0 and self._mark.startswith(rest[start:]) else len(rest)
        self._held = rest[whole:]
        return b"".join([*own, rest[:whole]])

    def finish(self) -> bytes:
        """What was held back, once nothing more comes."""
        rest, self._held = self._held, b""
        return rest

    def _hear(self, said: list[bytes]) -> None:
        match said:
            case [b"start", pid] if pid.isdigit():
                self.pid = int(pid)
            case [b"end", code, left] if code.isdigit():
                self.end = CommandEnd(int(code), left == b"1")
            case [b"nodir"]:
                self.no_directory = True
            case _:
                pass
