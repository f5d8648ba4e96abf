"""Hooks of a host: the Protocol only. This version calls none, and `AIAgent(hooks=...)` says so."""

from __future__ import annotations

from typing import Protocol

from hermes_messages import ChatRequest, ChatResponse, ToolMessage

__all__ = ["TurnHooks"]


class TurnHooks(Protocol):
    """Where a host may look at or change what passes through a turn."""

    async def transform_request(self, request: ChatRequest) -> ChatRequest:
        """Change a request before it goes through the preflight gate."""
        ...

    async def transform_response(self, response: ChatResponse) -> ChatResponse:
        """Change a response before it enters the conversation."""
        ...

    async def transform_tool_result(self, result: ToolMessage) -> ToolMessage:
        """Change a tool's result before it is stored."""
        ...
