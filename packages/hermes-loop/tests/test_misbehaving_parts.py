"""Executors and stores of a host that break their promises: the turn has a result, the session goes on."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from hermes_loop import AIAgent, Budget
from hermes_messages import ChatRequest, StoreError, ToolCall, ToolMessage, Usage, validate
from hermes_messages.protocols import RoundContext, RoundOutcome, ToolSnapshot, TurnContext
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    SimpleExecutor,
    ToolDouble,
    call,
    calls,
    hang,
    text,
)

Execute = Callable[[Sequence[ToolCall], RoundContext], Awaitable[Any]]


class Executor:
    """Runs what a test says in place of the tools."""

    def __init__(self, execute: Execute, snapshot: object = None) -> None:
        self._inner = SimpleExecutor([ToolDouble("t")])
        self._execute = execute
        self._snapshot = snapshot

    async def open(self) -> None: ...

    async def refresh(self, context: TurnContext) -> ToolSnapshot:
        if self._snapshot is not None:
            snapshot, self._snapshot = self._snapshot, None
            return snapshot  # type: ignore[return-value]
        return await self._inner.refresh(context)

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        return await self._execute(calls, context)  # type: ignore[no-any-return]

    async def release(self, task_id: str) -> None: ...

    async def close(self) -> None: ...


async def _results_of_another_call(calls: Sequence[ToolCall], _: RoundContext) -> object:
    return RoundOutcome(results=tuple(ToolMessage("another", "x") for _ in calls))


async def _one_result_for_all(calls: Sequence[ToolCall], _: RoundContext) -> object:
    return RoundOutcome(results=tuple(ToolMessage(calls[0].id, "x") for _ in calls))


async def _results_for_more(calls: Sequence[ToolCall], _: RoundContext) -> object:
    return RoundOutcome(results=tuple(ToolMessage(one.id, "x") for one in (*calls, *calls)))


async def _texts(calls: Sequence[ToolCall], _: RoundContext) -> object:
    return RoundOutcome(results=("x", "y"))  # type: ignore[arg-type]


async def _nothing(calls: Sequence[ToolCall], _: RoundContext) -> object:
    return None


async def _tells_of_another_call(calls: Sequence[ToolCall], context: RoundContext) -> object:
    await context.on_result(0, ToolMessage("another", "x"))
    return RoundOutcome(results=(None, None))


async def _tells_of_no_place(calls: Sequence[ToolCall], context: RoundContext) -> object:
    await context.on_result(-1, ToolMessage(calls[-1].id, "x"))
    return RoundOutcome(results=(None, None))


async def _a_bug(calls: Sequence[ToolCall], _: RoundContext) -> object:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "execute",
    [
        _results_of_another_call,
        _one_result_for_all,
        _results_for_more,
        _texts,
        _nothing,
        _tells_of_another_call,
        _tells_of_no_place,
        _a_bug,
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_an_executor_that_breaks_its_promises_fails_one_turn_and_not_the_session(
    execute: Execute, stored: bool
) -> None:
    async def main() -> None:
        store = MemoryStore() if stored else None
        provider = ScriptedProvider([calls(call("t"), call("t")), text("ok")])
        async with AIAgent(
            provider=provider, tools=Executor(execute), session_db=store, session_id="s"
        ) as agent:
            first = await agent.run_conversation("go")
            assert first["turn_exit_reason"] == "internal_error"
            assert validate(first["transcript"]) == []
            assert first["cleanup_errors"] == []
            second = await agent.run_conversation("go on")
            assert second["final_response"] == "ok"
            if store is not None:
                assert tuple(store.messages("s")) == second["transcript"]

    asyncio.run(main())


def test_a_result_that_comes_after_the_round_changes_nothing() -> None:
    told: list[asyncio.Task[None]] = []

    async def execute(calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        async def late() -> None:
            await context.on_result(0, ToolMessage(calls[0].id, "late"))

        told.append(asyncio.create_task(late()))
        return RoundOutcome(results=tuple(ToolMessage(one.id, "in time") for one in calls))

    async def main() -> None:
        store = MemoryStore()
        provider = ScriptedProvider([calls(call("t")), text("ok")])
        async with AIAgent(
            provider=provider, tools=Executor(execute), session_db=store, session_id="s"
        ) as agent:
            result = await agent.run_conversation("go")
            await asyncio.gather(*told)
        assert result["completed"]
        assert tuple(store.messages("s")) == result["transcript"]
        assert result["messages"][2]["content"] == "in time"

    asyncio.run(main())


def test_an_executor_without_a_snapshot_of_its_tools_fails_the_turn() -> None:
    async def main() -> None:
        executor = Executor(_nothing, snapshot="no snapshot")
        async with AIAgent(provider=ScriptedProvider([text("ok")]), tools=executor) as agent:
            first = await agent.run_conversation("go")
            assert first["turn_exit_reason"] == "internal_error"
            assert "must return a ToolSnapshot" in str(first["error"])
            assert (await agent.run_conversation("go on"))["final_response"] == "ok"

    asyncio.run(main())


def test_a_provider_with_a_bug_is_a_route_that_failed() -> None:
    class Buggy(ScriptedProvider):
        def stream(self, request: ChatRequest) -> Any:
            raise KeyError("choices")

    async def main() -> None:
        healthy = ScriptedProvider([text("ok")], name="healthy")
        async with AIAgent(provider=Buggy([]), fallback_models=[healthy]) as agent:
            result = await agent.run_conversation("go")
        assert (result["final_response"], result["provider"]) == ("ok", "healthy")
        async with AIAgent(provider=Buggy([])) as agent:
            result = await agent.run_conversation("go")
        assert result["turn_exit_reason"] == "internal_error"

    asyncio.run(main())


@pytest.mark.parametrize("cost", [math.nan, -1000.0])
def test_a_cost_that_is_no_number_does_not_open_the_budget(cost: float) -> None:
    async def main() -> None:
        usage = Usage(input_tokens=1, output_tokens=1, cost_usd=cost)
        provider = ScriptedProvider([calls(call("t"), usage=usage), text("never")])
        async with AIAgent(
            provider=provider, tools=SimpleExecutor([ToolDouble("t")]), budget=Budget(cost_usd=1.0)
        ) as agent:
            result = await agent.run_conversation("go")
        assert result["turn_exit_reason"] == "budget_exhausted"
        assert len(provider.requests) == 1

    asyncio.run(main())


class BadLeases(MemoryStore):
    """A store whose leases raise what is no `StoreError`."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method

    async def acquire_session_turn_lease(self, *arguments: Any, **options: Any) -> Any:
        self._raise("acquire")
        return await super().acquire_session_turn_lease(*arguments, **options)

    async def refresh_session_turn_lease(self, *arguments: Any, **options: Any) -> Any:
        self._raise("refresh")
        return await super().refresh_session_turn_lease(*arguments, **options)

    async def release_session_turn_lease(self, *arguments: Any, **options: Any) -> Any:
        self._raise("release")
        return await super().release_session_turn_lease(*arguments, **options)

    def _raise(self, method: str) -> None:
        if method == self.method:
            raise OSError("the socket is gone")


def test_a_turn_has_its_result_although_the_lease_could_not_be_given_back() -> None:
    async def main() -> None:
        store = BadLeases("release")
        agent = AIAgent(provider=ScriptedProvider([text("a"), text("b")]), session_db=store, session_id="s")
        async with agent:
            assert (await agent.run_conversation("go"))["final_response"] == "a"
            assert (await agent.run_conversation("go on"))["final_response"] == "b"

    asyncio.run(main())


def test_a_cancellation_is_not_replaced_by_what_giving_back_the_lease_raised() -> None:
    async def main() -> None:
        provider = ScriptedProvider([hang()])
        async with AIAgent(provider=provider, session_db=BadLeases("release"), session_id="s") as agent:
            turn = asyncio.create_task(agent.run_conversation("go"))
            while not provider.live_streams:  # noqa: ASYNC110 - the provider tells in no other way
                await asyncio.sleep(0)
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn

    asyncio.run(main())


def test_a_lease_whose_renewal_fails_in_any_way_is_given_up_in_time() -> None:
    async def main() -> None:
        store = BadLeases("refresh")
        provider = ScriptedProvider([hang()])
        async with AIAgent(provider=provider, session_db=store, session_id="s", lease_ttl_s=0.05) as agent:
            result = await agent.run_conversation("go")
        assert result["turn_exit_reason"] == "lease_lost"

    asyncio.run(main())


def test_a_store_with_a_bug_at_the_admission_is_a_failed_result() -> None:
    async def main() -> None:
        agent = AIAgent(
            provider=ScriptedProvider([text("a")]), session_db=BadLeases("acquire"), session_id="s"
        )
        async with agent:
            result = await agent.run_conversation("go")
        assert result["turn_exit_reason"] == "internal_error"
        assert "the socket is gone" in str(result["error"])

    asyncio.run(main())


class FullDisk(MemoryStore):
    refused = ""

    async def append_messages_batch(self, *arguments: Any, **options: Any) -> Any:
        self._refuse("append_messages_batch")
        return await super().append_messages_batch(*arguments, **options)

    async def begin_tool_round(self, *arguments: Any, **options: Any) -> Any:
        self._refuse("begin_tool_round")
        return await super().begin_tool_round(*arguments, **options)

    async def set_tool_result(self, *arguments: Any, **options: Any) -> Any:
        self._refuse("set_tool_result")
        return await super().set_tool_result(*arguments, **options)

    def _refuse(self, method: str) -> None:
        if method == self.refused:
            raise StoreError("the disk is full")


@pytest.mark.parametrize("method", ["set_tool_result", "append_messages_batch", "begin_tool_round"])
def test_what_is_owed_to_the_store_is_still_owed_by_an_agent_that_was_closed_meanwhile(method: str) -> None:
    async def main() -> None:
        store = FullDisk()
        provider = ScriptedProvider([text("hello"), calls(call("t"), call("t")), text("a"), text("b")])
        agent = AIAgent(
            provider=provider, tools=SimpleExecutor([ToolDouble("t")]), session_db=store, session_id="s"
        )
        async with agent:
            await agent.run_conversation("hello")
            store.refused = method
            first = await agent.run_conversation("go")
            assert first["turn_exit_reason"] == "session_persistence_failed"
        store.refused = ""
        async with agent:
            second = await agent.run_conversation("go on")
        assert second["saved"], second["error"]
        stored = store.messages("s")
        assert validate(stored) == []
        assert tuple(stored) == second["transcript"]
        assert [m["content"] for m in second["messages"] if m["role"] == "user"] == ["hello", "go", "go on"]

    asyncio.run(main())
