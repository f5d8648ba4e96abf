"""The typed events of a turn, and the one place that hands them to the host's callbacks."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import astuple

from hermes_loop.interrupts import InterruptFlag
from hermes_loop.shielding import is_being_cancelled
from hermes_loop.stream_text import ShownText
from hermes_messages import (
    ChatRequest,
    ChatResponse,
    Message,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    Usage,
)
from hermes_messages.abilities import supports
from hermes_messages.protocols import (
    ApprovalCallback,
    ClarifyCallback,
    ConversationResult,
    StreamCallback,
    ToolCompleteCallback,
    ToolProgressCallback,
    ToolStartCallback,
)

__all__ = [
    "CALLBACK_GRACE_S",
    "AttemptDiscarded",
    "Callbacks",
    "ContextCompressed",
    "HookFailed",
    "ModelCallEnded",
    "ModelCallStarted",
    "RouteChanged",
    "StatusChanged",
    "SteerDelivered",
    "StepEnded",
    "StepStarted",
    "SummaryCallEnded",
    "SupportsStreamReset",
    "ToolEnded",
    "ToolProgressed",
    "ToolStarted",
    "TurnEnded",
    "TurnEvent",
    "TurnEvents",
    "TurnStarted",
    "WatchedEvent",
]


CALLBACK_GRACE_S: Final = 1.0
"""How long the host's code may still take once the turn is interrupted, in seconds."""

AnyCallback = Callable[..., Awaitable[None] | None]


class TurnStarted(Struct, frozen=True, tag=True):
    """The turn `turn_id` of `session_id` was admitted; its tools run for `task_id`."""

    session_id: str
    task_id: str
    turn_id: str


class StepStarted(Struct, frozen=True, tag=True):
    """A step begins: one answer of the model, and the tools it asks for. `number` counts from 1."""

    number: int


class SteerDelivered(Struct, frozen=True, tag=True):
    """The note `text` of the host is part of the conversation now; the next request holds it."""

    text: str


class StepEnded(Struct, frozen=True, tag=True):
    """The step `number` is over. `usage` None: the host did not say, or the step asked no model."""

    number: int
    usage: Usage | None


class AttemptDiscarded(Struct, frozen=True, tag=True):
    """Forget the text and reasoning since the step began: the attempt failed, for a `reason` in words."""

    reason: str


class RouteChanged(Struct, frozen=True, tag=True):
    """The turn goes on with `model` at `provider`; `reason` is what kind of failure the last route had."""

    provider: str
    model: str
    reason: str


class HookFailed(Struct, frozen=True, tag=True):
    """A `hook` (`Class.method`) failed with `error`; the turn goes on without what it would have done."""

    hook: str
    error: str


class ContextCompressed(Struct, frozen=True, tag=True):
    """Older messages were replaced; `tokens_before` and `tokens_after` are estimates of all of them."""

    tokens_before: int
    tokens_after: int


class StatusChanged(Struct, frozen=True, tag=True):
    """What the turn is doing, for a person: `kind` is a short word, `text` a sentence."""

    kind: str
    text: str


class ToolStarted(Struct, frozen=True, tag=True):
    """A tool begins: `call` is as the model wrote it."""

    call: ToolCall


class ToolProgressed(Struct, frozen=True, tag=True):
    """The tool of `call` tells how it goes: `text` is a line for people."""

    call: ToolCall
    text: str


class ToolEnded(Struct, frozen=True, tag=True):
    """The tool of `call` ended, well or not: `result.status` tells."""

    call: ToolCall
    result: ToolMessage


class TurnEnded(Struct, frozen=True, tag=True):
    """The turn is over. `result` None: it was cancelled."""

    result: ConversationResult | None


TurnEvent = (
    TurnStarted
    | StepStarted
    | SteerDelivered
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | AttemptDiscarded
    | RouteChanged
    | HookFailed
    | ContextCompressed
    | StatusChanged
    | ToolStarted
    | ToolProgressed
    | ToolEnded
    | StepEnded
    | TurnEnded
)
"""What `AIAgent.stream` yields and `event_callback` is called with."""


class ModelCallStarted(Struct, frozen=True, tag=True):
    """One attempt of a request begins: number `attempt` (from 1) of this request on this route. `provider`
    is the name of the provider, `host` where it says that it is."""

    provider: str
    host: str
    request: ChatRequest
    attempt: int


class ModelCallEnded(Struct, frozen=True, tag=True):
    """The attempt is over, with a `response`, or with the `error` that it failed with. With neither an
    interrupt of the turn cut it short."""

    response: ChatResponse | None = None
    error: BaseException | None = None


class SummaryCallEnded(Struct, frozen=True, tag=True):
    """A compressor had a model at `provider` write a summary: what was the `request`, what the `response`.
    How long that took is not known."""

    provider: str
    request: ChatRequest
    response: ChatResponse


WatchedEvent = TurnEvent | ModelCallStarted | ModelCallEnded | SummaryCallEnded
"""What a hook that watches a turn is told; callbacks and streams hear of each `TurnEvent` in it only."""


@runtime_checkable
class SupportsStreamReset(Protocol):
    """A stream callback that can take text back. `on_retry` is called in place of the newline."""

    def on_retry(self) -> Awaitable[None] | None:
        """Forget the text of the current model call."""
        ...


class Callbacks(Struct, frozen=True, kw_only=True):
    """The host's callbacks. Async ones are awaited; plain ones run on the event loop and must be short."""

    stream_delta: StreamCallback | None = None
    reasoning: Callable[[str], Awaitable[None] | None] | None = None
    tool_start: ToolStartCallback | None = None
    tool_progress: ToolProgressCallback | None = None
    tool_complete: ToolCompleteCallback | None = None
    step: Callable[[int], Awaitable[None] | None] | None = None
    status: Callable[[str, str], Awaitable[None] | None] | None = None
    clarify: ClarifyCallback | None = None
    approval: ApprovalCallback | None = None
    event: Callable[[TurnEvent], Awaitable[None] | None] | None = None


def _as_resettable(listener: object) -> SupportsStreamReset | None:
    return listener if supports(listener, SupportsStreamReset) else None


class TurnEvents:
    """Hands each event of one turn to whoever listens. A callback that fails, or hangs when the turn is
    interrupted, is reported in `failures`, once for each kind, and never ends the turn."""

    def __init__(
        self,
        callbacks: Callbacks,
        stream_callback: StreamCallback | None = None,
        sink: Callable[[TurnEvent], Awaitable[None] | None] | None = None,
        interrupt: InterruptFlag | None = None,
    ) -> None:
        self._callbacks = callbacks
        self._plain: tuple[StreamCallback, ...] = ()
        self._resettable: tuple[tuple[StreamCallback, SupportsStreamReset], ...] = ()
        for listener in (callbacks.stream_delta, stream_callback):
            if listener is not None:
                reset = _as_resettable(listener)
                if reset is None:
                    self._plain = (*self._plain, listener)
                else:
                    self._resettable = (*self._resettable, (listener, reset))
        self._listeners = tuple([listener for listener in (callbacks.event, sink) if listener is not None])
        given = [one for one in (*astuple(callbacks), stream_callback, sink) if one is not None]
        self.called_back: bool = bool(given)
        """Whether there is a callback, which may have to be waited for."""
        self.listened_to: bool = self.called_back
        """Whether anyone hears of anything; otherwise an event is not even made note of."""
        self.watched: bool = False
        """Whether a hook is told of model calls."""
        self._watchers: tuple[Callable[[WatchedEvent], None], ...] = ()
        self._interrupt = interrupt or InterruptFlag()
        self._shown = ShownText()
        self._turn_is_open = False
        self._open_step: int | None = None
        self._open_tools: dict[str, ToolCall] = {}
        self.failures: dict[str, str] = {}

    @property
    def streams(self) -> bool:
        """Whether anyone asked for text as it comes."""
        return bool(self._plain or self._resettable or self._listeners)

    def watch(self, watcher: Callable[[WatchedEvent], None]) -> None:
        """Tell `watcher`, which must not raise, of everything from now on, in the task in which it happens
        and before anyone else."""
        self._watchers = (*self._watchers, watcher)
        self.watched = self.listened_to = True

    def tell(self, event: WatchedEvent) -> None:
        """Tell the watchers."""
        for watcher in self._watchers:
            watcher(event)

    async def emit(self, event: TurnEvent) -> None:
        """Hand `event` to its listeners, in order. A tool that ends without having started (its arguments
        could not be read) starts first, so that starts and ends are always balanced."""
        if not self.listened_to:
            return
        if isinstance(event, ToolEnded) and event.call.id not in self._open_tools:
            await self.emit(ToolStarted(event.call))
        self._note(event)
        self.tell(event)
        match event:
            case TextDelta(text=text):
                if self._plain:
                    await self._show(self._shown.feed(text))
                for listener, _ in self._resettable:
                    await self._call("stream_delta", listener, text)
            case AttemptDiscarded():
                self._shown.begin_attempt()
                for _, reset in self._resettable:
                    await self._call("stream_delta", reset.on_retry)
            case _:
                await self._call(*self._callback_of(event))
        for observer in self._listeners:
            await self._call("event", observer, event)

    def _note(self, event: TurnEvent) -> None:
        """Keep account of what is open, so that `end` can close it."""
        match event:
            case TurnStarted():
                self._turn_is_open = True
            case TurnEnded():
                self._turn_is_open = False
            case StepStarted(number=number):
                self._open_step = number
                if not self._shown.is_holding:  # else the last step's text was taken back
                    self._shown = ShownText()
            case StepEnded():
                self._open_step = None
            case ToolStarted(call=call):
                self._open_tools[call.id] = call
            case ToolEnded(call=call):
                self._open_tools.pop(call.id, None)
            case _:
                pass

    def _callback_of(self, event: TurnEvent) -> tuple[str, AnyCallback | None, *tuple[object, ...]]:
        callbacks = self._callbacks
        match event:
            case StepStarted(number=number):
                return "step", callbacks.step, number
            case ReasoningDelta(text=text):
                return "reasoning", callbacks.reasoning, text
            case StatusChanged(kind=kind, text=text):
                return "status", callbacks.status, kind, text
            case ToolStarted(call=call):
                return "tool_start", callbacks.tool_start, call
            case ToolProgressed(call=call, text=text):
                return "tool_progress", callbacks.tool_progress, call, text
            case ToolEnded(call=call, result=result):
                return "tool_complete", callbacks.tool_complete, call, result
            case _:
                return "none", None

    async def end(self, result: ConversationResult | None, messages: Iterable[Message]) -> None:
        """Emit the end of whatever was started: tools, step, turn. `messages` hold the tools' results."""
        results = (
            {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)} if self._open_tools else {}
        )
        for call in tuple(self._open_tools.values()):
            stopped = ToolMessage(call.id, "", name=call.name, status="interrupted")
            await self.emit(ToolEnded(call, results.get(call.id, stopped)))
        if self._open_step is not None:
            await self.emit(StepEnded(self._open_step, None))
        if self._turn_is_open:
            await self.emit(TurnEnded(result))

    async def attempt_succeeded(self) -> None:
        """Show what was still held back of an attempt that came out whole."""
        await self._show(self._shown.finish())

    async def _show(self, text: str) -> None:
        if text:
            for listener in self._plain:
                await self._call("stream_delta", listener, text)

    async def _call(self, name: str, callback: AnyCallback | None, *values: object) -> None:
        if callback is None:
            return
        try:
            outcome = callback(*values)
            if inspect.isawaitable(outcome):
                with self._interrupt.scope(grace_s=CALLBACK_GRACE_S) as scope:
                    await outcome
                if scope.cancelled_caught:
                    self._note_failure(name, TimeoutError("cut short by an interrupt of the turn"))
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            self._note_failure(name, error)
        except Exception as error:  # noqa: BLE001 - the host's code; reported in the result
            self._note_failure(name, error)

    def _note_failure(self, name: str, error: BaseException) -> None:
        if name not in self.failures:
            self.failures[name] = f"callback {name}: {type(error).__name__}: {error}"
