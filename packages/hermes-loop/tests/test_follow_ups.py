"""Messages that open the next turn by themselves: none is lost, none is sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hermes_loop import AIAgent, FollowUp, SteerDelivered, TurnEvent, TurnStarted
from hermes_loop.shielding import Bounds
from hermes_messages import ConfigurationError, JsonObject, UserMessage, validate
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    ToolDouble,
    call,
    calls,
    hang,
    text,
)
from loop_help import later


def make(
    *script: ScriptStep, tools: SimpleExecutor | None = None, **others: object
) -> tuple[AIAgent, MemoryStore]:
    store = MemoryStore()
    agent = AIAgent(
        provider=ScriptedProvider(script),
        session_db=store,
        session_id="s",
        tools=tools or SimpleExecutor(),
        **others,  # type: ignore[arg-type]
    )
    return agent, store


def said(store: MemoryStore) -> list[object]:
    return [m.content for m in store.messages("s") if isinstance(m, UserMessage)]


def test_a_follow_up_opens_the_next_turn_after_the_answer() -> None:
    async def main() -> None:
        asked: list[FollowUp] = []

        def shown(_: str) -> None:
            if not asked:
                asked.append(agent.follow_up("And then?"))

        agent, store = make(text("one"), text("two"), stream_delta_callback=shown)
        async with agent:
            first = await agent.run_conversation("go")
            assert not asked[0].done
            second = await asked[0]
        assert [m["content"] for m in first["messages"]] == ["go", "one"]
        assert [m["content"] for m in second["messages"]] == ["go", "one", "And then?", "two"]
        assert (asked[0].begun, asked[0].done, asked[0].text) == (True, True, "And then?")
        assert said(store) == ["go", "And then?"]

    asyncio.run(main())


def test_without_a_running_turn_it_begins_at_once_and_several_keep_their_order() -> None:
    async def main() -> None:
        agent, store = make(*(text(str(i)) for i in range(4)))
        async with agent:
            waiting = [agent.follow_up(f"m{i}") for i in range(4)]
            results = [await one for one in waiting]
        assert [result["final_response"] for result in results] == ["0", "1", "2", "3"]
        assert said(store) == ["m0", "m1", "m2", "m3"]

    asyncio.run(main())


@pytest.mark.parametrize("end", ["interrupt", "cancel"])
def test_it_begins_also_after_a_turn_that_was_stopped_and_is_no_part_of_that(end: str) -> None:
    async def main() -> None:
        tool = ToolDouble("wait", [None])
        agent, store = make(calls(call("wait")), text("here"), tools=SimpleExecutor([tool]))
        async with agent:
            turn = asyncio.create_task(agent.run_conversation("go"))
            await tool.started()
            follow_up = agent.follow_up("next")
            if end == "interrupt":
                assert agent.interrupt()
                assert (await turn)["turn_exit_reason"] == "interrupted"
            else:
                turn.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await turn
            result = await follow_up
            assert (result["final_response"], result["turn_exit_reason"]) == ("here", "text_response")
        assert said(store) == ["go", "next"]
        assert validate(store.messages("s")) == []

    asyncio.run(main())


def test_cancelling_who_awaits_it_does_not_cancel_its_turn() -> None:
    async def main() -> None:
        agent, store = make(text("one", gate=lambda: asyncio.sleep(0)))
        async with agent:
            follow_up = agent.follow_up("go")

            async def wait() -> object:
                return await follow_up

            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            assert (await follow_up)["final_response"] == "one"
        assert said(store) == ["go"]

    asyncio.run(main())


def test_one_that_is_withdrawn_before_its_turn_is_never_sent() -> None:
    async def main() -> None:
        tool = ToolDouble("wait", [None])
        agent, store = make(calls(call("wait")), text("here"), tools=SimpleExecutor([tool]))
        async with agent:
            turn = asyncio.create_task(agent.run_conversation("go"))
            await tool.started()
            first, second = agent.follow_up("no"), agent.follow_up("yes")
            await asyncio.sleep(0)
            assert first.withdraw()
            assert not first.withdraw()
            agent.interrupt()
            await turn
            assert (await second)["final_response"] == "here"
            assert not second.withdraw()
            with pytest.raises(asyncio.CancelledError):
                await first
        assert said(store) == ["go", "yes"]

    asyncio.run(main())


@pytest.fixture
def long_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A close that waits for what does not end does so longer than any machine stands still."""
    monkeypatch.setattr("hermes_loop.lifecycle.CLOSE_LIMIT_S", 900.0)
    monkeypatch.setattr("hermes_loop.lifecycle.CLOSE_BOUNDS", Bounds(limit_s=3600.0))


@pytest.mark.usefixtures("long_closes")
@pytest.mark.parametrize("steps", range(4))
def test_a_closed_agent_refuses_what_has_not_begun_and_says_so(steps: int) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        agent, store = make(hang(), text("never"), step_callback=lambda _: begun.set())
        async with agent:
            turn = asyncio.create_task(agent.run_conversation("go"))
            await begun.wait()
            waiting = [agent.follow_up("one"), agent.follow_up("two")]
            for _ in range(steps):
                await asyncio.sleep(0)
            async with asyncio.timeout(300):  # less than this close waits for what does not end
                await agent.close()
        assert (await turn)["turn_exit_reason"] == "interrupted"
        for follow_up in waiting:
            with pytest.raises(ConfigurationError, match="nothing was sent"):
                await follow_up
        assert said(store) == ["go"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_close_while_its_own_turn_runs_ends_that_turn() -> None:
    async def main() -> None:
        begun = asyncio.Event()
        agent, _ = make(hang(), step_callback=lambda _: begun.set())
        async with agent:
            follow_up = agent.follow_up("go")
            await begun.wait()
        assert (await follow_up)["turn_exit_reason"] == "interrupted"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


@pytest.mark.usefixtures("long_closes")
def test_a_close_in_its_own_turn_ends_that_turn_and_refuses_the_next() -> None:
    async def main() -> None:
        async def close(_: JsonObject) -> str:
            await agent.close()
            return "closed"

        agent, _ = make(calls(call("close")), text("never"), tools=SimpleExecutor({"close": close}))
        async with asyncio.timeout(300):  # less than this close waits for what does not end
            first, second = agent.follow_up("go"), agent.follow_up("on")
            assert (await first)["turn_exit_reason"] == "interrupted"
            with pytest.raises(ConfigurationError, match="nothing was sent"):
                await second
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_tool_may_ask_for_one_but_not_wait_for_it() -> None:
    async def main() -> None:
        asked: list[FollowUp] = []

        async def plan(_: JsonObject) -> str:
            asked.append(agent.follow_up("go on"))
            return str((await asked[0])["final_response"])

        agent, store = make(
            calls(call("plan")), text("planned"), text("went on"), tools=SimpleExecutor({"plan": plan})
        )
        async with agent:
            result = await agent.run_conversation("go")
            assert "can not wait for it" in str(result["messages"][2]["content"])
            assert (await asked[0])["final_response"] == "went on"
        assert said(store) == ["go", "go on"]

    asyncio.run(main())


def test_it_does_not_settle_calls_that_wait_for_a_decision() -> None:
    async def main() -> None:
        tool = ToolDouble("drop")
        agent, store = make(
            calls(call("drop", id="1")),
            text("dropped"),
            text("next"),
            tools=SimpleExecutor([tool], needs_approval=["drop"]),
            approval_callback=later,
        )
        async with agent:
            turn = asyncio.create_task(agent.run_conversation("go"))
            await asyncio.sleep(0)
            follow_up = agent.follow_up("and now?")
            assert (await turn)["turn_exit_reason"] == "approval_pending"
            for _ in range(50):
                await asyncio.sleep(0)
            assert not follow_up.begun
            assert (await agent.resume({"1": True}))["final_response"] == "dropped"
            assert (await follow_up)["final_response"] == "next"
        assert tool.arguments == [{}]
        assert said(store) == ["go", "and now?"]

    asyncio.run(main())


@pytest.mark.parametrize("learns_by", ["resume", "asking"])
def test_it_begins_when_another_agent_has_decided(learns_by: str) -> None:
    """The one that it waits in remembers the call as waiting; only the store knows better."""

    async def main() -> None:
        store, tool = MemoryStore(), ToolDouble("drop")

        def agent(*script: ScriptStep) -> AIAgent:
            return AIAgent(
                provider=ScriptedProvider(script),
                tools=SimpleExecutor([tool], needs_approval=["drop"]),
                session_db=store,
                session_id="s",
                approval_callback=later,
            )

        async with agent(calls(call("drop", id="1")), text("next")) as first, agent(text("ok")) as second:
            await first.run_conversation("go")
            follow_up = first.follow_up("and now?")
            for _ in range(50):
                await asyncio.sleep(0)
            assert not follow_up.begun
            assert (await second.resume({"1": True}))["final_response"] == "ok"
            if learns_by == "resume":
                with pytest.raises(ConfigurationError, match="waits"):
                    await first.resume({"1": True})
            else:
                assert await first.pending_approvals() == ()
            assert (await follow_up)["final_response"] == "next"
        assert tool.arguments == [{}]
        assert said(store) == ["go", "and now?"]

    asyncio.run(main())


def test_it_settles_no_call_that_another_process_left_waiting() -> None:
    async def main() -> None:
        store, tools = MemoryStore(), SimpleExecutor([ToolDouble("drop")], needs_approval=["drop"])
        for script in ([calls(call("drop", id="1"))], [text("dropped"), text("next")]):
            agent = AIAgent(
                provider=ScriptedProvider(script),
                tools=tools,
                session_db=store,
                session_id="s",
                approval_callback=later,
            )
            async with agent:
                if len(script) == 1:
                    await agent.run_conversation("go")
                    continue
                follow_up = agent.follow_up("and now?")
                for _ in range(50):
                    await asyncio.sleep(0)
                assert not follow_up.begun
                assert (await agent.resume({"1": True}))["final_response"] == "dropped"
                assert (await follow_up)["final_response"] == "next"

    asyncio.run(main())


def test_steer_notes_tell_when_they_are_delivered() -> None:
    async def main() -> None:
        events: list[TurnEvent] = []
        agent, store = make(text("one"), event_callback=events.append)
        async with agent:
            note = agent.steer("Be brief.")
            assert (note.text, note.delivered) == ("Be brief.", False)
            await agent.run_conversation("go")
            assert note.delivered
        assert [event.text for event in events if isinstance(event, SteerDelivered)] == ["Be brief."]
        assert said(store) == ["go", "Be brief."]

    asyncio.run(main())


@pytest.mark.parametrize("stop", ["cancel", "interrupt"])
def test_stopped_anywhere_a_steer_note_and_a_follow_up_each_arrive_once(stop: str) -> None:
    async def one(k: int) -> bool:
        events: list[TurnEvent] = []
        tool = ToolDouble("look")
        agent, store = make(
            calls(call("look")),
            *[text("answer")] * 5,
            tools=SimpleExecutor([tool]),
            event_callback=events.append,
        )
        agent.steer("note")
        turn = asyncio.create_task(agent.run_conversation("go"))
        await asyncio.sleep(0)
        follow_up = agent.follow_up("next")
        steps = 0
        while not turn.done() and steps < k:
            await asyncio.sleep(0)
            steps += 1
        finished = turn.done()
        act: Callable[[], object] = turn.cancel if stop == "cancel" else agent.interrupt
        act()
        await asyncio.wait({turn})
        assert (await follow_up)["completed"], k
        users = said(store)
        assert users.count("next") == 1, (k, users)
        assert users.count("note") == 1, (k, users)
        assert users.count("go") <= 1, (k, users)
        assert sum(isinstance(event, TurnStarted) for event in events) <= 2, k
        assert validate(store.messages("s")) == [], k
        await agent.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}, k
        return finished

    async def main() -> None:
        k = 0
        while not await one(k):
            k += 1
        print(f"{stop}: {k} points")
        assert k > 30

    asyncio.run(main())


@pytest.mark.usefixtures("long_closes")
@pytest.mark.parametrize("earlier", [False, True])
def test_one_that_is_asked_for_while_the_agent_is_closed_opens_it_no_more(*, earlier: bool) -> None:
    async def main() -> None:
        asked: list[FollowUp] = []
        begun = asyncio.Event()

        async def wait(_: JsonObject) -> str:
            if earlier:
                assert agent.follow_up("never").withdraw()
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                asked.append(agent.follow_up("go on"))
            return "unreached"

        agent, store = make(calls(call("wait")), text("never"), tools=SimpleExecutor({"wait": wait}))
        turn = asyncio.create_task(agent.run_conversation("go"))
        await begun.wait()
        async with asyncio.timeout(300):  # less than this close waits for what does not end
            await agent.close()
        assert (await turn)["turn_exit_reason"] == "interrupted"
        (follow_up,) = asked
        with pytest.raises(asyncio.CancelledError):
            await follow_up
        assert said(store) == ["go"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
