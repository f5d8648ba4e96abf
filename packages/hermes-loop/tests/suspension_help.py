"""A session whose calls wait for a person, the same for several agents."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from hermes_loop import AIAgent
from hermes_messages import ToolMessage
from hermes_messages.approvals import pending_from_json
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    ToolDouble,
    call,
    calls,
)
from loop_help import later

__all__ = ["ASK", "World", "waiting"]


ASK = calls(
    call("look", {"at": "a"}, id="1"), call("drop", {"it": "b"}, id="2"), call("drop", {"it": "c"}, id="3")
)


class World:
    """A store that outlives the agents, and tools that know how often they ran."""

    def __init__(self, *, store: MemoryStore | None = None, with_store: bool = True) -> None:
        self.store = (store or MemoryStore()) if with_store else None
        self.look = ToolDouble("look")
        self.gate: Callable[[], Awaitable[object]] | None = None
        self.drop = ToolDouble("drop", scheduling="sequential", gate=self._gate)

    async def _gate(self) -> None:
        if self.gate is not None:
            await self.gate()

    def agent(
        self,
        *script: ScriptStep,
        session_id: str = "s",
        executor: SimpleExecutor | None = None,
        **others: object,
    ) -> AIAgent:
        return AIAgent(
            provider=ScriptedProvider(script),
            tools=executor or SimpleExecutor([self.look, self.drop], needs_approval=["drop"]),
            session_db=self.store,
            session_id=session_id,
            approval_callback=later,
            **others,  # type: ignore[arg-type]
        )

    async def suspend(self) -> ConversationResult:
        async with self.agent(ASK) as agent:
            return await agent.run_conversation("Clean up.")

    def results(self) -> list[tuple[str, str | None]]:
        assert self.store is not None
        return [(m.tool_call_id, m.status) for m in self.store.messages("s") if isinstance(m, ToolMessage)]


def waiting(result: ConversationResult) -> list[str]:
    found = json.loads(json.dumps(result["pending_approvals"]))  # plain data, or this raises
    return [item.call.id for item in pending_from_json(found)]
