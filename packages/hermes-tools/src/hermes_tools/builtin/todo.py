"""`todo`: the task list of a session."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from hermes_messages import AssistantMessage, Message, StoreError, ToolMessage, content_text
from hermes_messages.abilities import supports
from hermes_messages.protocols import SupportsSessionState, Tool, Toolset, TurnContext
from hermes_tools.context import CallContext
from hermes_tools.errors import ToolFailure
from hermes_tools.tool import tool

__all__ = ["TodoItem", "TodoToolset", "todos_in_history"]

logger: logging.Logger = logging.getLogger(__name__)

STATE_NAME = "todos"
MAX_ITEMS = 200
MAX_CONTENT = 1_000


class TodoItem(msgspec.Struct, frozen=True):
    """One task."""

    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"
    id: str = ""


_decoder = msgspec.json.Decoder(tuple[TodoItem, ...])


class TodoToolset:
    """The toolset `todo`. It keeps one list for each session and finds it again in the conversation, or in
    the store."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[TodoItem, ...]] = {}

        @tool(scheduling="sequential")
        async def todo(context: CallContext, todos: list[TodoItem] | None = None) -> str:
            """Show or replace the task list. With todos: replaces the whole list. Without: shows it.

            Args:
                todos: all tasks
            """
            session_id = context.round.session_id
            if todos is not None:
                self._lists[session_id] = _numbered(todos)
                await _keep(_as_keeper(context.round.store), session_id, self._lists[session_id])
            return msgspec.json.encode(self._lists.get(session_id, ())).decode()

        self._tools: tuple[Tool, ...] = (todo,)

    @property
    def name(self) -> str:
        """The toolset's name."""
        return "todo"

    @property
    def tools(self) -> Sequence[Tool]:
        """Its one tool."""
        return self._tools

    def items(self, session_id: str) -> tuple[TodoItem, ...]:
        """The list of a session as it stands."""
        return self._lists.get(session_id, ())

    async def refresh(self, context: TurnContext) -> None:
        """Take over the list that the conversation last showed. Without one (it was compressed away), what is
        known stays, and what is not known comes from the store."""
        found = todos_in_history(context.history)
        if found is None and context.session_id not in self._lists:
            found = await _kept(_as_keeper(context.store), context.session_id)
        if found is not None:
            self._lists[context.session_id] = found


def todos_in_history(history: Sequence[Message]) -> tuple[TodoItem, ...] | None:
    """The list in the newest readable `todo` result, or None when there is none."""
    newest: tuple[TodoItem, ...] | None = None
    asked: frozenset[str] = frozenset()  # ids are unique within a round only
    for message in history:
        if isinstance(message, AssistantMessage):
            asked = frozenset(call.id for call in message.tool_calls if call.name == "todo")
        elif isinstance(message, ToolMessage) and message.status == "ok" and message.tool_call_id in asked:
            with contextlib.suppress(msgspec.DecodeError):
                newest = _decoder.decode(content_text(message.content))
    return newest


def _as_keeper(store: object) -> SupportsSessionState | None:
    return store if supports(store, SupportsSessionState) else None


async def _keep(keeper: SupportsSessionState | None, session_id: str, items: tuple[TodoItem, ...]) -> None:
    """Have the store remember the list, where it can. The conversation holds it too: a failure costs nothing
    until it is compressed."""
    if keeper is not None:
        try:
            await keeper.set_session_state(session_id, STATE_NAME, msgspec.to_builtins(items))
        except StoreError as error:
            logger.warning("the task list is not in the store: %s", error)


async def _kept(keeper: SupportsSessionState | None, session_id: str) -> tuple[TodoItem, ...] | None:
    if keeper is None:
        return None
    try:
        value = await keeper.get_session_state(session_id, STATE_NAME)
        return None if value is None else msgspec.convert(value, tuple[TodoItem, ...])
    except (StoreError, msgspec.ValidationError) as error:
        logger.warning("the task list can not be had from the store: %s", error)
        return None


def _numbered(todos: list[TodoItem]) -> tuple[TodoItem, ...]:
    """The items with ids that are unique; an empty id becomes the item's number. Raises `ToolFailure`."""
    if len(todos) > MAX_ITEMS:
        raise ToolFailure(f"{len(todos)} tasks are too many; at most {MAX_ITEMS}. The list is unchanged.")
    taken: set[str] = set()
    items = []
    for number, item in enumerate(todos, 1):
        if not item.content.strip():
            raise ToolFailure(f"task {number} has no content. The list is unchanged.")
        if len(item.content) > MAX_CONTENT:
            raise ToolFailure(
                f"task {number} is longer than {MAX_CONTENT} characters. The list is unchanged."
            )
        chosen = item.id.strip() or str(number)
        while chosen in taken:
            chosen += "b"
        taken.add(chosen)
        items.append(TodoItem(item.content, item.status, chosen))
    return tuple(items)


if TYPE_CHECKING:

    def _fits(toolset: TodoToolset) -> Toolset:
        return toolset
