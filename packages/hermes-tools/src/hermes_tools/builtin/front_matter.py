"""The head of a SKILL.md file: names and texts between two lines of `---`. Pure.

Only the part of YAML that such heads are made of is read: `name: text` at the start of a line, plain or
quoted, and texts over several indented lines (`>`, `|`, or going on). What is nested is left out.
"""

from __future__ import annotations

import re

__all__ = ["read_front_matter"]

_ENTRY = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?")
_COMMENT = re.compile(r"\s#")
_BLOCK = re.compile(r"[|>][+-]?\d?")


def read_front_matter(text: str) -> dict[str, str]:
    """The entries by name, in lower case; empty where there is no complete head."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---" or "---" not in [line.rstrip() for line in lines[1:]]:
        return {}
    entries: dict[str, list[str]] = {}
    name = ""
    for line in lines[1:]:
        if line.rstrip() == "---":
            break
        entry = _ENTRY.fullmatch(line.rstrip())
        if entry:
            name = entry[1].lower()
            entries.setdefault(name, [_plain(entry[2] or "")])
        elif name and line[:1] in {" ", "\t"}:
            entries[name].append(line.strip())
        elif line.strip() and not line.startswith("#"):
            name = ""
    return {name: " ".join(filter(None, lines)) for name, lines in entries.items()}


def _plain(value: str) -> str:
    value = value.strip()
    if _BLOCK.fullmatch(value):
        return ""
    if len(value) > 1 and value[0] == value[-1] == '"':
        return re.sub(r'\\(["\\])', r"\1", value[1:-1])
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    comment = _COMMENT.search(value)
    return value[: comment.start()].rstrip() if comment else value
