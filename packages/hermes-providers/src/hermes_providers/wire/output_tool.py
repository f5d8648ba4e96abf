"""An answer in a given form from hosts that have tools and no schemas: a tool whose arguments are the answer.

It is added to the request, and what a response says in it is handed on as text, so that the conversation
holds an ordinary answer.
"""

from __future__ import annotations

from msgspec import Raw

from hermes_messages import ToolSpec
from hermes_messages.deltas import Delta, TextChunk, ToolCallChunk

__all__ = ["OUTPUT_TOOL", "AnswerCalls", "answer_tool"]

OUTPUT_TOOL = "submit_structured_answer"


def answer_tool(schema: Raw) -> ToolSpec:
    """The tool."""
    return ToolSpec(OUTPUT_TOOL, "Give the final answer, in the form of this tool's input.", schema)


class AnswerCalls:
    """Tells the fragments of that one call from those of others, by index and id."""

    __slots__ = ("_id", "_index", "only", "seen")

    def __init__(self) -> None:
        self.seen = False
        self.only = True
        self._index: int | None = None
        self._id: str | None = None

    def take(self, fragment: ToolCallChunk) -> Delta:
        """`fragment` itself, or its arguments as text."""
        if fragment.name == OUTPUT_TOOL:
            self.seen, self._index, self._id = True, fragment.index, fragment.id
        elif not self._continues(fragment):
            self.only = False
            return fragment
        return TextChunk(fragment.arguments or "")

    def taken(self, deltas: list[Delta]) -> list[Delta]:
        """`deltas` with the arguments of that call as text."""
        return [self.take(delta) if isinstance(delta, ToolCallChunk) else delta for delta in deltas]

    def _continues(self, fragment: ToolCallChunk) -> bool:
        if not self.seen or fragment.name:
            return False
        return fragment.index in (None, self._index) and fragment.id in (None, self._id)
