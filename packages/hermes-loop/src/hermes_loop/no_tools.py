"""The executor of an agent without tools: it offers none, and answers calls that a model makes anyway."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_messages import ToolCall, ToolMessage
from hermes_messages.protocols import RoundContext, RoundOutcome, ToolSnapshot, TurnContext

__all__ = ["NoTools"]


class NoTools:
    """A `ToolExecutor` with nothing in it."""

    async def open(self) -> None:
        """Nothing to open."""

    async def refresh(self, context: TurnContext) -> ToolSnapshot:  # noqa: ARG002 - the Protocol's
        """No tools."""
        return ToolSnapshot()

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        """An error result for each call."""
        results: list[ToolMessage | None] = []
        for position, call in enumerate(calls):
            result = ToolMessage(
                tool_call_id=call.id,
                content=f"Error: there is no tool {call.name!r}; no tools are available. Answer in text.",
                name=call.name,
                status="error",
            )
            await context.on_result(position, result)
            results.append(result)
        return RoundOutcome(results=tuple(results))

    def is_idle(self, task_id: str | None = None) -> bool:  # noqa: ARG002 - as others have it
        """There is never anything to release."""
        return True

    async def release(self, task_id: str) -> None:
        """Nothing to release."""

    async def close(self) -> None:
        """Nothing to close."""
