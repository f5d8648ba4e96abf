"""What ignore files leave out: the rules of gitignore(5), nested and taken back. Pure."""

from __future__ import annotations

import re

__all__ = ["IGNORE_FILES", "IgnoreRules", "Rule", "glob_regex", "ignore_rule"]

IGNORE_FILES = (".gitignore", ".ignore")
"""In the order in which they are read; where two rules of one directory differ, the later file wins."""

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
    """The rules of the ignore files from the workspace down to one directory, the nearest last.

    Paths and bases are relative to the workspace; the base of its own files is empty.
    """

    def __init__(self, levels: tuple[tuple[str, tuple[Rule, ...]], ...] = ()) -> None:
        self._levels = levels

    def adding(self, base: str, text: str) -> IgnoreRules:
        """These rules and those of an ignore file in the directory `base`."""
        rules = tuple(rule for rule in map(ignore_rule, text.splitlines()) if rule)
        return IgnoreRules((*self._levels, (base, rules))) if rules else self

    def ignores(self, path: str, *, is_directory: bool) -> bool:
        """Whether the last rule that speaks of `path` leaves it out."""
        for base, rules in reversed(self._levels):
            relative = path[len(base) + 1 :] if base else path
            for pattern, negated, only_directories in reversed(rules):
                if (is_directory or not only_directories) and pattern.fullmatch(relative):
                    return not negated
        return False
