"""The search itself: a program of its own, run by `search_files`, that can be killed at any moment.

A regular expression that a model wrote may take for ever, and a tree may be of any size; neither may hold up
the event loop. Directories are opened one inside the other, so that no link is followed, whenever planted.

    request, JSON      a `SearchRequest`
    answer, lines      one JSON array for each hit as it is found, then one JSON object that says how it went
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypedDict

from hermes_tools.standalone import anchored
from hermes_tools.standalone.ignore_rules import IGNORE_FILES, IgnoreRules, glob_regex
from hermes_tools.text_shape import SAMPLE_BYTES, shape_of

__all__ = [
    "ALWAYS_SKIPPED",
    "MAX_DEPTH",
    "MAX_FILE_BYTES",
    "MAX_IGNORE_BYTES",
    "Hit",
    "SearchRequest",
    "entering",
    "line_hits",
    "line_test",
    "main",
    "name_test",
    "print_hits",
    "printable",
    "text_of",
]

MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_IGNORE_BYTES = 1 << 20
MAX_DEPTH = 100
MAX_SHOWN = 300
ALWAYS_SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})
_GLOB = re.compile(r"[*?\[]")

Hit = list[str | int]


class SearchRequest(TypedDict):
    """What to search. `root` and `parts` are a place; hits in the workspace are named relative to it."""

    workspace: str
    root: str
    parts: list[str]
    pattern: str
    target: str
    limit: int


class FoundFile(NamedTuple):
    """A file: its path from where the walk began, and how it is opened, while the walk stands there."""

    path: str
    directory: int
    name: str


class Walk:
    """The files below one place, in the order of their names."""

    def __init__(self, request: SearchRequest, remarks: list[str]) -> None:
        self._place = anchored.Place(request["root"], tuple(request["parts"]))
        self._remarks = remarks

    def files(self) -> Iterator[FoundFile]:
        """Every regular file that no rule leaves out; the place itself where it is a file."""
        status = anchored.status_of(self._place)
        kind = "" if status is None else anchored.kind_of(status.st_mode)
        if kind == "a regular file":
            with anchored.directory(self._place.parent) as directory:
                yield FoundFile("/".join(self._place.parts), directory, self._place.name)
            return
        current = anchored.open_directory(self._place.root)
        try:
            rules, base = IgnoreRules(), ""
            for part in self._place.parts:
                rules = _entering(rules, current, base)
                base = f"{base}/{part}" if base else part
                outer = current
                current = anchored.open_inside(outer, part)
                os.close(outer)
            yield from self._below(current, base, rules, 0)
        finally:
            os.close(current)

    def _below(self, directory: int, base: str, rules: IgnoreRules, depth: int) -> Iterator[FoundFile]:
        rules = _entering(rules, directory, base)
        try:
            with os.scandir(directory) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            return
        for entry in ordered:
            path = f"{base}/{entry.name}" if base else entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name in ALWAYS_SKIPPED or rules.ignores(path, is_directory=is_directory):
                continue
            if not is_directory:
                if entry.is_file(follow_symlinks=False):
                    yield FoundFile(path, directory, entry.name)
            elif depth >= MAX_DEPTH:
                self._remarks.append(f"{path} lies deeper than {MAX_DEPTH} directories; it was left out")
            else:
                yield from self._inside(directory, entry.name, path, rules, depth + 1)

    def _inside(
        self, outer: int, name: str, path: str, rules: IgnoreRules, depth: int
    ) -> Iterator[FoundFile]:
        try:
            inner = anchored.open_inside(outer, name)
        except OSError:
            return
        try:
            yield from self._below(inner, path, rules, depth)
        finally:
            os.close(inner)


def _entering(rules: IgnoreRules, directory: int, base: str) -> IgnoreRules:
    found = {}
    for name in IGNORE_FILES:
        with contextlib.suppress(OSError):
            found[name] = anchored.read_in(directory, name, MAX_IGNORE_BYTES)
    return entering(rules, base, found)


def entering(rules: IgnoreRules, base: str, found: Mapping[str, bytes]) -> IgnoreRules:
    """The rules in the directory `base`, whose ignore files are `found` by name."""
    for name in IGNORE_FILES:
        if name in found:
            rules = rules.adding(base, found[name].decode("utf-8-sig", errors="replace"))
    return rules


def read_text(file: FoundFile) -> str | None:
    """The text of a file, or None for one that is binary, too large or unreadable."""
    try:
        data = anchored.read_in(file.directory, file.name, MAX_FILE_BYTES + 1)
    except OSError:
        return None
    return text_of(data)


def text_of(data: bytes) -> str | None:
    """The text of a file with these bytes, or None for one that is binary or too large."""
    if len(data) > MAX_FILE_BYTES:
        return None
    shape = shape_of(data[:4])
    if not shape.mark and b"\0" in data[:SAMPLE_BYTES]:
        return None
    return data[len(shape.mark) :].decode(shape.encoding, errors="replace")


def name_test(pattern: str) -> Callable[[str], bool]:
    """Whether `pattern` means a relative path: a glob over path or name, else a part of the name."""
    if not _GLOB.search(pattern):
        wanted = pattern.casefold()
        return lambda path: wanted in (path if "/" in pattern else path.rpartition("/")[2]).casefold()
    if "/" in pattern:
        compiled = re.compile(glob_regex(pattern.removeprefix("./").lstrip("/")))
        return lambda path: compiled.fullmatch(path) is not None
    return lambda path: fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)


def line_test(pattern: str) -> tuple[Callable[[str], bool], str]:
    """Whether a line holds `pattern`, and a remark. What is no regex is searched for as it stands."""
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return (lambda line: pattern in line), f"not a valid regex ({error}); searched for the text itself"
    return (lambda line: compiled.search(line) is not None), ""


def printable(path: str) -> str:
    """A name with the bytes that are no UTF-8 as `\\xNN`: what is shown must be text."""
    return path.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="backslashreplace")


def hits(request: SearchRequest, remarks: list[str]) -> Iterator[Hit]:
    """All hits: `[path]`, or `[path, line number, line]`."""
    inside = request["root"] == request["workspace"]
    above = "".join(f"{part}/" for part in request["parts"])
    named: Callable[[str], bool] | None = None
    found: Callable[[str], bool] = bool
    if request["target"] == "files":
        named = name_test(request["pattern"])
    else:
        found, remark = line_test(request["pattern"])
        remarks.extend([remark] if remark else [])
    for file in Walk(request, remarks).files():
        shown = printable(file.path if inside else f"{request['root']}/{file.path}")
        if named is not None:
            if named(file.path.removeprefix(above)):
                yield [shown]
            continue
        yield from line_hits(shown, read_text(file), found)


def line_hits(shown: str, text: str | None, found: Callable[[str], bool]) -> Iterator[Hit]:
    """The lines of one file that are meant."""
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        if found(line.removesuffix("\r")):
            yield [shown, number, line.strip()[:MAX_SHOWN]]


def main() -> None:
    """Read a request, print what is found."""
    request: SearchRequest = json.loads(sys.stdin.buffer.read())
    remarks: list[str] = []
    print_hits(hits(request, remarks), request["limit"], remarks)


def print_hits(found: Iterator[Hit], limit: int, remarks: list[str]) -> None:
    """Print so many of them, then how it went."""
    more = False
    for number, hit in enumerate(found):
        if number == limit:
            more = True
            break
        sys.stdout.write(json.dumps(hit) + "\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps({"more": more, "remarks": remarks[:20]}) + "\n")
