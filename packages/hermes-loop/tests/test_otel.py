"""What OpenTelemetry is told of turns: the spans and their tree, what is measured, what is kept back."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

from hermes_loop import AIAgent, CompressionSettings
from hermes_messages import ChatRequest, ErrorKind, JsonObject, ModelInfo, ProviderError, StreamEvent, Usage
from hermes_messages.protocols import ConversationResult, HookContext
from hermes_messages.testing import ScriptedProvider, ScriptStep, SimpleExecutor, call, calls, error, text
from otel_help import ERROR, TOOLS, UNSET, Telemetry, agent, attributes, soon, status, turn


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
