"""Agents that share a session through a real store: who is next, and what becomes of open questions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes_loop import AIAgent
from hermes_messages import AssistantMessage, ToolCall, ToolMessage, UserMessage, validate
from hermes_messages.approvals import PendingApproval, pending_to_json
from hermes_messages.protocols import NewMessage
from hermes_messages.testing import ScriptedProvider, ScriptStep, SimpleExecutor, StepGate, ToolDouble, text
from hermes_store import SessionDB
from hermes_store.backend import Operation, Statement
from hermes_store.operations import leases

pytestmark = pytest.mark.needs("hermes-loop", "hermes-store")


def make(store: SessionDB, *script: ScriptStep, tools: tuple[ToolDouble, ...] = ()) -> AIAgent:
    return AIAgent(
        provider=ScriptedProvider(script), tools=SimpleExecutor(tools), session_db=store, session_id="s"
    )


def tickets() -> Operation[int]:
    rows = yield Statement("SELECT count(*) FROM lease_tickets")
    return int(rows[0][0])


async def until_waiting(store: SessionDB, turns: int, stores: int) -> None:
    """Until so many turns stand in the store's line, and so many stores in the database's."""

    async def are_waiting() -> bool:
        return len(store._lines.get("s") or ()) == turns and await store._backend.read(tickets) == stores

    async with asyncio.timeout(300):
        while not await are_waiting():  # noqa: ASYNC110 - it changes in a database
            await asyncio.sleep(0.005)


@pytest.mark.since("hermes-store", "0.1.1")
def test_turns_of_two_programs_come_in_the_order_in_which_they_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second turn here asked after the first there, and does not pass it in a queue of its own."""
    monkeypatch.setattr(leases, "TICKET_TTL_S", 3600.0)  # who stands still does not lose its place

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as here, SessionDB(tmp_path / "s.db") as there:
            gate = StepGate()
            agents = [
                make(here, text("1", gate=gate)),
                make(there, text("2")),
                make(here, text("3")),
                make(there, text("4")),
            ]
            turns = [asyncio.create_task(agents[0].run_conversation("a"))]
            await gate.reached()
            for store, agent, *waiting in (
                (there, agents[1], 1, 1),
                (here, agents[2], 1, 2),
                (there, agents[3], 2, 2),
            ):
                turns.append(asyncio.create_task(agent.run_conversation(f"question {len(turns)}")))
                await until_waiting(store, *waiting)
            gate.open()
            results = await asyncio.gather(*turns)
            assert all(result["saved"] for result in results)
            stored = [item.message for item in await here.get_messages("s")]
            assert [m.content for m in stored if isinstance(m, AssistantMessage)] == ["1", "2", "3", "4"]
            assert await here._backend.read(tickets) == 0
            for agent in agents:
                await agent.close()

    asyncio.run(main())


def test_a_round_that_waits_for_a_person_is_denied_by_the_next_message_once(tmp_path: Path) -> None:
    async def main() -> None:
        tool = ToolDouble("t")
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_messages_batch("s", [NewMessage("0", UserMessage("go"))])
            asked = AssistantMessage(None, tool_calls=(ToolCall("a", "t", "{}"), ToolCall("b", "t", "{}")))
            round_ = await db.begin_tool_round("s", "1", asked)
            await db.set_tool_result(round_, 0, ToolMessage("a", "ran"))
            pending = PendingApproval(call=asked.tool_calls[1], position=1, reason="writes")
            await db.suspend_round(round_, pending_to_json([pending]))
        async with SessionDB(tmp_path / "s.db") as db, make(db, text("Fine."), tools=(tool,)) as agent:
            result = await agent.run_conversation("never mind")
            assert result["completed"]
            stored = [item.message for item in await db.get_messages("s")]
            results = [message for message in stored if isinstance(message, ToolMessage)]
            assert [(m.tool_call_id, m.status) for m in results] == [("a", "ok"), ("b", "denied")]
            assert await db.suspended_rounds("s") == []
            assert validate(stored) == []
        assert tool.arguments == []

    asyncio.run(main())
