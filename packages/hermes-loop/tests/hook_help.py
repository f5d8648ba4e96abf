"""Hooks with every ability, with one, and with one that fails, which several modules of tests use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hermes_messages import ChatRequest, ChatResponse, ToolCall, ToolMessage, UserMessage
from hermes_messages.protocols import (
    ConversationResult,
    HookContext,
    SupportsAroundTurn,
    SupportsMemoryPrefetch,
    SupportsMemorySync,
    SupportsPostTurn,
    SupportsPreModel,
    SupportsRequestTransform,
    SupportsResponseTransform,
    SupportsToolResultTransform,
)

__all__ = ["ABILITIES", "Recorder", "failing"]


class Recorder:
    """A hook with every ability that changes nothing and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.contexts: list[HookContext] = []
        self.results: list[ConversationResult] = []

    def note(self, ability: str, context: HookContext) -> None:
        self.asked.append(ability)
        self.contexts.append(context)

    @asynccontextmanager
    async def around_turn(self, context: HookContext) -> AsyncIterator[None]:
        self.note("enter", context)
        try:
            yield
        finally:
            self.note("leave", context)

    async def pre_model(self, context: HookContext, message: UserMessage) -> str | None:
        self.note("pre_model", context)
        return None

    async def prefetch_memory(self, context: HookContext, message: UserMessage) -> str | None:
        self.note("prefetch_memory", context)
        return None

    async def sync_memory(self, context: HookContext, result: ConversationResult) -> None:
        self.note("sync_memory", context)

    async def transform_request(self, context: HookContext, request: ChatRequest) -> ChatRequest:
        self.note("transform_request", context)
        return request

    async def transform_response(self, context: HookContext, response: ChatResponse) -> ChatResponse:
        self.note("transform_response", context)
        return response

    async def transform_tool_result(
        self, context: HookContext, call: ToolCall, result: ToolMessage
    ) -> ToolMessage:
        self.note("transform_tool_result", context)
        return result

    async def post_turn(self, context: HookContext, result: ConversationResult) -> None:
        self.note("post_turn", context)
        self.results.append(result)


if TYPE_CHECKING:

    def _fits(
        hook: Recorder,
    ) -> tuple[
        SupportsAroundTurn,
        SupportsPreModel,
        SupportsMemoryPrefetch,
        SupportsMemorySync,
        SupportsRequestTransform,
        SupportsResponseTransform,
        SupportsToolResultTransform,
        SupportsPostTurn,
    ]:
        return hook, hook, hook, hook, hook, hook, hook, hook


ABILITIES = [
    "around_turn",
    "pre_model",
    "prefetch_memory",
    "sync_memory",
    "transform_request",
    "transform_response",
    "transform_tool_result",
    "post_turn",
]


def failing(ability: str, problem: object) -> object:
    """A hook with one ability, which raises `problem`, or returns it where it is no exception."""

    async def fail(self: object, *_: object) -> object:
        if isinstance(problem, BaseException):
            raise problem
        return problem

    def fail_plainly(self: object, *_: object) -> object:
        if isinstance(problem, BaseException):
            raise problem
        return problem

    method = fail_plainly if ability == "around_turn" else fail
    return type("Bad", (), {ability: method})()
