"""Whole turns with a scripted model: what is sent, stored and returned."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from hermes_loop import AIAgent
from hermes_loop.result import FLAGS
from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ErrorKind,
    JsonObject,
    MessageFormatError,
    StoreError,
    SystemMessage,
    ToolMessage,
    Usage,
    UserMessage,
    validate,
)
from hermes_messages.protocols import ConversationResult, TurnExitReason
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    ToolDouble,
    call,
    calls,
    error,
    failure,
    text,
)
from loop_help import make, provider_of, roles, run


class TestExperiments:
    """The three experiments of the course on conversation loops."""

    def test_a_text_only_turn_makes_one_call_no_round_and_is_finalized(self) -> None:
        store = MemoryStore()
        [result] = run(make(text("Hello!"), session_db=store), "hi")
        assert (result["final_response"], result["completed"], result["api_calls"]) == ("Hello!", True, 1)
        assert result["turn_exit_reason"] == "text_response"
        assert roles(result) == ["user", "assistant"]
        assert "begin_tool_round" not in store.calls
        assert tuple(store.messages("s")) == result["transcript"]

    def test_a_round_of_calls_is_stored_before_the_second_request_which_holds_it(self) -> None:
        store = MemoryStore()
        seen: list[list[object]] = []

        def second(_: object) -> ScriptStep:
            seen.append([type(message) for message in store.messages("s")])
            return text("I saw it.")

        agent = make(calls(call("look", {"at": "a"})), second, session_db=store)
        [result] = run(agent, "look at a")
        assert seen == [[UserMessage, AssistantMessage, ToolMessage]]
        sent = provider_of(agent).requests[1].history
        assert [type(m) for m in sent] == [SystemMessage, UserMessage, AssistantMessage, ToolMessage]
        assert sent[-1] == ToolMessage("call_0", "seen a", name="look")
        assert (result["final_response"], result["api_calls"]) == ("I saw it.", 2)

    def test_a_spent_budget_makes_one_call_without_tools_and_says_why(self) -> None:
        agent = make(calls(call("look", {"at": "a"})), text("So far: a."), max_iterations=1)
        [result] = run(agent, "look everywhere")
        assert result["final_response"] == "So far: a."
        assert (result["turn_exit_reason"], result["completed"]) == ("max_iterations", False)
        assert (result["partial"], result["failed"], result["api_calls"]) == (True, False, 2)
        last = provider_of(agent).requests[1]
        assert last.tools == ()
        assert isinstance(last.history[-1], UserMessage)
        assert roles(result) == ["user", "assistant", "tool", "assistant"]

    def test_without_a_summary_the_finalizer_explains(self) -> None:
        store = MemoryStore()
        agent = make(
            calls(call("look")), error(failure(ErrorKind.AUTH, "no")), max_iterations=1, session_db=store
        )
        [result] = run(agent, "look everywhere")
        assert result["turn_exit_reason"] == "max_iterations"
        assert result["final_response"] is not None
        assert "limit of 1 model calls" in result["final_response"]
        assert validate(store.messages("s")) == []
        assert isinstance(store.messages("s")[-1], AssistantMessage)


class TestOrder:
    def test_nothing_happens_before_it_is_durable(self) -> None:
        store = MemoryStore()
        log: list[str] = store.calls

        async def tool(_: JsonObject) -> str:
            log.append("TOOL")
            return "ok"

        def request(step: ScriptStep) -> ScriptStep:
            def answer(_: object) -> ScriptStep:
                log.append("REQUEST")
                return step

            return answer

        agent = AIAgent(
            provider=ScriptedProvider([request(calls(call("t"))), request(text("done"))]),
            tools=SimpleExecutor({"t": tool}),
            session_db=store,
        )
        run(agent, "go")
        assert log == [
            "acquire_session_turn_lease",
            "ensure_session",
            "get_messages",
            "update_session_meta",
            "append_messages_batch",
            "REQUEST",
            "begin_tool_round",
            "TOOL",
            "set_tool_result",
            "REQUEST",
            "append_messages_batch",
            "update_token_counts",
            "get_session",
            "release_session_turn_lease",
        ]

    @pytest.mark.parametrize("after", [False, True])
    def test_if_the_calls_can_not_be_stored_no_tool_runs(self, after: bool) -> None:
        store = MemoryStore()
        tool = ToolDouble("t")
        store.fail_next("begin_tool_round", StoreError("disk full"), times=9, after=after)
        agent = AIAgent(
            provider=ScriptedProvider([calls(call("t"))]),
            tools=SimpleExecutor([tool]),
            session_db=store,
            session_id="s",
        )
        [result] = run(agent, "go")
        assert tool.arguments == []
        assert result["turn_exit_reason"] == "session_persistence_failed"
        assert (result["failed"], result["completed"], result["saved"]) == (True, False, False)
        assert result["error"] is not None
        assert "disk full" in result["error"]
        results = [message for message in result["transcript"] if isinstance(message, ToolMessage)]
        assert [message.status for message in results] == ["not_started"]
        assert any("saving the session" in text for text in result["cleanup_errors"])

    def test_if_the_user_message_can_not_be_stored_no_request_is_made(self) -> None:
        store = MemoryStore()
        store.fail_next("append_messages_batch", StoreError("locked"), times=9)
        agent = make(session_db=store)
        [result] = run(agent, "go")
        assert result["turn_exit_reason"] == "session_persistence_failed"
        assert provider_of(agent).requests == []

    def test_if_a_result_can_not_be_stored_no_further_request_is_made(self) -> None:
        store = MemoryStore()
        store.fail_next("set_tool_result", StoreError("locked"))
        agent = make(calls(call("look")), session_db=store)
        [result] = run(agent, "go")
        assert result["turn_exit_reason"] == "session_persistence_failed"
        assert len(provider_of(agent).requests) == 1
        assert validate(store.messages("s")) == []
        assert result["saved"]  # the finalizer wrote what was owed

    def test_an_answer_that_was_not_stored_at_first_is_stored_once_with_the_next_turn(self) -> None:
        store = MemoryStore()
        agent = make(text("one"), text("two"), session_db=store)

        async def main() -> None:
            async with agent:
                first = await agent.run_conversation("a")
                assert first["saved"]
                store.fail_next("append_messages_batch", StoreError("down"), times=2)
                second = await agent.run_conversation("b")
                assert not second["saved"]
                third = await agent.run_conversation("c")
                assert third["saved"]
                assert tuple(store.messages("s")) == third["transcript"]

        asyncio.run(main())
        assert [m.content for m in store.messages("s")] == ["a", "one", "b", "c", "two"]


class TestPrefix:
    def test_each_request_begins_with_the_one_before(self) -> None:
        agent = make(
            calls(call("look", {"at": "a"})), text("one"), text("two"), ephemeral_system_prompt="Be kind."
        )
        run(agent, "first", "second")
        requests = provider_of(agent).requests
        logs = {id(request.history.log) for request in requests}
        assert len(logs) == 1
        assert requests[0].tools == requests[2].tools
        system = requests[0].history[0]
        assert isinstance(system, SystemMessage)
        assert str(system.content).endswith("Be kind.")

    def test_prefill_stands_between_the_system_prompt_and_the_conversation(self) -> None:
        prefill = [{"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4"}]
        agent = make(text("6"), prefill_messages=prefill)
        [result] = run(agent, "3+3")
        assert [m.content for m in provider_of(agent).requests[0].history][1:] == ["2+2", "4", "3+3"]
        assert roles(result) == ["user", "assistant"]

    def test_the_settings_reach_the_request(self) -> None:
        agent = make(
            text("ok"),
            model="big",
            max_tokens=5,
            temperature=0.0,
            seed=7,
            reasoning_config={"enabled": True, "effort": "low"},
            request_overrides={"top_k": 3},
        )
        run(agent, "go")
        request = provider_of(agent).last_request
        assert (request.model, request.max_tokens, request.temperature, request.seed) == ("big", 5, 0.0, 7)
        assert request.reasoning_effort == "low"
        assert request.extra_body is not None
        assert msgspec.json.decode(request.extra_body) == {"top_k": 3}
        assert request.session_id == "s"


class TestTools:
    def test_a_failing_tool_is_a_result_for_the_model(self) -> None:
        tool = ToolDouble("t", [ValueError("no such file")])
        agent = AIAgent(
            provider=ScriptedProvider([calls(call("t")), text("I see")]), tools=SimpleExecutor([tool])
        )
        [result] = run(agent, "go")
        assert result["final_response"] == "I see"
        assert "no such file" in str(result["messages"][2]["content"])

    def test_bad_arguments_get_a_paired_error_and_valid_siblings_run(self) -> None:
        agent = make(calls(call("look", "{nonsense"), call("look", {"at": "b"})), text("ok"))
        [result] = run(agent, "go")
        tools = [message for message in result["transcript"] if isinstance(message, ToolMessage)]
        assert [message.status for message in tools] == ["error", "ok"]

    def test_the_same_failing_call_again_and_again_ends_the_turn(self) -> None:
        agent = AIAgent(
            provider=ScriptedProvider([calls(call("t", {"a": 1}))] * 9),
            tools=SimpleExecutor([ToolDouble("t", [ValueError("no")])]),
        )
        [result] = run(agent, "go")
        assert (result["turn_exit_reason"], result["api_calls"]) == ("tool_loop", 3)
        assert validate(result["transcript"]) == []

    def test_a_model_that_keeps_inventing_tools_is_stopped(self) -> None:
        script = [calls(call("TodoTool_tool", {"n": n})) for n in range(9)]
        agent = make(*script)
        [result] = run(agent, "go")
        assert (result["turn_exit_reason"], result["api_calls"]) == ("tool_loop", 3)

    def test_a_tool_that_works_in_between_is_no_loop(self) -> None:
        agent = AIAgent(
            provider=ScriptedProvider([*[calls(call("t"))] * 4, text("done")]),
            tools=SimpleExecutor(
                [ToolDouble("t", [ValueError("x"), ValueError("x"), "ok", ValueError("x")])]
            ),
        )
        [result] = run(agent, "go")
        assert result["completed"]

    def test_without_tools_an_invented_call_is_answered(self) -> None:
        agent = AIAgent(provider=ScriptedProvider([calls(call("x")), text("sorry")]))
        [result] = run(agent, "go")
        assert result["final_response"] == "sorry"
        assert result["tools"] == []


class TestInput:
    @pytest.mark.parametrize("message", ["", "  \n", 3, None])
    def test_bad_messages_are_refused_before_anything_happens(self, message: object) -> None:
        store = MemoryStore()
        agent = make(session_db=store)

        async def main() -> None:
            with pytest.raises(ConfigurationError):
                await agent.run_conversation(message)  # type: ignore[arg-type]

        asyncio.run(main())
        assert store.calls == []
        assert provider_of(agent).open_count == 0

    def test_a_bad_history_is_refused_before_anything_happens(self) -> None:
        agent = make()

        async def main() -> None:
            with pytest.raises(MessageFormatError):
                await agent.run_conversation("hi", conversation_history=[{"role": "nobody"}])

        asyncio.run(main())
        assert provider_of(agent).open_count == 0

    def test_a_second_system_message_in_a_history_does_not_reach_the_model(self) -> None:
        agent = make(text("ok"))
        history: list[JsonObject] = [
            {"role": "system", "content": "A"},
            {"role": "system", "content": "B"},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two", "tool_calls": []},
            {"role": "assistant", "content": ""},
        ]

        async def main() -> ConversationResult:
            async with agent:
                return await agent.run_conversation("three", conversation_history=history)

        result = asyncio.run(main())
        sent = provider_of(agent).last_request.history
        assert [type(m) for m in sent].count(SystemMessage) == 1
        assert "A" in str(sent[0].content)
        assert "B" in str(sent[0].content)
        assert roles(result) == ["user", "assistant", "user", "assistant"]

    def test_chat_gives_the_text_and_none_for_a_failed_turn(self) -> None:
        async def main() -> None:
            async with make(text("hi"), error(failure(ErrorKind.AUTH))) as agent:
                assert await agent.chat("a") == "hi"
                assert await agent.chat("b") is None

        asyncio.run(main())


def test_every_way_out_has_its_flags_and_every_result_all_its_keys() -> None:
    assert set(FLAGS) == set(get_args(TurnExitReason))
    [result] = run(make(text("x")), "go")
    assert set(result) == set(get_type_hints(ConversationResult))


def test_the_readme_says_which_flags_hold_for_each_way_out() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    told = {}
    for line in readme.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].startswith("`") and cells[0] != "`turn_exit_reason`":
            for reason in cells[0].replace("`", "").split(", "):
                told[reason] = tuple(cell == "yes" for cell in cells[1:])
    assert told == {
        reason: (flags.completed, flags.partial, flags.interrupted, flags.failed)
        for reason, flags in FLAGS.items()
    }


def test_two_turns_share_nothing_but_the_conversation() -> None:
    """What a turn counts or remembers starts anew: usage, attempts, empty answers, failing rounds."""
    usage = Usage(input_tokens=5)
    script = [
        *[calls(call("look", "{bad"), usage=usage)] * 2,
        text(""),
        text(""),
        text("one", usage=usage),
        *[calls(call("look", "{bad"), usage=usage)] * 2,
        text(""),
        text(""),
        text("two"),
    ]
    first, second = run(make(*script, max_iterations=5), "a", "b")
    assert (first["final_response"], second["final_response"]) == ("one", "two")
    assert (first["api_calls"], second["api_calls"]) == (5, 5)
    assert (first["input_tokens"], second["input_tokens"]) == (15, 10)
    assert first["turn_id"] != second["turn_id"]
    assert second["cleanup_errors"] == []


def test_a_failing_callback_is_reported_and_does_no_harm() -> None:
    def fail(_: str) -> None:
        raise RuntimeError("the screen is gone")

    [result] = run(make(text("hello", chunk_size=1), stream_delta_callback=fail), "go")
    assert result["final_response"] == "hello"
    assert result["cleanup_errors"] == ["callback stream_delta: RuntimeError: the screen is gone"]


def test_trajectories_are_whole_lines_in_the_right_file(tmp_path: Path) -> None:
    where = tmp_path / "rows"
    agent = make(text("good"), error(failure(ErrorKind.AUTH)), save_trajectories=where)
    run(agent, "a", "b")
    good = (where / "trajectory_samples.jsonl").read_bytes()
    bad = (where / "failed_trajectories.jsonl").read_bytes()
    assert good.endswith(b"\n")
    assert (good.count(b"\n"), bad.count(b"\n")) == (1, 1)
    row = msgspec.json.decode(good)
    assert row["completed"] is True
    assert [part["from"] for part in row["conversations"]] == ["system", "human", "gpt"]
    assert msgspec.json.decode(bad)["completed"] is False


def test_a_trajectory_that_can_not_be_written_does_not_cost_the_answer(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    [result] = run(make(text("good"), save_trajectories=blocked / "rows"), "a")
    assert result["final_response"] == "good"
    assert [text.split(":")[0] for text in result["cleanup_errors"]] == ["saving the trajectory"]


def test_an_unexpected_exception_is_a_failed_result() -> None:
    def explode(_: object) -> ScriptStep:
        raise ZeroDivisionError("bug")

    [result] = run(make(explode), "go")
    assert (result["turn_exit_reason"], result["failed"]) == ("internal_error", True)
    assert result["error"] == "ZeroDivisionError: bug"
