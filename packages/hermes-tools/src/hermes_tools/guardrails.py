"""The station `guardrails`: a model that repeats what fails is told so, then stopped."""

from __future__ import annotations

import json

from hermes_messages import JsonObject, ToolCall
from hermes_tools.middleware import Handler, Invocation, Outcome

__all__ = ["Guardrails"]

_FAILED = frozenset(("error", "timed_out", "denied"))


class Guardrails:
    """Counts failures in a row; `limit` 0 counts nothing.

    The same call (tool and arguments, however they are written) that fails `limit` times is told to stop with
    the last of these results, and refused from then on. Any call that succeeds starts the count again. A call
    of a tool that does not exist, or without a name, is told to stop when it is the `limit`th in a row,
    whatever names were tried. One object serves one executor; `reset` begins a turn.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._failures: dict[tuple[str, bytes], int] = {}
        self._unknown = 0

    def reset(self) -> None:
        """Forget all failures."""
        self._failures.clear()
        self._unknown = 0

    async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
        """See `Middleware`."""
        refused = self.refusal(call.tool.spec.name, call.arguments)
        if refused is not None:
            return refused
        return self.note(call.tool.spec.name, call.arguments, await following(call))

    def refusal(self, name: str, arguments: JsonObject | str) -> Outcome | None:
        """The outcome of a call that may not be tried again, else None."""
        if not self._failures:
            return None
        failures = self._failures.get(_key(name, arguments), 0)
        if failures < self._limit:
            return None
        return Outcome(
            f"Error: this call failed {failures} times in a row with the same arguments and was not run "
            "again. Do something else, or answer with what you have.",
            "error",
        )

    def note(self, name: str, arguments: JsonObject | str, outcome: Outcome) -> Outcome:
        """Count `outcome`; it, with a word of warning where that is due."""
        self._unknown = 0
        if outcome.status == "ok":
            if self._failures:
                self._failures.clear()
            return outcome
        if not self._limit or outcome.pending or outcome.status not in _FAILED:
            return outcome
        key = _key(name, arguments)
        count = self._failures[key] = self._failures.get(key, 0) + 1
        if count != self._limit or count == 1:
            return outcome
        return outcome.saying(
            f"{outcome.text}\n[This same call has now failed {count} times in a row; it will not be run "
            "again. Change the arguments or do something else.]"
        )

    def note_unknown(self, call: ToolCall, outcome: Outcome) -> Outcome:
        """Count a call of a tool that does not exist."""
        if not self._limit:
            return outcome
        self._unknown += 1
        if self._unknown < self._limit:
            return outcome
        named = "no tool at all" if not call.name.strip() else "a tool that does not exist"
        return outcome.saying(
            f"{outcome.text}\n[{self._unknown} calls in a row named {named}. "
            "Use one of the tools above by its exact name, or answer without a tool.]"
        )


def _key(name: str, arguments: JsonObject | str) -> tuple[str, bytes]:
    if isinstance(arguments, str):
        return name, arguments.encode("utf-8", errors="replace")
    return name, json.dumps(arguments, sort_keys=True).encode()  # takes half characters, too
