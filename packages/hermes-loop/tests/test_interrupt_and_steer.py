"""A host that wants a word while a turn runs: stop, a note, events."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from hermes_loop import AIAgent, TurnEnded, TurnEvent, TurnStarted
from hermes_loop.events import AttemptDiscarded, StepEnded, StepStarted, ToolEnded, ToolStarted
from hermes_loop.shielding import Bounds
from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ErrorKind,
    TextDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
    validate,
)
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    StepGate,
    ToolDouble,
    broken,
    call,
    calls,
    error,
    failure,
    hang,
    text,
)


async def until_streaming(provider: ScriptedProvider) -> None:
    while not provider.live_streams:  # noqa: ASYNC110 - the double has no event for it
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)


def test_an_interrupt_ends_a_model_call_and_keeps_what_came() -> None:
    async def main() -> None:
        store = MemoryStore()
        provider = ScriptedProvider([hang(text("Hello", chunk_size=1), after=3), text("ok")])
        async with AIAgent(provider=provider, session_db=store, session_id="s") as agent:
            assert agent.interrupt() is False
            turn = asyncio.create_task(agent.run_conversation("hi"))
            await until_streaming(provider)
            assert agent.interrupt() is True
            result = await turn
            assert provider.live_streams == 0
            assert (result["turn_exit_reason"], result["final_response"]) == ("interrupted", "Hel")
            assert (result["interrupted"], result["partial"], result["failed"]) == (True, True, False)
            after = await agent.run_conversation("go on")
            assert after["final_response"] == "ok"
            assert not after["interrupted"]
            assert tuple(store.messages("s")) == after["transcript"]

    asyncio.run(main())


@pytest.mark.parametrize("how", ["interrupted", "cancelled"])
def test_a_turn_that_ends_while_its_text_is_shown_has_closed_its_stream(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The stream waits for its reader then, and would be closed by the garbage collector, some time later."""
    monkeypatch.setattr("hermes_loop.events.CALLBACK_GRACE_S", 0.01)

    async def main() -> None:
        shown = asyncio.Event()

        async def show(_: str) -> None:
            shown.set()
            await asyncio.Event().wait()

        provider = ScriptedProvider([text("Hello", chunk_size=1)])
        async with AIAgent(provider=provider, stream_delta_callback=show) as agent:
            turn = asyncio.create_task(agent.run_conversation("hi"))
            await shown.wait()
            open_then: list[int] = []
            turn.add_done_callback(lambda _: open_then.append(provider.live_streams))
            _ = agent.interrupt() if how == "interrupted" else turn.cancel()
            await asyncio.wait({turn})
            assert turn.cancelled() == (how == "cancelled")
            assert open_then == [0]

    asyncio.run(main())


def test_an_interrupt_before_any_text_leaves_the_question_alone() -> None:
    async def main() -> None:
        provider = ScriptedProvider([hang(), text("ok")])
        async with AIAgent(provider=provider) as agent:
            turn = asyncio.create_task(agent.run_conversation("hi"))
            await until_streaming(provider)
            agent.interrupt()
            result = await turn
            assert result["transcript"] == (UserMessage("hi"),)
            assert result["final_response"] is None

    asyncio.run(main())


def test_an_interrupt_during_tools_pairs_every_call_and_leaves_no_tool_tail() -> None:
    async def main() -> None:
        store = MemoryStore()
        tools = [ToolDouble("a", ["done"]), ToolDouble("b", [None]), ToolDouble("c", scheduling="sequential")]
        provider = ScriptedProvider([calls(call("a"), call("b"), call("c"))])
        agent = AIAgent(provider=provider, tools=SimpleExecutor(tools), session_db=store, session_id="s")
        async with agent:
            turn = asyncio.create_task(agent.run_conversation("go"))
            await tools[1].started()
            for _ in range(20):
                await asyncio.sleep(0)
            agent.interrupt()
            result = await turn
        stored = store.messages("s")
        assert [m.status for m in stored if isinstance(m, ToolMessage)] == [
            "ok",
            "interrupted",
            "not_started",
        ]
        assert isinstance(stored[-1], AssistantMessage)
        assert validate(stored) == []
        assert result["turn_exit_reason"] == "interrupted"

    asyncio.run(main())


def test_an_interrupt_during_the_wait_for_a_retry_is_heard_at_once() -> None:
    async def main() -> None:
        provider = ScriptedProvider(
            [calls(call("t")), error(failure(ErrorKind.RATE_LIMIT, retry_after_s=60))]
        )
        status = asyncio.Event()

        def on_status(kind: str, text: str) -> None:
            assert kind == "retry"
            assert "60.0 s" in text
            status.set()

        async with AIAgent(
            provider=provider, tools=SimpleExecutor([ToolDouble("t")]), status_callback=on_status
        ) as agent:
            turn = asyncio.create_task(agent.run_conversation("go"))
            await status.wait()
            await asyncio.sleep(0)
            agent.interrupt()
            async with asyncio.timeout(30):
                result = await turn
        assert result["turn_exit_reason"] == "interrupted"
        assert isinstance(result["transcript"][-1], AssistantMessage)

    asyncio.run(main())


@pytest.mark.parametrize("where", ["another process", "this process"])
@pytest.mark.parametrize("how", ["interrupt", "close"])
def test_a_turn_that_waits_for_the_session_can_be_stopped(how: str, where: str) -> None:
    async def main() -> None:
        store = MemoryStore()
        tool = ToolDouble("t", [None])
        holder = AIAgent(
            provider=ScriptedProvider([calls(call("t"))]),
            tools=SimpleExecutor([tool]),
            session_db=store,
            session_id="s",
        )
        if where == "another process":
            await store.try_acquire_session_turn_lease("s", "someone else", 3600)
        else:
            running = asyncio.create_task(holder.run_conversation("go"))
            await tool.started()
        agent = AIAgent(provider=ScriptedProvider([]), session_db=store, session_id="s")
        waiting = asyncio.create_task(agent.run_conversation("hi"))
        behind = asyncio.create_task(agent.run_conversation("and then"))
        for _ in range(20):
            await asyncio.sleep(0)
        async with asyncio.timeout(120):
            if how == "interrupt":
                assert agent.interrupt() is True
                result = await waiting
                assert (result["turn_exit_reason"], result["interrupted"]) == ("interrupted", True)
                assert result["messages"] == []
                behind.cancel()
            else:
                await agent.close()
                with pytest.raises(ConfigurationError, match="closed while this turn waited"):
                    await waiting
                with pytest.raises(ConfigurationError, match="closed while this turn waited"):
                    await behind
            await asyncio.wait({behind})
            await agent.close()
            if where == "this process":
                holder.interrupt()
                assert (await running)["saved"]
        await holder.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_late_interrupt_reaches_no_other_turn() -> None:
    async def main() -> None:
        async with AIAgent(provider=ScriptedProvider([text("a"), text("b")])) as agent:
            await agent.run_conversation("one")
            assert agent.interrupt() is False
            assert (await agent.run_conversation("two"))["completed"]

    asyncio.run(main())


def test_a_note_follows_the_tool_results() -> None:
    async def main() -> None:
        store = MemoryStore()
        tool = ToolDouble("t")
        provider = ScriptedProvider([calls(call("t")), text("ok")])

        def started(_: ToolCall) -> None:
            agent.steer("Only the first page.")

        agent = AIAgent(
            provider=provider,
            tools=SimpleExecutor([tool]),
            session_db=store,
            session_id="s",
            tool_start_callback=started,
        )
        async with agent:
            result = await agent.run_conversation("go")
        assert [type(m) for m in provider.last_request.history][2:] == [
            AssistantMessage,
            ToolMessage,
            UserMessage,
        ]
        assert provider.last_request.history[-1] == UserMessage("Only the first page.")
        assert tuple(store.messages("s")) == result["transcript"]

    asyncio.run(main())


def test_a_note_that_comes_with_the_answer_asks_once_more() -> None:
    async def main() -> None:
        provider = ScriptedProvider([text("draft"), text("final")])

        def shown(piece: str) -> None:
            if piece == "draft":
                agent.steer("Shorter.")

        agent = AIAgent(
            provider=provider,
            stream_delta_callback=shown,
        )
        async with agent:
            result = await agent.run_conversation("go")
        assert result["final_response"] == "final"
        assert [m["content"] for m in result["messages"]] == ["go", "draft", "Shorter.", "final"]

    asyncio.run(main())


def test_a_note_that_comes_too_late_is_delivered_once_with_the_next_turn() -> None:
    async def main() -> None:
        provider = ScriptedProvider([text("one"), text("two"), text("three")])

        def shown(piece: str) -> None:
            if piece == "one":
                agent.steer("note")

        agent = AIAgent(
            provider=provider,
            max_iterations=1,
            stream_delta_callback=shown,
        )
        async with agent:
            first = await agent.run_conversation("a")
            second = await agent.run_conversation("b")
            await agent.run_conversation("c")
        assert first["completed"]
        assert [m["content"] for m in second["messages"]] == ["a", "one", "b", "note", "two"]
        said = [m.content for m in provider.last_request.history]
        assert said.count("note") == 1

    asyncio.run(main())


def test_the_best_complete_answer_survives_a_budget_that_ends_in_a_follow_up() -> None:
    async def main() -> None:
        store = MemoryStore()
        shown: list[str] = []

        def on_delta(delta: str) -> None:
            shown.append(delta)
            if delta == "The report.":
                agent.steer("Check it.")

        provider = ScriptedProvider([text("The report."), calls(call("t"), text="I'll start now")])
        agent = AIAgent(
            provider=provider,
            tools=SimpleExecutor([ToolDouble("t")]),
            session_db=store,
            session_id="s",
            max_iterations=2,
            stream_delta_callback=on_delta,
        )
        async with agent:
            result = await agent.run_conversation("go")
        assert result["final_response"] == "The report."
        assert (result["turn_exit_reason"], result["api_calls"]) == ("max_iterations", 2)
        assert shown.count("The report.") == 1
        stored = store.messages("s")
        assert tuple(stored) == result["transcript"]
        assert isinstance(stored[-1], AssistantMessage)
        assert validate(stored) == []

    asyncio.run(main())


def test_the_events_of_a_turn_are_typed_and_balanced() -> None:
    async def main() -> None:
        provider = ScriptedProvider(
            [
                broken(text("no"), after=1, error=failure(ErrorKind.TRANSPORT, retry_after_s=0)),
                calls(call("t"), text="look"),
                text("done"),
            ]
        )
        async with AIAgent(provider=provider, tools=SimpleExecutor([ToolDouble("t")])) as agent:
            events = [event async for event in agent.stream("go")]
        names = [type(event).__name__ for event in events]
        assert names == [
            "TurnStarted",
            "StepStarted",
            "TextDelta",
            "AttemptDiscarded",
            "StatusChanged",
            "TextDelta",
            "ToolCallStarted",
            "ToolStarted",
            "ToolEnded",
            "StepEnded",
            "StepStarted",
            "TextDelta",
            "StepEnded",
            "TurnEnded",
        ]
        last = events[-1]
        assert isinstance(last, TurnEnded)
        assert last.result is not None
        assert last.result["final_response"] == "done"

    asyncio.run(main())


def test_leaving_the_events_early_cancels_the_turn_and_leaks_nothing() -> None:
    async def main() -> None:
        store = MemoryStore()
        provider = ScriptedProvider([text("Hello", chunk_size=1), text("ok")])
        async with AIAgent(provider=provider, session_db=store, session_id="s") as agent:
            async with aclosing(agent.stream("hi")) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        break
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert provider.live_streams == 0
            assert store.held_lease("s") is None
            assert validate(store.messages("s")) == []
            assert await agent.chat("again") == "ok"

    asyncio.run(main())


def test_leaving_the_events_of_a_turn_that_does_not_end_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_loop.turn_runner.DEFAULT_BOUNDS", Bounds(limit_s=0.05, grace_s=0.05))
    released = asyncio.Event()

    async def deaf(_: object) -> ScriptStep:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return text("At last.")

    async def main() -> None:
        async with AIAgent(provider=ScriptedProvider([deaf])) as agent:
            try:
                async with aclosing(agent.stream("go")) as events:
                    async for _ in events:
                        break
            finally:
                released.set()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_start_and_end_are_balanced_when_a_turn_is_cancelled_during_a_tool() -> None:
    async def main() -> None:
        seen: list[TurnEvent] = []
        tool = ToolDouble("t", [None])
        agent = AIAgent(
            provider=ScriptedProvider([calls(call("t"))]),
            tools=SimpleExecutor([tool]),
            event_callback=seen.append,
        )
        async with agent:
            turn = asyncio.create_task(agent.run_conversation("go"))
            await tool.started()
            turn.cancel()
            await asyncio.wait({turn})
        assert turn.cancelled()
        counts = {kind: sum(isinstance(e, kind) for e in seen) for kind in BALANCED}
        assert counts[TurnStarted] == counts[TurnEnded] == 1
        assert counts[StepStarted] == counts[StepEnded] == 1
        assert counts[ToolStarted] == counts[ToolEnded] == 1
        assert isinstance(seen[-1], TurnEnded)
        assert seen[-1].result is None
        assert not any(isinstance(e, AttemptDiscarded) for e in seen)

    asyncio.run(main())


BALANCED = (TurnStarted, TurnEnded, StepStarted, StepEnded, ToolStarted, ToolEnded)


def test_a_gate_shows_text_before_the_answer_is_complete() -> None:
    async def main() -> None:
        gate = StepGate()
        shown: list[str] = []
        provider = ScriptedProvider([text("ab", chunk_size=1, gate=gate)])
        async with AIAgent(provider=provider) as agent:
            turn = asyncio.create_task(agent.run_conversation("go", stream_callback=shown.append))
            gate.let_pass(1)
            await until_streaming(provider)
            assert shown == ["a"]
            gate.open()
            await turn
        assert shown == ["a", "b"]

    asyncio.run(main())
