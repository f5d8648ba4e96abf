"""The check passes for a good executor and names each promise that a bad one breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec
import pytest

from hermes_messages import ConfigurationError, ToolCall, ToolMessage
from hermes_messages.approvals import Approve, Later, PendingApproval
from hermes_messages.protocols import ApprovalAnswer, ApprovalCallback, RoundContext, RoundOutcome, Tool
from hermes_messages.testing import (
    ConformanceError,
    InterruptFlag,
    SimpleExecutor,
    ToolDouble,
    check_approvals,
)
from hermes_messages.testing.conformance import approval_checks


class Asking(SimpleExecutor):
    """Asks before each call of the tool `guarded`."""

    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        super().__init__(tools, needs_approval=["guarded"])


class NobodyMeansYes(Asking):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        async def yes(_: ToolCall, __: str) -> ApprovalAnswer:
            return True

        approval = context.approval or yes
        return await super().execute(calls, msgspec.structs.replace(context, approval=approval))


class AnswersAnew(Asking):
    """Hears something else than what the host answered."""

    async def answer(self, ask: ApprovalCallback, call: ToolCall, reason: str) -> ApprovalAnswer:
        return await ask(call, reason)

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        ask = context.approval
        if ask is None:
            return await super().execute(calls, context)

        async def anew(call: ToolCall, reason: str) -> ApprovalAnswer:
            return await self.answer(ask, call, reason)

        return await super().execute(calls, msgspec.structs.replace(context, approval=anew))


class EveryAnswerMeansYes(AnswersAnew):
    async def answer(self, ask: ApprovalCallback, call: ToolCall, reason: str) -> ApprovalAnswer:
        answer = await ask(call, reason)
        return answer if isinstance(answer, Approve | Later) else True


class FailureMeansYes(AnswersAnew):
    async def answer(self, ask: ApprovalCallback, call: ToolCall, reason: str) -> ApprovalAnswer:
        try:
            return await ask(call, reason)
        except RuntimeError:
            return True


class ForgetsTheChange(AnswersAnew):
    async def answer(self, ask: ApprovalCallback, call: ToolCall, reason: str) -> ApprovalAnswer:
        answer = await ask(call, reason)
        return True if isinstance(answer, Approve) else answer


class StopsAtTheFirstPending(Asking):
    """What comes after a pending call is not run."""

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        done = await super().execute(calls[:2], context)
        if not done.pending:
            return await super().execute(calls, context)
        waiting = (
            *done.pending,
            *(PendingApproval(call=c, position=n, reason="?") for n, c in enumerate(calls)),
        )
        return RoundOutcome(results=(*done.results, None, None), pending=waiting[:1] + waiting[3:])


class RunsEverythingAgain(Asking):
    async def resume(
        self,
        calls: Sequence[ToolCall],
        results: Sequence[ToolMessage | None],
        decisions: Mapping[str, ApprovalAnswer],
        context: RoundContext,
    ) -> RoundOutcome:
        everything = {call.id: decisions.get(call.id, Approve()) for call in calls}
        return await super().resume(calls, [None] * len(calls), everything, context)


class UndecidedMeansYes(Asking):
    async def resume(
        self,
        calls: Sequence[ToolCall],
        results: Sequence[ToolMessage | None],
        decisions: Mapping[str, ApprovalAnswer],
        context: RoundContext,
    ) -> RoundOutcome:
        missing = [call.id for call, result in zip(calls, results, strict=False) if result is None]
        return await super().resume(calls, results, dict.fromkeys(missing, True) | dict(decisions), context)


class TakesAnyDecision(Asking):
    async def resume(
        self,
        calls: Sequence[ToolCall],
        results: Sequence[ToolMessage | None],
        decisions: Mapping[str, ApprovalAnswer],
        context: RoundContext,
    ) -> RoundOutcome:
        try:
            return await super().resume(calls, results, decisions, context)
        except ConfigurationError:
            return RoundOutcome(results=tuple(results))


class InterruptLeavesPending(Asking):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        outcome = await super().execute(calls, context)
        if not context.interrupt.requested:
            return outcome
        return RoundOutcome(results=(outcome.results[0], None, *outcome.results[2:]))


class KeepsAsking(Asking):
    """The host is asked on after the round was cancelled."""

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        ask = context.approval

        async def deaf(call: ToolCall, reason: str) -> ApprovalAnswer:
            assert ask is not None
            return await asyncio.shield(asyncio.ensure_future(ask(call, reason)))

        changed = msgspec.structs.replace(context, approval=deaf if ask else None)
        return await super().execute(calls, changed)


class ResumesInTheBackground(Asking):
    async def resume(
        self,
        calls: Sequence[ToolCall],
        results: Sequence[ToolMessage | None],
        decisions: Mapping[str, ApprovalAnswer],
        context: RoundContext,
    ) -> RoundOutcome:
        work = super().resume(calls, results, decisions, context)
        return await asyncio.shield(asyncio.ensure_future(work))


BROKEN: list[tuple[Callable[[Sequence[Tool]], Asking], str]] = [
    (NobodyMeansYes, "without_a_callback_it_is_denied"),
    (EveryAnswerMeansYes, "yes_runs_and_no_does_not"),
    (ForgetsTheChange, "changed_arguments_are_used_and_told"),
    (FailureMeansYes, "a_callback_that_fails_denies"),
    (StopsAtTheFirstPending, "later_leaves_it_pending_and_runs_the_others"),
    (RunsEverythingAgain, "a_round_is_resumed_by_another_executor"),
    (UndecidedMeansYes, "what_is_not_decided_stays_pending"),
    (TakesAnyDecision, "bad_decisions_are_refused_before_anything_runs"),
    (InterruptLeavesPending, "an_interrupt_settles_what_waits"),
    (KeepsAsking, "cancelling_while_it_asks_leaves_nothing"),
    (ResumesInTheBackground, "cancelling_resume_anywhere_leaves_nothing"),
]


def test_the_simple_executor_passes() -> None:
    asyncio.run(check_approvals(Asking, limit_s=600))


@pytest.mark.parametrize(("make", "promise"), BROKEN)
def test_a_broken_promise_is_found(make: Callable[[Sequence[Tool]], Asking], promise: str) -> None:
    async def main() -> None:
        try:
            await check_approvals(make, limit_s=2)
        finally:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    with pytest.raises(ConformanceError) as caught:
        asyncio.run(main())
    assert promise in {broken.check for broken in caught.value.broken}


def test_every_check_was_seen_to_fail() -> None:
    names = {name for name in vars(approval_checks._ApprovalChecks) if not name.startswith("_")}
    assert names == {promise for _, promise in BROKEN}


def test_a_missing_call_of_a_tool_that_is_gone_gets_an_error_only_once_it_is_decided() -> None:
    async def main() -> None:
        async def on_result(_: int, __: ToolMessage) -> None:
            return None

        context = RoundContext(
            session_id="s", task_id="t", turn_id="u", cwd="/", interrupt=InterruptFlag(), on_result=on_result
        )
        executor = SimpleExecutor([ToolDouble("other")])
        calls = [ToolCall("a", "gone", "{}")]
        undecided = await executor.resume(calls, [None], {}, context)
        assert [item.call.id for item in undecided.pending] == ["a"]
        [result] = (await executor.resume(calls, [None], {"a": True}, context)).results
        assert result is not None
        assert result.status == "error"

    asyncio.run(main())
