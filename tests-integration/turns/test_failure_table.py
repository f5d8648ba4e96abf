"""What becomes of a turn at each kind of failure, and its path in the log: real SQLite, real tools."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_loop import AIAgent, Compressed, CompressionContext, CompressionPlan, CompressionSettings
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ErrorKind,
    Message,
    ModelInfo,
    StoreError,
    ToolMessage,
    UserMessage,
    content_text,
    validate,
)
from hermes_messages.openai_shape import to_dicts
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import (
    ScriptedProvider,
    ScriptStep,
    broken,
    call,
    calls,
    error,
    failure,
    hang,
    text,
)
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-tools", "hermes-store")

SHELL = calls(call("terminal", {"command": "echo ran >> ran.txt"}))
LONG = to_dicts(
    [
        message
        for number in range(12)
        for message in (UserMessage(f"q{number}"), AssistantMessage("long " * 60))
    ]
)


class Turn:
    """One turn of an agent with a real store, and what was left of it."""

    def __init__(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.folder = folder
        self.caplog = caplog
        self.path: list[tuple[int, str, str]] = []
        self.stored: list[Message] = []

    async def run(
        self,
        provider: ScriptedProvider,
        meanwhile: Callable[[AIAgent], Awaitable[None]] | None = None,
        store: SessionDB | None = None,
        history: Any = None,
        **options: Any,
    ) -> ConversationResult:
        self.caplog.clear()
        self.caplog.set_level(logging.DEBUG, "hermes_loop.turn")
        async with store or SessionDB(self.folder / "state.db") as opened:
            settings: dict[str, Any] = {
                "enabled_toolsets": ["terminal"],
                "cwd": self.folder,
                "session_id": "s",
                **options,
            }
            async with AIAgent(provider=provider, session_db=opened, **settings) as agent:
                turn = asyncio.create_task(agent.run_conversation("go", conversation_history=history))
                if meanwhile is not None:
                    await meanwhile(agent)
                result = await turn
            self.stored = [row.message for row in await opened.get_messages("s")]
        records = [vars(record) for record in self.caplog.records if record.name == "hermes_loop.turn"]
        self.path = [(one["api_call_count"], one["phase"], one["verdict"]) for one in records]
        self.check(result)
        return result

    def check(self, result: ConversationResult) -> None:
        """What holds for every way out."""
        phases = [phase for _, phase, verdict in self.path if verdict != "StepFailed"]
        assert phases.count("finalize_turn") == 1
        assert phases[:3] == ["cancel_background", "lease.admit", "lease.start"]
        end = phases.index("finalize_turn")
        assert phases[end + 1 :] == ["lease.stop", "lease.join", "lease.clear", "lease.release"]
        assert validate(result["transcript"]) == []
        with closing(sqlite3.connect(self.folder / "state.db")) as database:
            holders = database.execute("SELECT holder FROM leases").fetchall()
        assert all(holder == ("another",) for holder in holders)

    def verdicts(self, phase: str) -> list[str]:
        return [verdict for _, name, verdict in self.path if name == phase]

    def ran(self) -> int:
        """How often the shell command ran."""
        file = self.folder / "ran.txt"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Turn:
    return Turn(tmp_path, caplog)


def windowed(
    step: Callable[[ChatRequest], ScriptStep], window: int, name: str = "scripted"
) -> ScriptedProvider:
    return ScriptedProvider(step, model_info=ModelInfo(context_window=window), name=name)


def summing_up(request: ChatRequest) -> bool:
    return "memory of an" in content_text(request.history[0].content)


class TestFailuresAndWhereATurnGoesOn:
    def test_a_compression_that_times_out_before_the_call_ends_the_turn_and_keeps_the_transcript(
        self, turn: Turn
    ) -> None:
        class Slow:
            async def compress(
                self, messages: Sequence[Message], plan: CompressionPlan, context: CompressionContext
            ) -> Compressed:
                await asyncio.Event().wait()
                raise AssertionError

        provider = windowed(lambda _: text("never"), 1000)
        result = asyncio.run(
            turn.run(
                provider, history=LONG, compressor=Slow(), compression=CompressionSettings(timeout_s=0.01)
            )
        )
        assert result["turn_exit_reason"] == "context_compression_timeout"
        assert provider.requests == []
        assert turn.stored == list(result["transcript"])
        assert len(turn.stored) == len(LONG) + 1
        assert turn.verdicts("run_preflight_gate") == ["Compress"]

    def test_a_failure_that_may_pass_is_counted_and_asked_again(self, turn: Turn) -> None:
        again = error(failure(ErrorKind.OVERLOADED, retry_after_s=0))
        result = asyncio.run(turn.run(ScriptedProvider([again, again, text("there")])))
        assert (result["final_response"], result["api_calls"]) == ("there", 3)
        assert turn.verdicts("handle_api_error") == ["Retry", "Retry"]
        assert turn.verdicts("run_preflight_gate") == ["Proceed"]
        assert turn.stored == list(result["transcript"])

    def test_a_fallback_leaves_the_retry_loop_and_is_weighed_against_the_new_window(self, turn: Turn) -> None:
        def small(request: ChatRequest) -> ScriptStep:
            return text("in short") if summing_up(request) else text("there")

        first = windowed(lambda _: error(ErrorKind.BILLING), 100_000, "large")
        second = windowed(small, 1000, "small")
        result = asyncio.run(turn.run(first, history=LONG, fallback_models=[second]))
        assert (result["final_response"], result["provider"]) == ("there", "small")
        path = [(phase, verdict) for _, phase, verdict in turn.path]
        at = path.index(("handle_api_error", "Fallback"))
        assert path[at + 1 : at + 6] == [
            ("fall_back", "Fallback"),
            ("retry_loop", "Recheck"),
            ("assemble_api_request", "ChatRequest"),
            ("build_api_request", "ChatRequest"),
            ("run_preflight_gate", "Compress"),
        ]
        assert turn.verdicts("run_preflight_gate") == ["Proceed", "Compress", "Proceed"]
        assert len(turn.stored) < len(LONG)
        assert turn.stored == list(result["transcript"])

    def test_arguments_that_are_no_json_get_a_paired_error_and_the_turn_goes_on(self, turn: Turn) -> None:
        provider = ScriptedProvider([calls(call("terminal", "{nonsense")), SHELL, text("done")])
        result = asyncio.run(turn.run(provider))
        assert result["completed"]
        results = [message for message in turn.stored if isinstance(message, ToolMessage)]
        assert [message.status for message in results] == ["error", "ok"]
        assert turn.verdicts("run_tool_round") == ["Continue", "Continue"]
        assert turn.ran() == 1

    def test_an_interrupt_while_tools_run_completes_every_result(self, turn: Turn) -> None:
        async def stop(agent: AIAgent) -> None:
            while not (turn.folder / "begun").exists():  # noqa: ASYNC110 - a file sends no event
                await asyncio.sleep(0.01)
            assert agent.interrupt()

        provider = ScriptedProvider(
            [
                calls(
                    call("terminal", {"command": "touch begun; sleep 600"}),
                    call("terminal", {"command": "echo ran >> ran.txt"}),
                ),
                text("never"),
            ]
        )
        result = asyncio.run(turn.run(provider, stop))
        assert (result["turn_exit_reason"], result["interrupted"]) == ("interrupted", True)
        assert turn.stored == list(result["transcript"])
        results = [message for message in turn.stored if isinstance(message, ToolMessage)]
        assert len(results) == 2
        assert all(message.status in {"interrupted", "not_started"} for message in results)
        assert isinstance(turn.stored[-1], AssistantMessage)
        assert (len(provider.requests), turn.ran()) == (1, 0)

    @pytest.mark.parametrize("method", ["begin_tool_round", "append_messages_batch"])
    def test_no_tool_runs_after_a_write_that_failed(self, turn: Turn, method: str) -> None:
        class Failing(SessionDB):
            async def begin_tool_round(self, *arguments: Any, **options: Any) -> Any:
                raise StoreError("the disk is full")

        class Refusing(SessionDB):
            async def append_messages_batch(self, *arguments: Any, **options: Any) -> Any:
                raise StoreError("the disk is full")

        kind = Failing if method == "begin_tool_round" else Refusing
        provider = ScriptedProvider([SHELL, text("never")])
        result = asyncio.run(turn.run(provider, store=kind(turn.folder / "state.db")))
        assert result["turn_exit_reason"] == "session_persistence_failed"
        assert (result["failed"], result["saved"], turn.ran()) == (True, False, 0)
        assert "the disk is full" in str(result["error"])

    def test_an_exhausted_budget_has_one_grace_call_and_an_explanation(self, turn: Turn) -> None:
        result = asyncio.run(turn.run(ScriptedProvider([SHELL, text("it ran")]), max_iterations=1))
        assert (result["turn_exit_reason"], result["final_response"]) == ("max_iterations", "it ran")
        explained = asyncio.run(
            turn.run(ScriptedProvider([SHELL, error(ErrorKind.AUTH)]), max_iterations=1, session_id="t")
        )
        assert explained["turn_exit_reason"] == "max_iterations"
        assert "limit of 1 model calls" in str(explained["final_response"])
        assert turn.ran() == 2

    def test_a_lost_lease_interrupts_hard_and_the_old_loop_writes_nothing_more(self, turn: Turn) -> None:
        async def take_over(_: AIAgent) -> None:
            while not (turn.folder / "begun").exists():  # noqa: ASYNC110 - a file sends no event
                await asyncio.sleep(0.01)
            with closing(sqlite3.connect(turn.folder / "state.db")) as database, database:
                database.execute("UPDATE leases SET holder = 'another', number = number + 1000")

        provider = ScriptedProvider(
            [calls(call("terminal", {"command": "touch begun; sleep 600; touch late"})), text("never")]
        )
        result = asyncio.run(turn.run(provider, take_over, lease_ttl_s=0.3))
        assert (result["turn_exit_reason"], result["saved"]) == ("lease_lost", False)
        assert [type(message) for message in turn.stored] == [UserMessage, AssistantMessage]
        assert len(result["transcript"]) > len(turn.stored)
        assert not (turn.folder / "late").exists()
        assert len(provider.requests) == 1


class TestWhatATurnIs:
    def test_the_lease_goes_around_the_loop_and_comes_back_whatever_the_loop_does(self, turn: Turn) -> None:
        """`Turn.check` reads the order off the log; here the loop ends by a bug."""

        class Bug(ScriptedProvider):
            def stream(self, request: ChatRequest) -> Any:
                raise RuntimeError("a bug")

        result = asyncio.run(turn.run(Bug([])))
        assert result["turn_exit_reason"] == "internal_error"
        assert turn.stored == [UserMessage("go")]

    def test_each_request_passes_the_gate_for_its_size_changes(self, turn: Turn) -> None:
        """After results, after a compression, after a fallback."""
        main = iter([calls(call("terminal", {"command": "seq 1 400"})), text("done")])

        def step(request: ChatRequest) -> ScriptStep:
            return text("in short") if summing_up(request) else next(main)

        result = asyncio.run(turn.run(windowed(step, 1900), history=LONG))
        assert result["completed"], result["error"]
        assert turn.verdicts("run_preflight_gate") == ["Proceed", "Compress", "Proceed"]
        assert turn.verdicts("perform_api_call") == ["Completed", "Completed"]

    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            ([text("whole")], "text_response"),
            ([broken(text("half an answer", chunk_size=1), after=4, error=ErrorKind.AUTH)], "provider_error"),
        ],
    )
    def test_an_answer_and_a_stop_both_go_through_the_finalizer_to_a_whole_result(
        self, turn: Turn, script: list[ScriptStep], reason: str
    ) -> None:
        result = asyncio.run(turn.run(ScriptedProvider(script)))
        assert result["turn_exit_reason"] == reason
        assert set(result) >= set(ConversationResult.__required_keys__)
        assert turn.verdicts("finalize_turn") == [reason]

    def test_a_round_of_tools_costs_one_more_call_which_sees_the_pair(self, turn: Turn) -> None:
        provider = ScriptedProvider([SHELL, text("done")])
        result = asyncio.run(turn.run(provider))
        assert result["api_calls"] == 2
        asked, answered = list(provider.requests[1].history)[-2:]
        assert isinstance(asked, AssistantMessage)
        assert isinstance(answered, ToolMessage)
        assert answered.tool_call_id == asked.tool_calls[0].id
        counts = [count for count, phase, _ in turn.path if phase == "run_preflight_gate"]
        assert counts == [0, 1]

    def test_a_turn_whose_loop_is_left_early_is_still_closed_and_stored(self, turn: Turn) -> None:
        async def stop(agent: AIAgent) -> None:
            while not provider.live_streams:  # noqa: ASYNC110 - the provider tells in no other way
                await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0)
            agent.interrupt()

        provider = ScriptedProvider([SHELL, hang(text("half an answer", chunk_size=1), after=4)])

        async def stop_in_second(agent: AIAgent) -> None:
            while len(provider.requests) < 2:  # noqa: ASYNC110 - the provider tells in no other way
                await asyncio.sleep(0)
            await stop(agent)

        result = asyncio.run(turn.run(provider, stop_in_second))
        assert result["turn_exit_reason"] == "interrupted"
        assert turn.stored == list(result["transcript"])
        assert isinstance(turn.stored[-1], AssistantMessage)
        assert content_text(turn.stored[-1].content).startswith("half")

    def test_nothing_of_a_turn_that_went_wrong_reaches_the_next(self, tmp_path: Path) -> None:
        """The failed write, the refreshed credentials, usage: all begin anew."""

        class Once(SessionDB):
            broken = True

            async def begin_tool_round(self, *arguments: Any, **options: Any) -> Any:
                if self.broken:
                    self.broken = False
                    raise StoreError("the disk is full")
                return await super().begin_tool_round(*arguments, **options)

        async def main() -> None:
            ready = error(failure(ErrorKind.AUTH, retry_after_s=0))
            provider = ScriptedProvider([ready, ready, SHELL, ready, ready, SHELL, text("done")])
            async with (
                Once(tmp_path / "state.db") as store,
                AIAgent(
                    provider=provider, session_db=store, enabled_toolsets=["terminal"], cwd=tmp_path
                ) as agent,
            ):
                first = await agent.run_conversation("go")
                second = await agent.run_conversation("again")
            assert first["turn_exit_reason"] == "session_persistence_failed"
            assert (second["turn_exit_reason"], second["api_calls"]) == ("text_response", 4)
            assert second["error"] is None
            assert second["cleanup_errors"] == []
            assert second["saved"]

        asyncio.run(main())
