"""OpenTelemetry over the real thing: real tools, a real store, a real host on a socket, a batch."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from socket_host import SocketHost

from hermes_loop import AIAgent
from hermes_loop.otel import OpenTelemetryHook
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-providers", "hermes-tools", "hermes-store")

KEY = "sk-0123456789abcdef"


class Host(SocketHost):
    """A chat completions host that answers from a list of deltas, and fails once before the first."""

    headers = "\r\nretry-after: 0"

    def __init__(self, *answers: dict[str, Any]) -> None:
        self._answers = list(answers)
        self._asked = 0

    async def respond(self, asked: dict[str, Any]) -> tuple[str, str]:
        self._asked += 1
        if self._asked == 1:
            return "503 Busy", '{"error": {"message": "busy"}}'
        return "200 OK", _events(self._answers.pop(0))


def _events(delta: dict[str, Any]) -> str:
    finish = "tool_calls" if "tool_calls" in delta else "stop"
    usage = {"prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60}
    chunks = [
        {"id": "r", "model": "small-1", "choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage},
    ]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def asks(*wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "tool_calls": [
            {
                "index": index,
                "id": f"call_{name}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(wanted)
        ]
    }


def parents(spans: Sequence[ReadableSpan]) -> list[tuple[str, str | None]]:
    names = {span.context.span_id: span.name for span in spans if span.context}
    began = sorted(spans, key=lambda span: span.start_time or 0)
    return [(span.name, names[span.parent.span_id] if span.parent else None) for span in began]


def test_a_real_turn_with_a_child_is_one_trace(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    hook = OpenTelemetryHook(agent_name="parent", capture_content=True, tracer_provider=provider)

    async def main() -> int:
        (tmp_path / "a.txt").write_text(f"the key is {KEY}\n")
        host = Host(
            asks(
                ("read_file", {"path": "a.txt"}),
                ("delegate_task", {"tasks": [{"goal": "Look for text files."}]}),
            ),
            asks(("search_files", {"pattern": "*.txt", "target": "files"})),
            {"content": "There is a.txt."},
            {"content": "One file."},
        )
        async with host, SessionDB(tmp_path / "state.db") as store:
            async with AIAgent(
                provider="custom",
                base_url=f"{host.address}/v1",
                api_key=KEY,
                model="small",
                enabled_toolsets=["delegation", "file"],
                session_db=store,
                session_id="parent",
                cwd=tmp_path,
                hooks=[hook],
            ) as agent:
                result = await agent.run_conversation("How many files are there?")
            assert result["final_response"] == "One file.", result["error"]
            assert result["cleanup_errors"] == []
            return host.port

    port = asyncio.run(main())
    spans = exporter.get_finished_spans()
    parent, child, tool = "invoke_agent parent", "execute_tool delegate_task", "execute_tool read_file"
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    found = parents(spans)
    assert found[:3] == [(parent, None), ("chat small", parent), ("chat small", parent)]
    assert sorted(found[3:], key=str) == sorted(
        [
            (tool, parent),
            (child, parent),
            (parent, child),  # the child's turn, inside the call that asked for it
            ("chat small", parent),
            ("execute_tool search_files", parent),
            ("chat small", parent),
            ("chat small", parent),
        ],
        key=str,
    )
    chats = sorted((s for s in spans if s.name == "chat small"), key=lambda span: span.start_time or 0)
    first, second = dict(chats[0].attributes or {}), dict(chats[1].attributes or {})
    assert first["error.type"] in ("overloaded", "server")
    assert second["gen_ai.response.model"] == "small-1"
    assert (second["server.address"], second["server.port"]) == ("127.0.0.1", port)
    assert second["gen_ai.usage.input_tokens"] == 50
    told = "".join(span.to_json() for span in spans)
    assert "How many files" in told
    assert KEY not in told


PROGRAM = """
import json, sys
from pathlib import Path
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from hermes_batch.cli import main

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
options = ["--hook", "otel", "--quiet", "--toolsets", "todo", "--keep-without-reasoning"]
code = main(["run", *sys.argv[1:], *options])
names = sorted(span.name for span in exporter.get_finished_spans())
traces = {span.context.trace_id for span in exporter.get_finished_spans()}
print(json.dumps([code, names, len(traces)]))
"""


@pytest.mark.needs("hermes-batch")
def test_the_rows_of_a_batch_are_traces_of_their_own(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        (tmp_path / "p.jsonl").write_text('{"prompt": "one"}\n{"prompt": "two"}\n{"prompt": "three"}\n')
        async with Host(*({"content": "Done."} for _ in range(3))) as host:
            options = f"""--dataset-file {tmp_path / "p.jsonl"} --run-name r --output-dir {tmp_path}
                --base-url {host.address}/v1 --model small"""
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", PROGRAM, *options.split(), stdout=subprocess.PIPE
            )
            output, _ = await process.communicate()
            result: list[Any] = json.loads(output.splitlines()[-1])
            return result

    code, names, traces = asyncio.run(main())
    assert code == 0
    assert names == ["chat small"] * 4 + ["invoke_agent"] * 3  # one attempt failed
    assert traces == 3
