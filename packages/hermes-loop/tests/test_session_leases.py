"""Agents that share a session: whose turn it is, and a lease that is waited for or lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hermes_messages import AssistantMessage, LeaseLostError, StoreError, ToolMessage, UserMessage, validate
from hermes_messages.protocols import LeaseToken, NewMessage
from hermes_messages.testing import MemoryStore, StepGate, ToolDouble, call, calls, text
from loop_help import time_passes
from session_help import make, requests_of


class QueueingStore(MemoryStore):
    """A store with a queue for its lease, which another process may stand in too."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.turn = asyncio.Lock()

    async def acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float, *, wait_s: float | None = None
    ) -> LeaseToken:
        self.asked.append(holder)
        async with self.turn:  # first come, first served
            while True:
                token = await super().try_acquire_session_turn_lease(session_id, holder, ttl_s)
                if token is not None:
                    return token
                await asyncio.sleep(0.001)

    async def try_acquire_session_turn_lease(self, session_id: str, holder: str, ttl_s: float) -> LeaseToken:
        raise AssertionError("this does not queue up")


def test_a_store_with_a_queue_is_asked_at_once_so_that_its_order_is_that_of_arrival() -> None:
    """A turn that stood in a queue of its own process first came after later ones of other processes."""

    async def main() -> None:
        store = QueueingStore()
        gate = StepGate()
        one, two = make(store, text("1", gate=gate)), make(store, text("2"))
        first = asyncio.create_task(one.run_conversation("a"))
        await gate.reached()
        second = asyncio.create_task(two.run_conversation("b"))
        while len(store.asked) < 2:  # noqa: ASYNC110 - the second agent tells nobody
            await asyncio.sleep(0)
        other = asyncio.create_task(store.acquire_session_turn_lease("s", "another process", 60))
        await asyncio.sleep(0)
        gate.open()
        await asyncio.gather(first, second)
        token = await other
        assert [m.content for m in store.messages("s")] == ["a", "1", "b", "2"]
        await store.release_session_turn_lease(token)
        await one.close()
        await two.close()

    asyncio.run(main())


def test_two_agents_of_one_session_take_turns_and_see_each_other() -> None:
    async def main() -> None:
        store = MemoryStore()
        gate = StepGate()
        one = make(store, text("1", gate=gate), text("3"))
        two = make(store, text("2"))
        first = asyncio.create_task(one.run_conversation("a"))
        await gate.reached()
        second = asyncio.create_task(two.run_conversation("b"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert requests_of(two) == []
        gate.open()
        await asyncio.gather(first, second)
        third = await one.run_conversation("c")
        assert [m["content"] for m in third["messages"]] == ["a", "1", "b", "2", "c", "3"]
        assert validate(store.messages("s")) == []
        await one.close()
        await two.close()

    asyncio.run(main())


@pytest.mark.parametrize("make_store", [MemoryStore, QueueingStore])
def test_a_wait_for_the_lease_can_be_cancelled_and_leaves_nothing(
    make_store: Callable[[], MemoryStore],
) -> None:
    async def main() -> None:
        store = make_store()
        foreign = await store.acquire_session_turn_lease("s", "someone", 60)
        agent = make(store, text("ok"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await agent.run_conversation("a")
        assert not isinstance(store, QueueingStore) or not store.turn.locked()
        assert store.held_lease("s") == foreign
        await store.release_session_turn_lease(foreign)
        assert (await agent.run_conversation("a"))["completed"]
        assert store.held_lease("s") is None
        await agent.close()

    asyncio.run(main())


def test_a_lost_lease_stops_tools_and_writes_nothing_more() -> None:
    async def main() -> None:
        now = [1000.0]
        store = MemoryStore(clock=lambda: now[0])
        tool = ToolDouble("t", [None])
        agent = make(store, calls(call("t")), text("never"), text("later"), tools=[tool])
        turn = asyncio.create_task(agent.run_conversation("a"))
        await tool.started()
        now[0] += 60
        taken = await store.try_acquire_session_turn_lease("s", "other", 1000)
        assert taken is not None
        time_passes(60)
        result = await turn
        assert (tool.running, tool.cancelled) == (0, 1)
        assert (result["turn_exit_reason"], result["saved"]) == ("lease_lost", False)
        assert (result["failed"], result["interrupted"]) == (True, True)
        assert result["cleanup_errors"] == []
        assert [type(m) for m in store.messages("s")] == [UserMessage, AssistantMessage]
        assert validate(result["transcript"]) == []
        assert store.held_lease("s") == taken
        # The other holder goes on; what it wrote is what the next turn here sees.
        rows = await store.get_messages("s")
        round_ = await store.begin_tool_round("s", rows[1].uid, rows[1].message, lease=taken)  # type: ignore[arg-type]
        await store.set_tool_result(round_, 0, ToolMessage("call_0", "theirs"), lease=taken)
        await store.append_messages_batch("s", [NewMessage("x", AssistantMessage("done"))], lease=taken)
        await store.release_session_turn_lease(taken)
        after = await agent.run_conversation("b")
        assert [m["content"] for m in after["messages"]] == ["a", None, "theirs", "done", "b", "never"]
        assert after["transcript"] == tuple(store.messages("s"))
        await agent.close()

    asyncio.run(main())


def test_a_write_that_is_refused_for_the_lease_ends_the_turn_without_a_tool() -> None:
    async def main() -> None:
        store = MemoryStore()
        store.fail_next("begin_tool_round", LeaseLostError("taken over"))
        tool = ToolDouble("t")
        async with make(store, calls(call("t")), tools=[tool]) as agent:
            result = await agent.run_conversation("a")
        assert result["turn_exit_reason"] == "lease_lost"
        assert tool.arguments == []

    asyncio.run(main())


def test_a_store_that_fails_at_admission_is_a_failed_result() -> None:
    async def main() -> None:
        store = MemoryStore()
        store.fail_next("acquire_session_turn_lease", StoreError("disk full"))
        async with make(store, text("ok")) as agent:
            result = await agent.run_conversation("a")
            assert (result["turn_exit_reason"], result["api_calls"]) == ("session_persistence_failed", 0)
            assert result["messages"] == []
            assert (await agent.run_conversation("a"))["completed"]

    asyncio.run(main())
