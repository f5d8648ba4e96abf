"""OpenTelemetry over a batch."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from delta_host import DeltaHost

pytestmark = pytest.mark.needs(
    "hermes-batch", "hermes-loop", "hermes-providers", "hermes-tools", "hermes-store"
)

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


def test_the_rows_of_a_batch_are_traces_of_their_own(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        (tmp_path / "p.jsonl").write_text('{"prompt": "one"}\n{"prompt": "two"}\n{"prompt": "three"}\n')
        async with DeltaHost(*({"content": "Done."} for _ in range(3))) as host:
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
