"""What becomes of a conversation whose store fails: nothing is lost, nothing runs unrecorded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes_loop import AIAgent
from hermes_messages import Message, StoreError, ToolMessage, validate
from hermes_messages.testing import ScriptedProvider, call, calls, text
from hermes_store import SessionDB


class Unreliable(SessionDB):
    """A real store some of whose writes are refused."""

    refused: tuple[str, ...] = ()

    async def append_messages_batch(self, *arguments: Any, **options: Any) -> tuple[int, ...]:
        self._refuse("append_messages_batch")
        return await super().append_messages_batch(*arguments, **options)

    async def set_tool_result(self, *arguments: Any, **options: Any) -> None:
        self._refuse("set_tool_result")
        await super().set_tool_result(*arguments, **options)

    def _refuse(self, method: str) -> None:
        if method in self.refused:
            raise StoreError(f"{method} was refused")


async def stored(store: SessionDB, session_id: str) -> tuple[Message, ...]:
    return tuple(row.message for row in await store.get_messages(session_id))


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("refused", ["append_messages_batch", "set_tool_result"])
def test_what_could_not_be_saved_is_saved_by_the_next_turn(
    refused: str, others: bool, tmp_path: Path
) -> None:
    """Also when turns of other sessions came between: nobody else wrote this one."""

    async def main() -> None:
        provider = ScriptedProvider(
            [
                text("Hello."),
                calls(call("terminal", {"command": "echo once >> ran.txt; cat ran.txt"})),
                text("It ran."),
                text("Bye."),
            ]
        )
        async with Unreliable(tmp_path / "state.db") as store:
            agent = AIAgent(
                provider=provider,
                session_db=store,
                session_id="s",
                enabled_toolsets=["terminal"],
                cwd=tmp_path,
            )
            other = AIAgent(provider=ScriptedProvider([text("x")]), session_db=store, session_id="other")
            async with agent, other:
                await agent.run_conversation("hi")
                store.refused = (refused,)
                failed = await agent.run_conversation("run it")
                assert failed["turn_exit_reason"] == "session_persistence_failed"
                assert not failed["saved"]
                store.refused = ()
                if others:
                    await other.run_conversation("hello")
                result = await agent.run_conversation("and now?")
                result = await agent.run_conversation("bye")
            rows = await stored(store, "s")
        assert rows == result["transcript"]
        assert result["saved"]
        assert rows[: len(failed["transcript"])] == failed["transcript"]
        assert validate(rows) == []
        outputs = [m.content for m in rows if isinstance(m, ToolMessage)]
        assert outputs == ["once"]
        assert (tmp_path / "ran.txt").read_text() == "once\n"

    asyncio.run(main())
