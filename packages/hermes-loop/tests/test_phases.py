"""The decisions inside the phases, called with values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_loop.admission import LocalLease
from hermes_loop.budget import TurnBudget
from hermes_loop.closing import close_conversation
from hermes_loop.conversation import Conversation
from hermes_loop.events import Callbacks, TurnEvents
from hermes_loop.interrupts import InterruptFlag
from hermes_loop.journal import Journal
from hermes_loop.phases.begin import begin_iteration
from hermes_loop.phases.normalize import normalise_response, usable_calls
from hermes_loop.phases.preflight import decide_gate
from hermes_loop.resume import unsaved_tail
from hermes_loop.routes import Route
from hermes_loop.system_prompt import build_system_prompt, needs_rebuild
from hermes_loop.turn_state import TurnRequest, TurnState
from hermes_loop.verdicts import Answer, Compress, Discard, Ending, Finish, Proceed, RunTools, Stop
from hermes_messages import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    Message,
    PartialToolCall,
    ToolCall,
    ToolMessage,
    UserMessage,
    validate,
)
from hermes_messages.testing import ScriptedProvider

CALL = ToolCall("call_1", "look", "{}")


def respond(
    message: AssistantMessage,
    finish: FinishReason = FinishReason.STOP,
    unfinished: tuple[PartialToolCall, ...] = (),
) -> ChatResponse:
    return ChatResponse(message=message, finish=finish, unfinished_calls=unfinished)


def turn_with(budget: TurnBudget, *, results_given: bool = True, best_answer: str | None = None) -> TurnState:
    question = UserMessage("hi")
    conversation = Conversation(Journal(None, "s"))
    conversation.append("1", question)
    if results_given:
        conversation.open_tool_round("2", AssistantMessage(None, (CALL,)))
        conversation.close_tool_round([ToolMessage(CALL.id, "seen")])
    return TurnState(
        session_id="s",
        task_id="t",
        turn_id="u",
        request=TurnRequest(user_message=question),
        conversation=conversation,
        lease=LocalLease(None, "s"),
        interrupt=InterruptFlag(),
        events=TurnEvents(Callbacks()),
        budget=budget,
        route=Route(ScriptedProvider([]), "m"),
        best_answer=best_answer,
    )


class TestBegin:
    def test_a_spent_budget_gives_one_summary_call_then_ends(self) -> None:
        turn = turn_with(TurnBudget(1))
        assert (begin_iteration(turn), turn.summary_call) == (Proceed(), False)
        assert (begin_iteration(turn), turn.summary_call) == (Proceed("summary"), True)
        stop = Stop("max_iterations", "the limit of 1 model calls is reached")
        assert (begin_iteration(turn), turn.summary_call) == (stop, False)

    def test_without_tool_results_there_is_nothing_to_sum_up(self) -> None:
        verdict = begin_iteration(turn_with(TurnBudget(0), results_given=False))
        assert verdict == Stop("max_iterations", "the limit of 0 model calls is reached")

    def test_a_complete_answer_is_not_lost_to_a_summary(self) -> None:
        verdict = begin_iteration(turn_with(TurnBudget(0), best_answer="the report"))
        assert verdict == Finish("max_iterations", "the report")

    def test_an_interruption_comes_before_the_budget_and_takes_nothing_of_it(self) -> None:
        budget = TurnBudget(1)
        turn = turn_with(budget)
        turn.interrupt.request()
        assert begin_iteration(turn) == Stop("interrupted")
        assert begin_iteration(turn_with(budget)) == Proceed()

    @given(st.integers(0, 20))
    def test_no_budget_allows_more_than_one_call_too_many(self, limit: int) -> None:
        turn = turn_with(TurnBudget(limit))
        calls = 0
        while isinstance(begin_iteration(turn), Proceed):
            calls += 1
        assert calls == limit + 1


class TestPreflight:
    @pytest.mark.parametrize(
        ("estimated", "counted", "window", "threshold", "verdict"),
        [
            (0, None, 1000, None, Proceed),
            (0, 999, None, None, Proceed),
            (0, 999, 1000, None, Proceed),
            (0, 1000, 1000, None, Stop),
            (5000, 999, 1000, None, Proceed),
            (749, 100, 1000, 0.75, Proceed),
            (750, 100, 1000, 0.75, Compress),
            (0, 750, 1000, 0.75, Compress),
            (5000, 5000, None, 0.75, Proceed),
        ],
    )
    def test_an_estimate_begins_compression_and_only_what_was_counted_ends_a_turn(
        self, estimated: int, counted: int | None, window: int | None, threshold: float | None, verdict: type
    ) -> None:
        gate = decide_gate(
            interruption=None,
            estimated_tokens=estimated,
            last_input_tokens=counted,
            context_window=window,
            threshold=threshold,
        )
        assert isinstance(gate, verdict)


class TestNormalise:
    def test_two_calls_of_one_id_get_ids_of_their_own(self) -> None:
        calls = usable_calls((ToolCall("c", "a", "{}"), ToolCall("c", "b", "{}"), ToolCall("", "d", "{}")))
        assert [call.id for call in calls] == ["c", "c_2", "call_3"]

    def test_a_call_without_a_name_never_enters_the_conversation(self) -> None:
        verdict = normalise_response(
            respond(AssistantMessage("x", tool_calls=(ToolCall("c", " ", "{}"),))), summary_call=False
        )
        assert isinstance(verdict, Answer)
        assert verdict.message.tool_calls == ()

    def test_text_beside_calls_stays_with_them(self) -> None:
        message = AssistantMessage("foo", tool_calls=(CALL,))
        assert normalise_response(respond(message), summary_call=False) == RunTools(message)

    def test_calls_in_a_summary_are_not_run(self) -> None:
        verdict = normalise_response(respond(AssistantMessage("foo", tool_calls=(CALL,))), summary_call=True)
        assert verdict == Answer(AssistantMessage("foo"), "text_response")

    @pytest.mark.parametrize("content", [None, "", " \n"])
    def test_a_blank_response_is_asked_again(self, content: str | None) -> None:
        verdict = normalise_response(respond(AssistantMessage(content, reasoning="hm")), summary_call=False)
        assert isinstance(verdict, Discard)
        assert verdict.ask_again
        assert verdict.reason == "empty_response"

    def test_a_cut_off_answer_is_partial_and_an_empty_one_is_said_to_be_cut_off(self) -> None:
        message = AssistantMessage("half")
        cut = normalise_response(respond(message, FinishReason.LENGTH), summary_call=False)
        assert cut == Answer(message, "output_truncated")
        nothing = normalise_response(
            respond(
                AssistantMessage(None), FinishReason.LENGTH, (PartialToolCall("c", "a", '{"x', "cut off"),)
            ),
            summary_call=False,
        )
        assert isinstance(nothing, Discard)
        assert (nothing.reason, nothing.ask_again) == ("output_truncated", False)

    def test_whole_calls_beside_an_unfinished_one_are_run(self) -> None:
        message = AssistantMessage(None, tool_calls=(CALL,))
        unfinished = (PartialToolCall("c2", "a", '{"x', "cut off"),)
        verdict = normalise_response(respond(message, FinishReason.LENGTH, unfinished), summary_call=False)
        assert verdict == RunTools(message)

    @pytest.mark.parametrize(
        ("message", "finish"),
        [
            (AssistantMessage("no", finish_reason="content_filter"), FinishReason.CONTENT_FILTER),
            (AssistantMessage(None, refusal="I will not"), FinishReason.STOP),
        ],
    )
    def test_a_refusal_is_an_answer_of_its_own_kind(
        self, message: AssistantMessage, finish: FinishReason
    ) -> None:
        assert normalise_response(respond(message, finish), summary_call=False) == Answer(message, "refused")


class TestClosing:
    @staticmethod
    def close(conversation: Conversation, ending: Ending, partial: str = "") -> list[Message]:
        for _ in range(2):  # twice: it is idempotent
            close_conversation(
                conversation, ending, uid="u", partial_text=partial, tools_started=True, max_iterations=3
            )
        assert validate(list(conversation.messages)) == []
        return list(conversation.messages)

    @staticmethod
    def asked() -> Conversation:
        conversation = Conversation(Journal(None, "s"))
        conversation.append("1", UserMessage("hi"))
        return conversation

    def test_a_question_that_no_model_saw_gets_no_invented_answer(self) -> None:
        assert self.close(self.asked(), Stop("provider_error")) == [UserMessage("hi")]

    def test_open_calls_are_paired_and_a_note_follows(self) -> None:
        conversation = self.asked()
        message = AssistantMessage(None, tool_calls=(CALL, ToolCall("call_2", "look", "{}")))
        record = conversation.open_tool_round("2", message)
        record.results[1] = ToolMessage("call_2", "fine")
        closed = self.close(conversation, Stop("interrupted"))
        assert [getattr(m, "status", None) for m in closed] == [None, None, "interrupted", "ok", None]
        assert closed[-1] == AssistantMessage(
            "[The turn was interrupted before a final answer.]", finish_reason="interrupted"
        )

    def test_text_that_was_on_its_way_is_kept(self) -> None:
        closed = self.close(self.asked(), Stop("interrupted"), partial="Hel")
        assert closed[-1] == AssistantMessage("Hel", finish_reason="interrupted")


class TestUnsavedTail:
    A, B, C, X = UserMessage("a"), AssistantMessage("b"), UserMessage("c"), UserMessage("x")

    @pytest.mark.parametrize(
        ("stored", "given", "owed"),
        [
            ([], [A, B], [A, B]),
            ([A, B], [A, B], []),
            ([A, B], [A, B, C], [C]),
            ([A, B, C], [A, B], []),
            ([A, B, C], [B, C], []),
            ([A, B, C], [A, X], [X]),
            ([A, B, C], [B, C, X], [X]),
            ([A, B, A, B], [A, B, X], [X]),
            ([A, B, C], [B, X], [B, X]),
            ([A, B, A, X], [A, X], []),
            ([A, B, A, X], [A, X, C], [C]),
            ([A, AssistantMessage("b", finish_reason="stop")], [A, B], []),
        ],
    )
    def test_rows_that_are_stored_are_not_written_twice(
        self, stored: list[Message], given: list[Message], owed: list[Message]
    ) -> None:
        assert list(unsaved_tail(stored, given)) == owed


class TestSystemPrompt:
    def test_it_is_made_of_stable_parts_in_order(self) -> None:
        text = build_system_prompt(
            system_prompt=None,
            identity="You are Ada.",
            system_message="Be brief.",
            tool_guidance="Read before you write.",
            cwd="/srv",
            has_tools=True,
        )
        assert text == "You are Ada.\n\nBe brief.\n\nRead before you write.\n\nWorking directory: /srv"

    def test_a_prompt_of_the_host_is_taken_as_it_is(self) -> None:
        text = build_system_prompt(
            system_prompt="Only this.",
            identity=None,
            system_message=None,
            tool_guidance="g",
            cwd="/",
            has_tools=True,
        )
        assert text == "Only this."

    def test_the_same_system_message_again_rebuilds_nothing(self) -> None:
        assert needs_rebuild(None, None)
        assert not needs_rebuild("You are Ada.\n\nBe brief.", "Be brief.")
        assert not needs_rebuild("anything", None)
        assert needs_rebuild("You are Ada.", "Be brief.")
