"""Runs over scripted agents, which several modules of tests use."""

import json
from collections.abc import Sequence
from pathlib import Path

from hermes_batch import BatchRunner, BatchStatistics
from hermes_batch.records import Record, decode_record
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_messages.protocols import ConversationResult

__all__ = ["adds_up", "dataset", "good", "merged", "runner"]


def dataset(directory: Path, prompts: Sequence[str], *, name: str = "prompts.jsonl") -> Path:
    path = directory / name
    path.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    return path


def good(prompt: str) -> ConversationResult:
    return conversation(prompt, answer=f"answer to {prompt}", echo="x")


def runner(
    tmp_path: Path,
    prompts: Sequence[str] | Path,
    agents: ScriptedAgents,
    *,
    batch_size: int = 100,
    num_workers: int = 4,
    require_reasoning: bool = False,
    max_samples: int | None = None,
    row_timeout_s: float | None = None,
    failure_limit: int | None = None,
    grace_s: float = 30.0,
    retry_failed: bool = False,
) -> BatchRunner:
    return BatchRunner(
        prompts if isinstance(prompts, Path) else dataset(tmp_path, prompts),
        batch_size=batch_size,
        run_name="run",
        num_workers=num_workers,
        output_dir=tmp_path / "data",
        agent_factory=agents,
        require_reasoning=require_reasoning,
        max_samples=max_samples,
        row_timeout_s=row_timeout_s,
        failure_limit=failure_limit,
        grace_s=grace_s,
        retry_failed=retry_failed,
    )


def merged(tmp_path: Path) -> list[Record]:
    lines = (tmp_path / "data/run/trajectories.jsonl").read_bytes().split(b"\n")
    assert lines.pop() == b""
    return [decode_record(line) for line in lines]


def adds_up(statistics: BatchStatistics) -> bool:
    return statistics.ok + statistics.error + statistics.discarded + statistics.pending == statistics.total
