"""Datasets that change between runs and under a run, and ones that are no plain file."""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_batch import BatchRunner, DatasetError, RunAbortedError
from hermes_batch.dataset import scan_dataset
from hermes_batch.records import Record, decode_record
from hermes_batch.testing import ScriptedAgents, conversation, failed_conversation
from hermes_messages import ErrorKind
from hermes_messages.protocols import ConversationResult


def good(prompt: str) -> ConversationResult:
    return conversation(prompt, answer="fine", echo="x")


def line(prompt: str, **more: object) -> str:
    return json.dumps({"prompt": prompt} | more) + "\n"


def batch(path: Path, agents: ScriptedAgents, **options: Any) -> BatchRunner:
    settings: dict[str, Any] = {
        "run_name": "run", "output_dir": path.parent / "data", "require_reasoning": False
    }  # fmt: skip
    return BatchRunner(path, agent_factory=agents, **(settings | options))


def merged(path: Path) -> list[Record]:
    lines = (path.parent / "data/run/trajectories.jsonl").read_bytes().split(b"\n")
    assert lines.pop() == b""
    return [decode_record(text) for text in lines]


@pytest.mark.parametrize("change", ["rewritten", "shortened"])
def test_a_dataset_that_changes_under_the_run_ends_it_and_no_row_is_taken_for_another(
    tmp_path: Path, change: str
) -> None:
    path = tmp_path / "p.jsonl"
    padding = "x" * 300_000  # more than one read, so that the change is seen
    path.write_text("".join(line(f"p{number}", pad=padding) for number in range(20)))
    prompts: list[str] = []

    def behave(prompt: str) -> ConversationResult:
        prompts.append(prompt)
        if len(prompts) == 1 and change == "rewritten":
            path.write_text("".join(line(f"q{number}", pad=padding) for number in range(20)))
        if len(prompts) == 1 and change == "shortened":
            os.truncate(path, 1000)
        return good(prompt)

    with pytest.raises(RunAbortedError, match=r"(changed|shorter) while the run read it.*resume=True"):
        asyncio.run(batch(path, ScriptedAgents(behave), num_workers=1).run())
    assert all(prompt.startswith("p") for prompt in prompts)
    path.write_text("".join(line(f"p{number}", pad=padding) for number in range(20)))
    agents = ScriptedAgents(behave)
    assert asyncio.run(batch(path, agents).run(resume=True)).ok == 20
    assert Counter(prompts) == Counter(f"p{number}" for number in range(20))


def test_rows_that_are_added_under_the_run_wait_for_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(line("a") + line("b"))

    def behave(prompt: str) -> ConversationResult:
        with path.open("a") as file:
            file.write(line(f"after {prompt}"))
        return good(prompt)

    statistics = asyncio.run(batch(path, ScriptedAgents(behave), num_workers=1).run())
    assert (statistics.total, statistics.ok) == (2, 2)
    assert asyncio.run(batch(path, ScriptedAgents(good)).run(resume=True)).ok == 4


@settings(max_examples=15, deadline=None)
@given(
    versions=st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=8), min_size=2, max_size=4),
    size=st.integers(1, 3),
)
def test_after_any_changes_each_row_of_the_dataset_has_its_record(
    tmp_path_factory: pytest.TempPathFactory, versions: list[list[str]], size: int
) -> None:
    path = tmp_path_factory.mktemp("changes") / "p.jsonl"
    for version in versions:
        path.write_text("".join(line(prompt) for prompt in version))
        statistics = asyncio.run(batch(path, ScriptedAgents(good), batch_size=size).run(resume=True))
        assert (statistics.ok, statistics.total) == (len(version), len(version))
        records = merged(path)
        assert [record.prompt_index for record in records] == list(range(len(version)))
        assert [record.conversations[1].value for record in records] == version


def test_a_row_that_failed_and_then_did_well_elsewhere_in_the_file_is_a_good_row(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"

    def refused(prompt: str) -> ConversationResult:
        return failed_conversation(prompt, error="policy", kind=ErrorKind.CONTENT_POLICY)

    path.write_text(line("a"))
    asyncio.run(batch(path, ScriptedAgents(refused)).run())
    path.write_text(line("new") + line("a"))
    asyncio.run(batch(path, ScriptedAgents(good), retry_failed=True).run(resume=True))
    path.write_text(line("a"))
    again = ScriptedAgents(good)
    statistics = asyncio.run(batch(path, again).run(resume=True))
    assert (statistics.ok, statistics.error, again.requests) == (1, 0, [])


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DatasetError, match="is not a file"):
        asyncio.run(batch(tmp_path / "pipe", ScriptedAgents(good)).run())


def test_ids_that_stand_twice_are_told(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(line("a", id="x") + line("b", id="x") + line("c", id="y") + line("d") + line("e"))
    dataset = asyncio.run(scan_dataset(path))
    assert dataset.remarks == ("1 ids stand on more than one row: 'x' (line 2); records share them",)


def test_a_very_long_line_is_read_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(line("x" * (64 << 20)) + line("b"))
    dataset = asyncio.run(scan_dataset(path))  # with the square of the length it would not end
    assert len(dataset.hashes) == 2


def test_a_row_works_in_the_directory_it_names_and_leaves_it_there(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/file").write_text("kept")
    path = tmp_path / "p.jsonl"
    path.write_text(
        line("a", cwd=str(tmp_path / "project")) + line("b", cwd=str(tmp_path / "none")) + line("c")
    )
    agents = ScriptedAgents(good)
    statistics = asyncio.run(batch(path, agents, num_workers=1).run())
    assert (statistics.ok, statistics.errors_by_kind) == (2, {"bad_row": 1})
    assert agents.requests[0].cwd == str(tmp_path / "project")
    assert (tmp_path / "project/file").read_text() == "kept"


def test_keys_that_mean_nothing_here_are_carried_along(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(line("a", source="web", metadata={"level": 3}))
    asyncio.run(batch(path, ScriptedAgents(good)).run())
    assert json.loads(merged(path)[0].metadata) == {"source": "web", "level": 3}
