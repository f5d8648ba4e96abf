"""Hooks of a host: when each is asked, what it may do, and by what names it is found."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from hermes_loop import TurnEnded, TurnEvent, discovery
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    LeaseLostError,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.protocols import ConversationResult, HookContext
from hermes_messages.testing import MemoryStore, ScriptStep, call, calls, hang, text
from hook_help import Recorder, failing
from loop_help import make, provider_of, run


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

    def test_a_hook_behind_another_object_is_asked_for_all_that_it_can_do(self) -> None:
        class Behind:
            def __init__(self, hook: object) -> None:
                self._hook = hook

            def __getattr__(self, name: str) -> object:
                return getattr(self._hook, name)

        hook, plain = Recorder(), Recorder()
        run(make(text("ok"), hooks=[Behind(hook), plain]), "go")
        assert hook.asked == plain.asked

    def test_what_a_hook_takes_back_is_not_asked_of_it(self) -> None:
        class Less(Recorder):
            pre_model = None  # type: ignore[assignment]

        hook, other = Less(), Recorder()
        other.post_turn = None  # type: ignore[assignment, method-assign]
        run(make(text("ok"), hooks=[hook, other]), "go")
        assert {"pre_model", "post_turn"} - set(hook.asked) == {"pre_model"}
        assert {"pre_model", "post_turn"} - set(other.asked) == {"post_turn"}

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
