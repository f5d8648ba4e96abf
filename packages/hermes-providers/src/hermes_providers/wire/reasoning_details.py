"""Reasoning blocks that come in fragments, put together for the next request.

OpenRouter streams `reasoning_details`: objects with `type` (`reasoning.text`, `reasoning.summary`,
`reasoning.encrypted`), `index`, and fields that may each be missing. They must go back whole, unchanged and
in order (https://openrouter.ai/docs/guides/best-practices/reasoning-tokens).
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from hermes_messages import JsonObject

__all__ = ["ReasoningDetails"]

_GROWING = ("text", "summary")
_GROWING_TYPES = frozenset({"reasoning.text", "reasoning.summary"})


class ReasoningDetails:
    """Collects fragments. One continues the block of its type and index; without an index, the last block."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: list[JsonObject] = []

    def add(self, fragment: JsonObject) -> None:
        """One fragment; keys that nobody knows are kept."""
        block = self._continued(fragment)
        if block is None:
            self._blocks.append(dict(fragment))
            return
        for key, value in fragment.items():
            old = block.get(key)
            if key in _GROWING and isinstance(value, str) and isinstance(old, str):
                block[key] = old + value
            elif value is not None or key not in block:
                block[key] = value

    def blocks(self) -> list[Raw]:
        """The whole blocks in the order in which they began."""
        return [Raw(msgspec.json.encode(block)) for block in self._blocks]

    def _continued(self, fragment: JsonObject) -> JsonObject | None:
        kind, index, own_id = fragment.get("type"), fragment.get("index"), fragment.get("id")
        for block in reversed(self._blocks):
            if block.get("type") != kind:
                if index is None:
                    return None
                continue
            if own_id is not None and block.get("id") not in (None, own_id):
                continue
            if index is not None:
                if block.get("index") == index:
                    return block
                continue
            return block if kind in _GROWING_TYPES and block.get("index") is None else None
        return None
