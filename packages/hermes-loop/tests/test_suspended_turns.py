"""Turns that wait for a person: the round stays open, in the store, until somebody decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from hermes_loop import AIAgent
from hermes_messages import (
    ChatRequest,
    ConfigurationError,
    StoreError,
    ToolCall,
    ToolMessage,
    validate,
)
from hermes_messages.approvals import Approve, Deny, Later, pending_from_json
from hermes_messages.openai_shape import to_dicts
from hermes_messages.protocols import RoundContext, RoundOutcome
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    text,
)
from loop_help import later, time_passes
from suspension_help import ASK, World, waiting


def run(main: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(main())  # type: ignore[arg-type]


def test_a_call_that_waits_ends_the_turn_with_the_round_open_and_the_lease_free() -> None:
    async def main() -> None:
        world = World()
        result = await world.suspend()
        assert (result["turn_exit_reason"], result["completed"], result["failed"]) == (
            "approval_pending",
            False,
            False,
        )
        assert waiting(result) == ["2", "3"]
        assert result["saved"]
        assert "drop" in str(result["error"])
        assert [m["role"] for m in result["messages"]] == ["user", "assistant", "tool"]
        assert world.results() == [("1", "ok")]
        assert world.store is not None
        assert world.store.held_lease("s") is None
        [marked] = await world.store.suspended_rounds("s")
        assert [item.call.id for item in pending_from_json(marked.pending)] == ["2", "3"]

    run(main)


class Wrapped:
    """Hands all that is asked of it to another store."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def test_a_store_behind_another_object_loses_no_call_that_waits() -> None:
    async def main() -> None:
        world = World()
        store = Wrapped(world.store or MemoryStore())
        agents = [
            AIAgent(
                provider=ScriptedProvider(script),
                tools=SimpleExecutor([world.look, world.drop], needs_approval=["drop"]),
                session_db=store,  # type: ignore[arg-type]
                session_id="s",
                approval_callback=later,
            )
            for script in ([ASK], [text("Clean.")])
        ]
        async with agents[0] as agent:
            await agent.run_conversation("Clean up.")
        async with agents[1] as agent:
            assert [item.call.id for item in await agent.pending_approvals()] == ["2", "3"]
            result = await agent.resume({"2": Approve(), "3": Deny()})
        assert (result["final_response"], world.look.arguments) == ("Clean.", [{"at": "a"}])

    run(main)


def test_another_agent_finishes_the_turn_with_only_the_session_id_and_nothing_runs_twice() -> None:
    async def main() -> None:
        world = World()
        await world.suspend()
        async with world.agent(text("Clean.")) as agent:
            assert [item.call.id for item in await agent.pending_approvals()] == ["2", "3"]
            result = await agent.resume({"2": Approve(), "3": Deny("keep it")})
            assert await agent.pending_approvals() == ()
        assert (result["final_response"], result["turn_exit_reason"]) == ("Clean.", "text_response")
        assert result["saved"]
        assert result["pending_approvals"] == []
        assert world.look.arguments == [{"at": "a"}]
        assert world.drop.arguments == [{"it": "b"}]
        assert world.results() == [("1", "ok"), ("2", "ok"), ("3", "denied")]
        assert world.store is not None
        stored = world.store.messages("s")
        assert validate(stored) == []
        assert tuple(stored) == result["transcript"]

    run(main)


@pytest.mark.parametrize("with_store", [True, False])
def test_one_agent_goes_on_in_memory_with_the_bytes_that_it_sent(with_store: bool) -> None:
    async def main() -> None:
        world = World(with_store=with_store)
        agent = world.agent(ASK, text("Clean."), text("You are welcome."))
        async with agent:
            suspended = await agent.run_conversation("Clean up.")
            assert waiting(suspended) == ["2", "3"]
            assert [item.call.id for item in await agent.pending_approvals()] == ["2", "3"]
            result = await agent.resume({"2": True, "3": {"decision": "approve", "arguments": '{"it": "d"}'}})
            assert result["final_response"] == "Clean."
            assert (await agent.run_conversation("Thanks."))["final_response"] == "You are welcome."
        assert world.drop.arguments == [{"it": "b"}, {"it": "d"}]
        provider = agent._options.provider
        assert isinstance(provider, ScriptedProvider)
        before, after, _ = ([*request.history] for request in provider.requests)
        assert after[: len(before)] == before

    run(main)


def test_the_events_of_a_resumed_turn_are_balanced_and_hold_only_what_ran_now() -> None:
    async def main() -> None:
        world = World()
        await world.suspend()
        async with world.agent(text("Clean.")) as agent:
            events = [type(event).__name__ async for event in agent.stream_resume({"2": True, "3": False})]
        for started, ended in (
            ("TurnStarted", "TurnEnded"),
            ("StepStarted", "StepEnded"),
            ("ToolStarted", "ToolEnded"),
        ):
            assert events.count(started) == events.count(ended), events
        assert events.count("StepStarted") == 2
        assert events.count("ToolStarted") == 2

    run(main)


@pytest.mark.parametrize("rest", [{}, {"3": Later()}])
def test_calls_without_a_decision_wait_on(rest: dict[str, Later]) -> None:
    async def main() -> None:
        world = World()
        await world.suspend()
        async with world.agent() as agent:
            result = await agent.resume({"2": True, **rest})
        assert (result["turn_exit_reason"], waiting(result)) == ("approval_pending", ["3"])
        assert world.results() == [("1", "ok"), ("2", "ok")]
        async with world.agent(text("Clean.")) as agent:
            assert (await agent.resume({"3": True}))["completed"]
        assert world.drop.arguments == [{"it": "b"}, {"it": "c"}]

    run(main)


@pytest.mark.parametrize(
    ("decisions", "told"),
    [
        ({"9": True}, "'9'"),
        ({"1": True}, "has its result"),
        ({"2": "yes"}, "no decision"),
        ({"2": Approve("no json")}, "'2'"),
        ({"2": True, "9": True}, "'9'"),
        ({}, "at least one"),
    ],
)
def test_decisions_that_do_not_fit_change_nothing(decisions: dict[str, object], told: str) -> None:
    async def main() -> None:
        world = World()
        await world.suspend()
        assert world.store is not None
        written = world.store.messages("s")
        async with world.agent(text("Clean.")) as agent:
            world.store.calls.clear()
            with pytest.raises(ConfigurationError, match=told):
                await agent.resume(decisions)  # type: ignore[arg-type]
            assert not {"set_tool_result", "resume_round", "suspend_round"} & set(world.store.calls)
            assert world.store.held_lease("s") is None
            assert world.store.messages("s") == written
            assert world.drop.arguments == []
            assert (await agent.resume({"2": True, "3": True}))["completed"]

    run(main)


class Strict(SimpleExecutor):
    """An executor that refuses decisions once it sees the tool."""

    async def resume(self, *args: object) -> object:  # type: ignore[override]
        raise ConfigurationError("the changed arguments do not fit the tool")


def test_decisions_that_the_executor_refuses_leave_the_calls_waiting() -> None:
    async def main() -> None:
        world = World()
        await world.suspend()
        agent = AIAgent(
            provider=ScriptedProvider([]), tools=Strict([world.drop]), session_db=world.store, session_id="s"
        )
        async with agent:
            with pytest.raises(ConfigurationError, match="do not fit the tool"):
                await agent.resume({"2": True})
            assert [item.call.id for item in await agent.pending_approvals()] == ["2", "3"]
        async with world.agent(text("Clean.")) as agent:
            assert (await agent.resume({"2": True, "3": True}))["completed"]

    run(main)


def test_a_second_resume_finds_nothing_to_decide() -> None:
    async def main() -> None:
        world = World()
        await world.suspend()
        async with world.agent(text("Clean.")) as one, world.agent(text("Clean too.")) as two:
            outcomes = await asyncio.gather(
                one.resume({"2": True, "3": True}), two.resume({"2": True, "3": True}), return_exceptions=True
            )
            refused = [outcome for outcome in outcomes if isinstance(outcome, ConfigurationError)]
            finished = [outcome for outcome in outcomes if isinstance(outcome, dict)]
            assert (len(refused), len(finished)) == (1, 1)
            with pytest.raises(ConfigurationError, match="waits for a decision"):
                await one.resume({"2": True})
        assert world.drop.arguments == [{"it": "b"}, {"it": "c"}]

    run(main)


@pytest.mark.parametrize("case", ["same agent", "other agent", "in memory", "given history"])
def test_a_new_message_settles_what_waits_as_superseded(case: str) -> None:
    async def main() -> None:
        world = World(with_store=case != "in memory")
        agent = world.agent(ASK, text("As you like."))
        async with agent:
            suspended = await agent.run_conversation("Clean up.")
            if case == "other agent":
                agent = world.agent(text("As you like."))
            given = suspended["messages"] if case == "given history" else None
            result = await agent.run_conversation("Never mind.", conversation_history=given)
            assert result["final_response"] == "As you like."
            with pytest.raises(ConfigurationError, match="waits for a decision"):
                await agent.resume({"2": True})
            await agent.close()
        assert validate(result["transcript"]) == []
        denied = [m for m in result["transcript"] if isinstance(m, ToolMessage) and m.status == "denied"]
        assert [m.tool_call_id for m in denied] == ["2", "3"]
        assert "superseded" in str(to_dicts(denied))
        if world.store is not None:
            assert to_dicts(world.store.messages("s")) == result["messages"]
            assert await world.store.suspended_rounds("s") == []
        assert world.drop.arguments == []

    run(main)


def test_an_interrupt_while_nothing_runs_leaves_the_calls_waiting() -> None:
    async def main() -> None:
        world = World()
        agent = world.agent(ASK, text("Clean."))
        async with agent:
            await agent.run_conversation("Clean up.")
            assert agent.interrupt() is False
            assert (await agent.resume({"2": True, "3": True}))["completed"]

    run(main)


def test_an_interrupt_after_the_last_call_has_settled_leaves_nothing_waiting() -> None:
    async def main() -> None:
        world = World()
        agent = world.agent(ASK)

        class Late(SimpleExecutor):
            async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
                outcome = await super().execute(calls, context)
                assert outcome.pending
                agent.interrupt()
                return outcome

        agent = world.agent(ASK, executor=Late([world.look, world.drop], needs_approval=["drop"]))
        async with agent:
            result = await agent.run_conversation("Clean up.")
            assert (result["turn_exit_reason"], result["pending_approvals"]) == ("interrupted", [])
            assert await agent.pending_approvals() == ()
        assert world.results() == [("1", "ok"), ("2", "not_started"), ("3", "not_started")]

    run(main)


def test_an_interrupt_of_a_resumed_turn_settles_every_call_once() -> None:
    async def main() -> None:
        world = World()
        await world.suspend()
        agent = world.agent()

        async def interrupt() -> None:
            agent.interrupt()
            await asyncio.Event().wait()

        world.gate = interrupt
        async with agent:
            result = await agent.resume({"2": True, "3": True})
        assert (result["turn_exit_reason"], result["pending_approvals"]) == ("interrupted", [])
        assert world.results() == [("1", "ok"), ("2", "interrupted"), ("3", "not_started")]
        assert world.store is not None
        assert validate(world.store.messages("s")) == []

    run(main)


def test_a_resume_whose_lease_is_lost_writes_nothing_more() -> None:
    async def main() -> None:
        now = [1000.0]
        store = MemoryStore(clock=lambda: now[0])
        world = World(store=store)
        await world.suspend()

        async def steal() -> None:
            now[0] += 60
            assert await store.try_acquire_session_turn_lease("s", "other", 1000)
            time_passes(60)
            await asyncio.Event().wait()

        world.gate = steal
        async with world.agent(text("Clean."), lease_ttl_s=60) as agent:
            result = await agent.resume({"2": True, "3": True})
        assert (result["turn_exit_reason"], result["saved"]) == ("lease_lost", False)
        assert world.results() == [("1", "ok")]
        assert world.drop.arguments == [{"it": "b"}]

    run(main)


def test_a_decided_call_whose_process_died_is_unknown_and_never_runs_again() -> None:
    """The mark loses a call before the call can run."""

    async def main() -> None:
        world = World()
        await world.suspend()
        store = world.store
        assert store is not None
        [marked] = await store.suspended_rounds("s")
        seen: list[list[str]] = []

        async def die() -> None:
            found = await store.suspended_rounds("s")
            seen.extend([item.call.id for item in pending_from_json(one.pending)] for one in found)
            await asyncio.Event().wait()

        world.gate = die
        agent = world.agent(text("never"))
        task = asyncio.create_task(agent.resume({"2": True}))
        await world.drop.started()
        # What a process that is killed now leaves behind: the mark without the call, and no result of it.
        waits = (await store.suspended_rounds("s"))[0].pending
        task.cancel()
        await asyncio.wait({task})
        await agent.close()
        assert seen == [["3"]]

        left = World()
        await left.suspend()
        assert left.store is not None
        [again] = await left.store.suspended_rounds("s")
        assert again.round == marked.round
        await left.store.suspend_round(again.round, waits)
        async with left.agent(text("Clean.")) as agent:
            assert [item.call.id for item in await agent.pending_approvals()] == ["3"]
            with pytest.raises(ConfigurationError, match="has its result"):
                await agent.resume({"2": True})
            assert (await agent.resume({"3": True}))["completed"]
        assert left.results() == [("1", "ok"), ("2", "unknown"), ("3", "ok")]
        assert left.drop.arguments == [{"it": "c"}]

    run(main)


def test_a_mark_that_can_not_be_written_keeps_the_calls_in_memory_and_runs_none() -> None:
    async def main() -> None:
        world = World()
        store = world.store
        assert store is not None
        store.fail_next("suspend_round", StoreError("disk full"), times=2)
        async with world.agent(ASK, text("Clean.")) as agent:
            result = await agent.run_conversation("Clean up.")
            assert (result["turn_exit_reason"], result["saved"]) == ("session_persistence_failed", False)
            assert waiting(result) == ["2", "3"]
            store.fail_next("resume_round", StoreError("disk full"))
            result = await agent.resume({"2": True, "3": True})
            assert result["turn_exit_reason"] == "session_persistence_failed"
            assert world.drop.arguments == []
            assert (await agent.resume({"2": True, "3": True}))["saved"]
        assert world.drop.arguments == [{"it": "b"}, {"it": "c"}]

    run(main)


def test_an_agent_that_was_closed_and_used_again_still_knows_what_waits() -> None:
    async def main() -> None:
        world = World()
        agent = world.agent(ASK, text("Clean."), text("Again."))
        async with agent:
            await agent.run_conversation("Clean up.")
        result = await agent.run_conversation("Never mind.")
        await agent.close()
        assert world.store is not None
        assert world.store.messages("s") == list(result["transcript"])
        assert world.results() == [("1", "ok"), ("2", "denied"), ("3", "denied")]

    run(main)


class Deciding:
    """A suspended turn and its resumption, driven as one coroutine so that any point of both is cancelled."""

    def __init__(self) -> None:
        self.world = World()
        self.agent = self.world.agent(ASK, text("Clean."))

    async def both(self) -> str | None:
        await self.agent.run_conversation("Clean up.")
        return (await self.agent.resume({"2": True, "3": False}))["final_response"]


def test_cancelled_anywhere_no_call_runs_twice_and_the_session_stays_valid() -> None:
    async def one(k: int) -> bool:
        case = Deciding()
        task = asyncio.create_task(case.both())
        steps = 0
        while not task.done() and steps < k:
            await asyncio.sleep(0)
            steps += 1
        finished = task.done()
        task.cancel()
        await asyncio.wait({task})
        store = case.world.store
        assert store is not None
        assert asyncio.all_tasks() == {asyncio.current_task()}, k
        assert store.held_lease("s") is None, k
        ran = len(case.world.drop.arguments)
        waits = [item.call.id for item in await case.agent.pending_approvals()]
        provider = case.agent._options.provider
        assert isinstance(provider, ScriptedProvider)

        def answer(_: ChatRequest) -> ScriptStep:
            return text("Clean.")

        provider._make_step = answer
        if waits:
            result = await case.agent.resume(dict.fromkeys(waits, False))
        else:
            result = await case.agent.run_conversation("Are you there?")
        assert result["completed"], (k, result["error"])
        assert result["saved"], k
        stored = store.messages("s")
        assert validate(stored) == [], k
        assert tuple(stored) == result["transcript"], k
        assert len(case.world.drop.arguments) == ran <= 1, k
        assert len(case.world.look.arguments) <= 1, k
        await case.agent.close()
        return finished

    async def main() -> None:
        k = 0
        while not await one(k):
            k += 1
        print(f"suspended turn cancelled at {k} points")
        assert k > 60

    run(main)
