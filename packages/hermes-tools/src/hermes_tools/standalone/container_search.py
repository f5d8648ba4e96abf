"""The search among files that were sent out of a container; a program of its own, as `search` is.

request, one line of JSON      a `SentRequest`, then what `LIST` printed (`containers.file_scripts`)
answer                         for names: as that of `search`; for contents: one line of JSON, the remarks,
                               then the names of the files to be sent, each with a NUL behind it
request, one line of JSON      a `SentRequest`, then the files, as archives of tar one after the other
answer                         as that of `search`
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Iterator
from typing import BinaryIO, TypedDict

from hermes_tools.standalone.ignore_rules import IGNORE_FILES, IgnoreRules
from hermes_tools.standalone.search import (
    MAX_DEPTH,
    MAX_FILE_BYTES,
    Hit,
    entering,
    line_hits,
    line_test,
    name_test,
    print_hits,
    printable,
    text_of,
)

__all__ = ["SentRequest", "kept", "main"]


class SentRequest(TypedDict):
    """What to search. `root` is the directory from which hits are named, with `prefix` before them; `base`
    leads from there to the one that was listed, with a `/` behind it unless it is empty. The pattern of a
    name is asked of what follows `above`. `remarks` were made before."""

    step: str
    pattern: str
    target: str
    limit: int
    root: str
    base: str
    above: str
    prefix: str
    remarks: list[str]


class _Tree:
    """The directories of a listing, and which rules hold in them."""

    def __init__(self, base: str, ignore_files: dict[str, dict[str, bytes]], remarks: list[str]) -> None:
        self._files = ignore_files
        self._remarks = remarks
        rules = entering(IgnoreRules(), "", ignore_files.get("", {}))
        parts = base.split("/")[:-1]
        for number in range(len(parts)):
            directory = "/".join(parts[: number + 1])
            rules = entering(rules, directory, ignore_files.get(directory, {}))
        self._base = base
        self._top = rules
        self._known: dict[str, IgnoreRules | None] = {}

    def rules_in(self, directory: str) -> IgnoreRules | None:
        """None for a directory that is left out."""
        rules = self._top
        current = self._base.rstrip("/")
        inside = directory.removeprefix(self._base) if directory != current else ""
        for depth, part in enumerate(inside.split("/") if inside else ()):
            current = f"{current}/{part}" if current else part
            if current not in self._known:
                self._known[current] = self._entered(rules, current, depth)
            entered = self._known[current]
            if entered is None:
                return None
            rules = entered
        return rules

    def _entered(self, rules: IgnoreRules, directory: str, depth: int) -> IgnoreRules | None:
        if rules.ignores(directory, is_directory=True):
            return None
        if depth >= MAX_DEPTH:
            self._remarks.append(f"{directory} lies deeper than {MAX_DEPTH} directories; it was left out")
            return None
        return entering(rules, directory, self._files.get(directory, {}))


def kept(request: SentRequest, listing: bytes, remarks: list[str]) -> list[str]:
    """The paths of a listing that no rule leaves out, in the order in which a walk meets them."""
    names, _, archive = listing.partition(b"\0\0")
    base = request["base"]
    ignore_files: dict[str, dict[str, bytes]] = {}
    root = request["root"].rstrip("/") + "/"
    for path, data in archived(io.BytesIO(archive.lstrip(b"\0"))):
        inside = base + path[2:] if path.startswith("./") else f"/{path}".removeprefix(root)
        directory, _, name = inside.rpartition("/")
        if isinstance(data, bytes) and name in IGNORE_FILES:
            ignore_files.setdefault(directory, {})[name] = data
    tree = _Tree(base, ignore_files, remarks)
    paths = [base + name[2:] for name in _text(names).split("\0") if name]
    paths.sort(key=lambda path: path.split("/"))
    found = []
    for path in paths:
        rules = tree.rules_in(path.rpartition("/")[0])
        if rules is not None and not rules.ignores(path, is_directory=False):
            found.append(path)
    return found


def archived(stream: BinaryIO) -> Iterator[tuple[str, bytes | str]]:
    """The regular files of archives one after the other: path and bytes, or path and the path of the file
    that it is a second name of."""
    try:
        with tarfile.open(fileobj=stream, mode="r|", ignore_zeros=True, errors="surrogateescape") as archive:
            for member in archive:
                if member.islnk():
                    yield member.name, member.linkname
                elif (
                    member.isreg()
                    and member.size <= MAX_FILE_BYTES
                    and (file := archive.extractfile(member)) is not None
                ):
                    yield member.name, file.read()
    except tarfile.TarError:
        return  # none at all, or one whose end did not come: whoever sends it tells why


def text_hits(request: SentRequest, stream: BinaryIO, remarks: list[str]) -> Iterator[Hit]:
    """The lines that are meant, of files in the order in which they come."""
    found, remark = line_test(request["pattern"])
    remarks.extend([remark] if remark else [])
    seen: dict[str, list[Hit]] = {}
    for path, data in archived(stream):
        shown = printable(request["prefix"] + request["base"] + path.removeprefix("./"))
        if isinstance(data, bytes):
            hits = []
            for hit in line_hits(shown, text_of(data), found):
                hits.append(hit)
                yield hit
            if hits:
                seen[path] = hits
        else:
            yield from ([shown, *hit[1:]] for hit in seen.get(data, ()))


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="surrogateescape")


def main() -> None:
    """Read a request, answer it."""
    request: SentRequest = json.loads(sys.stdin.buffer.readline())
    remarks: list[str] = list(request["remarks"])
    if request["step"] == "text":
        print_hits(text_hits(request, sys.stdin.buffer, remarks), request["limit"], remarks)
        return
    paths = kept(request, sys.stdin.buffer.read(), remarks)
    if request["target"] == "files":
        named = name_test(request["pattern"])
        hits: Iterator[Hit] = (
            [printable(request["prefix"] + path)]
            for path in paths
            if named(path.removeprefix(request["above"]))
        )
        print_hits(hits, request["limit"], remarks)
        return
    names = "".join(f"./{path.removeprefix(request['base'])}\0" for path in paths)
    sys.stdout.buffer.write(json.dumps(remarks).encode() + b"\n" + names.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()
