from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hermes_messages import (
    AssistantMessage,
    JsonValue,
    Message,
    SessionNotFoundError,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.protocols import SessionStore, SupportsSessionState
from hermes_messages.testing import MemoryStore
from hermes_tools.builtin.todo import TodoItem, TodoToolset


def todo(bench: Any, *arguments: Any) -> list[Any]:
    return list(bench.run(*(bench.call("todo", given) for given in arguments), toolsets=("todo",)))


def test_the_list_is_written_and_shown(bench: Any) -> None:
    items = [{"content": "a"}, {"content": "b", "status": "completed", "id": 7}, {"content": "c", "id": "7"}]
    wrote, shown = todo(bench, {"todos": items}, {})
    assert json.loads(wrote.content) == [
        {"content": "a", "status": "pending", "id": "1"},
        {"content": "b", "status": "completed", "id": "7"},
        {"content": "c", "status": "pending", "id": "7b"},
    ]
    assert shown.content == wrote.content
    assert todo(bench, {"todos": json.dumps(items)})[0].status == "ok"


def test_a_list_that_can_not_be_taken_changes_nothing(bench: Any) -> None:
    good, bad, empty, shown = todo(
        bench,
        {"todos": [{"content": "a"}]},
        {"todos": [{"content": "b", "status": "finished"}]},
        {"todos": [{"content": " "}]},
        {},
    )
    assert good.status == "ok"
    assert "$.todos[0].status: expected one of" in bad.content
    assert "task 1 has no content" in empty.content
    assert shown.content == good.content
    [many] = todo(bench, {"todos": [{"content": "x"}] * 201})
    [long] = todo(bench, {"todos": [{"content": "x" * 1_001}]})
    assert many.status == long.status == "error"


def test_sessions_do_not_share_a_list(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        executor = bench.executor("todo")
        await bench.outcome(executor, bench.call("todo", {"todos": [{"content": "a"}]}))
        [other] = (await bench.outcome(executor, bench.call("todo"), session_id="other")).results
        assert other.content == "[]"

    run_async(main())


def round_(text: str, status: Any = "ok", id_: str = "c", name: str = "todo") -> list[Message]:
    return [
        UserMessage("go"),
        AssistantMessage(tool_calls=(ToolCall(id_, name, "{}"),)),
        ToolMessage(id_, text, status=status),
    ]


def test_the_list_is_found_again_in_the_conversation(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        toolset = TodoToolset()
        history = [
            *round_('[{"content": "old"}]', id_="1"),
            *round_('[{"content": "new", "id": "4"}]', id_="2"),
            *round_("Error: no", "error", id_="3"),
            *round_("[... cut", id_="4"),
            *round_('[{"content": "not a list of ours"}]', id_="2", name="other"),
        ]
        await toolset.refresh(bench.turn(history=history))
        assert toolset.items("session") == (TodoItem("new", "pending", "4"),)
        await toolset.refresh(bench.turn(history=[UserMessage("summary of what was before")]))
        assert toolset.items("session"), "compression must not lose the list"
        await toolset.refresh(bench.turn(history=round_("[]")))
        assert toolset.items("session") == ()

    run_async(main())


class StoreWithState(MemoryStore):
    """Knows one session."""

    def __init__(self) -> None:
        super().__init__()
        self.state: dict[str, JsonValue] = {}

    async def get_session_state(self, session_id: str, name: str) -> JsonValue:
        if session_id != "session":
            raise SessionNotFoundError(f"no session {session_id}")
        return self.state.get(name)

    async def set_session_state(self, session_id: str, name: str, value: JsonValue) -> None:
        self.state[name] = value


if TYPE_CHECKING:

    def _fits(store: StoreWithState) -> tuple[SessionStore, SupportsSessionState]:
        return store, store


def test_a_list_that_was_compressed_away_comes_from_the_store(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        store = StoreWithState()
        executor = bench.executor("todo")
        call = bench.call("todo", {"todos": [{"content": "a", "status": "completed"}, {"content": "b"}]})
        await bench.outcome(executor, call, store=store)
        await executor.close()
        later = TodoToolset()
        summary = [UserMessage("summary of what was before")]
        await later.refresh(bench.turn(history=summary, store=store))
        assert [(item.content, item.status) for item in later.items("session")] == [
            ("a", "completed"),
            ("b", "pending"),
        ]
        await later.refresh(bench.turn(session_id="unknown", history=summary, store=store))
        assert later.items("unknown") == ()
        await later.refresh(bench.turn(history=round_("[]"), store=store))
        assert later.items("session") == (), "what the conversation shows is newer"

    run_async(main())
