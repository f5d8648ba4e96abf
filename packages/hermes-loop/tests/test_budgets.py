"""What a turn may spend: iterations, shared ones, tokens, money, time; and what it ends with."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_loop import AIAgent, Budget, IterationBudget
from hermes_loop.budget import Spent, TurnBudget
from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ErrorKind,
    JsonObject,
    ToolMessage,
    Usage,
    UserMessage,
    validate,
)
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    call,
    calls,
    error,
    hang,
    text,
)
from loop_help import look, make, time_passes

PRICED = Usage(input_tokens=100, output_tokens=10, cost_usd=0.25)
UNPRICED = Usage(input_tokens=100, output_tokens=10)


def run(agent: AIAgent, message: str = "go", **options: Any) -> ConversationResult:
    async def main() -> ConversationResult:
        async with agent:
            return await agent.run_conversation(message, **options)

    return asyncio.run(main())


def ends(result: ConversationResult) -> tuple[str, str | None, int]:
    return result["turn_exit_reason"], result["final_response"], result["api_calls"]


class TestTokensAndCost:
    def test_the_cost_budget_ends_the_turn_with_a_summary(self) -> None:
        rounds = [calls(call("look"), usage=PRICED)] * 2
        result = run(make(*rounds, text("so far"), budget=Budget(cost_usd=0.5)))
        assert ends(result) == ("budget_exhausted", "so far", 3)
        assert (result["partial"], result["completed"], result["failed"]) == (True, False, False)

    def test_an_unknown_cost_is_not_0_but_ends_the_turn_without_another_call(self) -> None:
        store = MemoryStore()
        agent = make(calls(call("look"), usage=UNPRICED), session_db=store, budget=Budget(cost_usd=100))
        result = run(agent)
        assert result["turn_exit_reason"] == "budget_exhausted"
        assert result["api_calls"] == 1
        assert "did not tell what its answer cost" in str(result["final_response"])
        assert "did not tell" in str(result["error"])
        assert validate(store.messages("s")) == []

    def test_an_unknown_cost_may_be_ignored_and_known_ones_still_count(self) -> None:
        script = [
            calls(call("look"), usage=UNPRICED),
            calls(call("look"), usage=PRICED),
            text("so far"),
        ]
        result = run(make(*script, budget=Budget(cost_usd=0.2, unknown_cost="ignore")))
        assert ends(result) == ("budget_exhausted", "so far", 3)

    def test_without_a_cost_budget_an_unknown_cost_ends_nothing(self) -> None:
        result = run(make(calls(call("look")), text("done"), budget=Budget(tokens=10**9)))
        assert ends(result) == ("text_response", "done", 2)

    def test_tokens_of_all_answers_are_summed(self) -> None:
        rounds = [calls(call("look"), usage=UNPRICED)] * 2
        result = run(make(*rounds, text("so far"), budget=Budget(tokens=220)))
        assert ends(result) == ("budget_exhausted", "so far", 3)

    def test_tokens_that_a_host_does_not_tell_are_estimated(self) -> None:
        agent = make(calls(call("look")), text("so far"), budget=Budget(tokens=500))
        result = run(agent, "word " * 2000)
        assert result["turn_exit_reason"] == "budget_exhausted"

    def test_an_answer_that_goes_over_is_an_answer(self) -> None:
        result = run(make(text("done", usage=PRICED), budget=Budget(cost_usd=0.01)))
        assert ends(result) == ("text_response", "done", 1)

    def test_the_finalizer_explains_where_the_summary_fails(self) -> None:
        script: list[ScriptStep] = [calls(call("look"), usage=PRICED), error(ErrorKind.AUTH)]
        result = run(make(*script, budget=Budget(cost_usd=0.1)))
        assert result["turn_exit_reason"] == "budget_exhausted"
        assert "the cost budget of $0.1 is spent" in str(result["final_response"])

    @pytest.mark.parametrize(
        "limits",
        [
            {"tokens": 0},
            {"tokens": True},
            {"cost_usd": -1},
            {"seconds": float("nan")},
            {"seconds": "5"},
            {"cost_usd": 1.0, "unknown_cost": "guess"},
        ],
    )
    def test_a_limit_that_can_not_work_is_refused(self, limits: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError):
            Budget(**limits)

    def test_what_is_no_budget_is_refused_when_the_agent_is_made(self) -> None:
        with pytest.raises(ConfigurationError, match="budget must be a Budget"):
            AIAgent(provider=ScriptedProvider([]), budget=5)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="iteration_budget"):
            AIAgent(provider=ScriptedProvider([]), iteration_budget="5")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="iteration budget"):
            AIAgent(provider=ScriptedProvider([]), iteration_budget=0)


class TestTime:
    def test_the_time_budget_ends_a_call_that_hangs_and_keeps_its_text(self) -> None:
        store = MemoryStore()
        agent = make(hang(text("half an answer"), after=1), session_db=store, budget=Budget(seconds=600))
        result = run(agent, stream_callback=lambda _: time_passes(600))
        assert ends(result) == ("budget_exhausted", "half an answer", 1)
        assert "the time budget of 600 s is spent" in str(result["error"])
        assert not result["interrupted"]
        assert isinstance(store.messages("s")[-1], AssistantMessage)

    def test_the_time_budget_stops_tools_and_their_calls_get_results(self) -> None:
        async def sleeper(_: JsonObject) -> str:
            time_passes(600)
            await asyncio.Event().wait()
            return "never"

        store = MemoryStore()
        agent = AIAgent(
            provider=ScriptedProvider([calls(call("sleeper"))]),
            tools=SimpleExecutor({"sleeper": sleeper}),
            session_db=store,
            session_id="s",
            budget=Budget(seconds=600),
        )
        result = run(agent)
        assert result["turn_exit_reason"] == "budget_exhausted"
        assert "time budget" in str(result["final_response"])
        [stopped] = [m for m in store.messages("s") if isinstance(m, ToolMessage)]
        assert stopped.status == "interrupted"
        assert validate(store.messages("s")) == []

    def test_the_next_turn_has_its_time_anew(self) -> None:
        agent = make(hang(text("so"), after=1), text("fine"), budget=Budget(seconds=600))

        async def main() -> None:
            async with agent:
                first = await agent.run_conversation("1", stream_callback=lambda _: time_passes(600))
                second = await agent.run_conversation("2")
                assert first["turn_exit_reason"] == "budget_exhausted"
                assert ends(second) == ("text_response", "fine", 1)

        asyncio.run(main())


class TestSharedIterations:
    def test_an_agent_and_its_child_share_one_budget(self) -> None:
        shared = IterationBudget(3)

        async def delegate(_: JsonObject) -> str:
            child = AIAgent(
                provider=ScriptedProvider([calls(call("look")), text("child's word")]),
                tools=SimpleExecutor({"look": look}),
                iteration_budget=shared,
            )
            async with child:
                return str(await child.chat("look"))

        agent = AIAgent(
            provider=ScriptedProvider([calls(call("delegate")), text("summed up")]),
            tools=SimpleExecutor({"delegate": delegate}),
            iteration_budget=shared,
        )
        result = run(agent)
        assert ends(result) == ("budget_exhausted", "summed up", 2)
        assert (shared.used, shared.remaining) == (3, 0)
        results = [m.content for m in result["transcript"] if isinstance(m, ToolMessage)]
        assert results == ["child's word"]

    def test_it_is_spent_over_all_turns_and_then_nothing_is_sent(self) -> None:
        provider = ScriptedProvider(itertools.repeat(text("ok")))
        agent = AIAgent(provider=provider, iteration_budget=2)

        async def main() -> list[ConversationResult]:
            async with agent:
                return [await agent.run_conversation(str(n)) for n in range(4)]

        results = asyncio.run(main())
        reasons = [result["turn_exit_reason"] for result in results]
        assert reasons == ["text_response", "text_response", "budget_exhausted", "budget_exhausted"]
        assert len(provider.requests) == 2
        assert "shared budget of 2 model calls" in str(results[-1]["final_response"])

    def test_the_turns_own_limit_holds_beside_it(self) -> None:
        shared = IterationBudget(10)
        result = run(make(calls(call("look")), text("sum"), max_iterations=1, iteration_budget=shared))
        assert (result["turn_exit_reason"], shared.used) == ("max_iterations", 1)


class TestBestAnswer:
    def test_a_finished_report_is_not_lost_to_a_follow_up_that_the_budget_ends(self) -> None:
        store = MemoryStore()
        shown: list[str] = []

        def report(_: object) -> ScriptStep:
            agent.steer("Check it once more.")
            return text("The whole report.", usage=PRICED)

        script: list[ScriptStep] = [report, calls(call("look"), text="I'll start now.", usage=PRICED)]
        agent = make(*script, session_db=store, budget=Budget(cost_usd=0.4))

        async def main() -> ConversationResult:
            async with agent:
                return await agent.run_conversation("report", stream_callback=shown.append)

        result = asyncio.run(main())
        assert ends(result) == ("budget_exhausted", "The whole report.", 2)
        assert "".join(shown).count("The whole report.") == 1
        texts = [m.content for m in store.messages("s") if isinstance(m, AssistantMessage)]
        assert texts.count("The whole report.") == 1
        assert tuple(store.messages("s")) == result["transcript"]

    def test_nor_to_half_a_sentence_when_time_is_up(self) -> None:
        store = MemoryStore()

        def report(_: object) -> ScriptStep:
            agent.steer("Check it once more.")
            return text("The whole report.")

        def show(piece: str) -> None:
            if piece.startswith("I'll"):
                time_passes(600)

        agent = make(report, hang(text("I'll now st"), after=1), session_db=store, budget=Budget(seconds=600))
        result = run(agent, stream_callback=show)
        assert ends(result) == ("budget_exhausted", "The whole report.", 2)
        stored = store.messages("s")
        assert stored[-1] == UserMessage("Check it once more.")
        assert tuple(stored) == result["transcript"]


class TestAlone:
    @given(
        st.integers(1, 5),
        st.one_of(st.none(), st.integers(1, 5)),
        st.lists(st.one_of(st.none(), st.builds(Usage, st.integers(0, 99), st.integers(0, 99))), max_size=20),
    )
    def test_no_mix_of_budgets_allows_more_calls_than_its_smallest(
        self, own: int, shared: int | None, answers: list[Usage | None]
    ) -> None:
        pool = IterationBudget(shared) if shared is not None else None
        budget = TurnBudget(own, pool, Budget(tokens=100))
        taken = 0
        for usage in answers:
            if budget.take() is not None:
                break
            taken += 1
            budget.add(usage, estimated_tokens=7)
        assert taken <= min(own, shared if shared is not None else own)
        if pool is not None:
            assert pool.used == taken

    def test_a_partly_told_usage_is_not_taken_for_the_whole(self) -> None:
        budget = TurnBudget(9, None, Budget(tokens=50))
        budget.add(Usage(output_tokens=3), estimated_tokens=60)
        assert budget.spent == Spent("budget_exhausted", "the budget of 50 tokens is spent")

    def test_the_grace_call_is_one(self) -> None:
        budget = TurnBudget(1)
        assert [budget.take_grace(), budget.take_grace()] == [True, False]
