"""The station `approval`: what the policy allows runs, what it denies does not; a host is asked about others.

Nothing is ever asked on a terminal, and no time limit runs while a host thinks. Without a callback a call
that would be asked about is denied, and the model is told why.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable

from hermes_messages import ArgumentsError, ConfigurationError, parse_arguments
from hermes_messages.approvals import ApprovalDecision, Approve, Deny, Later, read_decision
from hermes_tools.approval_policy import ApprovalPolicy, Judgement
from hermes_tools.arguments import fit_arguments
from hermes_tools.errors import ArgumentsMismatchError
from hermes_tools.middleware import Handler, Invocation, Outcome
from hermes_tools.stations import Redaction

__all__ = ["Approvals"]

logger: logging.Logger = logging.getLogger(__name__)


class Approvals:
    """Applies `policy`. Reasons are cleaned by `redaction` before a host sees or stores them."""

    def __init__(self, policy: ApprovalPolicy, redaction: Redaction) -> None:
        self.policy = policy
        self._redaction = redaction

    def __call__(self, call: Invocation, following: Handler, /) -> Awaitable[Outcome]:
        """See `Middleware`."""
        judgement = self.policy.judge(call.tool.spec.name, call.arguments)
        if judgement.action == "allow" and call.decision is None:
            return following(call)
        return self._apply(judgement, call, following)

    async def _apply(self, judgement: Judgement, call: Invocation, following: Handler) -> Outcome:
        if judgement.action == "deny":
            return _denied(f"not allowed here: {judgement.reason}")
        if call.decision is not None:
            return await self._follow(call, call.decision, judgement.reason, following)
        reason = self._redaction.clean(judgement.reason)
        return await self._follow(call, await _ask(call, reason), reason, following)

    async def _follow(
        self, call: Invocation, decision: ApprovalDecision, reason: str, following: Handler
    ) -> Outcome:
        match decision:
            case Deny(reason=why):
                return _denied(why or "the user did not approve it")
            case Later():
                return Outcome("Not run: it waits for an approval.", "not_started", reason or "it waits")
            case Approve(arguments=changed):
                if changed is None:
                    return await following(call)
                return await self._run_changed(call, changed, following)

    async def _run_changed(self, call: Invocation, changed: str, following: Handler) -> Outcome:
        """Run the call with the arguments of whoever approved it. What the policy denies stays denied."""
        try:
            arguments = fit_arguments(parse_arguments(changed), call.schema)
        except (ArgumentsError, ArgumentsMismatchError) as error:
            return Outcome(
                f"Error: not run: it was approved with arguments that do not fit: {error}", "error"
            )
        judgement = self.policy.judge(call.tool.spec.name, arguments)
        if judgement.action == "deny":
            return _denied(f"approved with arguments that are not allowed here: {judgement.reason}")
        outcome = await following(call.with_arguments(arguments))
        return outcome.saying(f"[Run with arguments that the user changed: {changed}]\n{outcome.text}")


def _denied(reason: str) -> Outcome:
    return Outcome(f"Denied, and not run: {reason}", "denied")


async def _ask(call: Invocation, reason: str) -> ApprovalDecision:
    """What the host decides. A callback that is not there, fails, or answers nonsense, denies."""
    callback = call.context.round.approval
    if callback is None:
        return Deny(f"it needs an approval ({reason}), and nobody can be asked here")
    try:
        answer: object = callback(call.call, reason)
        if inspect.isawaitable(answer):
            answer = await answer
        return read_decision(answer)
    except ConfigurationError as error:
        logger.warning("the approval callback answered nonsense; the call is denied: %s", error)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        logger.warning("the approval callback awaited something that was cancelled; the call is denied")
    except Exception:  # whatever goes wrong with asking, silence is no approval
        logger.exception("the approval callback failed; the call is denied")
    return Deny("the user could not be asked")
