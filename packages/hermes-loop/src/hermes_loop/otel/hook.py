"""The hook: one span around a turn, and inside it one for each attempt of a request and each tool call."""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TracerProvider

from hermes_loop.events import (
    AttemptDiscarded,
    ContextCompressed,
    HookFailed,
    ModelCallEnded,
    ModelCallStarted,
    RouteChanged,
    SummaryCallEnded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    WatchedEvent,
)
from hermes_loop.otel.attributes import (
    Attributes,
    agent_attributes,
    chat_attributes,
    error_type,
    metric_attributes,
    response_attributes,
    result_attributes,
    tool_attributes,
)
from hermes_loop.otel.content import request_content, response_content
from hermes_loop.otel.instruments import Instruments
from hermes_loop.watching import WatchContext
from hermes_messages import ChatRequest, ReasoningDelta, TextDelta, ToolCallStarted
from hermes_messages.protocols import ConversationResult, HookContext

__all__ = ["OpenTelemetryHook"]

_SCOPE: Final = "hermes_loop"
_CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_SUSPENDED_AT_MOST: Final = 1_000


@dataclass(slots=True)
class _Open:
    """A span that has not ended, and the context to go back to where it is the current one."""

    span: Span
    before: Context
    started: float


@dataclass(slots=True)
class _Call(_Open):
    """A model call under way."""

    provider: str
    host: str
    request: ChatRequest
    first_chunk: bool = False


@dataclass(slots=True)
class _Turn(_Open):
    """A turn under way."""

    inside: Context
    call: _Call | None = None
    tools: dict[str, _Open] = field(default_factory=dict)
    requests: int = 0
    tool_calls: int = 0
    compacted: bool = False
    result: ConversationResult | None = None


class OpenTelemetryHook:
    """Reports turns to OpenTelemetry; given as `hooks=["otel"]`, or as an object where it has settings.

    What was said is on no span unless `capture_content` is true, or, where it is None, the environment
    variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT; the providers' credentials are masked in it.
    `agent_name` becomes part of the name of the turns' spans. Without `tracer_provider` and `meter_provider`
    the global ones are used. One hook may serve any number of agents and turns at once.
    """

    def __init__(
        self,
        *,
        agent_name: str | None = None,
        capture_content: bool | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        if capture_content is None:
            capture_content = os.environ.get(_CAPTURE, "").strip().lower() in ("1", "true")
        self._agent_name = agent_name
        self._capture = capture_content
        release = version("hermes-loop")
        self._tracer = trace.get_tracer(_SCOPE, release, tracer_provider)
        self._instruments = Instruments(metrics.get_meter(_SCOPE, release, meter_provider))
        self._turns: dict[str, _Turn] = {}
        self._suspended: OrderedDict[str, SpanContext] = OrderedDict()

    def around_turn(self, context: HookContext) -> AbstractAsyncContextManager[None]:
        """The span of the turn, current for all that happens in it; it ends however the turn does."""
        return self._around(context)

    @asynccontextmanager
    async def _around(self, context: HookContext) -> AsyncGenerator[None, None]:
        turn = self._begin(context)
        failure: BaseException | None = None
        try:
            otel_context.attach(turn.inside)
            yield
        except BaseException as error:
            failure = error
            raise
        finally:
            self._turns.pop(context.turn_id, None)
            otel_context.attach(turn.before)
            self._end(context, turn, failure)

    def turn_event(self, context: WatchContext, event: WatchedEvent) -> None:
        """Begin and end the spans inside the turn's."""
        turn = self._turns.get(context.turn_id)
        if turn is None:
            return
        match event:
            case TextDelta() | ReasoningDelta() | ToolCallStarted():
                self._chunk_came(turn)
            case ModelCallStarted():
                self._begin_call(context, turn, event)
            case ModelCallEnded():
                self._end_call(context, turn, event)
            case ToolStarted(call=call):
                turn.tool_calls += 1
                _abandon(turn.tools.get(call.id))
                turn.tools[call.id] = self._begin_tool(context, turn, event)
            case ToolEnded(call=call):
                self._end_tool(context, turn.tools.pop(call.id, None), event)
            case SummaryCallEnded(provider=provider, request=request, response=response):
                turn.requests += 1
                attributes = metric_attributes(provider, "", request, response)
                self._instruments.count_tokens(response.usage, attributes)
            case TurnEnded(result=result):
                turn.result = result
            case _:
                turn.compacted = turn.compacted or isinstance(event, ContextCompressed)
                _note(turn.span, event)

    def _begin(self, context: HookContext) -> _Turn:
        name = "invoke_agent" if self._agent_name is None else f"invoke_agent {self._agent_name}"
        suspended = self._suspended.pop(context.session_id, None)
        before = otel_context.get_current()
        span = self._tracer.start_span(
            name,
            before,
            SpanKind.INTERNAL,
            agent_attributes(context, self._agent_name),
            links=[] if suspended is None else [Link(suspended)],
        )
        inside = trace.set_span_in_context(span, before)
        turn = _Turn(span, before, time.perf_counter(), inside)
        self._turns[context.turn_id] = turn
        return turn

    def _end(self, context: HookContext, turn: _Turn, failure: BaseException | None) -> None:
        """End what is still open, then the turn's span."""
        for one in (*turn.tools.values(), turn.call):
            _abandon(one)
        result, problem = turn.result, None
        if result is not None:
            turn.span.set_attributes(result_attributes(result))
            if result["failed"]:
                kind = result["error_kind"]
                problem = str(result["turn_exit_reason"]) if kind is None else kind.value
            if result["turn_exit_reason"] == "approval_pending":
                self._remember(context.session_id, turn.span.get_span_context())
        if isinstance(failure, asyncio.CancelledError):
            problem = "cancelled"
            turn.span.set_attribute("hermes.turn.exit_reason", problem)
        elif failure is not None:
            problem = error_type(failure)
        attributes: Attributes = {"gen_ai.operation.name": "invoke_agent"}
        if self._agent_name is not None:
            attributes["gen_ai.agent.name"] = self._agent_name
        _finish(turn.span, problem, attributes)
        self._instruments.turn.record(time.perf_counter() - turn.started, attributes)
        self._instruments.turn_requests.record(turn.requests, attributes)
        self._instruments.turn_tools.record(turn.tool_calls, attributes)

    def _remember(self, session_id: str, span: SpanContext) -> None:
        """So that the turn that goes on is linked to the one that waits."""
        self._suspended[session_id] = span
        while len(self._suspended) > _SUSPENDED_AT_MOST:
            self._suspended.popitem(last=False)

    def _begin_call(self, context: WatchContext, turn: _Turn, event: ModelCallStarted) -> None:
        request = event.request
        turn.requests += 1
        span = self._tracer.start_span(
            f"chat {request.model}",
            turn.inside,
            SpanKind.CLIENT,
            chat_attributes(context, event.provider, event.host, request, event.attempt, self._agent_name),
        )
        if turn.compacted:
            span.set_attribute("gen_ai.conversation.compacted", True)
        if self._capture and span.is_recording():
            span.set_attributes(request_content(request, context.mask))
        before = otel_context.get_current()
        otel_context.attach(trace.set_span_in_context(span, before))
        turn.call = _Call(span, before, time.perf_counter(), event.provider, event.host, request)

    def _chunk_came(self, turn: _Turn) -> None:
        call = turn.call
        if call is not None and not call.first_chunk:
            call.first_chunk = True
            waited = time.perf_counter() - call.started
            call.span.set_attribute("gen_ai.response.time_to_first_chunk", waited)
            attributes = metric_attributes(call.provider, call.host, call.request, None)
            self._instruments.first_chunk.record(waited, attributes)

    def _end_call(self, context: WatchContext, turn: _Turn, event: ModelCallEnded) -> None:
        call, turn.call = turn.call, None
        if call is None:
            return
        _leave(call)
        took = time.perf_counter() - call.started
        attributes = metric_attributes(call.provider, call.host, call.request, event.response)
        problem, usage = None, None
        if event.response is not None:
            usage = event.response.usage
            call.span.set_attributes(response_attributes(event.response))
            if self._capture and call.span.is_recording():
                call.span.set_attributes(response_content(event.response, context.mask))
        elif isinstance(event.error, asyncio.CancelledError):
            problem = "cancelled"
        elif event.error is not None:
            problem = error_type(event.error)
        else:
            problem = "interrupted"
        if problem is not None and call.first_chunk:
            call.span.set_attribute("gen_ai.response.finish_reasons", ["error"])
        self._instruments.count_tokens(usage, attributes, problem)
        text = context.mask(str(event.error)) if self._capture and event.error is not None else None
        _finish(call.span, problem, attributes, text)
        self._instruments.chat.record(took, attributes)

    def _begin_tool(self, context: WatchContext, turn: _Turn, event: ToolStarted) -> _Open:
        call = event.call
        span = self._tracer.start_span(
            f"execute_tool {call.name}",
            turn.inside,
            SpanKind.INTERNAL,
            tool_attributes(context, call, self._agent_name),
        )
        if self._capture and span.is_recording():
            span.set_attribute("gen_ai.tool.call.arguments", context.mask(call.arguments))
        otel_context.attach(trace.set_span_in_context(span, otel_context.get_current()))
        return _Open(span, turn.inside, time.perf_counter())

    def _end_tool(self, context: WatchContext, tool: _Open | None, event: ToolEnded) -> None:
        if tool is None:
            return
        _leave(tool)
        result = event.result
        tool.span.set_attribute("hermes.tool.status", result.status)
        if self._capture and tool.span.is_recording():
            text = result.content if isinstance(result.content, str) else ""
            tool.span.set_attribute("gen_ai.tool.call.result", context.mask(text))
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.call.name,
            "gen_ai.tool.type": "function",
        }
        _finish(tool.span, None if result.status == "ok" else result.status, attributes)
        self._instruments.tool.record(time.perf_counter() - tool.started, attributes)


def _abandon(one: _Open | None) -> None:
    """End a span of whose end nobody told."""
    if one is not None:
        _finish(one.span, "abandoned", {})


def _leave(one: _Open) -> None:
    """Go back to the context before, in the task in which the span is the current one; in another the
    context goes away with its task."""
    if trace.get_current_span() is one.span:
        otel_context.attach(one.before)


def _finish(span: Span, problem: str | None, attributes: Attributes, text: str | None = None) -> None:
    """End `span`; a `problem` is on it and on what is measured."""
    if problem is not None:
        span.set_attribute("error.type", problem)
        span.set_status(Status(StatusCode.ERROR, text))
        attributes["error.type"] = problem
    span.end()


def _note(span: Span, event: WatchedEvent) -> None:
    """What changes the course of a turn is an event of its span."""
    match event:
        case AttemptDiscarded(reason=reason):
            span.add_event("hermes.attempt_discarded", {"hermes.reason": reason})
        case RouteChanged(provider=provider, model=model, reason=reason):
            where = {"gen_ai.provider.name": provider, "gen_ai.request.model": model}
            span.add_event("hermes.route_changed", {**where, "hermes.reason": reason})
        case ContextCompressed(tokens_before=before, tokens_after=after):
            sizes = {"hermes.tokens_before": before, "hermes.tokens_after": after}
            span.add_event("hermes.context_compressed", sizes)
        case HookFailed(hook=hook):
            span.add_event("hermes.hook_failed", {"hermes.hook": hook})
        case _:
            pass
