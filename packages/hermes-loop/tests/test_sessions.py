"""Sessions that outlive an agent: resume, histories that are handed in, stores without leases."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from hermes_messages import (
    AssistantMessage,
    JsonObject,
    Message,
    StoreError,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    validate,
)
from hermes_messages.approvals import PendingApproval, pending_to_json
from hermes_messages.openai_shape import to_dicts
from hermes_messages.protocols import NewMessage, SessionInfo, SessionRecord, StoredMessage, ToolRound
from hermes_messages.testing import MemoryStore, ToolDouble, call, calls, text
from session_help import make, requests_of


async def store_with(*messages: Message) -> MemoryStore:
    """One whose session "s" holds these."""
    store = MemoryStore()
    await store.ensure_session("s", SessionInfo())
    rows = [NewMessage(f"u{number}", message) for number, message in enumerate(messages)]
    await store.append_messages_batch("s", rows)
    return store


def test_a_second_agent_resumes_with_the_same_bytes_in_front() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with make(store, text("one")) as first:
            await first.run_conversation("a", system_message="Be brief.")
        async with make(store, text("two")) as second:
            result = await second.run_conversation("b", system_message="Be brief.")
        [before], [after] = requests_of(first), requests_of(second)
        assert after[: len(before)] == before
        assert [m["content"] for m in result["messages"]] == ["a", "one", "b", "two"]
        assert store.record("s").system_prompt == str(before[0].content)
        assert store.record("s").api_calls == 2

    asyncio.run(main())


def test_a_round_that_was_cut_off_gets_unknown_results_in_the_store_once_and_nothing_runs_again() -> None:
    async def main() -> None:
        store = await store_with(UserMessage("go"))
        three = AssistantMessage(None, tool_calls=tuple(ToolCall(i, "t", "{}") for i in "abc"))
        round_ = await store.begin_tool_round("s", "r", three)
        await store.set_tool_result(round_, 1, ToolMessage("b", "done"))
        tool = ToolDouble("t")
        async with make(store, text("I see."), tools=[tool]) as agent:
            result = await agent.run_conversation("what happened?")
        assert tool.arguments == []
        stored = store.messages("s")
        assert validate(stored) == []
        assert [m.status for m in stored if isinstance(m, ToolMessage)] == ["unknown", "ok", "unknown"]
        assert result["transcript"] == tuple(stored)
        writes = store.calls.count("set_tool_result")
        async with make(store, text("Yes.")) as agent:
            await agent.run_conversation("again")
        assert store.calls.count("set_tool_result") == writes

    asyncio.run(main())


def test_a_history_that_is_stored_is_not_written_again() -> None:
    async def main() -> None:
        store = MemoryStore()
        agent = make(store, text("one"), text("two"), text("three"))
        async with agent:
            first = await agent.run_conversation("a")
            second = await agent.run_conversation("b", conversation_history=first["messages"])
            window = second["messages"][2:]
            third = await agent.run_conversation("c", conversation_history=window)
        assert [m.content for m in store.messages("s")] == ["a", "one", "b", "two", "c", "three"]
        assert [m["content"] for m in third["messages"]] == ["b", "two", "c", "three"]

    asyncio.run(main())


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param([AssistantMessage("")], id="a blank answer of a failed stream"),
        pytest.param([AssistantMessage("and more")], id="two answers in a row"),
        pytest.param([SystemMessage("Be brief.")], id="a late system message"),
        pytest.param([ToolMessage("gone", "x")], id="a result of no call"),
    ],
)
@pytest.mark.parametrize("front", [[], [SystemMessage("You help.")]], ids=["", "with a system row"])
def test_a_stored_history_that_has_to_be_mended_is_not_written_again(
    front: list[Message], odd: list[Message]
) -> None:
    """Rows of another program, which a host loads and hands over with each turn."""
    rows = [
        *front,
        UserMessage("a"),
        AssistantMessage("one"),
        *odd,
        UserMessage("b"),
        AssistantMessage("two"),
    ]

    async def main() -> None:
        store = await store_with(*rows)
        async with make(store, text("three"), text("four")) as agent:
            for said in ("c", "d"):
                loaded = to_dicts(store.messages("s"))
                await agent.run_conversation(said, conversation_history=loaded)
        assert store.messages("s")[: len(rows)] == rows
        assert [m.content for m in store.messages("s")[len(rows) :]] == ["c", "three", "d", "four"]

    asyncio.run(main())


def test_a_round_of_which_the_last_call_alone_has_a_result_is_not_written_again() -> None:
    """The turn's result has the results in the order in which the store has them."""

    async def main() -> None:
        store = await store_with(UserMessage("a"))
        asked = AssistantMessage(None, (ToolCall("one", "x", "{}"), ToolCall("two", "y", "{}")))
        stored = await store.begin_tool_round("s", "r", asked)
        await store.set_tool_result(stored, 1, ToolMessage("two", "done"))
        async with make(store, text("b"), text("d")) as agent:
            loaded = to_dicts(store.messages("s"))
            result = await agent.run_conversation("and", conversation_history=loaded)
            await agent.run_conversation("c", conversation_history=result["messages"])
        rows = store.messages("s")
        assert [row.tool_call_id for row in rows if isinstance(row, ToolMessage)] == ["one", "two"]
        assert [row.content for row in rows if isinstance(row, UserMessage)] == ["a", "and", "c"]

    asyncio.run(main())


def test_a_window_with_something_new_behind_it_adds_only_that() -> None:
    async def main() -> None:
        store = MemoryStore()
        agent = make(store, text("one"), text("two"), text("three"))
        async with agent:
            await agent.run_conversation("a")
            second = await agent.run_conversation("b")
            new = {"role": "assistant", "content": "and a thought"}
            said = {"role": "user", "content": "aside"}
            await agent.run_conversation("c", conversation_history=[*second["messages"][2:], said, new])
        stored = [m.content for m in store.messages("s")]
        assert stored == ["a", "one", "b", "two", "aside", "and a thought", "c", "three"]

    asyncio.run(main())


def test_a_history_of_a_new_session_is_stored_before_the_turn() -> None:
    history: list[JsonObject] = [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "r"},
        {"role": "assistant", "content": "y"},
    ]

    async def main() -> None:
        store = MemoryStore()
        async with make(store, text("z")) as agent:
            result = await agent.run_conversation("now", conversation_history=history)
        assert result["saved"]
        assert [m.content for m in store.messages("s")] == ["x", None, "r", "y", "now", "z"]

    asyncio.run(main())


@pytest.mark.parametrize("stored", [True, False])
def test_a_history_that_ends_with_open_calls_is_answered_as_unknown(stored: bool) -> None:
    """A transcript that was cut off in a round; the host's, or one that the store can not close."""
    cut_off: list[Message] = [
        UserMessage("go"),
        AssistantMessage(None, tool_calls=tuple(ToolCall(i, "t", "{}") for i in "ab")),
        ToolMessage("b", "done"),
    ]

    async def main() -> None:
        store = await store_with(*cut_off) if stored else MemoryStore()
        tool = ToolDouble("t")
        async with make(store, text("I see."), text("Yes."), tools=[tool]) as agent:
            history = None if stored else to_dicts(cut_off)
            result = await agent.run_conversation("what happened?", conversation_history=history)
            again = await agent.run_conversation("and now?")
        assert result["final_response"] == "I see."
        assert again["final_response"] == "Yes."
        assert tool.arguments == []
        assert validate(again["transcript"]) == []
        results = [m for m in again["transcript"] if isinstance(m, ToolMessage)]
        assert {m.tool_call_id: m.status for m in results} == {"b": "ok", "a": "unknown"}
        assert again["saved"]

    asyncio.run(main())


def test_calls_that_waited_for_a_decision_are_denied_by_a_new_message_and_not_unknown() -> None:
    """The model must not be told that a call may have run which nobody ever allowed."""

    async def main() -> None:
        store = await store_with(UserMessage("go"))
        for uid in ("cut off", "suspended"):
            message = AssistantMessage(
                None, tool_calls=tuple(ToolCall(f"{uid} {i}", "t", "{}") for i in "ab")
            )
            round_ = await store.begin_tool_round("s", uid, message)
            await store.set_tool_result(round_, 1, ToolMessage(f"{uid} b", "done"))
        waiting = PendingApproval(call=message.tool_calls[0], position=0, reason="it asks")
        await store.suspend_round(round_, pending_to_json([waiting]))
        tool = ToolDouble("t")
        async with make(store, text("I see."), tools=[tool]) as agent:
            result = await agent.run_conversation("never mind")
        assert result["completed"]
        assert result["saved"]
        assert tool.arguments == []
        statuses = {m.tool_call_id: m.status for m in store.messages("s") if isinstance(m, ToolMessage)}
        assert statuses == {
            "cut off a": "unknown",
            "cut off b": "ok",
            "suspended a": "denied",
            "suspended b": "ok",
        }
        assert "superseded" in str(to_dicts(requests_of(agent)[0]))

    asyncio.run(main())


def test_a_result_that_a_store_could_not_be_given_is_there_in_the_turn_and_in_the_store_by_the_next() -> None:
    async def main() -> None:
        store = await store_with(UserMessage("go"))
        cut_off = AssistantMessage(None, tool_calls=(ToolCall("a", "t", "{}"),))
        await store.begin_tool_round("s", "cut off", cut_off)
        store.fail_next("begin_tool_round", StoreError("down"))
        async with make(store, text("I see."), text("Well.")) as agent:
            first = await agent.run_conversation("and now?")
            assert [type(message) for message in store.messages("s")[:3]] == [
                UserMessage,
                AssistantMessage,
                UserMessage,
            ]
            second = await agent.run_conversation("go on")
        for result in (first, second):
            assert result["completed"]
            assert [m.status for m in result["transcript"] if isinstance(m, ToolMessage)] == ["unknown"]
        assert tuple(store.messages("s")) == second["transcript"]

    asyncio.run(main())


def counting_reads(store: MemoryStore) -> list[str]:
    """From here on, the ids of the sessions that are read whole."""
    read: list[str] = []
    inner = store.get_messages

    async def get_messages(session_id: str) -> list[StoredMessage]:
        read.append(session_id)
        return await inner(session_id)

    store.get_messages = get_messages  # type: ignore[method-assign]
    return read


def test_turns_of_other_sessions_do_not_make_a_turn_read_its_own_anew() -> None:
    """The numbers of leases come from one counter for all sessions."""

    async def main() -> None:
        store = MemoryStore()
        async with make(
            store, text("1"), calls(call("t")), text("2"), text("3"), tools=[ToolDouble("t")]
        ) as agent:
            await agent.run_conversation("a")
            read = counting_reads(store)
            for question in ("b", "c"):
                lease = await store.try_acquire_session_turn_lease("other", "other", 60)
                assert lease is not None
                await store.release_session_turn_lease(lease)
                assert (await agent.run_conversation(question))["completed"]
            assert read == []
            assert len(requests_of(agent)[-1]) == 8

    asyncio.run(main())


def test_what_was_appended_between_two_turns_without_a_lease_is_seen() -> None:
    async def main() -> None:
        for store in (MemoryStore(), PlainStore()):
            async with make(store, text("1"), text("2"), text("3")) as agent:
                await agent.run_conversation("a")
                theirs = [
                    NewMessage("x", UserMessage("by the way")),
                    NewMessage("y", AssistantMessage("I see")),
                ]
                await store.append_messages_batch("s", theirs)
                await agent.run_conversation("b")
                said = [message.content for message in requests_of(agent)[-1][1:]]
                assert said == ["a", "1", "by the way", "I see", "b"]
                await agent.run_conversation("c")
                assert len(await store.get_messages("s")) == 8

    asyncio.run(main())


def test_another_transcript_of_the_same_length_is_seen() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with make(store, text("1"), text("2")) as agent:
            await agent.run_conversation("a")
            theirs = [NewMessage("x", UserMessage("short")), NewMessage("y", AssistantMessage("form"))]
            await store.archive_and_compact("s", theirs)
            await agent.run_conversation("b")
            assert [message.content for message in requests_of(agent)[-1][1:]] == ["short", "form", "b"]

    asyncio.run(main())


class PlainStore:
    """A `SessionStore` without leases, over a `MemoryStore`."""

    def __init__(self) -> None:
        self.inner = MemoryStore()

    async def ensure_session(self, session_id: str, info: SessionInfo) -> SessionRecord:
        return await self.inner.ensure_session(session_id, info)

    async def get_session(self, session_id: str) -> SessionRecord | None:
        return await self.inner.get_session(session_id)

    async def get_messages(self, session_id: str) -> list[StoredMessage]:
        return await self.inner.get_messages(session_id)

    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: object = None
    ) -> tuple[int, ...]:
        assert lease is None
        return await self.inner.append_messages_batch(session_id, messages)

    async def begin_tool_round(
        self, session_id: str, uid: str, message: AssistantMessage, *, lease: object = None
    ) -> ToolRound:
        assert lease is None
        return await self.inner.begin_tool_round(session_id, uid, message)

    async def set_tool_result(
        self, round_: ToolRound, position: int, message: ToolMessage, *, lease: object = None
    ) -> None:
        assert lease is None
        await self.inner.set_tool_result(round_, position, message)

    async def update_session_meta(
        self, session_id: str, *, system_prompt: str | None = None, metadata: object = None
    ) -> None:
        await self.inner.update_session_meta(session_id, system_prompt=system_prompt)

    async def update_token_counts(self, session_id: str, usage: object, *, api_calls: int) -> None:
        await self.inner.update_token_counts(session_id, None, api_calls=api_calls)

    async def end_session(self, session_id: str, reason: str) -> None:
        await self.inner.end_session(session_id, reason)

    async def close(self) -> None:
        await self.inner.close()


def test_without_leases_a_lock_keeps_the_agents_of_this_process_apart(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        store = PlainStore()
        one = make(store, text("1", chunk_size=1), text("3"))
        two = make(store, text("2", chunk_size=1))
        await asyncio.gather(one.run_conversation("a"), two.run_conversation("b"))
        third = await one.run_conversation("c")
        assert [m["content"] for m in third["messages"]] == ["a", "1", "b", "2", "c", "3"]
        await one.close()
        await two.close()

    asyncio.run(main())
    assert caplog.text.count("has no turn leases") == 2


class WithoutLeases(MemoryStore):
    """Takes back what it inherits."""

    try_acquire_session_turn_lease = None  # type: ignore[assignment]
    suspend_round = None  # type: ignore[assignment]


def test_a_store_that_takes_an_inherited_ability_back_is_not_asked_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with make(WithoutLeases(), text("1")) as agent:
            assert (await agent.run_conversation("a"))["final_response"] == "1"

    asyncio.run(main())
    assert "has no turn leases" in caplog.text


def test_a_new_system_message_builds_the_prompt_anew_and_the_same_one_does_not() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with make(store, text("1"), text("2"), text("3")) as agent:
            await agent.run_conversation("a", system_message="Be brief.")
            await agent.run_conversation("b", system_message="Be brief.")
            await agent.run_conversation("c", system_message="Be long.")
        first, second, third = (request[0] for request in requests_of(agent))
        assert first == second
        assert isinstance(third, SystemMessage)
        assert "Be long." in str(third.content)

    asyncio.run(main())
