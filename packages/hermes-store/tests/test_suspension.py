"""Rounds that wait for a person, and the small state that a session keeps."""

import asyncio
from pathlib import Path

import pytest

from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    LeaseLostError,
    SessionNotFoundError,
    StoreError,
    ToolCall,
    ToolMessage,
    Usage,
)
from hermes_store import CallRecord, ModelUsage, SessionDB

CALLS = AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")))


def test_nobody_closes_a_round_that_waits_for_a_decision(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            crashed = await db.begin_tool_round("s", "crashed", CALLS)
            round_ = await db.begin_tool_round("s", "r", CALLS)
            await db.set_tool_result(round_, 0, ToolMessage("a", "ran"))
            await db.suspend_round(round_, [{"call": "b", "why": "rm -r"}])
        async with SessionDB(tmp_path / "s.db") as db:
            assert await db.open_rounds("s") == [crashed, round_]
            assert await db.close_open_rounds("s") == 2
            [waiting] = await db.suspended_rounds("s")
            assert waiting.round == round_
            assert waiting.pending == [{"call": "b", "why": "rm -r"}]
            assert await db.open_rounds("s") == [round_]
            await db.set_tool_result(round_, 1, ToolMessage("b", "denied", status="denied"))
            assert await db.suspended_rounds("s") == []
            with pytest.raises(StoreError, match="no open round"):
                await db.suspend_round(round_, None)

    asyncio.run(main())


def test_a_round_that_is_resumed_is_an_open_one_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            lease = await db.try_acquire_session_turn_lease("s", "me", 60)
            round_ = await db.begin_tool_round("s", "r", CALLS, lease=lease)
            await db.suspend_round(round_, "first", lease=lease)
            await db.suspend_round(round_, "second", lease=lease)
            with pytest.raises(LeaseLostError):
                await db.suspend_round(round_, "late")
            with pytest.raises(LeaseLostError):
                await db.resume_round(round_)
            assert [item.pending for item in await db.suspended_rounds("s")] == ["second"]
            await db.resume_round(round_, lease=lease)
            await db.resume_round(round_, lease=lease)
            assert await db.suspended_rounds("s") == []
            assert await db.close_open_rounds("s", lease=lease) == 2
            with pytest.raises(ConfigurationError, match="JSON"):
                await db.suspend_round(round_, {1, 2}, lease=lease)  # type: ignore[arg-type]

    asyncio.run(main())


def test_state_belongs_to_its_session_and_survives(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.create_session("t")
            await db.set_session_state("s", "todos", [{"task": "W\x00 \ud800", "done": False}])
            await db.set_session_state("s", "pending_approvals", {"n": 1})
            await db.set_session_state("s", "pending_approvals", {"n": 2})
        async with SessionDB(tmp_path / "s.db") as db:
            assert await db.get_session_state("s", "todos") == [{"task": "W\x00 \ud800", "done": False}]
            assert await db.get_session_state("s", "pending_approvals") == {"n": 2}
            assert await db.get_session_state("t", "todos") is None
            await db.set_session_state("s", "todos", None)
            assert await db.get_session_state("s", "todos") is None
            with pytest.raises(SessionNotFoundError):
                await db.set_session_state("absent", "todos", 1)
            with pytest.raises(ConfigurationError, match="state 'x'"):
                await db.set_session_state("s", "x", float("nan"))
            await db.delete_session("s")
            await db.create_session("s")
            assert await db.get_session_state("s", "pending_approvals") is None

    asyncio.run(main())


def test_usage_is_kept_per_call_and_summed_per_model(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s", model="small", provider="p")
            await db.create_session("t", model="small", provider="p")
            first = Usage(input_tokens=10, output_tokens=1, cost_usd=0.5)
            await db.update_token_counts("s", first, api_calls=1, uid="call-1")
            await db.update_token_counts("s", first, api_calls=1, uid="call-1")
            await db.update_token_counts("s", Usage(input_tokens=5), api_calls=2, model="large")
            await db.update_token_counts("s", None, api_calls=1)
            await db.update_token_counts("t", Usage(input_tokens=7), api_calls=1, uid="call-1")
            calls = await db.get_calls("s")
            assert [(call.model, call.api_calls, call.usage.input_tokens) for call in calls] == [
                ("small", 1, 10),
                ("large", 2, 5),
                ("small", 1, None),
            ]
            assert isinstance(calls[0], CallRecord)
            assert await db.get_usage_by_model("s") == [
                ModelUsage(model="large", provider="p", api_calls=2, usage=Usage(input_tokens=5)),
                ModelUsage(model="small", provider="p", api_calls=2, usage=first),
            ]
            [_, small] = await db.get_usage_by_model()
            assert small.usage.input_tokens == 17
            record = await db.get_session("s")
            assert record is not None
            assert (record.api_calls, record.usage) == (
                4,
                Usage(input_tokens=15, output_tokens=1, cost_usd=0.5),
            )
            with pytest.raises(SessionNotFoundError):
                await db.get_usage_by_model("absent")

    asyncio.run(main())


def test_only_tools_that_may_run_twice_are_run_again_after_a_crash(tmp_path: Path) -> None:
    """The calls that lack a result are told with their places; the rest get unknown results."""

    async def main() -> None:
        path = tmp_path / "s.db"
        named = AssistantMessage(
            tool_calls=(
                ToolCall("a", "send", "{}"),
                ToolCall("b", "look", '{"n": 1}'),
                ToolCall("c", "look", "{}"),
            )
        )
        async with SessionDB(path) as db:
            await db.create_session("s")
            round_ = await db.begin_tool_round("s", "r", named)
            await db.set_tool_result(round_, 2, ToolMessage("c", "done before"))
            waiting = await db.begin_tool_round("s", "w", named)
            await db.suspend_round(waiting, {})
        async with SessionDB(path) as db:
            missing = await db.interrupted_calls("s")
            assert [(item.round, item.position, item.call) for item in missing] == [
                (round_, 0, named.tool_calls[0]),
                (round_, 1, named.tool_calls[1]),
            ]
            for item in missing:
                if item.call.name == "look":
                    again = ToolMessage(item.call.id, "seen")
                    await db.set_tool_result(item.round, item.position, again)
            assert await db.close_open_rounds("s") == 1
            assert await db.interrupted_calls("s") == []
            results = [item.message for item in await db.get_messages("s") if item.uid.startswith("r/")]
            assert [(item.content, item.status) for item in results if isinstance(item, ToolMessage)][1:] == [
                ("seen", "ok"),
                ("done before", "ok"),
            ]
            with pytest.raises(SessionNotFoundError):
                await db.interrupted_calls("nobody")

    asyncio.run(main())
