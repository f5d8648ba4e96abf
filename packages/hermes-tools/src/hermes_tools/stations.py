"""The stations `budgets`, `redaction` and `callbacks` of the path (see `hermes_tools.middleware`)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from hermes_messages.hygiene import clean_text
from hermes_messages.protocols import ToolStartCallback
from hermes_tools.middleware import Handler, Invocation, Outcome, call_host
from hermes_tools.output_limits import cut_middle
from hermes_tools.secrets import SecretMasker

__all__ = ["Budgets", "Callbacks", "Redaction"]

logger: logging.Logger = logging.getLogger(__name__)


class Budgets:
    """Calls per turn, and characters per result and round.

    A call beyond `call_limit` of a turn is refused. A result is cut to the tool's limit and to the call's
    share of the round; the full text goes to a file of the task, which `read_file` can page through.
    """

    FLOOR = 400

    def __init__(self, result_limit: int, call_limit: int | None = None) -> None:
        self._result_limit = result_limit
        self._call_limit = call_limit
        self._calls = 0

    def reset(self) -> None:
        """A new turn begins."""
        self._calls = 0

    async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
        """See `Middleware`."""
        if self._call_limit is not None:
            if self._calls >= self._call_limit:
                return Outcome(
                    f"Error: not run: the {self._call_limit} tool calls of this turn are used up. "
                    "Answer with what you have.",
                    "error",
                )
            self._calls += 1
        return await self.cut(call, await following(call))

    async def cut(self, call: Invocation, outcome: Outcome) -> Outcome:
        """`outcome` within the limits of `call`."""
        text = outcome.text
        if len(text) <= self.FLOOR and call.output_limit is None and self._result_limit >= self.FLOOR:
            call.budget.take(len(text))  # no share is smaller
            return outcome
        limit = min(call.output_limit or self._result_limit, call.budget.share())
        if len(text) > limit:
            note = await self._spill(call, text)
            outcome = outcome.saying(cut_middle(text, limit, note))
        call.budget.take(min(len(text), limit))
        return outcome

    @staticmethod
    async def _spill(call: Invocation, text: str) -> str:
        try:
            async with await call.context.resources.new_file(call.tool.spec.name) as file:
                await file.write(text.encode("utf-8", errors="replace"))
        except OSError as error:
            logger.warning("a long result could not be kept in a file: %s", error)
            return "[... {left_out} characters left out; they could not be kept ...]"
        path = file.path.replace("{", "{{").replace("}", "}}")
        return f"[... {{left_out}} characters left out; all of it is in {path} ...]"


class Redaction:
    """Hides the credentials that `masker` knows and makes invisible text harmless."""

    def __init__(self, masker: SecretMasker) -> None:
        self._masker = masker

    async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
        """See `Middleware`."""
        return self.redact(await following(call))

    def redact(self, outcome: Outcome) -> Outcome:
        """`outcome` with its text cleaned."""
        text = self.clean(outcome.text)
        reason = self.clean(outcome.pending) if outcome.pending else ""
        if text is outcome.text and reason == outcome.pending:
            return outcome
        return Outcome(text, outcome.status, reason)

    def clean(self, text: str) -> str:
        """`text` without credentials and invisible characters."""
        return self._masker.mask(clean_text(text))


class Callbacks:
    """Calls the round's `tool_start` before the tool runs. A callback that fails is logged, no more."""

    def __call__(self, call: Invocation, following: Handler, /) -> Awaitable[Outcome]:
        """See `Middleware`."""
        callback = call.context.round.tool_start
        return following(call) if callback is None else self._tell(callback, call, following)

    async def _tell(self, callback: ToolStartCallback, call: Invocation, following: Handler) -> Outcome:
        await call_host(lambda: callback(call.call), "tool_start")
        return await following(call)
