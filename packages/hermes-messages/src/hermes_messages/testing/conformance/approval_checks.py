"""What an executor that asks a person, and can wait for the answer, must do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from hermes_messages.approvals import (
    ApprovalAnswer,
    Approve,
    Deny,
    Later,
    pending_from_json,
    pending_to_json,
)
from hermes_messages.errors import ConfigurationError
from hermes_messages.messages import ToolCall, ToolMessage
from hermes_messages.protocols.tools import (
    ApprovalCallback,
    RoundOutcome,
    SupportsDecisions,
    Tool,
    ToolExecutor,
)
from hermes_messages.testing.conformance.report import (
    CANCEL_POINTS,
    UnmetError,
    cancel_after,
    expect,
    finish_within,
    made,
    run_checks,
)
from hermes_messages.testing.conformance.rounds import (
    RoundUnderCheck,
    check_outcome,
    no_new_tasks,
    statuses_of,
    texts_of,
    tool_call,
    turn_context,
)
from hermes_messages.testing.tools import ToolDouble

__all__ = ["AskingExecutor", "MakeAskingExecutor", "check_approvals"]


class AskingExecutor(ToolExecutor, SupportsDecisions, Protocol):
    """Both Protocols in one object."""


MakeAskingExecutor = Callable[[Sequence[Tool]], AskingExecutor | Awaitable[AskingExecutor]]
"""Makes an executor with these tools, each of which asks before it runs."""


async def check_approvals(make_executor: MakeAskingExecutor, *, limit_s: float = 20.0) -> None:
    """Check what `ToolExecutor` and `SupportsDecisions` say on approvals. Raises `ConformanceError`.

    `make_executor` makes a new executor that runs at least the tools it is given and asks before each call
    of the tool `guarded`, and of no other. Each check takes at most `limit_s` seconds.
    """
    await run_checks("SupportsDecisions", _ApprovalChecks(make_executor, limit_s), limit_s)


CALLS = (tool_call("a", "free"), tool_call("b", "guarded"), tool_call("c", "guarded"), tool_call("d", "free"))


class _Scene:
    """An executor with a guarded and a free tool."""

    def __init__(self, executor: AskingExecutor, guarded: ToolDouble, free: ToolDouble) -> None:
        self.executor = executor
        self.guarded = guarded
        self.free = free

    @property
    def ran(self) -> tuple[int, int]:
        """How many calls of the guarded and of the free tool were begun."""
        return len(self.guarded.arguments), len(self.free.arguments)


async def _always_later(_: ToolCall, __: str) -> ApprovalAnswer:
    await asyncio.sleep(0)
    return Later()


class _ApprovalChecks:
    def __init__(self, make_executor: MakeAskingExecutor, limit_s: float) -> None:
        self._make = make_executor
        self._limit_s = limit_s

    async def _scene(self, *, hangs: bool = False) -> _Scene:
        guarded = ToolDouble("guarded", [None] if hangs else ["guarded ran"], scheduling="sequential")
        free = ToolDouble("free", ["free ran"])
        executor = await made(self._make([guarded, free]))
        await executor.open()
        await executor.refresh(turn_context())
        return _Scene(executor, guarded, free)

    async def _execute(self, scene: _Scene, approval: ApprovalCallback | None) -> RoundOutcome:
        round_ = RoundUnderCheck(approval=approval)
        work = scene.executor.execute(CALLS, round_.context)
        outcome = await finish_within(work, self._limit_s / 2, "execute()")
        _check_pending(outcome, round_)
        return outcome

    async def _resume(
        self,
        scene: _Scene,
        results: Sequence[ToolMessage | None],
        decisions: Mapping[str, ApprovalAnswer],
        approval: ApprovalCallback | None = None,
    ) -> RoundOutcome:
        round_ = RoundUnderCheck(approval=approval)
        work = scene.executor.resume(CALLS, results, decisions, round_.context)
        outcome = await finish_within(work, self._limit_s / 2, "resume()")
        known = {position for position, result in enumerate(results) if result is not None}
        for position in known:
            expect(outcome.results[position] == results[position], "resume() changed a result it was given")
        expect(not known & {position for position, _ in round_.told}, "resume() told an old result again")
        _check_pending(outcome, round_, known)
        return outcome

    async def without_a_callback_it_is_denied(self) -> None:
        scene = await self._scene()
        round_ = RoundUnderCheck()
        outcome = await finish_within(
            scene.executor.execute(CALLS, round_.context), self._limit_s / 2, "execute()"
        )
        check_outcome(CALLS, outcome, round_)
        statuses = statuses_of(outcome)
        expect(statuses == ["ok", "denied", "denied", "ok"], f"statuses: {statuses}")
        expect(scene.ran == (0, 2), "a call that nobody could approve was run")
        await scene.executor.close()

    async def yes_runs_and_no_does_not(self) -> None:
        async def one_of_two(call: ToolCall, reason: str) -> ApprovalAnswer:
            expect(bool(reason.strip()), "the host was asked without a reason")
            return Approve() if call.id == "b" else Deny("not today")

        async def yes_or_no(call: ToolCall, _: str) -> ApprovalAnswer:
            return call.id == "b"

        for approval in (one_of_two, yes_or_no):
            scene = await self._scene()
            outcome = await self._execute(scene, approval)
            statuses = statuses_of(outcome)
            expect(statuses == ["ok", "ok", "denied", "ok"], f"statuses: {statuses}")
            expect(scene.ran == (1, 2), f"{scene.ran[0]} guarded calls were run instead of one")
            if approval is one_of_two:
                expect("not today" in texts_of(outcome)[2], "the model is not told the reason of a denial")
            await scene.executor.close()

    async def changed_arguments_are_used_and_told(self) -> None:
        async def other_ones(_: ToolCall, __: str) -> ApprovalAnswer:
            return Approve(arguments='{"path": "harmless"}')

        scene = await self._scene()
        outcome = await self._execute(scene, other_ones)
        expect(scene.guarded.arguments == [{"path": "harmless"}] * 2, f"ran with {scene.guarded.arguments}")
        expect("harmless" in texts_of(outcome)[1], "the model is not told the arguments that were used")
        await scene.executor.close()

    async def a_callback_that_fails_denies(self) -> None:
        async def fails(_: ToolCall, __: str) -> ApprovalAnswer:
            raise RuntimeError("nobody is there")

        async def says_nothing(_: ToolCall, __: str) -> ApprovalAnswer:
            return None  # type: ignore[return-value]

        for approval in (fails, says_nothing):
            scene = await self._scene()
            statuses = statuses_of(await self._execute(scene, approval))
            expect(statuses == ["ok", "denied", "denied", "ok"], f"statuses: {statuses}")
            await scene.executor.close()

    async def later_leaves_it_pending_and_runs_the_others(self) -> None:
        scene = await self._scene()
        outcome = await self._execute(scene, _always_later)
        statuses = statuses_of(outcome)
        expect(statuses == ["ok", "pending", "pending", "ok"], f"statuses: {statuses}")
        expect([item.position for item in outcome.pending] == [1, 2], f"pending: {outcome.pending}")
        expect(scene.ran == (0, 2), "a call was run although its approval is pending")
        stored = pending_from_json(pending_to_json(outcome.pending))
        expect(stored == outcome.pending, "pending approvals are not the same after a way through JSON")
        await scene.executor.close()

    async def a_round_is_resumed_by_another_executor(self) -> None:
        before = await self._scene()
        outcome = await self._execute(before, _always_later)
        await before.executor.close()
        scene = await self._scene()
        decisions: dict[str, ApprovalAnswer] = {"b": Approve(arguments='{"n": 1}'), "c": Deny("too risky")}
        outcome = await self._resume(scene, outcome.results, decisions)
        statuses = statuses_of(outcome)
        expect(statuses == ["ok", "ok", "denied", "ok"], f"statuses: {statuses}")
        expect(scene.ran == (1, 0), "resume() ran something else than the approved call")
        expect(scene.guarded.arguments == [{"n": 1}], f"ran with {scene.guarded.arguments}")
        expect("too risky" in texts_of(outcome)[2], "the model is not told the reason of a denial")
        await scene.executor.close()

    async def what_is_not_decided_stays_pending(self) -> None:
        asked: list[str] = []

        async def asks(call: ToolCall, _: str) -> ApprovalAnswer:
            asked.append(call.id)
            return True

        scene = await self._scene()
        results = (await self._execute(scene, _always_later)).results
        nothing = await self._resume(scene, results, {}, asks)
        expect(statuses_of(nothing) == ["ok", "pending", "pending", "ok"], "an undecided call was settled")
        one = await self._resume(scene, results, {"b": Later(), "c": True}, asks)
        expect(statuses_of(one) == ["ok", "pending", "ok", "ok"], f"statuses: {statuses_of(one)}")
        both = await self._resume(scene, one.results, {"b": False}, asks)
        expect(statuses_of(both) == ["ok", "denied", "ok", "ok"], f"statuses: {statuses_of(both)}")
        expect(scene.ran == (1, 2), "a call ran that had a result, or that nobody approved")
        expect(not asked, "resume() asked about a call that it was to settle as decided")
        await scene.executor.close()

    async def bad_decisions_are_refused_before_anything_runs(self) -> None:
        scene = await self._scene()
        results = (await self._execute(scene, _always_later)).results
        alien = ToolMessage("other", "x")
        bad: list[tuple[Sequence[ToolMessage | None], Mapping[str, ApprovalAnswer]]] = [
            (results, {"b": True, "nobody": True}),
            (results, {"b": True, "a": True}),
            (results, {"b": True, "c": Approve(arguments="[1]")}),
            (results, {"b": True, "c": Approve(arguments='{"n": ')}),
            (results[:3], {"b": True}),
            ((alien, *results[1:]), {"b": True}),
            (results, {"b": True, "c": "yes"}),  # type: ignore[dict-item]
        ]
        for given, decisions in bad:
            try:
                await scene.executor.resume(CALLS, given, decisions, RoundUnderCheck().context)
            except ConfigurationError:
                continue
            raise UnmetError(f"resume() took {decisions}")
        expect(scene.ran[0] == 0, "a call was run although the decisions were refused")
        await scene.executor.close()

    async def an_interrupt_settles_what_waits(self) -> None:
        asked = asyncio.Event()

        async def first_later_then_silence(call: ToolCall, _: str) -> ApprovalAnswer:
            if call.id == "b":
                return Later()
            asked.set()
            await asyncio.get_running_loop().create_future()
            return True

        scene = await self._scene()
        round_ = RoundUnderCheck(approval=first_later_then_silence)
        work = asyncio.ensure_future(scene.executor.execute(CALLS, round_.context))
        await finish_within(asked.wait(), self._limit_s / 4, "asking the host")
        round_.interrupt.request()
        outcome = await finish_within(work, self._limit_s / 2, "an interrupted execute()")
        check_outcome(CALLS, outcome, round_)
        expect(statuses_of(outcome)[1:3] == ["not_started"] * 2, f"statuses: {statuses_of(outcome)}")
        results = (await self._execute(scene, _always_later)).results
        round_ = RoundUnderCheck()
        round_.interrupt.request()
        outcome = await scene.executor.resume(CALLS, results, {"b": True}, round_.context)
        expect(statuses_of(outcome)[1:3] == ["not_started"] * 2, f"statuses: {statuses_of(outcome)}")
        expect(scene.ran[0] == 0, "a call was run after the interrupt")
        await scene.executor.close()

    async def cancelling_while_it_asks_leaves_nothing(self) -> None:
        asked, ended = asyncio.Event(), 0

        async def silent(_: ToolCall, __: str) -> ApprovalAnswer:
            nonlocal ended
            asked.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended += 1
            return True

        scene = await self._scene()
        before = asyncio.all_tasks()
        round_ = RoundUnderCheck(approval=silent)
        work = asyncio.ensure_future(scene.executor.execute(CALLS, round_.context))
        await finish_within(asked.wait(), self._limit_s / 4, "asking the host")
        work.cancel()
        await finish_within(asyncio.wait({work}), self._limit_s / 4, "a cancelled execute()")
        expect(work.cancelled(), "a cancelled execute() did not raise CancelledError")
        expect(ended > 0, "the host is still being asked after the cancellation")
        await no_new_tasks(before, "a cancelled execute()")
        expect(scene.ran[0] == 0, "a call was run that nobody approved")
        await scene.executor.close()

    async def cancelling_resume_anywhere_leaves_nothing(self) -> None:
        scene = await self._scene()
        results = (await self._execute(scene, _always_later)).results
        for turns in CANCEL_POINTS:
            before = asyncio.all_tasks()
            round_ = RoundUnderCheck()
            work = scene.executor.resume(CALLS, results, {"b": True, "c": True}, round_.context)
            await cancel_after(work, turns, self._limit_s / 4)
            expect(scene.guarded.running == 0, f"cancelled after {turns} turns, a tool is still running")
            await no_new_tasks(before, f"resume() cancelled after {turns} turns")
        await scene.executor.close()


def _check_pending(outcome: RoundOutcome, round_: RoundUnderCheck, known: Collection[int] = ()) -> None:
    """What holds for a round with pending calls: each call has one result or is pending; told once."""
    expect(len(outcome.results) == len(CALLS), f"{len(outcome.results)} results for {len(CALLS)} calls")
    pending = {item.position: item for item in outcome.pending}
    told = dict(round_.told)
    expect(len(told) == len(round_.told), "on_result was called twice for one call")
    for position, (call, result) in enumerate(zip(CALLS, outcome.results, strict=True)):
        if result is None:
            expect(position in pending, f"call {call.id!r} has no result and is not pending")
            expect(pending[position].call == call, f"the pending approval at {position} is of another call")
            expect(bool(pending[position].reason), "a pending approval says no reason")
        else:
            expect(position not in pending, f"call {call.id!r} has a result and is pending as well")
            expect(result.tool_call_id == call.id, f"call {call.id!r} got another call's result")
            expect(position in known or told.get(position) == result, f"result {position} was not told")
