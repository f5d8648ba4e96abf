"""Tool names for hosts that do not take every name, and back.

The conversation keeps the name that the tool has. Only the request copy is mapped, from the name alone, so a
tool, its old calls and their results always get the same one; a call that comes in gets its own name back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from hermes_messages import ToolSpec
from hermes_messages.deltas import Delta, ToolCallChunk
from hermes_providers.profiles import ToolNameRule

__all__ = ["original_names", "wire_tool_name", "with_original_name"]

_HASH_LENGTH = 8
_MAX_CACHED = 4096


@lru_cache(maxsize=_MAX_CACHED)
def wire_tool_name(name: str, rule: ToolNameRule) -> str:
    """`name` itself when the rule admits it, else its readable start and a hash of the whole."""
    cleaned = "".join(char if re.fullmatch(rule.allowed, char) else "_" for char in name)
    if not cleaned or not re.match(rule.first or rule.allowed, cleaned):
        cleaned = f"_{cleaned}"
    if cleaned == name and len(name) <= rule.max_length:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{cleaned[: rule.max_length - _HASH_LENGTH - 1]}_{digest}"


def original_names(tools: Iterable[ToolSpec], rule: ToolNameRule) -> dict[str, str]:
    """From the name on the wire to a tool's own name, for those whose name had to be mapped."""
    named = {wire_tool_name(tool.name, rule): tool.name for tool in tools}
    return {wire: name for wire, name in named.items() if wire != name}


def with_original_name(delta: Delta, names: Mapping[str, str]) -> Delta:
    """`delta` itself, or the call with the tool's own name."""
    if isinstance(delta, ToolCallChunk) and (name := names.get(delta.name or "")):
        return msgspec.structs.replace(delta, name=name)
    return delta
