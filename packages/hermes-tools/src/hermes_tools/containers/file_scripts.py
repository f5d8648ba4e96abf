"""What a shell does with files for us where there is nothing but a shell and the usual small programs. Pure.

Every script gets its arguments as words and says how it went with its exit code; names may hold any byte but
NUL. Sources: POSIX, Shell & Utilities; beyond it, what coreutils and busybox have in common: `readlink`,
`stat -c` (stat(1)), `head -c`, `dd conv=fsync`, `find -print0`, `xargs -0`, `tar`.
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from hermes_tools.errors import FilesLostError, ToolFailure
from hermes_tools.file_status import FileStatus
from hermes_tools.standalone.search import ALWAYS_SKIPPED, MAX_FILE_BYTES, MAX_IGNORE_BYTES
from hermes_tools.text_shape import SAMPLE_BYTES

__all__ = [
    "BEGUN",
    "FIND",
    "GO",
    "LINES",
    "LIST",
    "READ",
    "READY",
    "REMOVE",
    "SEND",
    "STAGE",
    "STATUS",
    "Finding",
    "check_end",
    "command_of",
    "read_finding",
    "read_status",
]

BEGUN: Final = b"@hermes-begun\n"
"""What every script says first."""
GO: Final = b"go\n"
READY: Final = b"ready\n"
_DONE, _MISSING, _UNREADABLE, _REFUSED, _TORN = 77, 71, 72, 73, 74
_LONGEST_REASON = 300

_BEGIN: Final = r"""
exec 2>/dev/null
printf '@hermes-begun\n'
LC_ALL=C
export LC_ALL
need() {
    for word in "$@"; do
        command -v "$word" >/dev/null || { printf '%s' "$word"; exit 71; }
    done
}
refuse() { printf '%s' "${1##*: }"; exit 73; }
send() {
    most=$1
    shift
    exec 3>&1
    went=$({ { "$@" 3>&- 4>&-; printf '%s' "$?" >&4; } | head -c "$most" >&3 4>&-; } 4>&1)
    case $went in 0 | 141) ;; *) exit 74 ;; esac
}
say_status() {
    status=$(stat -c '%f %s %u:%g %i.%d.%y.%z' "$1" 2>&1) || case $status in
        *': No such file or directory' | *': Not a directory') status=none ;;
        *) refuse "$status" ;;
    esac
    printf '%s\n' "$status"
}
"""

FIND: Final = r"""
need stat readlink head
case $1 in
    '~') path=${HOME:-/} ;;
    '~/'*) path=${HOME:-}/${1#??} ;;
    *) path=$1 ;;
esac
links=0
rest=
while :; do
    if [ -L "$path" ] && [ "$links" -lt 40 ]; then
        links=$((links + 1))
        target=$(readlink "$path"; printf x)
        target=${target%?x}
        case $target in
            /*) path=$target ;;
            *) path=${path%/*}/$target ;;
        esac
    elif [ -d "$path" ]; then
        base=$(cd -P "$path" && pwd -P && printf x) || refuse 'Permission denied'
        base=${base%?x}
        break
    else
        rest=/${path##*/}$rest
        path=${path%/*}
        [ -n "$path" ] || path=/
    fi
done
[ "$base" != / ] || base=
real=$base$rest
[ -n "$real" ] || real=/
printf '%s\0' "$real"
say_status "$real"
if [ -f "$real" ] && [ ! -L "$real" ]; then
    head -c SAMPLE "$real" 2>&1 || exit 72
fi
exit 77
""".replace("SAMPLE", str(SAMPLE_BYTES))
"""Argument: a path, absolute or with `~`. The real path, its status, and the beginning of a regular file."""

STATUS: Final = r"""
need stat
say_status "$1"
exit 77
"""
"""Argument: a real path."""

READ: Final = r"""
need tail head
send "$3" tail -c "+$2" <"$1" || exit 74
exit 77
"""
"""Arguments: a real path, the first byte (from 1), the most bytes."""

LINES: Final = r"""
need tail head wc
[ -f "$1" ] || refuse 'No such file or directory'
if [ "$(tail -n "+$(($2 + 1))" "$1" | head -c 1 | wc -c)" -gt 0 ]; then
    printf '%s\n' "$2"
    send "$3" tail -n "+$(($2 + 1))" "$1"
else
    lines=$(wc -l <"$1")
    [ "$(tail -c 1 "$1" | wc -l)" -eq 1 ] || lines=$((lines + 1))
    printf '%s\n' "$((lines))"
fi
exit 77
"""
"""Arguments: a real path, how many lines to pass over, the most bytes. How many were, then what follows."""

STAGE: Final = r"""
need mkdir rm chmod chown head wc mv dd
dir=${1%/*}
told=$(mkdir -p "$dir/" 2>&1) || {
    [ ! -e "$dir" ] || [ -d "$dir" ] || refuse 'Not a directory'
    refuse "$told"
}
temporary=$dir/$2
trap 'rm -f "$temporary"' EXIT
trap 'exit 70' HUP INT PIPE TERM
if [ -n "$4" ]; then
    told=$( (umask 077; set -C; : >"$temporary") 2>&1) || refuse "$told"
    chown "$5" "$temporary"
    told=$(chmod "$4" "$temporary" 2>&1) || refuse "$told"
else
    told=$( (set -C; : >"$temporary") 2>&1) || refuse "$told"
fi
told=
[ "$3" -eq 0 ] || told=$(head -c "$3" 2>&1 >"$temporary")
[ "$(wc -c <"$temporary")" -eq "$3" ] || refuse "${told:-no space left}"
dd if=/dev/null of="$temporary" conv=notrunc,fsync
printf 'ready\n'
read -r go && [ "$go" = go ] || exit 70
[ ! -d "$1" ] || refuse 'Is a directory'
told=$(mv -f "$temporary" "$1" 2>&1) || refuse "$told"
trap - EXIT
exit 77
"""
"""Arguments: a real path, the name of the temporary file, the size, then mode and owner of the file that is
there (mode empty: none is). Input: the content, and once it said `ready`: `go`."""

REMOVE: Final = r"""
need rm
told=$(rm -f "$1" 2>&1) || refuse "$told"
exit 77
"""
"""Argument: a real path."""


LIST: Final = (
    r"""
need find tar xargs
place=$1
what=$2
shift 2
for file in "$@"; do
    shift
    [ ! -f "$file" ] || [ -L "$file" ] || set -- "$@" "$file"
done
cd "$place" || refuse 'Permission denied'
walk() {
    if [ "$place" = / ]; then
        find . \( SKIPPED -o -path ./proc -o -path ./sys -o -path ./dev \) -prune -o -type f "$@" -print0
    else
        find . \( SKIPPED \) -prune -o -type f "$@" -print0
    fi
}
if [ "$what" = content ]; then walk ! -size +LARGEST; else walk; fi
printf '\0\0'
walk \( -name .gitignore -o -name .ignore \) ! -size +RULES | xargs -0 tar cf -
[ "$#" -eq 0 ] || tar cf - "$@"
exit 77
""".replace("SKIPPED", " -o ".join(f"-name {name}" for name in sorted(ALWAYS_SKIPPED)))
    .replace("LARGEST", str(MAX_FILE_BYTES // 512))
    .replace("RULES", str(MAX_IGNORE_BYTES // 512))
)
"""Arguments: the real path of a directory, `content` or `files`, and paths of ignore files above it that may
be there. The files below it that may be meant, then archives of the ignore files."""

SEND: Final = r"""
need tar xargs
cd "$1" || refuse 'Permission denied'
xargs -0 tar cf -
exit 77
"""
"""Argument: the real path of a directory. Input: names of files below it. Archives of them."""


class Finding(Struct, frozen=True):
    """What `FIND` found. `owner` is `uid:gid`; `unreadable`: why a file can not be read, if it is so."""

    path: str
    status: FileStatus | None
    owner: str
    beginning: bytes
    unreadable: str


def command_of(script: str, words: Sequence[str]) -> str:
    """The command that runs `script` with `words`, of which a shell sees every byte as it is."""
    return f"set -- {' '.join(map(shlex.quote, words))}\n{_BEGIN}{script}"


def check_end(code: int | None, told: bytes) -> None:
    """Raises for a script that did not do its work: `OSError` with what the system said, `ToolFailure` for an
    image that lacks a program, `FilesLostError` for a script that was ended by others."""
    text = told[-_LONGEST_REASON:].decode(errors="replace").strip()
    if code == _MISSING:
        raise ToolFailure(f"the container's image has no `{text}`, which file tools need there")
    if code == _REFUSED:
        raise OSError(errno.EIO, text or "it can not be done")
    if code == _TORN:
        raise OSError(errno.EIO, "it can not be read to its end")
    if code != _DONE:
        said = f": {text}" if text else ""
        raise FilesLostError(f"the container ended in the middle of it, or what reaches it did{said}")


def read_finding(code: int | None, told: bytes) -> Finding:
    """What `FIND` said. Raises as `check_end`."""
    path, named, rest = told.partition(b"\0")
    if code != _UNREADABLE:
        check_end(code, rest if named else path)
    line, _, beginning = rest.partition(b"\n")
    status, owner = _status_of(line)
    if code == _UNREADABLE:
        reason = beginning[-_LONGEST_REASON:].decode(errors="replace").rpartition(": ")[2].strip()
        return Finding(os.fsdecode(path), status, owner, b"", reason or "it can not be read")
    return Finding(os.fsdecode(path), status, owner, beginning, "")


def read_status(code: int | None, told: bytes) -> FileStatus | None:
    """What `STATUS` said. Raises as `check_end`."""
    check_end(code, told)
    return _status_of(told.rstrip(b"\n"))[0]


def _status_of(line: bytes) -> tuple[FileStatus | None, str]:
    if line == b"none":
        return None, ""
    mode, size, owner, version = line.decode(errors="replace").split(" ", 3)
    return FileStatus(int(mode, 16), int(size), version), owner
