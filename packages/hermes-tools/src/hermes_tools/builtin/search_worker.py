"""The search itself: a program of its own, run by `search_files`, that can be killed at any moment.

A regular expression that a model wrote may take for ever, and a tree may be of any size; neither may hold up
the event loop. It uses the standard library alone and is started by its path:

    python -I search_worker.py '{"workspace": ..., "root": ..., "pattern": ..., "target": ..., "limit": ...}'

It prints one JSON array for each hit as it is found, then one JSON object that says how it went.
"""

# A program of its own, with no event loop; the plain path functions are twice as fast here.
# ruff: noqa: PTH112, PTH118, PTH119, PTH123, PTH206
from __future__ import annotations

import codecs
import fnmatch
import json
import os
import re
import sys
from collections.abc import Callable, Iterator

MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_SHOWN = 300
_ALWAYS_SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})
_GLOB = re.compile(r"[*?\[]")

Rule = tuple[
    "re.Pattern[str]", bool, bool
]  # what it matches, whether it takes back, whether only directories


def ignore_rule(line: str) -> Rule | None:
    """One line of an ignore file, or None for a line that says nothing (gitignore(5), PATTERN FORMAT)."""
    line = re.sub(r"(?<!\\) +$", "", line.rstrip("\r\n"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line.removeprefix("!")
    only_directories = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    anchored = "/" in line
    try:
        pattern = re.compile(("" if anchored else "(?:.*/)?") + glob_regex(line.lstrip("/")))
    except re.error:
        return None
    return pattern, negated, only_directories


def glob_regex(glob: str) -> str:
    """A glob as a regular expression over a relative path; `**` crosses directories, `*` does not."""
    out: list[str] = []
    position = 0
    while position < len(glob):
        rest = glob[position:]
        at_start = position == 0 or glob[position - 1] == "/"
        if at_start and rest.startswith("**/"):
            out.append("(?:[^/]+/)*")
            position += 3
        elif rest.startswith("**"):
            out.append(".*")
            position += 2
        elif rest[0] in "*?":
            out.append("[^/]*" if rest[0] == "*" else "[^/]")
            position += 1
        elif rest[0] == "[" and "]" in rest[2:]:
            end = rest.index("]", 2)
            inside = rest[1:end].replace("\\", "\\\\")
            out.append("[" + ("^" + inside[1:] if inside[0] in "!^" else inside) + "]")
            position += end + 1
        elif rest[0] == "\\" and len(rest) > 1:
            out.append(re.escape(rest[1]))
            position += 2
        else:
            out.append(re.escape(rest[0]))
            position += 1
    return "".join(out)


class IgnoreRules:
    """The rules of the ignore files from the workspace down to one directory, the nearest last."""

    def __init__(self, levels: tuple[tuple[str, tuple[Rule, ...]], ...] = ()) -> None:
        self._levels = levels

    def entering(self, directory: str) -> IgnoreRules:
        """The rules inside `directory`."""
        try:
            with open(os.path.join(directory, ".gitignore"), encoding="utf-8", errors="replace") as file:
                rules = tuple(rule for rule in map(ignore_rule, file.read(1 << 20).splitlines()) if rule)
        except OSError:
            return self
        return IgnoreRules((*self._levels, (directory, rules))) if rules else self

    def ignores(self, path: str, is_directory: bool) -> bool:
        """Whether the last rule that speaks of `path` leaves it out."""
        for base, rules in reversed(self._levels):
            relative = os.path.relpath(path, base)
            for pattern, negated, only_directories in reversed(rules):
                if (is_directory or not only_directories) and pattern.fullmatch(relative):
                    return not negated
        return False


def rules_above(workspace: str, root: str) -> IgnoreRules:
    """The rules that hold in `root` because of the directories above it, down from the workspace."""
    rules = IgnoreRules()
    relative = os.path.relpath(root, workspace)
    if relative == "." or relative.startswith(".."):
        return rules
    current = workspace
    for part in relative.split(os.sep):
        rules = rules.entering(current)
        current = os.path.join(current, part)
    return rules


def walk(directory: str, rules: IgnoreRules) -> Iterator[str]:
    """Regular files below `directory` in the order of their names; links are not followed."""
    rules = rules.entering(directory)
    try:
        with os.scandir(directory) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in ordered:
        is_directory = entry.is_dir(follow_symlinks=False)
        if entry.name in _ALWAYS_SKIPPED or rules.ignores(entry.path, is_directory):
            continue
        if is_directory:
            yield from walk(entry.path, rules)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path


def read_text(path: str) -> str | None:
    """The text of a file, or None for one that is binary, too large or unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return None
    if len(data) > MAX_FILE_BYTES:
        return None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data[:8192]:
        return None
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace")


def name_test(pattern: str) -> Callable[[str], bool]:
    """Whether `pattern` means a relative path: a glob over path or name, else a part of the name."""
    if not _GLOB.search(pattern):
        wanted = pattern.casefold()
        return lambda path: wanted in (path if "/" in pattern else os.path.basename(path)).casefold()
    if "/" in pattern:
        compiled = re.compile(glob_regex(pattern.removeprefix("./").lstrip("/")))
        return lambda path: compiled.fullmatch(path) is not None
    return lambda path: fnmatch.fnmatchcase(os.path.basename(path), pattern)


def line_test(pattern: str) -> tuple[Callable[[str], bool], str]:
    """Whether a line holds `pattern`, and a remark. What is no regex is searched for as it stands."""
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return (lambda line: pattern in line), f"not a valid regex ({error}); searched for the text itself"
    return (lambda line: compiled.search(line) is not None), ""


def hits(request: dict[str, str], files: Iterator[str], remarks: list[str]) -> Iterator[list[str | int]]:
    """All hits: `[path]`, or `[path, line number, line]`."""
    workspace = request["workspace"]
    if request["target"] == "files":
        matches = name_test(request["pattern"])
        for path in files:
            if matches(os.path.relpath(path, request["root"])):
                yield [os.path.relpath(path, workspace)]
        return
    found, remark = line_test(request["pattern"])
    if remark:
        remarks.append(remark)
    for path in files:
        text = read_text(path)
        if text is None:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if found(line.removesuffix("\r")):
                yield [os.path.relpath(path, workspace), number, line.strip()[:MAX_SHOWN]]


def main(request: dict[str, str], limit: int) -> None:
    """Search, and print what is found."""
    root = request["root"]
    below = os.path.isdir(root)
    files = walk(root, rules_above(request["workspace"], root)) if below else iter((root,))
    remarks: list[str] = []
    more = False
    for number, hit in enumerate(hits(request, files, remarks)):
        if number == limit:
            more = True
            break
        sys.stdout.write(json.dumps(hit) + "\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps({"more": more, "remarks": remarks}) + "\n")


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    main(given, int(given["limit"]))
