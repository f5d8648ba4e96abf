from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_messages import ToolCall, ToolMessage
from hermes_messages.protocols import Approve, Deny, Later, RoundContext, RoundOutcome, Scheduling
from hermes_messages.testing import FunctionTool, InterruptFlag
from hermes_tools import ApprovalPolicy, ApprovalRule, Executor, ExecutorSettings
from hermes_tools.scheduling import plan_groups

CLASSES = st.sampled_from(["parallel", "sequential", "interactive"])


def test_neighbours_share_a_group_and_barriers_stand_alone() -> None:
    plan = plan_groups(["parallel", "parallel", "sequential", "parallel", "interactive", "sequential"])
    assert plan == [(0, 1), (2,), (3,), (4,), (5,)]
    assert plan_groups([]) == []


@given(st.lists(CLASSES, max_size=30))
def test_every_call_is_planned_once_in_order_and_only_parallel_ones_together(classes: list[Any]) -> None:
    plan = plan_groups(classes)
    assert [position for group in plan for position in group] == list(range(len(classes)))
    assert all(classes[position] == "parallel" for group in plan if len(group) > 1 for position in group)


EXAMPLES = {"ci": 150, "nightly": 3_000}[os.environ.get("HERMES_TEST_PROFILE", "ci")]
ENDINGS = st.sampled_from(["text", "error", "cancel", "group", "exit", "ignores", "timeout"])
ANSWERS = st.sampled_from(["free"] * 6 + ["yes", "no", "later", "changed", "fails", "silent"])
BATCH = st.lists(st.tuples(CLASSES, ENDINGS, st.integers(0, 4), ANSWERS), min_size=1, max_size=14)
POLICY = ApprovalPolicy(rules=(ApprovalRule("allow", pattern="free"), ApprovalRule("ask", pattern="*")))


class Scene:
    """A round of random calls, and what was seen to be wrong while it ran."""

    def __init__(self, batch: list[tuple[Any, str, int, str]], limit: int, *, may_wait: bool) -> None:
        self.batch = batch
        self.limit = limit
        self.may_wait = may_wait
        self.decided = False
        self.stopped_at_work = False
        self.running: set[int] = set()
        self.asking: set[int] = set()
        self.ran: list[int] = []
        self.stored: list[int] = []
        self.problems: list[str] = []
        self.interrupt = InterruptFlag()
        self.calls = [
            ToolCall(f"c{n}", kind, json.dumps({"n": n, "answer": answer}))
            for n, (kind, _, _, answer) in enumerate(batch)
        ]
        self.context = RoundContext(
            session_id="s",
            task_id="t",
            turn_id="u",
            cwd="/",
            interrupt=self.interrupt,
            on_result=self.on_result,
            approval=self.approve,
        )

    def executor(self) -> Executor:
        kinds: tuple[Scheduling, ...] = ("parallel", "sequential", "interactive")
        settings = ExecutorSettings(
            parallel_limit=self.limit, timeout_s=0.02, stop_limit_s=300, approval_policy=POLICY
        )
        return Executor((), [FunctionTool(k, self.body, scheduling=k) for k in kinds], settings=settings)

    def stands_alone(self, position: int) -> bool:
        scheduling, _, _, answer = self.batch[position]
        return scheduling != "parallel" or (answer != "free" and not self.decided)

    async def on_result(self, position: int, _: ToolMessage) -> None:
        await asyncio.sleep(0)
        self.stored.append(position)

    async def approve(self, call: ToolCall, _: str) -> Any:
        position = json.loads(call.arguments)["n"]
        if self.running or self.asking:
            self.problems.append(f"{position} is asked about while {self.running | self.asking} go on")
        self.asking.add(position)
        try:
            await asyncio.sleep(0)
            match self.batch[position][3]:
                case "no":
                    return Deny("no")
                case "later":
                    return Later()
                case "changed":
                    return Approve(json.dumps({"n": position, "answer": "free"}))
                case "fails":
                    raise ValueError("nobody there")
                case "silent" if self.may_wait:
                    await asyncio.Event().wait()
            return True
        finally:
            self.asking.discard(position)

    async def body(self, arguments: Any) -> str:
        position = arguments["n"]
        _, ending, delay, _ = self.batch[position]
        if self.running and (self.stands_alone(position) or any(map(self.stands_alone, self.running))):
            self.problems.append(f"{position} overlaps {self.running}")
        if position in self.ran:
            self.problems.append(f"{position} runs again")
        self.ran.append(position)
        self.running.add(position)
        if len(self.running) > self.limit:
            self.problems.append(f"{len(self.running)} at once")
        try:
            for _ in range(delay):
                await asyncio.sleep(0)
            return await _end(ending, position)
        finally:
            self.running.discard(position)

    def check(self, outcome: RoundOutcome) -> None:
        """What holds for every round that came to its end."""
        pending = {item.position for item in outcome.pending}
        for position, (call, result) in enumerate(zip(self.calls, outcome.results, strict=True)):
            assert (result is None) == (position in pending)
            assert result is None or result.tool_call_id == call.id
            if result is None or result.status in ("denied", "not_started"):
                assert position not in self.ran
            if result is None:
                assert self.batch[position][3] == "later"
        assert sorted(self.stored) == [n for n in range(len(self.calls)) if n not in pending]
        assert not (self.stopped_at_work and pending)


@settings(max_examples=EXAMPLES, deadline=None)
@given(batch=BATCH, limit=st.integers(1, 5), stop=st.none() | st.integers(0, 30), cancel=st.booleans())
def test_order_barriers_limit_and_no_surviving_task(
    batch: list[tuple[Any, str, int, str]], limit: int, stop: int | None, cancel: bool
) -> None:
    """Random classes, delays, failures and answers of a host, at times an interrupt or a cancellation; what
    is left pending is approved afterwards, by another executor."""
    scene = Scene(batch, limit, may_wait=stop is not None)

    async def main() -> None:
        executor = scene.executor()
        round_ = asyncio.ensure_future(executor.execute(scene.calls, scene.context))
        if stop is not None:
            for _ in range(stop):
                await asyncio.sleep(0)
            # An interrupt that comes when all is done, or waits, is the caller's to see.
            scene.stopped_at_work = bool(scene.running or scene.asking) and not cancel
            round_.cancel() if cancel else scene.interrupt.request()
        try:
            async with asyncio.timeout(120):
                outcome = await round_
        except asyncio.CancelledError:
            assert cancel
            assert stop is not None
        else:
            scene.check(outcome)
            await executor.close()
            if outcome.pending:
                decisions = {item.call.id: True for item in outcome.pending}
                second = scene.executor()
                scene.decided = True  # nobody is asked any more
                finished = await second.resume(scene.calls, outcome.results, decisions, scene.context)
                scene.check(finished)
                assert not finished.pending
                assert all(
                    old in (None, new) for old, new in zip(outcome.results, finished.results, strict=True)
                )
                await second.close()
        finally:
            await executor.close()
        assert not scene.running | scene.asking
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert not scene.problems, scene.problems


async def _end(ending: str, position: int) -> str:
    match ending:
        case "error":
            raise ValueError(str(position))
        case "cancel":
            raise asyncio.CancelledError
        case "group":
            raise ExceptionGroup("g", [ValueError("a"), OSError("b")])
        case "exit":
            raise SystemExit(3)
        case "ignores":
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                return "went on"
        case "timeout":
            await asyncio.Event().wait()
        case _:
            pass
    return str(position)
