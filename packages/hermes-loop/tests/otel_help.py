"""A real OpenTelemetry SDK in memory and agents over it, which several modules of tests use."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from hermes_loop import AIAgent
from hermes_loop.otel import OpenTelemetryHook
from hermes_messages import ErrorKind, JsonObject, ProviderError
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import ScriptedProvider, ScriptStep, SimpleExecutor, error

__all__ = ["ERROR", "TOOLS", "UNSET", "Telemetry", "agent", "attributes", "soon", "status", "turn"]


class Spans(SpanProcessor):
    """Counts what begins and what ends."""

    def __init__(self) -> None:
        self.open = 0

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.open += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.open -= 1


class Telemetry:
    """A real SDK that keeps everything in memory, and the hook over it."""

    def __init__(self, **settings: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self._spans = Spans()
        self._reader = InMemoryMetricReader()
        self.provider = TracerProvider()
        self.provider.add_span_processor(self._spans)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.hook = OpenTelemetryHook(
            tracer_provider=self.provider,
            meter_provider=MeterProvider([self._reader]),
            **settings,
        )

    @property
    def spans(self) -> list[ReadableSpan]:
        """All of them, in the order in which they ended; none may be open."""
        assert self._spans.open == 0, "spans that nobody ended"
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span

    def tree(self) -> list[tuple[str, str | None]]:
        """Each span's name with that of its parent, in the order in which they began."""
        names = {span.context.span_id: span.name for span in self.spans if span.context}
        began = sorted(self.spans, key=lambda span: span.start_time or 0)
        return [(span.name, names[span.parent.span_id] if span.parent else None) for span in began]

    def measured(self, name: str) -> list[Any]:
        """The points of one instrument."""
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def points(self, name: str) -> list[HistogramDataPoint]:
        return [point for point in self.measured(name) if isinstance(point, HistogramDataPoint)]

    def sums(self, name: str) -> dict[str, float]:
        """What a counter came to, by its attributes as JSON."""
        return {
            json.dumps(dict(point.attributes or {}), sort_keys=True): point.value
            for point in self.measured(name)
            if isinstance(point, NumberDataPoint)
        }

    def everything(self) -> str:
        return "".join(span.to_json() for span in self.spans)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def status(span: ReadableSpan) -> tuple[StatusCode, Any]:
    return span.status.status_code, attributes(span).get("error.type")


UNSET, ERROR = StatusCode.UNSET, StatusCode.ERROR


async def look(arguments: JsonObject) -> str:
    await asyncio.sleep(0)
    return f"seen {arguments.get('at')}"


async def fail(arguments: JsonObject) -> str:
    raise ValueError("no such place")


async def wait(arguments: JsonObject) -> str:
    await asyncio.get_running_loop().create_future()
    return "never"


TOOLS = {"look": look, "fail": fail, "wait": wait}


def agent(telemetry: Telemetry, *script: ScriptStep, **options: Any) -> AIAgent:
    options.setdefault("provider", ScriptedProvider(script))
    options.setdefault("tools", SimpleExecutor(TOOLS))
    return AIAgent(hooks=[telemetry.hook], session_id="s", **options)


def turn(
    telemetry: Telemetry, *script: ScriptStep, said: str = "Look.", **options: Any
) -> ConversationResult:
    async def main() -> ConversationResult:
        before = trace.get_current_span()
        async with agent(telemetry, *script, **options) as one:
            result = await one.run_conversation(said)
        assert trace.get_current_span() is before
        return result

    return asyncio.run(main())


def soon(kind: ErrorKind) -> ScriptStep:
    return error(ProviderError("the host is busy: SECRET-TEXT", kind=kind, retry_after_s=0))
