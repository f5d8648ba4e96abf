"""What a docstring says about a function and its parameters (the `Args:` section)."""

from __future__ import annotations

import inspect
import re

from msgspec import Struct

__all__ = ["Description", "read_docstring"]

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_PARAMETER = re.compile(r"^(\*{0,2}\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


class Description(Struct, frozen=True):
    """The text before the first section, and one text per parameter."""

    text: str
    parameters: dict[str, str]


def read_docstring(docstring: str | None) -> Description:
    """The parts of `docstring` that a model is shown; sections other than `Args:` are for programmers."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    heads = [index for index, line in enumerate(lines) if _SECTION.match(line)]
    text = "\n".join(lines[: heads[0]] if heads else lines).strip()
    parameters: dict[str, str] = {}
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=False):
        if lines[begin].startswith(("Args", "Arguments", "Parameters")):
            parameters.update(_read_parameters(lines[begin + 1 : end]))
    return Description(text, parameters)


def _read_parameters(lines: list[str]) -> dict[str, str]:
    body = inspect.cleandoc("\n" + "\n".join(lines)).splitlines()
    found: dict[str, str] = {}
    current = ""
    for line in body:
        match = _PARAMETER.match(line)
        if match:
            current = match.group(1).lstrip("*")
            found[current] = match.group(2).strip()
        elif current and line.strip():
            found[current] = f"{found[current]} {line.strip()}".strip()
    return {name: text for name, text in found.items() if text}
