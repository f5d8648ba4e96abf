"""A toolset without hermes-tools: any object with these members is a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hermes_messages import JsonObject, ToolSpec
from hermes_messages.protocols import Scheduling, Tool, ToolCallContext, Toolset

__all__ = ["PartsToolset", "StockTool", "make_toolset"]

STOCK = {"B-17": 12, "C-4": 0}
SCHEMA = {
    "type": "object",
    "properties": {"part": {"type": "string", "description": "the part's number, as B-17"}},
    "required": ["part"],
    "additionalProperties": False,
}


class StockTool:
    """How many of a part there are."""

    scheduling: Scheduling = "parallel"

    def __init__(self, stock: dict[str, int]) -> None:
        self._stock = stock
        self.spec = ToolSpec(
            name="stock",
            description="How many of a part are in stock.",
            parameters=msgspec.Raw(msgspec.json.encode(SCHEMA)),
        )

    async def run(self, arguments: JsonObject, context: ToolCallContext) -> str:
        """The number; an exception becomes an error result with its text."""
        part = str(arguments["part"])
        await context.progress(f"looking for {part}")
        if part not in self._stock:
            raise LookupError(f"there is no part {part}; there are: {', '.join(sorted(self._stock))}")
        return f"{self._stock[part]} of {part} in stock"


class PartsToolset:
    """The toolset `acme-parts`."""

    name = "acme-parts"

    def __init__(self) -> None:
        self.tools: tuple[Tool, ...] = (StockTool(dict(STOCK)),)


def make_toolset() -> Toolset:
    """What the entry point `acme-parts` names: a new toolset for each executor."""
    return PartsToolset()


if TYPE_CHECKING:

    def _fits(tool: StockTool, toolset: PartsToolset) -> tuple[Tool, Toolset]:
        return tool, toolset
