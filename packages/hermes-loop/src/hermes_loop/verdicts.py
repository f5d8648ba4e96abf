"""What each phase of a turn answers: frozen structs in tagged unions, read with `match`.

A type checker proves each `match` complete. Because every verdict is a value, the trace of a turn is a list
of verdicts.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from hermes_loop.request_changes import RequestChange
from hermes_messages import AssistantMessage, ChatResponse, ProviderError
from hermes_messages.protocols import PendingApproval, TurnExitReason

__all__ = [
    "Answer",
    "AttemptVerdict",
    "BeginVerdict",
    "Completed",
    "Compress",
    "Continue",
    "Discard",
    "Ending",
    "ErrorVerdict",
    "Failed",
    "Fallback",
    "Finish",
    "GateVerdict",
    "IterationKind",
    "PrepareVerdict",
    "Proceed",
    "Recheck",
    "RecheckCause",
    "Resend",
    "ResponseVerdict",
    "Retry",
    "RetryLoopVerdict",
    "RunTools",
    "Stop",
    "Suspend",
    "Terminate",
    "TextVerdict",
    "ToolRoundVerdict",
]

IterationKind = Literal["normal", "summary"]
"""`summary` is the one grace call without tools after the budget is spent."""

RecheckCause = Literal["context", "route", "change"]
"""What is different: the context is smaller, the route is another one, a refused part is changed."""


class Proceed(Struct, frozen=True, tag=True):
    """Go on with the next phase."""

    kind: IterationKind = "normal"


class Recheck(Struct, frozen=True, tag=True):
    """Assemble the request anew and go through the preflight gate again, for another `cause`.

    Each cause has its own bound: a route is tried once for one request, a change to it made once.
    """

    reason: str
    cause: RecheckCause = "context"


class Stop(Struct, frozen=True, tag=True):
    """The turn ends here without the model's final answer; the finalizer explains it."""

    reason: TurnExitReason
    error: str | None = None


class Finish(Struct, frozen=True, tag=True):
    """The turn ends here with this text as its answer."""

    reason: TurnExitReason
    text: str | None


class Continue(Struct, frozen=True, tag=True):
    """Ask the model again."""

    reason: str


class Suspend(Struct, frozen=True, tag=True):
    """The round waits for decisions of a person."""

    pending: tuple[PendingApproval, ...]


class Completed(Struct, frozen=True, tag=True):
    """A request was answered."""

    response: ChatResponse


class Failed(Struct, frozen=True, tag=True):
    """One attempt failed."""

    error: ProviderError


class Retry(Struct, frozen=True, tag=True):
    """Send the same request again after `after_s` seconds."""

    after_s: float
    reason: str


class Resend(Struct, frozen=True, tag=True):
    """Send the request once more, changed in what the host refused, back through preflight."""

    change: RequestChange
    reason: str


class Fallback(Struct, frozen=True, tag=True):
    """Go to the next route, back through preflight."""

    reason: str


class Compress(Struct, frozen=True, tag=True):
    """Shorten the context, back through preflight."""

    reason: str


class Terminate(Struct, frozen=True, tag=True):
    """Nothing more can be done about this failure."""

    reason: TurnExitReason
    error: str


class RunTools(Struct, frozen=True, tag=True):
    """The model asks for tools."""

    message: AssistantMessage


class Answer(Struct, frozen=True, tag=True):
    """The model answered; `reason` says what kind of an answer it is."""

    message: AssistantMessage
    reason: TurnExitReason


class Discard(Struct, frozen=True, tag=True):
    """A response with nothing to keep: neither text nor a call that may be run."""

    reason: TurnExitReason
    error: str
    ask_again: bool


Ending = Finish | Stop
BeginVerdict = Proceed | Finish | Stop
PrepareVerdict = Stop | None
"""None: go on."""
GateVerdict = Proceed | Compress | Stop
AttemptVerdict = Completed | Failed | Stop
ErrorVerdict = Retry | Resend | Fallback | Compress | Terminate
RetryLoopVerdict = Completed | Recheck | Stop
ResponseVerdict = RunTools | Answer | Discard
ToolRoundVerdict = Continue | Finish | Suspend | Stop
TextVerdict = Finish | Continue | Stop
