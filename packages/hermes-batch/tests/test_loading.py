"""What a run and its exports write loads with `datasets` without a cast error, however the file is cut."""

import asyncio
import json
from pathlib import Path

import pytest

from hermes_batch import BatchRunner
from hermes_batch.export import export_run
from hermes_batch.export_formats import EXPORT_FORMATS, ExportFormat
from hermes_batch.run_files import RunFiles
from hermes_batch.testing import ScriptedAgents, conversation, failed_conversation
from hermes_messages import ErrorKind
from hermes_messages.protocols import ConversationResult

datasets = pytest.importorskip("datasets", reason="the library `datasets` is not installed")


def behaves(prompt: str) -> ConversationResult:
    """Answers of every kind: without and with tools, with and without figures, and failures."""
    number = int(prompt)
    if number % 7 == 3:
        return failed_conversation(prompt, error="bad", kind=ErrorKind.CONTENT_POLICY)
    result = conversation(prompt, answer="a", echo=None if number % 3 else "x", reasoning="r")
    if number % 2:
        result["cost_usd"] = number / 3
        result["tools"] = []
    return result


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    rows = [
        {
            "prompt": str(n),
            "toolsets": [] if n % 2 else ["echo"],
            "metadata": {f"k{n}": [n] if n % 3 else "x"},
        }
        for n in range(300)
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    runner = BatchRunner(
        tmp_path / "p.jsonl", run_name="r", output_dir=tmp_path, agent_factory=ScriptedAgents(behaves)
    )
    asyncio.run(runner.run())
    return RunFiles(tmp_path, "r")


def load(tmp_path: Path, kind: str, file: Path) -> list[dict[str, object]]:
    """The rows, read in blocks that are far smaller than the file."""
    options = {"chunksize": 4096} if kind == "json" else {}
    data = datasets.load_dataset(
        kind, data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"), **options
    )
    return list(data)


def test_the_trajectories_of_a_run_load(tmp_path: Path, files: RunFiles) -> None:
    rows = load(tmp_path, "json", files.trajectories)
    assert rows == [json.loads(line) for line in files.trajectories.read_bytes().split(b"\n")[:-1]]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_every_export_loads(tmp_path: Path, files: RunFiles, form: ExportFormat, ending: str) -> None:
    target = tmp_path / f"out.{ending}"
    count = asyncio.run(export_run(files, target, form)).written
    rows = load(tmp_path, "json" if ending == "jsonl" else "parquet", target)
    assert len(rows) == count > 200
    if ending == "jsonl":
        assert rows == [json.loads(line) for line in target.read_bytes().split(b"\n")[:-1]]
