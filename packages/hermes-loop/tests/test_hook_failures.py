"""Hooks that fail, stop the turn or hang: none of them costs a turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hermes_loop import HookFailed, TurnEvent
from hermes_messages import ErrorKind, ToolMessage, TurnStoppedError, UserMessage, validate
from hermes_messages.protocols import HookContext
from hermes_messages.testing import MemoryStore, ScriptStep, broken, call, calls, failure, hang, text
from hook_help import ABILITIES, failing
from loop_help import make, run


class TestFailures:
    @pytest.mark.parametrize("ability", ABILITIES)
    @pytest.mark.parametrize(
        "problem", [ZeroDivisionError("oops"), asyncio.CancelledError("inner")], ids=repr
    )
    def test_a_failing_hook_is_reported_and_costs_nothing(
        self, ability: str, problem: BaseException, caplog: pytest.LogCaptureFixture
    ) -> None:
        events: list[TurnEvent] = []
        store = MemoryStore()
        agent = make(
            calls(call("look", {"at": "a"})),
            text("ok"),
            hooks=[failing(ability, problem)],
            event_callback=events.append,
            session_db=store,
        )
        with caplog.at_level(logging.WARNING, "hermes_loop.turn"):
            [result] = run(agent, "go")
        assert (result["final_response"], result["turn_exit_reason"]) == ("ok", "text_response")
        assert [m.content for m in result["transcript"] if isinstance(m, ToolMessage)] == ["seen a"]
        [told] = result["cleanup_errors"]
        assert told.startswith(f"hook Bad.{ability}: ")
        assert any(isinstance(event, HookFailed) for event in events)
        failures = [record for record in caplog.records if vars(record).get("verdict") == "HookFailed"]
        assert failures
        assert {vars(record)["turn"] for record in failures} == {result["turn_id"]}
        assert store.held_lease("s") is None

    @pytest.mark.parametrize(
        "ability", [a for a in ABILITIES if not a.startswith(("sync", "post", "around"))]
    )
    def test_a_hook_that_returns_something_else_is_a_failing_one(self, ability: str) -> None:
        agent = make(calls(call("look", {"at": "a"})), text("ok"), hooks=[failing(ability, 5)])
        [result] = run(agent, "go")
        assert result["final_response"] == "ok"
        assert f"hook Bad.{ability}: TypeError" in result["cleanup_errors"][0]

    def test_a_result_of_another_call_is_refused(self) -> None:
        other = ToolMessage("someone else's", "x")
        agent = make(calls(call("look")), text("ok"), hooks=[failing("transform_tool_result", other)])
        [result] = run(agent, "go")
        assert validate(result["transcript"]) == []
        assert "result of the same call" in result["cleanup_errors"][0]

    def test_a_failure_when_leaving_is_in_the_result_too(self) -> None:
        class Bad:
            @asynccontextmanager
            async def around_turn(self, context: HookContext) -> AsyncIterator[None]:
                yield
                raise OSError("the ledger is full")

        [result] = run(make(text("ok"), hooks=[Bad()]), "go")
        assert result["final_response"] == "ok"
        assert result["cleanup_errors"] == ["hook Bad.around_turn: OSError: the ledger is full"]


class TestStopping:
    @pytest.mark.parametrize("ability", [a for a in ABILITIES if not a.startswith(("sync", "post"))])
    def test_a_hook_may_end_the_turn(self, ability: str) -> None:
        store = MemoryStore()
        hook = failing(ability, TurnStoppedError("not today"))
        agent = make(
            calls(call("look", {"at": "a"}), text="looking"), text("ok"), hooks=[hook], session_db=store
        )
        [result] = run(agent, "go")
        assert (result["turn_exit_reason"], result["error"]) == ("stopped_by_hook", "not today")
        assert (result["completed"], result["failed"], result["final_response"]) == (False, False, None)
        assert validate(store.messages("s")) == []
        assert store.held_lease("s") is None
        before_the_message = ability in {"around_turn", "pre_model", "prefetch_memory"}
        assert (store.messages("s") == []) is before_the_message
        if ability == "transform_tool_result":
            results = [m for m in store.messages("s") if isinstance(m, ToolMessage)]
            assert [m.content for m in results] == ["seen a"]

    def test_an_answer_that_a_hook_refuses_is_not_kept(self) -> None:
        store = MemoryStore()
        hook = failing("transform_response", TurnStoppedError("rude"))
        [result] = run(make(text("something rude"), hooks=[hook], session_db=store), "go")
        assert store.messages("s") == [UserMessage("go")]
        assert result["final_response"] is None

    @pytest.mark.parametrize("ability", ["sync_memory", "post_turn"])
    def test_what_is_over_can_not_be_stopped(self, ability: str) -> None:
        [result] = run(make(text("ok"), hooks=[failing(ability, TurnStoppedError("late"))]), "go")
        assert (result["turn_exit_reason"], result["final_response"]) == ("text_response", "ok")
        assert "the turn is over" in result["cleanup_errors"][0]


class Hanging:
    """Hangs in one ability; `began` tells when."""

    def __init__(self, ability: str) -> None:
        self.began = asyncio.Event()
        self.ended_by: list[str] = []

        async def wait(*_: object) -> None:
            self.began.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.ended_by.append(ability)
                raise

        @asynccontextmanager
        async def around(context: HookContext) -> AsyncIterator[None]:
            await wait()
            yield

        setattr(self, ability, around if ability == "around_turn" else wait)


class TestHanging:
    @pytest.mark.parametrize("ability", [a for a in ABILITIES if not a.startswith(("sync", "post"))])
    def test_an_interrupt_ends_a_hook_that_hangs(self, ability: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hermes_loop.hook_calls.CALLBACK_GRACE_S", 0.01)

        async def main() -> None:
            hook = Hanging(ability)
            async with make(calls(call("look")), text("ok"), hooks=[hook]) as agent:
                turn = asyncio.create_task(agent.run_conversation("go"))
                await hook.began.wait()
                agent.interrupt()
                result = await turn
                assert result["turn_exit_reason"] == "interrupted"
                assert hook.ended_by == [ability]
                assert validate(result["transcript"]) == []
                assert any("cut short by an interrupt" in problem for problem in result["cleanup_errors"])
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main())

    @pytest.mark.parametrize("ability", ABILITIES)
    def test_a_cancellation_ends_a_hook_that_hangs_and_is_raised(
        self, ability: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hermes_loop.hook_calls.AFTER_TURN_S", 0.05)
        monkeypatch.setattr("hermes_loop.hook_calls.AFTER_CANCEL_S", 0.05)

        async def main() -> None:
            store = MemoryStore()
            hook = Hanging(ability)
            agent = make(calls(call("look")), text("ok"), text("next"), hooks=[hook], session_db=store)
            async with agent:
                turn = asyncio.create_task(agent.run_conversation("go"))
                await hook.began.wait()
                turn.cancel()
                await asyncio.wait({turn})
                assert turn.cancelled()
                assert validate(store.messages("s")) == []
                assert store.held_lease("s") is None
            assert hook.ended_by
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main())

    def test_hooks_after_the_turn_have_limited_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hermes_loop.hook_calls.AFTER_TURN_S", 0.05)
        hook = failing("post_turn", None)

        async def main() -> None:
            slow = Hanging("post_turn")
            async with make(text("ok"), hooks=[slow, hook]) as agent:
                result = await agent.run_conversation("go")
                assert result["final_response"] == "ok"
                assert "took longer than 0.05 s" in result["cleanup_errors"][0]

        asyncio.run(main())

    @pytest.mark.parametrize("name", ["stream_delta", "event", "step", "status"])
    def test_an_interrupt_ends_a_callback_that_hangs(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hermes_loop.events.CALLBACK_GRACE_S", 0.01)

        async def main() -> None:
            began = asyncio.Event()

            async def wait(*_: object) -> None:
                began.set()
                await asyncio.sleep(3600)

            again = failure(ErrorKind.TRANSPORT, retry_after_s=0)
            script: list[ScriptStep] = [
                broken(text("ab", chunk_size=1), after=1, error=again),
                hang(text("abc"), after=1),
            ]
            agent = make(*script, **{f"{name}_callback": wait})
            async with agent:
                turn = asyncio.create_task(agent.run_conversation("go"))
                await began.wait()
                agent.interrupt()
                result = await turn
                assert result["turn_exit_reason"] == "interrupted"
                told = any(f"callback {name}" in problem for problem in result["cleanup_errors"])
                # What hangs inside the model's stream is ended with the stream, at once.
                assert told is (name != "stream_delta")

        asyncio.run(main())

    def test_a_callback_that_is_nearly_done_is_not_cut_short(self) -> None:
        async def main() -> None:
            began, go_on, shown = asyncio.Event(), asyncio.Event(), []

            async def show(number: int) -> None:
                began.set()
                await go_on.wait()
                shown.append(number)

            async with make(text("abc"), step_callback=show) as agent:
                turn = asyncio.create_task(agent.run_conversation("go"))
                await began.wait()
                agent.interrupt()
                go_on.set()
                result = await turn
                assert shown == [1]
                assert result["cleanup_errors"] == []

        asyncio.run(main())
