"""Turns that do not begin with the model, or do without one: same durability, same finalizer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hermes_loop import AIAgent, WholeTurnAnswer, WholeTurnContext
from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ErrorKind,
    InvariantError,
    StoreError,
    TextDelta,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    validate,
)
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    SimpleExecutor,
    ToolDouble,
    call,
    failure,
    hang,
    text,
)
from loop_help import later

CALL = AssistantMessage(None, tool_calls=(ToolCall("1", "edit", "{}"), ToolCall("2", "edit", "{}")))


class TestPrelude:
    def test_the_calls_run_and_are_stored_before_the_model_is_asked(self) -> None:
        async def main() -> None:
            store, tool = MemoryStore(), ToolDouble("look", ["sunny"])
            provider = ScriptedProvider([text("It is sunny.")])
            agent = AIAgent(
                provider=provider,
                tools=SimpleExecutor([tool]),
                session_db=store,
                session_id="s",
                max_iterations=1,
            )
            async with agent:
                result = await agent.run_conversation(
                    "Weather?", prelude=[call("look", {"at": "Ulm"}), call("look")]
                )
            assert tool.arguments == [{"at": "Ulm"}, {}]
            asked = [type(m) for m in provider.requests[0].history][1:]
            assert asked == [UserMessage, AssistantMessage, ToolMessage, ToolMessage]
            assert (result["final_response"], result["api_calls"]) == ("It is sunny.", 1)
            assert result["saved"]
            assert tuple(store.messages("s")) == result["transcript"]
            assert validate(result["transcript"]) == []

        asyncio.run(main())

    def test_its_steps_and_tools_are_balanced_events(self) -> None:
        async def main() -> None:
            agent = AIAgent(
                provider=ScriptedProvider([text("ok")]), tools=SimpleExecutor([ToolDouble("look")])
            )
            async with agent:
                names = [type(event).__name__ async for event in agent.stream("go", prelude=[call("look")])]
            assert names.count("StepStarted") == names.count("StepEnded") == 2
            assert names.count("ToolStarted") == names.count("ToolEnded") == 1
            assert names[-1] == "TurnEnded"

        asyncio.run(main())

    def test_one_that_waits_for_approval_suspends_the_turn_before_any_model_call(self) -> None:
        async def main() -> None:
            agent = AIAgent(
                provider=ScriptedProvider([text("done")]),
                tools=SimpleExecutor([ToolDouble("drop")], needs_approval=["drop"]),
                approval_callback=later,
            )
            async with agent:
                result = await agent.run_conversation("go", prelude=[call("drop", id="1")])
                assert (result["turn_exit_reason"], result["api_calls"]) == ("approval_pending", 0)
                assert (await agent.resume({"1": True}))["final_response"] == "done"

        asyncio.run(main())

    def test_a_store_that_fails_runs_no_tool_of_it(self) -> None:
        async def main() -> None:
            store, tool = MemoryStore(), ToolDouble("look")
            store.fail_next("begin_tool_round", StoreError("full"), times=2)
            agent = AIAgent(provider=ScriptedProvider([]), tools=SimpleExecutor([tool]), session_db=store)
            async with agent:
                result = await agent.run_conversation("go", prelude=[call("look")])
            assert result["turn_exit_reason"] == "session_persistence_failed"
            assert tool.arguments == []

        asyncio.run(main())

    @pytest.mark.parametrize(
        "prelude",
        [
            ["look"],
            [ToolCall("1", " ", "{}")],
            [None],
            [ToolCall(1, "look", "{}")],  # type: ignore[arg-type]
            [ToolCall("1", "look", {"at": 1})],  # type: ignore[arg-type]
            [ToolCall("1", 2, "{}")],  # type: ignore[arg-type]
        ],
    )
    def test_what_is_no_call_is_refused_before_anything_happens(self, prelude: list[object]) -> None:
        async def main() -> None:
            store = MemoryStore()
            agent = AIAgent(provider=ScriptedProvider([]), session_db=store)
            with pytest.raises(ConfigurationError, match="prelude"):
                await agent.run_conversation("go", prelude=prelude)  # type: ignore[arg-type]
            assert store.calls == []

        asyncio.run(main())


Work = Callable[[WholeTurnContext], Awaitable[WholeTurnAnswer]]


class Runtime:
    """A runtime whose turns are functions of a test."""

    name = "outside"

    def __init__(self, *work: Work) -> None:
        self._work = list(work)
        self.contexts: list[WholeTurnContext] = []
        self.cancelled = 0

    async def run_whole_turn(self, context: WholeTurnContext) -> WholeTurnAnswer:
        self.contexts.append(context)
        try:
            return await self._work.pop(0)(context)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def edits(context: WholeTurnContext) -> WholeTurnAnswer:
    await context.show(TextDelta("Let me edit. "))
    await context.record(CALL)
    await context.record(ToolMessage("2", "two"))
    await context.record(ToolMessage("1", "one"))
    await context.show(TextDelta("Edited."))
    return WholeTurnAnswer(
        message=AssistantMessage("Edited."), usage=Usage(input_tokens=7, output_tokens=3), api_calls=2
    )


def make(runtime: Runtime, **others: object) -> tuple[AIAgent, MemoryStore]:
    store = MemoryStore()
    return AIAgent(runtime=runtime, session_db=store, session_id="s", **others), store  # type: ignore[arg-type]


class TestWholeTurn:
    def test_its_rounds_answer_and_usage_are_those_of_the_turn(self) -> None:
        async def main() -> None:
            runtime = Runtime(edits, edits)
            shown: list[str] = []
            agent, store = make(runtime, stream_delta_callback=shown.append)
            async with agent:
                result = await agent.run_conversation("Edit it.")
                assert (result["final_response"], result["turn_exit_reason"]) == ("Edited.", "text_response")
                again = await agent.run_conversation("Once more.")
            assert (result["provider"], result["api_calls"], result["input_tokens"]) == ("outside", 2, 7)
            assert "".join(shown).startswith("Let me edit. Edited.")
            assert [m["role"] for m in result["messages"]] == [
                "user",
                "assistant",
                "tool",
                "tool",
                "assistant",
            ]
            assert [m["content"] for m in result["messages"][2:4]] == ["one", "two"]
            assert tuple(store.messages("s")) == again["transcript"]
            assert validate(again["transcript"]) == []
            assert runtime.contexts[1].messages == (*result["transcript"], UserMessage("Once more."))
            assert "assistant" in runtime.contexts[0].system_prompt
            assert store.held_lease("s") is None

        asyncio.run(main())

    def test_an_interrupt_stops_it_and_every_call_has_a_result(self) -> None:
        async def main() -> None:
            async def interrupts(context: WholeTurnContext) -> WholeTurnAnswer:
                await context.show(TextDelta("half"))
                await context.record(CALL)
                await context.record(ToolMessage("1", "one"))
                agent.interrupt()
                await asyncio.Event().wait()
                raise AssertionError

            runtime = Runtime(interrupts)
            agent, store = make(runtime)
            async with agent:
                result = await agent.run_conversation("go")
            assert (result["turn_exit_reason"], runtime.cancelled) == ("interrupted", 1)
            statuses = [m.status for m in store.messages("s") if isinstance(m, ToolMessage)]
            assert statuses == ["ok", "interrupted"]
            assert validate(store.messages("s")) == []

        asyncio.run(main())

    def test_cancelled_anywhere_it_leaves_a_valid_session(self) -> None:
        async def one(k: int) -> bool:
            runtime = Runtime(edits, edits)
            agent, store = make(runtime)
            task = asyncio.create_task(agent.run_conversation("go"))
            steps = 0
            while not task.done() and steps < k:
                await asyncio.sleep(0)
                steps += 1
            finished = task.done()
            task.cancel()
            await asyncio.wait({task})
            assert asyncio.all_tasks() == {asyncio.current_task()}, k
            assert store.held_lease("s") is None, k
            assert validate(store.messages("s")) == [], k
            runtime._work = [edits]
            result = await agent.run_conversation("again")
            assert result["final_response"] == "Edited.", k
            assert tuple(store.messages("s")) == result["transcript"], k
            await agent.close()
            return finished

        async def main() -> None:
            k = 0
            while not await one(k):
                k += 1
            print(f"whole turn cancelled at {k} points")
            assert k > 20

        asyncio.run(main())

    def test_a_failure_of_the_runtime_is_a_provider_error_with_what_was_done_kept(self) -> None:
        async def fails(context: WholeTurnContext) -> WholeTurnAnswer:
            await context.record(CALL)
            raise failure(ErrorKind.BILLING)

        async def main() -> None:
            agent, store = make(Runtime(fails))
            async with agent:
                result = await agent.run_conversation("go")
            assert (result["turn_exit_reason"], result["error_kind"]) == ("provider_error", ErrorKind.BILLING)
            assert validate(store.messages("s")) == []
            assert len(store.messages("s")) == 5

        asyncio.run(main())

    def test_messages_out_of_order_are_refused_one_by_one(self) -> None:
        async def confused(context: WholeTurnContext) -> WholeTurnAnswer:
            with pytest.raises(InvariantError):
                await context.record(ToolMessage("1", "no call yet"))
            with pytest.raises(InvariantError):
                await context.record(AssistantMessage("an answer"))
            await context.record(CALL)
            with pytest.raises(InvariantError):
                await context.record(CALL)
            with pytest.raises(InvariantError):
                await context.record(ToolMessage("3", "of no call"))
            return WholeTurnAnswer(message=AssistantMessage("Done."))

        async def main() -> None:
            agent, store = make(Runtime(confused))
            async with agent:
                result = await agent.run_conversation("go")
            assert result["final_response"] == "Done."
            assert validate(store.messages("s")) == []

        asyncio.run(main())

    def test_a_write_that_fails_ends_the_turn(self) -> None:
        async def main() -> None:
            agent, store = make(Runtime(edits))
            store.fail_next("begin_tool_round", StoreError("full"))
            async with agent:
                result = await agent.run_conversation("go")
            assert result["turn_exit_reason"] == "session_persistence_failed"
            assert validate(store.messages("s")) == []

        asyncio.run(main())

    def test_what_is_no_answer_is_an_error_and_no_interrupt(self) -> None:
        async def nothing(_: WholeTurnContext) -> None:
            return None

        async def main() -> None:
            agent, _ = make(Runtime(nothing))  # type: ignore[arg-type]
            async with agent:
                result = await agent.run_conversation("go")
            assert result["turn_exit_reason"] == "internal_error"
            assert "must return a WholeTurnAnswer, not NoneType" in str(result["error"])

        asyncio.run(main())

    def test_what_a_runtime_left_running_records_nothing_in_a_later_turn(self) -> None:
        runtime = Runtime()

        async def fails(_: WholeTurnContext) -> WholeTurnAnswer:
            raise failure(ErrorKind.BILLING)

        async def answers(_: WholeTurnContext) -> WholeTurnAnswer:
            with pytest.raises(InvariantError, match="has ended"):
                await runtime.contexts[0].record(CALL)
            return WholeTurnAnswer(message=AssistantMessage("Done."))

        async def main() -> None:
            runtime._work += [fails, answers]
            agent, store = make(runtime)
            async with agent:
                await agent.run_conversation("go")
                with pytest.raises(InvariantError, match="has ended"):
                    await runtime.contexts[0].record(CALL)
                assert (await agent.run_conversation("again"))["final_response"] == "Done."
            assert [type(m).__name__ for m in store.messages("s")] == [
                "UserMessage",
                "UserMessage",
                "AssistantMessage",
            ]

        asyncio.run(main())

    @pytest.mark.parametrize("message", [AssistantMessage(" "), CALL])
    def test_an_answer_that_says_nothing_is_told(self, message: AssistantMessage) -> None:
        async def silent(_: WholeTurnContext) -> WholeTurnAnswer:
            return WholeTurnAnswer(message=message)

        async def main() -> None:
            agent, _ = make(Runtime(silent))
            async with agent:
                assert (await agent.run_conversation("go"))["turn_exit_reason"] == "empty_response"

        asyncio.run(main())

    @pytest.mark.parametrize(
        "others",
        [
            {"provider": ScriptedProvider([hang()])},
            {"temperature": 0.5},
            {"fallback_models": ["a/b"]},
            {"runtime": 3},
        ],
    )
    def test_settings_that_it_would_ignore_are_refused(self, others: dict[str, object]) -> None:
        with pytest.raises(ConfigurationError, match="runtime"):
            AIAgent(**{"runtime": Runtime(), **others})  # type: ignore[arg-type]
