"""What OpenTelemetry is told of turns: the tree of spans, what is on them, and that each of them ends."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from hermes_loop import AIAgent, CompressionSettings, TurnEvent
from hermes_loop.otel import OpenTelemetryHook
from hermes_messages import ChatRequest, ErrorKind, JsonObject, ModelInfo, ProviderError, StreamEvent, Usage
from hermes_messages.approvals import Approve
from hermes_messages.protocols import ConversationResult, HookContext
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    broken,
    call,
    calls,
    error,
    hang,
    text,
)
from loop_help import later


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


def test_a_turn_is_a_tree_of_its_attempts_and_its_tools() -> None:
    telemetry = Telemetry(agent_name="scout")
    result = turn(
        telemetry,
        soon(ErrorKind.RATE_LIMIT),
        calls(call("look", {"at": "a"}, id="1"), call("fail", {}, id="2")),
        text("Done.", usage=Usage(input_tokens=40, output_tokens=3, cache_read_tokens=30)),
        max_tokens=500,
        temperature=0.5,
    )
    assert result["final_response"] == "Done."
    root, chat = "invoke_agent scout", "chat scripted-model"
    assert telemetry.tree() == [
        (root, None),
        (chat, root),
        (chat, root),
        ("execute_tool look", root),
        ("execute_tool fail", root),
        (chat, root),
    ]
    first, second, third = telemetry.named(chat)
    assert [attributes(span)["hermes.attempt"] for span in (first, second, third)] == [1, 2, 1]
    assert [status(span) for span in (first, second, third)] == [
        (ERROR, "rate_limit"),
        (UNSET, None),
        (UNSET, None),
    ]
    seen = attributes(third)
    assert 0 < seen.pop("gen_ai.response.time_to_first_chunk") < 3600
    assert seen == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted-model",
        "gen_ai.conversation.id": "s",
        "gen_ai.agent.name": "scout",
        "gen_ai.request.max_tokens": 500,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.id": "scripted",
        "gen_ai.response.model": "scripted-model",
        "gen_ai.usage.input_tokens": 40,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 30,
        "hermes.attempt": 1,
        "server.address": "scripted",
    }
    assert attributes(second)["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert third.kind is SpanKind.CLIENT
    good, bad = telemetry.one("execute_tool look"), telemetry.one("execute_tool fail")
    assert attributes(good) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "1",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": "s",
        "gen_ai.agent.name": "scout",
        "hermes.tool.status": "ok",
    }
    assert (status(good), status(bad)) == ((UNSET, None), (ERROR, "error"))
    whole = telemetry.one(root)
    assert (whole.kind, status(whole)) == (SpanKind.INTERNAL, (UNSET, None))
    found = attributes(whole)
    assert found["gen_ai.operation.name"] == "invoke_agent"
    assert found["hermes.turn.exit_reason"] == "text_response"
    assert found["hermes.turn.api_calls"] == 3
    assert found["hermes.turn.id"] == result["turn_id"]
    assert found["gen_ai.usage.input_tokens"] == result["input_tokens"]
    assert [event.name for event in whole.events] == ["hermes.attempt_discarded"]


def test_what_is_measured_has_the_names_and_boundaries_of_the_conventions() -> None:
    telemetry = Telemetry()
    turn(
        telemetry,
        soon(ErrorKind.OVERLOADED),
        calls(call("look", {"at": "a"})),
        text("Done.", usage=Usage(input_tokens=40, output_tokens=3)),
    )
    durations = telemetry.points("gen_ai.client.inference.duration")
    assert {(dict(point.attributes or {}).get("error.type"), point.count) for point in durations} == {
        ("overloaded", 1),
        (None, 2),
    }
    assert durations[0].explicit_bounds == tuple(0.01 * 2**power for power in range(14))
    who = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted-model",
        "server.address": "scripted",
    }
    answered = {**who, "gen_ai.response.model": "scripted-model"}
    failed, sizes = telemetry.points("gen_ai.client.inference.operation.input_tokens")
    assert dict(failed.attributes or {}) == {**who, "error.type": "overloaded"}
    assert dict(sizes.attributes or {}) == answered
    assert (failed.sum, sizes.count, sizes.sum >= 40) == (0, 2, True)
    assert sizes.explicit_bounds == tuple(4**power for power in range(14))
    used = telemetry.sums("gen_ai.client.inference.usage.output_tokens")
    assert used[json.dumps({**answered, "gen_ai.token.modality": "unknown"}, sort_keys=True)] >= 3
    for kind in ("cache_read.input", "cache_write.input", "reasoning.output"):
        assert set(telemetry.sums(f"gen_ai.client.inference.usage.{kind}_tokens").values()) == {0}
    [one_turn] = telemetry.points("gen_ai.invoke_agent.duration")
    [one_tool] = telemetry.points("gen_ai.execute_tool.duration")
    [first_chunk] = telemetry.points("gen_ai.client.inference.time_to_first_chunk")
    assert (one_turn.count, one_tool.count, first_chunk.count) == (1, 1, 2)
    assert dict(one_tool.attributes or {})["gen_ai.tool.name"] == "look"
    [requests] = telemetry.points("gen_ai.invoke_agent.inference_calls")
    [tools] = telemetry.points("gen_ai.invoke_agent.tool_calls")
    assert (requests.sum, tools.sum) == (3, 1)
    assert dict(requests.attributes or {}) == {"gen_ai.operation.name": "invoke_agent"}
    assert requests.explicit_bounds == tuple(2**power for power in range(8))


def test_a_fallback_is_seen_as_the_failed_attempts_the_other_model_and_an_event() -> None:
    telemetry = Telemetry()
    other = ScriptedProvider([text("Here.")], name="other", model="big")
    result = turn(telemetry, soon(ErrorKind.NOT_FOUND), fallback_models=[other])
    assert result["final_response"] == "Here."
    whole = telemetry.one("invoke_agent")
    changed = next(event for event in whole.events if event.name == "hermes.route_changed")
    assert dict(changed.attributes or {}) == {
        "gen_ai.provider.name": "other",
        "gen_ai.request.model": "big",
        "hermes.reason": "not_found",
    }
    assert status(telemetry.one("chat scripted-model")) == (ERROR, "not_found")
    assert attributes(telemetry.one("chat big"))["gen_ai.provider.name"] == "other"


def test_nothing_that_was_said_is_reported_unless_asked_for() -> None:
    script = [
        soon(ErrorKind.RATE_LIMIT),
        calls(call("look", {"at": "SECRET-TEXT"}), call("fail", {"at": "SECRET-TEXT"})),
        text("SECRET-TEXT", reasoning="SECRET-TEXT"),
    ]
    silent = Telemetry()
    turn(silent, *script, said="SECRET-TEXT", system_prompt="SECRET-TEXT")
    assert len(silent.spans) == 6
    assert "SECRET-TEXT" not in silent.everything()
    open_ = Telemetry(capture_content=True)
    turn(open_, *script, said="SECRET-TEXT", system_prompt="SECRET-TEXT")
    last = attributes(open_.named("chat scripted-model")[-1])
    assert json.loads(last["gen_ai.system_instructions"]) == [{"type": "text", "content": "SECRET-TEXT"}]
    asked = json.loads(last["gen_ai.input.messages"])
    assert [message["role"] for message in asked] == ["user", "assistant", "tool", "tool"]
    assert asked[1]["parts"][0]["arguments"] == {"at": "SECRET-TEXT"}
    assert asked[2]["parts"][0]["type"] == "tool_call_response"
    [answer] = json.loads(last["gen_ai.output.messages"])
    assert answer == {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "SECRET-TEXT"},
            {"type": "text", "content": "SECRET-TEXT"},
        ],
    }
    tool = attributes(open_.one("execute_tool look"))
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"at": "SECRET-TEXT"}
    assert tool["gen_ai.tool.call.result"] == "seen SECRET-TEXT"


class Keyed(ScriptedProvider):
    """A provider with a key."""

    def secret_values(self) -> tuple[str, ...]:
        return ("sk-1234567890", "short")


def test_credentials_are_masked_in_what_was_said() -> None:
    telemetry = Telemetry(capture_content=True)
    key = "sk-1234567890"
    script: list[ScriptStep] = [
        error(ProviderError(f"bad key {key}", kind=ErrorKind.RATE_LIMIT, retry_after_s=0)),
        calls(call("look", {"at": key}), call("look", f"{key} is no JSON")),
        text(f"It is {key}, in short.", reasoning=key),
    ]
    turn(telemetry, said=f"My key is {key}", system_prompt=key, provider=Keyed(script))
    assert key not in telemetry.everything()
    assert "[hidden]" in telemetry.everything()
    assert "in short" in telemetry.everything()


def test_the_setting_of_the_environment_turns_content_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    telemetry, told_not_to = Telemetry(), Telemetry(capture_content=False)
    turn(telemetry, text("a"), said="hello there")
    turn(told_not_to, text("a"), said="hello there")
    assert "hello there" in telemetry.everything()
    assert "hello there" not in told_not_to.everything()


def test_what_happens_inside_a_call_is_inside_its_span() -> None:
    telemetry = Telemetry()
    tracer = telemetry.provider.get_tracer("host")

    class Http(ScriptedProvider):
        async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
            with tracer.start_as_current_span(f"POST {len(self.requests)}"):
                async for event in super().stream(request):
                    yield event

    async def traced(arguments: JsonObject) -> str:
        with tracer.start_as_current_span(f"read {arguments['at']}"):
            await asyncio.sleep(0)
        return "read"

    async def delegate(arguments: JsonObject) -> str:
        child = AIAgent(
            provider=ScriptedProvider([text("child")]), hooks=[telemetry.hook], session_id="child"
        )
        async with child:
            return str(await child.chat(str(arguments["at"])))

    both = calls(*(call(name, {"at": f"{name}{n}"}) for n in (1, 2) for name in ("traced", "delegate")))

    async def main() -> None:
        one = agent(
            telemetry,
            provider=Http([both, text("Done.")]),
            tools=SimpleExecutor({"traced": traced, "delegate": delegate}),
        )
        with tracer.start_as_current_span("request of the host"):
            async with one:
                await one.chat("Go.")

    asyncio.run(main())
    by_id = {span.context.span_id: span for span in telemetry.spans if span.context}

    def parent(span: ReadableSpan) -> ReadableSpan:
        assert span.parent is not None
        return by_id[span.parent.span_id]

    for number in (1, 2):
        tool = parent(telemetry.one(f"read traced{number}"))
        assert tool.name == "execute_tool traced"
    assert parent(telemetry.one("read traced1")) is not parent(telemetry.one("read traced2"))
    children = [span for span in telemetry.named("invoke_agent") if parent(span).name.startswith("execute")]
    assert [parent(span).name for span in children] == ["execute_tool delegate"] * 2
    assert parent(children[0]) is not parent(children[1])
    assert parent(telemetry.one("POST 0")).name == "chat scripted-model"
    [whole] = [span for span in telemetry.named("invoke_agent") if span not in children]
    assert parent(whole).name == "request of the host"
    for span in telemetry.spans:
        if span.name.startswith(("execute_tool", "POST")):
            root = parent(span) if span.name.startswith("execute_tool") else parent(parent(span))
            assert root is whole


def test_turns_at_once_do_not_mix() -> None:
    telemetry = Telemetry()

    async def one(number: int) -> None:
        script = [calls(call("look", {"at": number}, id=f"{number}.{round_}")) for round_ in range(3)]
        async with AIAgent(
            provider=ScriptedProvider([*script, text("Done.")]),
            tools=SimpleExecutor(TOOLS),
            hooks=[telemetry.hook],
            session_id=f"session {number}",
        ) as agent_:
            await agent_.chat("Look.")

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(20)))

    asyncio.run(main())
    assert len(telemetry.spans) == 20 * 8
    traces: dict[int, set[str]] = {}
    for span in telemetry.spans:
        assert span.context is not None
        traces.setdefault(span.context.trace_id, set()).add(attributes(span)["gen_ai.conversation.id"])
    assert sorted(traces.values(), key=str) == sorted(({f"session {n}"} for n in range(20)), key=str)


REFUSED: list[ScriptStep] = [error(ProviderError("no", kind=kind)) for kind in ErrorKind]
ENDINGS: list[tuple[list[ScriptStep], str]] = [
    *(([step] * 2, "") for step in REFUSED),
    ([broken(text("half an answer"), after=1, error=ErrorKind.TRANSPORT), text("whole")], "text_response"),
    ([text("")] * 4, ""),
    ([calls(call("nothing", {}))] * 6, "tool_loop"),
    ([calls(call("look", "{broken"))] * 6, ""),
]


@pytest.mark.parametrize(("script", "reason"), ENDINGS)
def test_every_span_ends_whatever_the_turn_comes_to(script: list[ScriptStep], reason: str) -> None:
    telemetry = Telemetry()
    result = turn(telemetry, *script, max_iterations=5)
    whole = telemetry.one("invoke_agent")
    found = attributes(whole)
    assert found["hermes.turn.exit_reason"] == result["turn_exit_reason"]
    assert result["turn_exit_reason"] == reason or not reason
    assert (whole.status.status_code is ERROR) == result["failed"]
    assert ("error.type" in found) == result["failed"]


@pytest.mark.parametrize(
    ("step", "inner", "told"),
    [
        (hang(), "chat scripted-model", "cancelled"),
        (calls(call("wait", {}), call("look", {"at": 1})), "execute_tool wait", "interrupted"),
    ],
)
def test_a_cancelled_turn_ends_its_spans_with_a_status(step: ScriptStep, inner: str, told: str) -> None:
    telemetry = Telemetry()

    async def main() -> None:
        async with agent(telemetry, step) as one:
            task = asyncio.create_task(one.run_conversation("Look."))
            for _ in range(100):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    whole = telemetry.one("invoke_agent")
    assert status(whole) == (ERROR, "cancelled")
    assert attributes(whole)["hermes.turn.exit_reason"] == "cancelled"
    assert status(telemetry.one(inner)) == (ERROR, told)


@pytest.mark.parametrize("resumptions", range(0, 60, 3))
def test_no_span_is_left_open_wherever_a_cancellation_comes(resumptions: int) -> None:
    telemetry = Telemetry()
    script = [
        soon(ErrorKind.RATE_LIMIT),
        calls(call("look", {"at": 1}), call("look", {"at": 2})),
        calls(call("fail", {})),
        text("Done."),
    ]

    async def main() -> None:
        async with agent(telemetry, *script, session_db=MemoryStore()) as one:
            task = asyncio.create_task(one.run_conversation("Look."))
            for _ in range(resumptions):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})

    asyncio.run(main())
    assert len(telemetry.named("invoke_agent")) <= 1  # `spans` fails while any is open


def test_an_interrupted_turn_ends_its_spans() -> None:
    telemetry = Telemetry()

    async def main() -> None:
        async with agent(telemetry, calls(call("wait", {}))) as one:
            task = asyncio.create_task(one.run_conversation("Look."))
            for _ in range(100):
                await asyncio.sleep(0)
            one.interrupt()
            assert (await task)["interrupted"]

    asyncio.run(main())
    assert status(telemetry.one("execute_tool wait")) == (ERROR, "interrupted")
    assert status(telemetry.one("invoke_agent")) == (UNSET, None)
    assert attributes(telemetry.one("invoke_agent"))["hermes.turn.exit_reason"] == "interrupted"


def test_a_stream_that_is_read_or_left_ends_its_spans() -> None:
    async def read(telemetry: Telemetry, stop: bool) -> list[TurnEvent]:
        seen: list[TurnEvent] = []
        async with agent(telemetry, text("one two three")) as one:
            events = one.stream("Look.")
            async for event in events:
                seen.append(event)
                if stop and len(seen) == 3:
                    break
            await events.aclose()
        return seen

    whole, left = Telemetry(), Telemetry()
    asyncio.run(read(whole, stop=False))
    asyncio.run(read(left, stop=True))
    assert whole.tree() == left.tree() == [("invoke_agent", None), ("chat scripted-model", "invoke_agent")]
    assert status(whole.one("invoke_agent")) == (UNSET, None)
    assert status(left.one("invoke_agent")) == (ERROR, "cancelled")


def test_a_resumed_turn_is_linked_to_the_one_that_waited() -> None:
    telemetry = Telemetry()

    async def main() -> None:
        async with agent(
            telemetry,
            calls(call("look", {"at": 1}, id="1")),
            text("Done."),
            text("And more."),
            tools=SimpleExecutor(TOOLS, needs_approval=["look"]),
            approval_callback=later,
            session_db=MemoryStore(),
        ) as one:
            await one.run_conversation("Look.")
            assert telemetry.named("execute_tool look") == []
            await one.resume({"1": Approve()})
            await one.run_conversation("And?")

    asyncio.run(main())
    waited, resumed, last = telemetry.named("invoke_agent")
    assert attributes(waited)["hermes.turn.exit_reason"] == "approval_pending"
    assert status(waited) == (UNSET, None)
    assert [link.context for link in resumed.links] == [waited.context]
    assert not last.links
    tool = telemetry.one("execute_tool look")
    assert tool.parent == resumed.context
    assert status(tool) == (UNSET, None)


def test_a_summary_of_the_context_is_counted_and_noted() -> None:
    telemetry = Telemetry()

    async def main() -> None:
        provider = ScriptedProvider(
            [
                text("x" * 4_000),
                text("The summary.", usage=Usage(input_tokens=1_000, output_tokens=10)),
                text("Done.", usage=Usage(input_tokens=7, output_tokens=3)),
            ],
            model_info=ModelInfo(context_window=4_000),
        )
        async with agent(
            telemetry, provider=provider, compression=CompressionSettings(keep_recent=0.1, threshold=0.3)
        ) as one:
            await one.chat("Write. " + "y" * 2_000)
            await one.chat("Again.")

    asyncio.run(main())
    _, last = telemetry.named("invoke_agent")
    assert "hermes.context_compressed" in [event.name for event in last.events]
    assert sum(telemetry.sums("gen_ai.client.inference.usage.input_tokens").values()) >= 1_007
    assert attributes(telemetry.named("chat scripted-model")[-1])["gen_ai.conversation.compacted"] is True


def test_a_hook_that_fails_costs_no_turn_and_is_reported_once() -> None:
    class Broken:
        def turn_event(self, context: HookContext, event: object) -> None:
            raise RuntimeError("no")

    async def main() -> ConversationResult:
        async with AIAgent(provider=ScriptedProvider([text("Done.")]), hooks=[Broken()]) as one:
            return await one.run_conversation("Look.")

    result = asyncio.run(main())
    assert result["final_response"] == "Done."
    assert result["cleanup_errors"] == ["hook Broken.turn_event: RuntimeError: no"]


def test_without_an_sdk_the_hook_of_that_name_reports_to_nobody() -> None:
    async def main() -> ConversationResult:
        async with AIAgent(provider=ScriptedProvider([text("Done.")]), hooks=["otel"]) as one:
            return await one.run_conversation("Look.")

    result = asyncio.run(main())
    assert (result["final_response"], result["cleanup_errors"]) == ("Done.", [])


PROGRAM = """
import asyncio, sys
from hermes_loop import AIAgent
from hermes_messages import MissingDependencyError
from hermes_messages.testing import ScriptedProvider, text

async def main(hooks):
    async with AIAgent(provider=ScriptedProvider([text("Done.")]), hooks=hooks) as agent:
        return await agent.chat("Look.")

assert asyncio.run(main([])) == "Done."
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
sys.modules["opentelemetry"] = None
try:
    asyncio.run(main(["otel"]))
except MissingDependencyError as error:
    print(error.install)
"""


def test_who_does_not_use_it_does_not_import_it_and_who_lacks_it_is_told() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "pip install 'hermes-loop[otel]'\n"
