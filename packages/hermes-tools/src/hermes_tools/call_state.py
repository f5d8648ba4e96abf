"""Where one call of a round stands."""

from __future__ import annotations

import asyncio
from typing import Literal

from hermes_messages import ArgumentsError, JsonObject, ToolCall, parse_arguments_tolerantly
from hermes_tools.arguments import fit_arguments
from hermes_tools.errors import ArgumentsMismatchError
from hermes_tools.middleware import Invocation, Outcome
from hermes_tools.registry import RegisteredTool

__all__ = ["CallState", "Phase", "StopReason"]

Phase = Literal["waiting", "tool", "storing", "telling"]
StopReason = Literal["interrupted", "timed_out", "round stopped"]


class CallState:
    """`phase` says what the call's task is doing, `stop` why it was told to end, `begun` whether its tool was
    reached. `arguments` are those that fit the schema; None where there is no tool or they do not, and
    `problem` says why."""

    __slots__ = (
        "abandoned",
        "arguments",
        "begun",
        "call",
        "entry",
        "invocation",
        "own_outcome",
        "phase",
        "position",
        "problem",
        "stop",
        "task",
        "timers",
    )

    def __init__(self, position: int, call: ToolCall, entry: RegisteredTool | None) -> None:
        self.position: int = position
        self.call: ToolCall = call
        self.entry: RegisteredTool | None = entry
        self.phase: Phase = "waiting"
        self.stop: StopReason | None = None
        self.abandoned: bool = False
        self.task: asyncio.Task[None] | None = None
        self.invocation: Invocation | None = None
        self.begun: bool = False
        self.own_outcome: Outcome | None = None
        self.timers: list[asyncio.TimerHandle] = []
        self.arguments: JsonObject | None = None
        self.problem: str = ""
        if entry is not None:
            try:
                text = call.arguments
                parsed = {} if text == "{}" else parse_arguments_tolerantly(text).arguments
                self.arguments = fit_arguments(parsed, entry.schema)
            except (ArgumentsError, ArgumentsMismatchError) as error:
                self.problem = f"Error: {call.name} was not run: {error}"

    def time_limit(self, default: float | None) -> float | None:
        """How long the tool may take, in seconds."""
        own = self.entry.timeout_s if self.entry is not None else None
        return default if own is None else own

    def cancel_timers(self) -> None:
        """Nothing is waited for any more."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()
