"""Hooks of a host: what each may do, and that none of them costs a turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from hermes_loop import HookFailed, TurnEnded, TurnEvent, discovery
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ErrorKind,
    LeaseLostError,
    ToolCall,
    ToolMessage,
    TurnStoppedError,
    UserMessage,
    validate,
)
from hermes_messages.protocols import (
    ConversationResult,
    HookContext,
    SupportsAroundTurn,
    SupportsMemoryPrefetch,
    SupportsMemorySync,
    SupportsPostTurn,
    SupportsPreModel,
    SupportsRequestTransform,
    SupportsResponseTransform,
    SupportsToolResultTransform,
)
from hermes_messages.testing import (
    MemoryStore,
    ScriptStep,
    broken,
    call,
    calls,
    failure,
    hang,
    text,
)
from loop_help import make, provider_of, run


class Recorder:
    """A hook with every ability that changes nothing and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.contexts: list[HookContext] = []
        self.results: list[ConversationResult] = []

    def note(self, ability: str, context: HookContext) -> None:
        self.asked.append(ability)
        self.contexts.append(context)

    @asynccontextmanager
    async def around_turn(self, context: HookContext) -> AsyncIterator[None]:
        self.note("enter", context)
        try:
            yield
        finally:
            self.note("leave", context)

    async def pre_model(self, context: HookContext, message: UserMessage) -> str | None:
        self.note("pre_model", context)
        return None

    async def prefetch_memory(self, context: HookContext, message: UserMessage) -> str | None:
        self.note("prefetch_memory", context)
        return None

    async def sync_memory(self, context: HookContext, result: ConversationResult) -> None:
        self.note("sync_memory", context)

    async def transform_request(self, context: HookContext, request: ChatRequest) -> ChatRequest:
        self.note("transform_request", context)
        return request

    async def transform_response(self, context: HookContext, response: ChatResponse) -> ChatResponse:
        self.note("transform_response", context)
        return response

    async def transform_tool_result(
        self, context: HookContext, call: ToolCall, result: ToolMessage
    ) -> ToolMessage:
        self.note("transform_tool_result", context)
        return result

    async def post_turn(self, context: HookContext, result: ConversationResult) -> None:
        self.note("post_turn", context)
        self.results.append(result)


if TYPE_CHECKING:

    def _fits(
        hook: Recorder,
    ) -> tuple[
        SupportsAroundTurn,
        SupportsPreModel,
        SupportsMemoryPrefetch,
        SupportsMemorySync,
        SupportsRequestTransform,
        SupportsResponseTransform,
        SupportsToolResultTransform,
        SupportsPostTurn,
    ]:
        return hook, hook, hook, hook, hook, hook, hook, hook


ABILITIES = [
    "around_turn",
    "pre_model",
    "prefetch_memory",
    "sync_memory",
    "transform_request",
    "transform_response",
    "transform_tool_result",
    "post_turn",
]


class TestOrder:
    def test_each_is_asked_at_its_place(self) -> None:
        hook = Recorder()
        [result] = run(make(calls(call("look", {"at": "a"})), text("ok"), hooks=[hook]), "go")
        assert hook.asked == [
            "enter",
            "prefetch_memory",
            "pre_model",
            "transform_request",
            "transform_response",
            "transform_tool_result",
            "transform_request",
            "transform_response",
            "sync_memory",
            "post_turn",
            "leave",
        ]
        assert hook.results == [result]
        assert {context.turn_id for context in hook.contexts} == {result["turn_id"]}
        assert [context.api_calls for context in hook.contexts][-3:] == [2, 2, 0]
        assert hook.contexts[0].model == "scripted-model"

    def test_a_hook_that_changes_nothing_leaves_the_bytes_of_the_prefix(self) -> None:
        agent = make(calls(call("look")), text("ok"), text("again"), hooks=[Recorder()])
        run(agent, "go", "on")
        assert len({id(request.history.log) for request in provider_of(agent).requests}) == 1

    def test_without_memory_only_the_memory_is_not_asked(self) -> None:
        hook = Recorder()
        run(make(text("ok"), hooks=[hook], skip_memory=True), "go")
        assert not {"prefetch_memory", "sync_memory"} & set(hook.asked)
        assert {"pre_model", "post_turn"} <= set(hook.asked)


class TestChanges:
    def test_notes_stand_at_the_end_of_every_request_and_in_no_conversation(self) -> None:
        class Memory:
            async def prefetch_memory(self, context: HookContext, message: UserMessage) -> str | None:
                return f"Known of {message.content}: blue."

        class Clock:
            async def pre_model(self, context: HookContext, message: UserMessage) -> str | None:
                return "It is noon."

        store = MemoryStore()
        agent = make(
            calls(call("look")), text("ok"), hooks=[Clock(), Memory()], session_db=store, max_iterations=9
        )
        [result] = run(agent, "sky")
        note = UserMessage("Known of sky: blue.\n\nIt is noon.")
        first, second = (list(request.history) for request in provider_of(agent).requests)
        assert (first[-1], second[-1]) == (note, note)
        assert first[:-1] == second[: len(first) - 1]
        assert note not in result["transcript"]
        assert note not in store.messages("s")

    def test_a_request_is_sent_as_the_hooks_made_it_one_after_the_other(self) -> None:
        class Add:
            def __init__(self, word: str) -> None:
                self.word = word

            async def transform_request(self, context: HookContext, request: ChatRequest) -> ChatRequest:
                return replace(request, stop=(*request.stop, self.word))

        agent = make(text("ok"), hooks=[Add("a"), Add("b")])
        run(agent, "go")
        assert provider_of(agent).last_request.stop == ("a", "b")

    def test_a_response_is_kept_as_the_hook_made_it(self) -> None:
        class Tidy:
            async def transform_response(self, context: HookContext, response: ChatResponse) -> ChatResponse:
                return replace(response, message=replace(response.message, content="tidy"))

        store = MemoryStore()
        [result] = run(make(text("messy"), hooks=[Tidy()], session_db=store), "go")
        assert result["final_response"] == "tidy"
        assert store.messages("s")[-1].content == "tidy"

    def test_a_tool_result_is_stored_sent_and_shown_as_the_hook_made_it(self) -> None:
        class Mask:
            async def transform_tool_result(
                self, context: HookContext, call: ToolCall, result: ToolMessage
            ) -> ToolMessage:
                return replace(result, content=str(result.content).replace("secret", "***"))

        shown: list[object] = []

        async def show(call: ToolCall, result: ToolMessage) -> None:
            shown.append(result.content)

        store = MemoryStore()
        agent = make(
            calls(call("look", {"at": "secret"}), call("look", {"at": "b"})),
            text("ok"),
            hooks=[Mask()],
            session_db=store,
            tool_complete_callback=show,
        )
        [result] = run(agent, "go")
        wanted = ["seen ***", "seen b"]
        assert [m.content for m in store.messages("s") if isinstance(m, ToolMessage)] == wanted
        sent = provider_of(agent).last_request.history
        assert [m.content for m in sent if isinstance(m, ToolMessage)] == wanted
        assert sorted(map(str, shown)) == wanted
        assert tuple(store.messages("s")) == result["transcript"]


def failing(ability: str, problem: object) -> object:
    """A hook with one ability, which raises `problem`, or returns it where it is no exception."""

    async def fail(self: object, *_: object) -> object:
        if isinstance(problem, BaseException):
            raise problem
        return problem

    def fail_plainly(self: object, *_: object) -> object:
        if isinstance(problem, BaseException):
            raise problem
        return problem

    method = fail_plainly if ability == "around_turn" else fail
    return type("Bad", (), {ability: method})()


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


def _hang_after(asking: asyncio.Event) -> ScriptStep:
    """A model that says when it is asked, and then nothing."""

    def step(_: object) -> ScriptStep:
        asking.set()
        return hang()

    return step


class TestAround:
    def test_it_sees_the_cancellation_and_can_not_swallow_it(self) -> None:
        seen: list[type[BaseException] | None] = []

        class Swallow:
            def around_turn(self, context: HookContext) -> Any:
                class Manager:
                    async def __aenter__(self) -> None:
                        return None

                    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> bool:
                        seen.append(kind)
                        await asyncio.sleep(0)
                        return True

                return Manager()

        async def main() -> None:
            asking = asyncio.Event()
            async with make(_hang_after(asking), hooks=[Swallow()]) as agent:
                turn = asyncio.create_task(agent.run_conversation("go"))
                await asking.wait()
                turn.cancel()
                await asyncio.wait({turn})
                assert turn.cancelled()

        asyncio.run(main())
        assert seen == [asyncio.CancelledError]

    def test_post_turn_is_told_of_a_cancelled_turn(self) -> None:
        hook = Recorder()

        async def main() -> None:
            asking = asyncio.Event()
            async with make(_hang_after(asking), hooks=[hook]) as agent:
                turn = asyncio.create_task(agent.run_conversation("go"))
                await asking.wait()
                turn.cancel()
                await asyncio.wait({turn})

        asyncio.run(main())
        assert [result["turn_exit_reason"] for result in hook.results] == ["cancelled"]
        assert hook.asked[-3:] == ["sync_memory", "post_turn", "leave"]

    def test_the_memory_of_a_lost_session_is_left_alone(self) -> None:
        hook = Recorder()
        store = MemoryStore()
        agent = make(calls(call("look")), text("ok"), hooks=[hook], session_db=store)
        store.fail_next("begin_tool_round", LeaseLostError("taken"))
        [result] = run(agent, "go")
        assert result["turn_exit_reason"] == "lease_lost"
        assert "post_turn" in hook.asked

    def test_the_end_event_comes_after_the_hooks_and_holds_their_failures(self) -> None:
        events: list[TurnEvent] = []
        hook = failing("post_turn", ValueError("no"))
        run(make(text("ok"), hooks=[hook], event_callback=events.append), "go")
        end = events[-1]
        assert isinstance(end, TurnEnded)
        assert end.result is not None
        assert end.result["cleanup_errors"] == ["hook Bad.post_turn: ValueError: no"]


class TestNames:
    def test_a_name_is_an_entry_point_and_each_agent_gets_its_own(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[Recorder] = []

        class Point:
            name = "accounting"

            def load(self) -> Any:
                def factory() -> Recorder:
                    made.append(Recorder())
                    return made[-1]

                return factory

        monkeypatch.setitem(discovery._found, "hermes.hooks", {"accounting": Point()})
        run(make(text("ok"), hooks=["accounting"]), "go")
        run(make(text("ok"), hooks=["accounting"]), "go")
        assert [hook.asked[-1] for hook in made] == ["leave", "leave"]
        with pytest.raises(ConfigurationError, match="unknown hook 'acounting'; did you mean 'accounting'"):
            run(make(text("ok"), hooks=["acounting"]), "go")

    def test_where_nothing_offers_hooks_a_name_is_unknown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(discovery._found, "hermes.hooks", {})
        with pytest.raises(ConfigurationError, match="unknown hook 'x'"):
            run(make(text("ok"), hooks=["x"]), "go")

    @pytest.mark.parametrize("given", ["name", 5, [object()], [Recorder]])
    def test_what_is_no_hook_is_refused_when_the_agent_is_made(self, given: object) -> None:
        with pytest.raises(ConfigurationError, match="hook"):
            make(hooks=given)

    def test_a_method_of_the_wrong_kind_is_refused(self) -> None:
        class Plain:
            def post_turn(self, context: HookContext, result: ConversationResult) -> None:
                return None

        with pytest.raises(ConfigurationError, match=r"Plain\.post_turn must be an async method"):
            make(hooks=[Plain()])


def test_answers_are_messages() -> None:
    """What a response hook gets is what the conversation holds."""
    seen: list[AssistantMessage] = []

    class Look:
        async def transform_response(self, context: HookContext, response: ChatResponse) -> ChatResponse:
            seen.append(response.message)
            return response

    [result] = run(make(text("ok"), hooks=[Look()]), "go")
    assert seen == [result["transcript"][-1]]
