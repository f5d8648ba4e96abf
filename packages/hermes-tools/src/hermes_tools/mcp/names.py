"""The names under which the model sees the tools of MCP servers. Pure."""

from __future__ import annotations

import hashlib
import re

__all__ = ["LONGEST_NAME", "tool_name"]

LONGEST_NAME = 64
"""What the hosts of models take: letters, digits, `_` and `-`, at most so many."""

_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_MARK_LENGTH = 6


def tool_name(server: str, tool: str) -> str:
    """`server__tool`; where that can not be written so, it is shortened and ends in a mark of the real name.

    The name depends on nothing but the two, so it is the same in each turn and process, whatever else there
    is. A server's name holds no `__`, so two names are equal only if both parts are.
    """
    plain = _ODD.sub("_", tool)
    name = f"{server}__{plain}"
    if plain == tool and len(name) <= LONGEST_NAME:
        return name
    mark = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_LENGTH]
    return f"{name[: LONGEST_NAME - _MARK_LENGTH - 1].rstrip('_-')}_{mark}"
