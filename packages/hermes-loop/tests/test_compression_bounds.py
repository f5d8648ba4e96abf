"""Compression in long turns, what it costs, and words of the user that would fill the window."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_loop import (
    AIAgent,
    Budget,
    Compressed,
    CompressionContext,
    CompressionPlan,
    CompressionSettings,
    SummaryCompressor,
)
from hermes_loop.compression.plan import kept_rounds
from hermes_loop.compression.render import (
    Summary,
    fit_quotes,
    quotes_of,
    read_summary,
    render_parts,
    summary_message,
)
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ErrorKind,
    Message,
    ModelInfo,
    StoreError,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    content_text,
    estimate_tokens,
    validate,
)
from hermes_messages.openai_shape import to_dicts
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    ToolDouble,
    call,
    calls,
    error,
    text,
)

HISTORY = to_dicts(
    [
        message
        for number in range(12)
        for message in (UserMessage(f"q{number}"), AssistantMessage("long " * 60))
    ]
)


def is_summary(request: ChatRequest) -> bool:
    return "memory of an" in content_text(request.history[0].content)


def provider(
    step: Callable[[ChatRequest], ScriptStep] = lambda _: text("ok"),
    *,
    window: int = 1000,
    summary: ScriptStep | None = None,
) -> ScriptedProvider:
    """Refuses what does not fit into its window, as hosts do."""

    def answer(request: ChatRequest) -> ScriptStep:
        if estimate_tokens(request.history, request.tools) > window:
            return error(ErrorKind.CONTEXT_OVERFLOW)
        return (summary or text("SUMMARY")) if is_summary(request) else step(request)

    return ScriptedProvider(answer, model_info=ModelInfo(context_window=window))


def talk(agent: AIAgent, messages: Iterable[str], **first: Any) -> list[ConversationResult]:
    async def run() -> list[ConversationResult]:
        results = []
        async with agent:
            for number, message in enumerate(messages):
                results.append(await agent.run_conversation(message, **({} if number else first)))
        return results

    return asyncio.run(run())


def test_a_turn_of_many_rounds_is_compressed_as_often_as_it_needs() -> None:
    numbers = itertools.count()
    dump = ToolDouble("dump", ["row " * 300] * 40)

    def step(_: ChatRequest) -> ScriptStep:
        number = next(numbers)
        return calls(call("dump", {"page": number})) if number < 30 else text("all read")

    model = provider(step, window=3000)
    [result] = talk(AIAgent(provider=model, tools=SimpleExecutor([dump])), ["read it all"])
    assert result["final_response"] == "all read"
    assert sum(map(is_summary, model.requests)) > 3
    assert "read it all" in quotes_of(list(model.requests[-1].history))


def test_words_of_the_user_that_would_fill_the_window_do_not_end_the_session() -> None:
    model = provider(window=3000)
    agent = AIAgent(provider=model, compression=CompressionSettings(cooldown_s=0))
    results = talk(agent, [f"question {number} {'word ' * 500}" for number in range(20)])
    assert [result["turn_exit_reason"] for result in results] == ["text_response"] * 20
    assert results[-1]["transcript"][-2].content == f"question 19 {'word ' * 500}"
    summary = read_summary(results[-1]["transcript"][0])
    assert summary is not None
    assert "are left out" in "".join(summary.quotes)
    assert summary.quotes[-1].startswith("question 1")
    assert len(model.requests) <= 20 * 4


def test_words_that_the_host_refused_for_their_length_do_not_block_what_the_user_says_next() -> None:
    model = provider(window=3000)
    agent = AIAgent(provider=model, compression=CompressionSettings(cooldown_s=0))
    results = talk(agent, ["hello", "paste " * 3000, "paste " * 3000, "never mind"])
    assert [result["turn_exit_reason"] for result in results] == [
        "text_response",
        "context_overflow",
        "context_overflow",
        "text_response",
    ]
    assert validate(results[-1]["transcript"]) == []
    assert results[-1]["transcript"][-2] == UserMessage("never mind")


def test_a_round_wider_than_the_summarisers_window_is_cut_to_fit_into_it() -> None:
    asked = tuple(ToolCall(f"c{number}", "write", f'{{"text":"{"x" * 5000}"}}') for number in range(40))
    wide: list[Message] = [UserMessage("go"), AssistantMessage(tool_calls=asked)]
    wide += [ToolMessage(one.id, "done", "write") for one in asked]
    model = provider(window=16_000)
    [result] = talk(
        AIAgent(provider=model), ["more"], conversation_history=to_dicts([*wide, AssistantMessage("did")])
    )
    assert result["completed"]
    assert [request for request in model.requests if is_summary(request)]


def test_what_a_failed_summary_cost_is_in_the_result_and_the_budget() -> None:
    empty = text("", usage=Usage(input_tokens=900, output_tokens=1, cost_usd=1.0))
    model = provider(
        lambda _: text("ok", usage=Usage(input_tokens=10, output_tokens=1, cost_usd=0.5)), summary=empty
    )
    [result] = talk(AIAgent(provider=model), ["more"], conversation_history=HISTORY[:22])
    assert (result["api_calls"], result["input_tokens"], result["cost_usd"]) == (2, 910, 1.5)
    stopped = AIAgent(provider=provider(summary=empty), budget=Budget(cost_usd=1.0))
    [result] = talk(stopped, ["more"], conversation_history=HISTORY)
    assert (result["turn_exit_reason"], result["api_calls"]) == ("budget_exhausted", 1)


def test_a_summary_that_another_host_wrote_is_in_its_own_account() -> None:
    cheap = ScriptedProvider(
        [text("S", usage=Usage(input_tokens=7, output_tokens=1))], name="cheap", model="small"
    )
    model = provider(lambda _: text("ok", usage=Usage(input_tokens=10, output_tokens=2)))
    agent = AIAgent(provider=model, compressor=SummaryCompressor(provider=cheap))
    [result] = talk(agent, ["more"], conversation_history=HISTORY)
    assert {(row["provider"], row["api_calls"], row["input_tokens"]) for row in result["usage_by_route"]} == {
        ("cheap", 1, 7),
        ("scripted", 1, 10),
    }
    assert result["input_tokens"] == 17


def test_tokens_of_a_summary_that_the_host_does_not_tell_are_estimated_for_the_budget() -> None:
    agent = AIAgent(provider=provider(), budget=Budget(tokens=100))
    [result] = talk(agent, ["more"], conversation_history=HISTORY)
    assert (result["turn_exit_reason"], result["api_calls"]) == ("budget_exhausted", 1)


def test_a_budget_that_a_summary_spends_leaves_the_grace_call_for_results_that_wait() -> None:
    dump = ToolDouble("dump", ["row " * 160])
    steps = iter([calls(call("dump")), text("in short")])
    model = provider(
        lambda _: next(steps), summary=text("S", usage=Usage(input_tokens=10**6, output_tokens=1))
    )
    agent = AIAgent(
        provider=model,
        tools=SimpleExecutor([dump]),
        budget=Budget(tokens=10_000),
        compression=CompressionSettings(threshold=0.9, keep_recent=0.1),
    )
    [result] = talk(agent, ["more"], conversation_history=HISTORY[:18])
    assert result["turn_exit_reason"] == "budget_exhausted"
    assert result["final_response"] == "in short"
    assert model.requests[-1].tools == ()


def test_no_summary_is_paid_for_where_the_prompt_is_long_for_its_system_text() -> None:
    model = provider(window=10_000)
    agent = AIAgent(provider=model, system_prompt="rule " * 6400)
    [result] = talk(agent, ["more"], conversation_history=HISTORY)
    assert result["completed"]
    assert not any(map(is_summary, model.requests))


def test_a_compressor_may_leave_everything_out() -> None:
    class Nothing:
        async def compress(
            self, messages: Sequence[Message], plan: CompressionPlan, context: CompressionContext
        ) -> Compressed:
            return Compressed(())

    model = provider()
    [result] = talk(AIAgent(provider=model, compressor=Nothing()), ["more"], conversation_history=HISTORY)
    assert result["completed"]
    assert len(result["transcript"]) < len(HISTORY)
    assert (
        quotes_of(result["transcript"]) == ("q10", "q11", "more") or len(quotes_of(result["transcript"])) < 12
    )


def test_an_archive_that_failed_after_it_was_written_is_what_the_next_turn_reads() -> None:
    class Torn(MemoryStore):
        torn = False

        async def archive_and_compact(self, *arguments: Any, **options: Any) -> str:
            done = await super().archive_and_compact(*arguments, **options)
            if not self.torn:
                self.torn = True
                raise StoreError("the connection was lost")
            return done

    store = Torn()
    agent = AIAgent(provider=provider(), session_db=store, session_id="s")
    first, second = talk(agent, ["more", "and now?"], conversation_history=HISTORY)
    assert first["turn_exit_reason"] == "session_persistence_failed"
    assert second["completed"]
    stored = asyncio.run(store.get_messages("s"))
    assert [row.message for row in stored] == list(second["transcript"])


def test_a_store_that_runs_out_of_time_is_not_told_as_a_slow_compressor() -> None:
    class Slow(MemoryStore):
        async def archive_and_compact(self, *arguments: Any, **options: Any) -> str:
            raise TimeoutError("the disk is slow")

    agent = AIAgent(provider=provider(), session_db=Slow(), session_id="s")
    [result] = talk(agent, ["more"], conversation_history=HISTORY)
    assert (result["turn_exit_reason"], result["error"]) == (
        "internal_error",
        "TimeoutError: the disk is slow",
    )


def test_many_short_words_that_fit_together_stay_as_they_are() -> None:
    quotes = ("ab",) * 40
    assert fit_quotes(quotes, 300) == quotes


@given(st.lists(st.text(max_size=3000), max_size=30), st.integers(300, 4000))
def test_the_users_words_fit_and_the_newest_are_there(quotes: list[str], tokens: int) -> None:
    fitted = fit_quotes(quotes, tokens)
    whole = estimate_tokens([summary_message(Summary("x", tuple(quotes)))])
    size = estimate_tokens([summary_message(Summary("x", fitted))])
    assert size <= max(tokens + 200, 1000)
    if whole <= tokens:
        assert fitted == tuple(quotes)
    if quotes:
        assert fitted[-1][:50] == quotes[-1][:50]


def test_short_words_of_the_user_stay_whole_beside_a_long_one() -> None:
    quotes = ["never delete anything", "log " * 20_000, "use tabs"]
    fitted = fit_quotes(quotes, 2000)
    assert (fitted[0], fitted[2]) == (quotes[0], quotes[2])
    assert "are left out" in fitted[1]
    assert 1000 < estimate_tokens([UserMessage(fitted[1])]) < 2000


@pytest.mark.parametrize("number", [50, 5000])
def test_an_earlier_summary_is_read_however_much_follows_it(number: int) -> None:
    later: list[Message] = [AssistantMessage(f"answer {place} {'x' * 400}") for place in range(number)]
    parts = render_parts([summary_message(Summary("the plan is B")), *later], 2000, 8)
    assert len(parts) <= 8
    assert parts[0].startswith("EARLIER SUMMARY: the plan is B")
    assert f"answer {number - 1}" in parts[-1]
    assert all(estimate_tokens([UserMessage(part)]) <= 2000 * 1.3 for part in parts)


def test_long_results_beside_the_last_todo_list_are_cut() -> None:
    asked = (ToolCall("a", "todo", "{}"), ToolCall("b", "read", "{}"))
    todos, page = "item " * 500, "page " * 5000
    messages: list[Message] = [
        UserMessage("go"),
        AssistantMessage(tool_calls=asked),
        ToolMessage("a", todos, "todo"),
        ToolMessage("b", page, "read"),
        AssistantMessage("done"),
    ]
    plan = CompressionPlan(begin=0, end=5, target_tokens=256, words_tokens=256)
    kept = [message for message, _ in kept_rounds(messages, plan, ["todo"], 300)]
    assert kept[1].content == todos
    assert len(content_text(kept[2].content)) < 600


def test_the_note_on_what_was_left_out_never_becomes_a_word_of_the_user() -> None:
    model = provider()

    class Nothing:
        async def compress(
            self, messages: Sequence[Message], plan: CompressionPlan, context: CompressionContext
        ) -> Compressed:
            return Compressed(())

    [result] = talk(AIAgent(provider=model, compressor=Nothing()), ["more"], conversation_history=HISTORY)
    assert all("left out" not in quote for quote in quotes_of(result["transcript"]))
