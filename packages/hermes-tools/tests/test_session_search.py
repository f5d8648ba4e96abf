"""Earlier conversations are found and read, in a store that can be searched."""

from __future__ import annotations

from typing import Any

from hermes_messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from hermes_messages.protocols import NewMessage, SessionInfo
from hermes_messages.testing import MemoryStore
from hermes_tools import Executor
from hermes_tools.builtin.session_search import SessionSearchToolset


async def filled() -> MemoryStore:
    store = MemoryStore()
    for name, title in (("old", "Storks"), ("older", None), ("session", "the one that asks")):
        await store.ensure_session(name, SessionInfo(title=title))
        messages: list[Message] = [
            UserMessage(f"where do storks go, asks {name}"),
            AssistantMessage("", tool_calls=(ToolCall("c1", "look_up", '{"topic": "storks"}'),)),
            ToolMessage("c1", "they go south " + "far " * 1_000, name="look_up"),
            AssistantMessage(f"South, says {name}."),
        ]
        await store.append_messages_batch(name, [NewMessage(f"m{n}", m) for n, m in enumerate(messages)])
    return store


def search(bench: Any, run_async: Any, *arguments: dict[str, Any], store: Any = None) -> list[Any]:
    async def main() -> list[Any]:
        given = store if store is not None else await filled()
        executor = Executor([SessionSearchToolset()])
        snapshot = await executor.refresh(bench.turn(store=given))
        assert [tool.name for tool in snapshot.tools] == ["session_search"]
        calls = [bench.call("session_search", one) for one in arguments]
        outcome = await executor.execute(calls, bench.context(store=given))
        await executor.close()
        return list(outcome.results)

    found: list[Any] = run_async(main())
    return found


def test_other_conversations_are_found_and_the_own_one_only_when_asked_for(
    bench: Any, run_async: Any
) -> None:
    all_, own, one, none = search(
        bench,
        run_async,
        {"query": "storks asks"},
        {"query": "storks asks", "session_id": "session"},
        {"query": "storks", "session_id": "old", "role": "user"},
        {"query": "penguins"},
    )
    assert "session old (Storks, " in all_.content
    assert "session older (untitled, " in all_.content
    assert "asks old" in all_.content
    assert "session session" not in all_.content
    assert "asks session" in own.content
    assert one.content.count("\n") == 3
    assert none.content == "nothing found for penguins"


def test_a_place_that_was_found_can_be_read_on(bench: Any, run_async: Any) -> None:
    [result] = search(bench, run_async, {"session_id": "old", "around": 1})
    text = result.content
    assert "user: where do storks go, asks old" in text
    assert 'assistant: [called look_up {"topic": "storks"}]' in text
    assert "[... 2,014 characters more]" in text
    assert "assistant: South, says old." in text


def test_what_can_not_be_searched_is_told(bench: Any, run_async: Any) -> None:
    empty, nowhere, unnamed = search(
        bench,
        run_async,
        {"query": " "},
        {"session_id": "unknown", "around": 1},
        {"around": 1},
    )
    assert "the query is empty" in empty.content
    assert nowhere.status == "error"
    assert "needs a session_id" in unnamed.content


def test_a_failing_store_is_an_error_result(bench: Any, run_async: Any) -> None:
    async def broken() -> MemoryStore:
        store = await filled()
        store.fail_next("search_messages", OSError("the disk is gone"))
        return store

    async def main() -> Any:
        store = await broken()
        executor = Executor([SessionSearchToolset()])
        outcome = await executor.execute(
            [bench.call("session_search", {"query": "storks"})], bench.context(store=store)
        )
        await executor.close()
        return outcome.results[0]

    result = run_async(main())
    assert result.status == "error"
    assert "the disk is gone" in result.content


def test_without_a_store_that_can_be_searched_the_tool_is_absent(bench: Any, run_async: Any) -> None:
    class Plain:
        """A store that knows nothing but the least."""

    async def main() -> None:
        executor = Executor([SessionSearchToolset()])
        for store, reason in ((None, "no session store"), (Plain(), "can not be searched")):
            snapshot = await executor.refresh(bench.turn(store=store))
            assert not snapshot.tools
            [absent] = snapshot.unavailable
            assert reason in absent.reason
        await executor.close()

    run_async(main())
