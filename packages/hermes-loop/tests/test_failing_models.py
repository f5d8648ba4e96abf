"""Models whose answers are blank, cut off or errors: what is tried again, and what a turn comes to."""

from __future__ import annotations

import asyncio

import pytest

from hermes_loop import AIAgent, TurnEvent
from hermes_loop.events import AttemptDiscarded, StepStarted
from hermes_messages import AssistantMessage, ErrorKind, ModelInfo, TextDelta, Usage, UserMessage
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    SimpleExecutor,
    ToolDouble,
    broken,
    call,
    calls,
    error,
    failure,
    text,
)
from loop_help import look, make, provider_of, roles, run


class TestEmptyAndCutAnswers:
    def test_a_blank_final_answer_is_not_replaced_by_older_text(self) -> None:
        blank = text(" \n")
        [result] = run(make(calls(call("look"), text="foo"), blank, blank, blank), "go")
        assert result["final_response"] is None
        assert (result["turn_exit_reason"], result["failed"]) == ("empty_response", True)
        assert result["api_calls"] == 4

    def test_an_empty_answer_is_asked_for_again(self) -> None:
        [result] = run(make(text(""), text("here")), "go")
        assert result["final_response"] == "here"
        assert roles(result) == ["user", "assistant"]

    def test_an_empty_turn_of_a_failed_stream_is_never_committed(self) -> None:
        store = MemoryStore()
        fails = error(failure(ErrorKind.AUTH))
        [result] = run(make(fails, session_db=store), "go")
        assert store.messages("s") == [UserMessage("go")]
        assert (result["turn_exit_reason"], result["error_kind"]) == ("provider_error", ErrorKind.AUTH)

    def test_a_cut_off_answer_says_so(self) -> None:
        [result] = run(make(text("half an ans", finish="length")), "go")
        assert (result["final_response"], result["turn_exit_reason"]) == ("half an ans", "output_truncated")
        assert (result["partial"], result["completed"], result["failed"]) == (True, False, False)

    def test_half_a_call_never_runs(self) -> None:
        tool = ToolDouble("t")
        agent = AIAgent(
            provider=ScriptedProvider([calls(call("t", '{"a": "b'), finish="length")]),
            tools=SimpleExecutor([tool]),
        )
        [result] = run(agent, "go")
        assert tool.arguments == []
        assert result["turn_exit_reason"] == "output_truncated"

    def test_a_refusal_is_not_asked_for_again(self) -> None:
        agent = make(text("I can not", finish="content_filter"))
        [result] = run(agent, "go")
        assert (result["turn_exit_reason"], result["final_response"]) == ("refused", "I can not")
        assert len(provider_of(agent).requests) == 1

    def test_reasoning_is_kept_apart_from_text(self) -> None:
        [result] = run(make(text("4", reasoning="2+2")), "go")
        answer = result["transcript"][-1]
        assert isinstance(answer, AssistantMessage)
        assert (answer.content, answer.reasoning) == ("4", "2+2")


class TestRetries:
    def test_text_of_a_failed_attempt_is_not_mixed_with_the_next(self) -> None:
        shown: list[str] = []
        again = failure(ErrorKind.TRANSPORT, retry_after_s=0)
        agent = make(broken(text("Hello", chunk_size=3), after=1, error=again), text("Hello", chunk_size=2))

        async def main() -> ConversationResult:
            async with agent:
                return await agent.run_conversation("hi", stream_callback=shown.append)

        result = asyncio.run(main())
        assert "".join(shown) == "Hello"
        assert result["messages"][-1]["content"] == "Hello"
        assert result["api_calls"] == 2

    def test_a_consumer_that_can_take_text_back_is_told_to(self) -> None:
        class Screen:
            def __init__(self) -> None:
                self.text = ""
                self.retries = 0

            async def __call__(self, text: str) -> None:
                self.text += text

            async def on_retry(self) -> None:
                self.text = ""
                self.retries += 1

        screen = Screen()
        again = failure(ErrorKind.OVERLOADED, retry_after_s=0)
        agent = make(broken(text("Bad"), after=1, error=again), text("Good"), stream_delta_callback=screen)
        run(agent, "hi")
        assert (screen.text, screen.retries) == ("Good", 1)

    @pytest.mark.parametrize(("then", "shown"), [("Good", "Bad\nGood"), ("Bad and good", "Bad and good")])
    def test_text_beside_a_call_that_could_not_be_read_is_taken_back(self, then: str, shown: str) -> None:
        """The host answered, but the answer is no part of the conversation, and the model is asked again."""
        plain: list[str] = []
        events: list[TurnEvent] = []
        bad = text("Bad", finish="malformed_function_call")
        agent = make(calls(call("look"), text="Hm. "), bad, text(then), event_callback=events.append)
        [result] = run(agent, "hi", stream_callback=plain.append)
        assert result["final_response"] == then
        assert "Bad" not in [message["content"] for message in result["messages"]]
        assert "".join(plain) == f"Hm. {shown}"
        kept = ""
        for event in events:
            match event:
                case StepStarted():
                    kept = ""
                case TextDelta(text=piece):
                    kept += piece
                case AttemptDiscarded():
                    assert kept == "Bad"
                    kept = ""
                case _:
                    pass
        assert kept == then
        assert sum(isinstance(event, AttemptDiscarded) for event in events) == 1

    def test_text_beside_a_call_that_could_not_be_read_is_kept_where_the_limit_comes_first(self) -> None:
        """Nothing is asked again, so it is what there is of an answer."""
        events: list[TurnEvent] = []
        agent = make(
            text("Half an answer", finish="malformed_function_call"),
            max_iterations=1,
            event_callback=events.append,
        )
        [result] = run(agent, "hi")
        assert (result["final_response"], result["turn_exit_reason"]) == ("Half an answer", "max_iterations")
        assert result["messages"][-1]["content"] == "Half an answer"
        assert not [event for event in events if isinstance(event, AttemptDiscarded)]

    def test_text_beside_a_call_that_could_not_be_read_is_taken_back_before_a_summary(self) -> None:
        plain: list[str] = []
        bad = text("Bad", finish="malformed_function_call")
        agent = make(calls(call("look")), bad, text("In short"), max_iterations=2)
        [result] = run(agent, "hi", stream_callback=plain.append)
        assert (result["final_response"], "".join(plain)) == ("In short", "Bad\nIn short")

    def test_attempts_are_bounded(self) -> None:
        again = error(failure(ErrorKind.SERVER, "boom", retry_after_s=0))
        agent = make(*[again] * 50)
        [result] = run(agent, "hi")
        assert result["turn_exit_reason"] == "provider_error"
        assert result["api_calls"] == 4
        assert result["error"] == "boom (after 4 attempts)"

    def test_a_full_context_stops_before_the_next_request(self) -> None:
        agent = AIAgent(
            provider=ScriptedProvider(
                [calls(call("look"), usage=Usage(input_tokens=120))],
                model_info=ModelInfo(context_window=100),
            ),
            tools=SimpleExecutor({"look": look}),
        )
        [result] = run(agent, "go")
        assert (result["turn_exit_reason"], result["api_calls"]) == ("context_overflow", 1)

    def test_usage_is_summed_and_unknown_stays_unknown(self) -> None:
        usage = Usage(input_tokens=10, output_tokens=2)
        [result] = run(make(calls(call("look"), usage=usage), text("ok", usage=usage)), "go")
        assert (result["input_tokens"], result["output_tokens"]) == (20, 4)
        assert result["cost_usd"] is None
