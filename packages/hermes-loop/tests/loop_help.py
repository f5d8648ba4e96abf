"""Agents over a script, which several modules of tests use."""

from __future__ import annotations

import asyncio
from typing import Any

from hermes_loop import AIAgent
from hermes_messages import JsonObject, ToolCall
from hermes_messages.approvals import Later
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import ScriptedProvider, ScriptStep, SimpleExecutor

__all__ = ["later", "look", "make", "provider_of", "roles", "run", "time_passes"]


async def look(arguments: JsonObject) -> str:
    return f"seen {arguments.get('at')}"


async def later(_: ToolCall, __: str) -> Later:
    return Later()


def time_passes(seconds: float) -> None:
    """For the running loop, at once: what was to happen meanwhile is due, and nothing else has moved."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


def make(*script: ScriptStep, **options: Any) -> AIAgent:
    return AIAgent(
        provider=ScriptedProvider(script),
        tools=SimpleExecutor({"look": look}),
        session_id="s",
        **options,
    )


def provider_of(agent: AIAgent) -> ScriptedProvider:
    provider = agent._options.provider
    assert isinstance(provider, ScriptedProvider)
    return provider


def roles(result: ConversationResult) -> list[object]:
    return [message["role"] for message in result["messages"]]


def run(agent: AIAgent, *messages: str, **options: Any) -> list[ConversationResult]:
    """The results of a turn for each message; the agent is closed then."""

    async def main() -> list[ConversationResult]:
        async with agent:
            return [await agent.run_conversation(message, **options) for message in messages]

    return asyncio.run(main())
