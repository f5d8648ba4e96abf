"""OpenTelemetry over the real thing: real tools, a real store, a real host on a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from delta_host import DeltaHost
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hermes_loop import AIAgent
from hermes_loop.otel import OpenTelemetryHook
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-providers", "hermes-tools", "hermes-store")

KEY = "sk-0123456789abcdef"


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
        host = DeltaHost(
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
