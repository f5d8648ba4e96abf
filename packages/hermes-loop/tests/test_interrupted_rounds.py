"""A stored round that died mid-way: nothing runs again, but for idempotent calls where the host wants it."""

from __future__ import annotations

import asyncio

import pytest

from hermes_loop import AIAgent
from hermes_messages import (
    AssistantMessage,
    JsonObject,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    validate,
)
from hermes_messages.approvals import PendingApproval, pending_to_json
from hermes_messages.protocols import NewMessage, SessionInfo, ToolRound
from hermes_messages.testing import FunctionTool, MemoryStore, ScriptedProvider, SimpleExecutor, text

CALLS = tuple(ToolCall(id_, name, "{}") for id_, name in (("a", "read"), ("b", "read"), ("c", "write")))
UNKNOWN = {"a": "unknown", "b": "ok", "c": "unknown"}


async def interrupted(*, last: Message | None = None) -> tuple[MemoryStore, ToolRound]:
    """A session that died when only the second of its three calls had a result."""
    store = MemoryStore()
    await store.ensure_session("s", SessionInfo())
    await store.append_messages_batch("s", [NewMessage("u", UserMessage("go"))])
    round_ = await store.begin_tool_round("s", "r", AssistantMessage(tool_calls=CALLS))
    await store.set_tool_result(round_, 1, ToolMessage("b", "kept", name="read"))
    if last is not None:
        await store.append_messages_batch("s", [NewMessage("last", last)])
    return store, round_


class Tools:
    """`read`, which may run twice, and `write`, which may not; what ran is noted."""

    def __init__(self, *, failing: bool = False) -> None:
        self.ran: list[str] = []
        self.failing = failing

    def executor(self, *, needs_approval: tuple[str, ...] = ()) -> SimpleExecutor:
        async def read(_: JsonObject) -> str:
            self.ran.append("read")
            if self.failing:
                raise OSError("it is gone")
            return "read anew"

        async def write(_: JsonObject) -> str:
            self.ran.append("write")
            return "written"

        return SimpleExecutor(
            [FunctionTool("read", read, idempotent=True), FunctionTool("write", write)],
            needs_approval=needs_approval,
        )


async def take_a_turn(
    store: MemoryStore, executor: SimpleExecutor, *, rerun: bool = True
) -> tuple[dict[str, str], list[Message]]:
    """One turn of a new agent: the status of each result by the id of its call, and what is stored."""
    provider = ScriptedProvider([text("I see.")])
    async with AIAgent(
        provider=provider, tools=executor, session_db=store, session_id="s", rerun_idempotent_tools=rerun
    ) as agent:
        result = await agent.run_conversation("What happened?")
    assert result["final_response"] == "I see.", result["error"]
    stored = [row.message for row in await store.get_messages("s")]
    assert tuple(stored) == result["transcript"]
    assert validate(stored) == []
    assert list(provider.last_request.history)[-len(stored) + 1 :] == stored[:-1]
    return {m.tool_call_id: m.status for m in stored if isinstance(m, ToolMessage)}, stored


def test_idempotent_calls_without_a_result_run_again_and_only_these() -> None:
    async def main() -> None:
        store, _ = await interrupted()
        tools = Tools()
        statuses, stored = await take_a_turn(store, tools.executor())
        assert statuses == {"a": "ok", "b": "ok", "c": "unknown"}
        assert tools.ran == ["read"]
        texts = [m.content for m in stored if isinstance(m, ToolMessage)]
        assert texts[:2] == ["read anew", "kept"]
        await take_a_turn(store, tools.executor())
        assert tools.ran == ["read"]

    asyncio.run(main())


def test_without_the_hosts_word_nothing_runs_again() -> None:
    async def main() -> None:
        store, _ = await interrupted()
        tools = Tools()
        statuses, _ = await take_a_turn(store, tools.executor(), rerun=False)
        assert (statuses, tools.ran) == (UNKNOWN, [])

    asyncio.run(main())


def test_a_second_run_that_fails_is_a_result_as_any_other() -> None:
    async def main() -> None:
        store, _ = await interrupted()
        statuses, _ = await take_a_turn(store, Tools(failing=True).executor())
        assert statuses == UNKNOWN | {"a": "error"}

    asyncio.run(main())


def test_a_call_that_would_have_to_ask_first_is_denied_and_does_not_run() -> None:
    async def main() -> None:
        store, _ = await interrupted()
        tools = Tools()
        statuses, _ = await take_a_turn(store, tools.executor(needs_approval=("read",)))
        assert (statuses, tools.ran) == (UNKNOWN | {"a": "denied"}, [])

    asyncio.run(main())


def test_a_round_that_others_went_on_from_is_not_run_again() -> None:
    async def main() -> None:
        store, _ = await interrupted(last=UserMessage("never mind"))
        tools = Tools()
        statuses, _ = await take_a_turn(store, tools.executor())
        assert (statuses, tools.ran) == (UNKNOWN, [])

    asyncio.run(main())


def test_a_round_that_waits_for_a_decision_is_not_run_again() -> None:
    async def main() -> None:
        store, round_ = await interrupted()
        waiting = PendingApproval(call=CALLS[2], position=2, reason="writes")
        await store.suspend_round(round_, pending_to_json([waiting]))
        tools = Tools()
        statuses, _ = await take_a_turn(store, tools.executor())
        assert (statuses, tools.ran) == (UNKNOWN | {"c": "denied"}, [])

    asyncio.run(main())


@pytest.mark.parametrize("steps", range(1, 40, 3))
def test_a_cancelled_second_run_leaves_a_round_that_is_whole(steps: int) -> None:
    async def main() -> None:
        store, _ = await interrupted()
        tools = Tools()
        agent = AIAgent(
            provider=ScriptedProvider([text("I see.")]),
            tools=tools.executor(),
            session_db=store,
            session_id="s",
            rerun_idempotent_tools=True,
        )
        async with agent:
            turn = asyncio.create_task(agent.run_conversation("What happened?"))
            for _ in range(steps):
                await asyncio.sleep(0)
            turn.cancel()
            await asyncio.wait({turn})
        statuses, _ = await take_a_turn(store, tools.executor())
        assert statuses["b"] == "ok"
        assert statuses["a"] in ("ok", "interrupted", "unknown")
        assert statuses["c"] in ("interrupted", "unknown")
        assert "write" not in tools.ran

    asyncio.run(main())
