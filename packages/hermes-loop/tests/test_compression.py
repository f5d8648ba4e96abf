"""Turns whose context is made shorter: when, by whom, and what holds when that fails."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from hermes_loop import (
    AIAgent,
    Compressed,
    CompressionContext,
    CompressionPlan,
    CompressionSettings,
    ContextCompressed,
    SummaryCompressor,
    TurnEvent,
)
from hermes_loop.events import StatusChanged
from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ErrorKind,
    Message,
    ModelInfo,
    ProviderError,
    SystemMessage,
    ToolMessage,
    Usage,
    UserMessage,
    validate,
)
from hermes_messages.openai_shape import to_dicts
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import (
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    ToolDouble,
    call,
    calls,
    error,
    failure,
    hang,
    text,
)

OLD: list[Message] = [
    message
    for number in range(12)
    for message in (UserMessage(f"question {number}"), AssistantMessage(f"answer {number} {'long ' * 60}"))
]
HISTORY = to_dicts(OLD)


def provider(*script: ScriptStep, window: int | None = 1000) -> ScriptedProvider:
    steps = itertools.chain(script, itertools.repeat(text("the answer")))
    return ScriptedProvider(steps, model_info=ModelInfo(context_window=window))


def agent(model: ScriptedProvider, **options: Any) -> AIAgent:
    return AIAgent(provider=model, session_id="s", **options)


def turn(agent: AIAgent, message: str = "and now?", history: object = HISTORY) -> ConversationResult:
    async def run() -> ConversationResult:
        async with agent:
            return await agent.run_conversation(message, conversation_history=history)  # type: ignore[arg-type]

    return asyncio.run(run())


class Fixed:
    """A compressor that does what a test says."""

    def __init__(self, answer: Compressed | BaseException | float | None) -> None:
        self.answer = answer
        self.plans: list[CompressionPlan] = []

    async def compress(
        self, messages: Sequence[Message], plan: CompressionPlan, context: CompressionContext
    ) -> Compressed:
        self.plans.append(plan)
        if isinstance(self.answer, BaseException):
            raise self.answer
        if isinstance(self.answer, float):
            await asyncio.sleep(self.answer)
            return Compressed(())
        return self.answer  # type: ignore[return-value]


def summed_up(words: str = "all of it") -> Compressed:
    return Compressed((UserMessage(words),))


def test_a_long_conversation_is_summed_up_before_the_model_is_asked() -> None:
    events: list[TurnEvent] = []
    model = provider(text("SUMMARY", usage=Usage(input_tokens=900, output_tokens=50)))
    result = turn(agent(model, event_callback=events.append))
    assert result["final_response"] == "the answer"
    summary, asked = model.requests
    assert summary.tools == ()
    assert "answer 3" in str(summary.history[1].content)
    first, *rest = list(asked.history)
    first = rest.pop(0) if "SUMMARY" not in str(first.content) else first
    assert "SUMMARY" in str(first.content)
    assert '"question 0"' in str(first.content)
    assert rest[-1] == UserMessage("and now?")
    assert validate(asked.history) == []
    [told] = [event for event in events if isinstance(event, ContextCompressed)]
    assert told.tokens_after < told.tokens_before * 0.7
    assert result["api_calls"] == 2
    assert result["input_tokens"] == 900
    assert (
        result["transcript"][-1] == AssistantMessage("the answer", finish_reason="stop")
        or result["completed"]
    )


def test_a_short_conversation_a_switched_off_agent_and_an_unknown_window_are_left_alone() -> None:
    for model, options in (
        (provider(window=128_000), {}),
        (provider(), {"compression": False}),
        (provider(window=None), {}),
    ):
        result = turn(agent(model, **options))
        assert result["completed"]
        assert len(model.requests) == 1
        assert [message.content for message in model.requests[0].history][-25:-1] == [
            message.content for message in OLD
        ]


def test_results_of_tools_are_weighed_before_the_next_request() -> None:
    dump = ToolDouble("dump", ["row " * 400, "row " * 400])
    model = provider(calls(call("dump")), calls(call("dump")), text("SUMMARY"), window=1500)
    result = turn(agent(model, tools=SimpleExecutor([dump])), history=HISTORY[:4])
    assert result["completed"]
    asked = list(model.requests[-1].history)
    assert isinstance(asked[-1], ToolMessage)
    assert str(asked[-1].content).count("row") == 400
    assert validate(asked) == []


def test_what_the_host_counted_before_a_compression_begins_no_second_one() -> None:
    told: list[object] = []
    first = calls(call("dump"), usage=Usage(input_tokens=2_900, output_tokens=5))
    model = provider(first, text("SUMMARY"), window=3_000)
    tools = SimpleExecutor([ToolDouble("dump", ["row"])])
    result = turn(agent(model, tools=tools, event_callback=told.append))
    assert result["final_response"] == "the answer"
    assert [event.kind for event in told if isinstance(event, StatusChanged)] == ["compression"]
    assert len(model.requests) == 3


def test_a_prompt_that_the_host_refuses_as_too_long_is_made_shorter_and_sent_again() -> None:
    model = provider(error(ErrorKind.CONTEXT_OVERFLOW), text("SUMMARY"), window=None)
    result = turn(agent(model))
    assert result["final_response"] == "the answer"
    assert len(list(model.requests[2].history)) < len(list(model.requests[0].history))


def test_a_host_that_refuses_every_prompt_ends_the_turn_after_a_bounded_number_of_attempts() -> None:
    model = ScriptedProvider(
        lambda request: (
            text("SUMMARY")
            if "memory of an" in str(request.history[0].content)
            else error(ErrorKind.CONTEXT_OVERFLOW)
        ),
        model_info=ModelInfo(context_window=None),
    )
    result = turn(agent(model))
    assert result["turn_exit_reason"] == "context_overflow"
    assert len(model.requests) <= 6
    assert validate(result["transcript"]) == []


def test_a_compressor_that_takes_too_long_ends_the_turn_and_the_conversation_is_kept() -> None:
    slow = Fixed(3600.0)
    settings = CompressionSettings(timeout_s=0.01)
    result = turn(agent(provider(), compression=settings, compressor=slow))
    assert result["turn_exit_reason"] == "context_compression_timeout"
    assert result["failed"]
    assert [message.content for message in result["transcript"]][:-1] == [message.content for message in OLD]
    assert result["transcript"][-1] == UserMessage("and now?")


@pytest.mark.parametrize(
    "answer",
    [
        ProviderError("no", kind=ErrorKind.AUTH),
        ValueError("a bug"),
        TimeoutError("its own"),
        Compressed(tuple(OLD)),
        Compressed((AssistantMessage("begins with an answer"), ToolMessage("x", "y"))),
        Compressed((UserMessage("x " * 5000),)),
        Compressed((SystemMessage("a rule"), UserMessage("hello"))),
        Compressed(("no message",)),  # type: ignore[arg-type]
        asyncio.CancelledError(),
        None,
    ],
)
def test_a_compressor_that_fails_or_saves_nothing_leaves_the_conversation_and_the_turn_goes_on(
    answer: Compressed | BaseException | None,
) -> None:
    fixed, model = Fixed(answer), provider()
    one = agent(model, compressor=fixed)
    result = turn(one)
    assert result["final_response"] == "the answer"
    assert len(list(model.requests[0].history)) >= 25
    assert len(fixed.plans) == 1
    assert turn(one, "more", None)["completed"]
    assert len(fixed.plans) == 1, "it is not tried again at once"


def test_after_the_cooldown_it_is_tried_again() -> None:
    fixed = Fixed(ValueError("a bug"))
    one = agent(provider(), compressor=fixed, compression=CompressionSettings(cooldown_s=0, per_turn=1))
    turn(one)
    turn(one, "more", None)
    assert len(fixed.plans) == 2


def test_the_default_compressor_asks_once_more_after_a_failure_that_may_pass() -> None:
    model = provider(error(failure(ErrorKind.RATE_LIMIT, retry_after_s=0)), text("SUMMARY"))
    assert turn(agent(model))["completed"]
    assert "SUMMARY" in str([message.content for message in model.requests[-1].history])


def test_an_empty_summary_is_a_failure() -> None:
    model = provider(text("  "), text("the answer"))
    assert turn(agent(model))["final_response"] == "the answer"
    assert len(list(model.requests[1].history)) >= 25


def test_the_summary_may_come_from_another_provider_and_model() -> None:
    cheap = ScriptedProvider([text("CHEAP")], name="cheap", model="small")
    model = provider()
    assert turn(agent(model, compressor=SummaryCompressor(provider=cheap)))["completed"]
    assert [request.model for request in cheap.requests] == ["small"]
    assert "CHEAP" in str([message.content for message in model.requests[0].history])
    assert cheap.close_count == 0


def test_a_part_that_is_too_long_for_the_summariser_is_summed_up_piece_by_piece() -> None:
    model = ScriptedProvider(
        lambda request: (
            text(f"S{len(str(request.history[1].content))}")
            if "memory of an" in str(request.history[0].content)
            else text("done")
        ),
        model_info=ModelInfo(context_window=4000),
    )
    long = [
        message
        for number in range(40)
        for message in (UserMessage(f"q{number}"), AssistantMessage("a" * 1500))
    ]
    assert turn(agent(model), history=to_dicts(long))["final_response"] == "done"
    pieces = [request for request in model.requests if "memory of an" in str(request.history[0].content)]
    assert 2 <= len(pieces) <= 8
    assert str(pieces[1].history[1].content).startswith("EARLIER SUMMARY: S")


def test_an_interrupt_while_the_summary_is_written_ends_the_turn_and_changes_nothing() -> None:
    model = provider(hang())
    one = agent(model)

    async def run() -> ConversationResult:
        async with one:
            task = asyncio.create_task(one.run_conversation("and now?", conversation_history=HISTORY))
            while not model.live_streams:  # noqa: ASYNC110 - the provider tells in no other way
                await asyncio.sleep(0)
            assert one.interrupt()
            return await task

    result = asyncio.run(run())
    assert result["turn_exit_reason"] == "interrupted"
    assert len(result["transcript"]) == len(OLD) + 1
    assert model.live_streams == 0


def test_the_prompt_is_weighed_by_what_is_new_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes_messages import tokens

    weighed = 0
    plain = tokens._message_cost

    def counting(message: Message) -> float:
        nonlocal weighed
        weighed += 1
        return plain(message)

    monkeypatch.setattr(tokens, "_message_cost", counting)
    one = agent(provider(window=10**9))
    turn(one)
    first, weighed = weighed, 0
    turn(one, "more", None)
    assert first <= len(OLD) + 3
    assert weighed <= 4


def test_options_that_can_not_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="compression is off"):
        agent(provider(), compression=False, compressor=SummaryCompressor())
    with pytest.raises(ConfigurationError, match="must have a method compress"):
        agent(provider(), compressor=object())
    with pytest.raises(ConfigurationError, match="must be a bool or CompressionSettings"):
        agent(provider(), compression="yes")
