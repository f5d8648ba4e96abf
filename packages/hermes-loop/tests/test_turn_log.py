"""The path of a turn, read off its log alone."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hermes_loop import AIAgent, Budget
from hermes_messages import ErrorKind, ProviderError, Usage, UserMessage
from hermes_messages.protocols import HookContext
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    SimpleExecutor,
    broken,
    call,
    calls,
    error,
    failure,
    text,
)
from loop_help import look

ADMITTED = [
    (0, "cancel_background", "Done"),
    (0, "lease.admit", "Done"),
    (0, "lease.start", "Done"),
    (0, "choose_route", "Proceed"),
]


def given_back(calls_made: int) -> list[tuple[int, str, str]]:
    return [(calls_made, f"lease.{step}", "Done") for step in ("stop", "join", "clear", "release")]


def iteration(calls_before: int) -> list[tuple[int, str, str]]:
    return [
        (calls_before, "begin_iteration", "Proceed"),
        (calls_before, "prepare_iteration", "Proceed"),
        *request(calls_before),
    ]


def request(calls_before: int) -> list[tuple[int, str, str]]:
    return [
        (calls_before, "assemble_api_request", "ChatRequest"),
        (calls_before, "build_api_request", "ChatRequest"),
        (calls_before, "run_preflight_gate", "Proceed"),
    ]


def failed(number: int, verdict: str) -> list[tuple[int, str, str]]:
    return [(number, "perform_api_call", "Failed"), (number, "handle_api_error", verdict)]


def answered(number: int, verdict: str) -> list[tuple[int, str, str]]:
    return [
        (number, "perform_api_call", "Completed"),
        (number, "retry_loop", "Completed"),
        (number, "normalise_response", verdict),
    ]


def path_of(caplog: pytest.LogCaptureFixture, agent: AIAgent) -> list[tuple[int, str, str]]:
    async def main() -> Any:
        async with agent:
            return await agent.run_conversation("a secret plan")

    with caplog.at_level(logging.DEBUG, "hermes_loop"):
        result = asyncio.run(main())
    lines = [record for record in caplog.records if record.name == "hermes_loop.turn"]
    for record in lines:
        fields = vars(record)
        assert (fields["session"], fields["turn"]) == ("s", result["turn_id"])
        line = record.getMessage()
        count = f"api_call_count={fields['api_call_count']}"
        assert f"session=s turn={result['turn_id']} {count} phase={fields['phase']} " in line
        assert f"verdict={fields['verdict']}" in line
        assert "a secret plan" not in line
    return [(vars(r)["api_call_count"], vars(r)["phase"], vars(r)["verdict"]) for r in lines]


def test_a_turn_with_one_round_of_tools(caplog: pytest.LogCaptureFixture) -> None:
    agent = AIAgent(
        provider=ScriptedProvider([calls(call("look")), text("ok")]),
        tools=SimpleExecutor({"look": look}),
        session_db=MemoryStore(),
        session_id="s",
    )
    assert path_of(caplog, agent) == [
        *ADMITTED,
        (0, "build_turn_context", "Proceed"),
        *iteration(0),
        *answered(1, "RunTools"),
        (1, "run_tool_round", "Continue"),
        *iteration(1),
        *answered(2, "Answer"),
        (2, "finish_text_response", "Finish"),
        (2, "finalize_turn", "text_response"),
        *given_back(2),
    ]


def test_retries_a_changed_request_a_fallback_a_failing_hook_and_a_spent_budget(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Bad:
        async def pre_model(self, context: HookContext, message: UserMessage) -> str | None:
            raise ValueError("no")

    no_seed = ProviderError("no", kind=ErrorKind.UNSUPPORTED_PARAMETER, parameter="seed")
    again = failure(ErrorKind.SERVER, retry_after_s=0)
    first = ScriptedProvider(
        [error(again), error(no_seed), broken(text("half"), after=1, error=ErrorKind.BILLING)]
    )
    usage = Usage(input_tokens=90, output_tokens=9)
    second = ScriptedProvider([calls(call("look"), usage=usage), text("so far")], name="other")
    agent = AIAgent(
        provider=first,
        fallback_models=[second],
        tools=SimpleExecutor({"look": look}),
        session_db=MemoryStore(),
        session_id="s",
        seed=1,
        budget=Budget(tokens=50),
        hooks=[Bad()],
    )
    assert path_of(caplog, agent) == [
        *ADMITTED,
        (0, "pre_model", "HookFailed"),
        (0, "build_turn_context", "Proceed"),
        *iteration(0),
        *failed(1, "Retry"),
        *failed(2, "Resend"),
        (2, "retry_loop", "Recheck"),
        *request(2),
        *failed(3, "Fallback"),
        (3, "fall_back", "Fallback"),
        (3, "retry_loop", "Recheck"),
        *request(3),
        *answered(4, "RunTools"),
        (4, "run_tool_round", "Continue"),
        *iteration(4),
        *answered(5, "Answer"),
        (5, "finish_text_response", "Finish"),
        (5, "finalize_turn", "budget_exhausted"),
        *given_back(5),
    ]


def test_a_turn_that_sends_nothing_is_finalized_too(caplog: pytest.LogCaptureFixture) -> None:
    agent = AIAgent(
        provider=ScriptedProvider([error(ErrorKind.AUTH)]), session_db=MemoryStore(), session_id="s"
    )
    assert (
        path_of(caplog, agent)[-7:]
        == [
            (1, "perform_api_call", "Failed"),
            (1, "handle_api_error", "Terminate"),
            (1, "retry_loop", "Stop"),
            (1, "finalize_turn", "provider_error"),
            *given_back(1),
        ][-7:]
    )


def test_a_host_that_asked_for_a_text_alone_finds_in_the_log_why_there_is_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = AIAgent(provider=ScriptedProvider([error(ErrorKind.AUTH), text("Here.")]))

    async def main() -> list[str | None]:
        async with agent:
            return [await agent.chat("a secret plan"), await agent.chat("again")]

    assert asyncio.run(main()) == [None, "Here."]
    [line] = [record for record in caplog.records if record.name == "hermes_loop.turn"]
    assert line.levelno == logging.WARNING
    assert "no answer: provider_error: " in line.getMessage()
    assert "a secret plan" not in line.getMessage()
