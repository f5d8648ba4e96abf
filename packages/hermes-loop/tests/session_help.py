"""Agents of one session over a store, which several modules of tests use."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_loop import AIAgent
from hermes_messages import Message
from hermes_messages.testing import ScriptedProvider, ScriptStep, SimpleExecutor, ToolDouble

__all__ = ["make", "requests_of"]


def make(store: object, *script: ScriptStep, tools: Sequence[ToolDouble] = (), ttl_s: float = 60) -> AIAgent:
    return AIAgent(
        provider=ScriptedProvider(script),
        tools=SimpleExecutor(tools),
        session_db=store,  # type: ignore[arg-type]
        session_id="s",
        lease_ttl_s=ttl_s,
    )


def requests_of(agent: AIAgent) -> list[list[Message]]:
    provider = agent._options.provider
    assert isinstance(provider, ScriptedProvider)
    return [list(request.history) for request in provider.requests]
