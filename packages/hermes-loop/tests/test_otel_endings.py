"""Every span ends, with a status, whatever becomes of the turn: failed, cancelled, left, or resumed later."""

from __future__ import annotations

import asyncio

import pytest

from hermes_loop import TurnEvent
from hermes_messages import ErrorKind, ProviderError
from hermes_messages.approvals import Approve
from hermes_messages.testing import (
    MemoryStore,
    ScriptStep,
    SimpleExecutor,
    broken,
    call,
    calls,
    error,
    hang,
    text,
)
from loop_help import later
from otel_help import ERROR, TOOLS, UNSET, Telemetry, agent, attributes, soon, status, turn

REFUSED: list[ScriptStep] = [error(ProviderError("no", kind=kind)) for kind in ErrorKind]
ENDINGS: list[tuple[list[ScriptStep], str]] = [
    *(([step] * 2, "") for step in REFUSED),
    ([broken(text("half an answer"), after=1, error=ErrorKind.TRANSPORT), text("whole")], "text_response"),
    ([text("")] * 4, ""),
    ([calls(call("nothing", {}))] * 6, "tool_loop"),
    ([calls(call("look", "{broken"))] * 6, ""),
]


@pytest.mark.parametrize(("script", "reason"), ENDINGS)
def test_every_span_ends_whatever_the_turn_comes_to(script: list[ScriptStep], reason: str) -> None:
    telemetry = Telemetry()
    result = turn(telemetry, *script, max_iterations=5)
    whole = telemetry.one("invoke_agent")
    found = attributes(whole)
    assert found["hermes.turn.exit_reason"] == result["turn_exit_reason"]
    assert result["turn_exit_reason"] == reason or not reason
    assert (whole.status.status_code is ERROR) == result["failed"]
    assert ("error.type" in found) == result["failed"]


@pytest.mark.parametrize(
    ("step", "inner", "told"),
    [
        (hang(), "chat scripted-model", "cancelled"),
        (calls(call("wait", {}), call("look", {"at": 1})), "execute_tool wait", "interrupted"),
    ],
)
def test_a_cancelled_turn_ends_its_spans_with_a_status(step: ScriptStep, inner: str, told: str) -> None:
    telemetry = Telemetry()

    async def main() -> None:
        async with agent(telemetry, step) as one:
            task = asyncio.create_task(one.run_conversation("Look."))
            for _ in range(100):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    whole = telemetry.one("invoke_agent")
    assert status(whole) == (ERROR, "cancelled")
    assert attributes(whole)["hermes.turn.exit_reason"] == "cancelled"
    assert status(telemetry.one(inner)) == (ERROR, told)


@pytest.mark.parametrize("resumptions", range(0, 60, 3))
def test_no_span_is_left_open_wherever_a_cancellation_comes(resumptions: int) -> None:
    telemetry = Telemetry()
    script = [
        soon(ErrorKind.RATE_LIMIT),
        calls(call("look", {"at": 1}), call("look", {"at": 2})),
        calls(call("fail", {})),
        text("Done."),
    ]

    async def main() -> None:
        async with agent(telemetry, *script, session_db=MemoryStore()) as one:
            task = asyncio.create_task(one.run_conversation("Look."))
            for _ in range(resumptions):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})

    asyncio.run(main())
    assert len(telemetry.named("invoke_agent")) <= 1  # `spans` fails while any is open


def test_an_interrupted_turn_ends_its_spans() -> None:
    telemetry = Telemetry()

    async def main() -> None:
        async with agent(telemetry, calls(call("wait", {}))) as one:
            task = asyncio.create_task(one.run_conversation("Look."))
            for _ in range(100):
                await asyncio.sleep(0)
            one.interrupt()
            assert (await task)["interrupted"]

    asyncio.run(main())
    assert status(telemetry.one("execute_tool wait")) == (ERROR, "interrupted")
    assert status(telemetry.one("invoke_agent")) == (UNSET, None)
    assert attributes(telemetry.one("invoke_agent"))["hermes.turn.exit_reason"] == "interrupted"


def test_a_stream_that_is_read_or_left_ends_its_spans() -> None:
    async def read(telemetry: Telemetry, stop: bool) -> list[TurnEvent]:
        seen: list[TurnEvent] = []
        async with agent(telemetry, text("one two three")) as one:
            events = one.stream("Look.")
            async for event in events:
                seen.append(event)
                if stop and len(seen) == 3:
                    break
            await events.aclose()
        return seen

    whole, left = Telemetry(), Telemetry()
    asyncio.run(read(whole, stop=False))
    asyncio.run(read(left, stop=True))
    assert whole.tree() == left.tree() == [("invoke_agent", None), ("chat scripted-model", "invoke_agent")]
    assert status(whole.one("invoke_agent")) == (UNSET, None)
    assert status(left.one("invoke_agent")) == (ERROR, "cancelled")


def test_a_resumed_turn_is_linked_to_the_one_that_waited() -> None:
    telemetry = Telemetry()

    async def main() -> None:
        async with agent(
            telemetry,
            calls(call("look", {"at": 1}, id="1")),
            text("Done."),
            text("And more."),
            tools=SimpleExecutor(TOOLS, needs_approval=["look"]),
            approval_callback=later,
            session_db=MemoryStore(),
        ) as one:
            await one.run_conversation("Look.")
            assert telemetry.named("execute_tool look") == []
            await one.resume({"1": Approve()})
            await one.run_conversation("And?")

    asyncio.run(main())
    waited, resumed, last = telemetry.named("invoke_agent")
    assert attributes(waited)["hermes.turn.exit_reason"] == "approval_pending"
    assert status(waited) == (UNSET, None)
    assert [link.context for link in resumed.links] == [waited.context]
    assert not last.links
    tool = telemetry.one("execute_tool look")
    assert tool.parent == resumed.context
    assert status(tool) == (UNSET, None)
