"""A run from its dataset to its files, with scripted agents."""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from batch_help import dataset, good, merged, runner
from hermes_batch import BatchRunner, BatchStatistics, DatasetError, RunExistsError, RunLockedError
from hermes_batch.export import export_run
from hermes_batch.records import decode_record
from hermes_batch.run_files import RunFiles
from hermes_batch.testing import ScriptedAgents, conversation, failed_conversation
from hermes_messages import ConfigurationError, ErrorKind, ProviderError, UnknownNameError
from hermes_messages.protocols import ConversationResult


def test_every_row_ends_as_one_record_in_the_order_of_the_dataset(tmp_path: Path) -> None:
    prompts = [f"p{number}" for number in range(20)]
    statistics = asyncio.run(runner(tmp_path, prompts, ScriptedAgents(good), batch_size=6).run())
    assert (statistics.total, statistics.ok, statistics.pending) == (20, 20, 0)
    records = merged(tmp_path)
    assert [record.prompt_index for record in records] == list(range(20))
    human = [turn.value for record in records for turn in record.conversations if turn.from_ == "human"]
    assert human == prompts
    assert statistics.tool_stats["echo"].count == 20
    saved = msgspec.json.decode((tmp_path / "data/run/statistics.json").read_bytes(), type=BatchStatistics)
    assert saved == statistics


def test_every_record_has_the_same_keys_and_types_and_no_null(tmp_path: Path) -> None:
    def sometimes_fails(prompt: str) -> ConversationResult:
        if prompt == "bad":
            return failed_conversation(prompt, error="refused", kind=ErrorKind.CONTENT_POLICY)
        return good(prompt)

    asyncio.run(runner(tmp_path, ["a", "bad", "c"], ScriptedAgents(sometimes_fails)).run())
    shard = (tmp_path / "data/run/shards/shard-00001.jsonl").read_text()
    rows = [json.loads(line) for line in shard.splitlines()]
    shapes = {json.dumps({key: type(value).__name__ for key, value in row.items()}) for row in rows}
    assert len(shapes) == 1
    assert "null" not in shard


def test_no_object_or_list_of_a_merged_row_is_empty(tmp_path: Path) -> None:
    def without_tools(prompt: str) -> ConversationResult:
        result = conversation(prompt, answer="x")
        result["tools"] = []
        return result

    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a", "toolsets": []}\n{"prompt": "b", "toolsets": ["file"]}\n')
    asyncio.run(runner(tmp_path, path, ScriptedAgents(without_tools)).run())
    first, second = merged(tmp_path)
    assert (first.toolsets_used, second.toolsets_used) == (("none",), ("file",))
    assert first.tool_stats.keys() == first.tool_error_counts.keys() == {"unknown_tool"}


def test_a_result_without_a_conversation_is_no_sample(tmp_path: Path) -> None:
    def empty(prompt: str) -> ConversationResult:
        result = conversation(prompt, answer="x")
        result["transcript"] = ()
        return result

    statistics = asyncio.run(runner(tmp_path, ["a"], ScriptedAgents(empty)).run())
    assert statistics.errors_by_kind == {"empty_transcript": 1}


def test_each_row_has_a_directory_of_its_own_that_is_gone_afterwards(tmp_path: Path) -> None:
    agents = ScriptedAgents(good)
    asyncio.run(runner(tmp_path, ["a", "b"], agents).run())
    directories = {request.cwd for request in agents.requests}
    assert len(directories) == 2
    assert not any(Path(directory).exists() for directory in directories)
    assert all(agent.closed for agent in agents.agents)


def test_resume_runs_only_what_is_missing(tmp_path: Path) -> None:
    calls: Counter[str] = Counter()

    def counted(prompt: str) -> ConversationResult:
        calls[prompt] += 1
        return good(prompt)

    prompts = ["a", "b", "c", "d"]
    asyncio.run(runner(tmp_path, prompts, ScriptedAgents(counted), max_samples=2).run())
    statistics = asyncio.run(runner(tmp_path, ["new", *prompts], ScriptedAgents(counted)).run(resume=True))
    assert calls == Counter({"a": 1, "b": 1, "c": 1, "d": 1, "new": 1})
    assert statistics.ok == 5
    assert [record.prompt_index for record in merged(tmp_path)] == [0, 1, 2, 3, 4]


def test_a_run_with_results_is_not_begun_again_by_accident(tmp_path: Path) -> None:
    asyncio.run(runner(tmp_path, ["a"], ScriptedAgents(good)).run())
    with pytest.raises(RunExistsError, match="resume=True"):
        asyncio.run(runner(tmp_path, ["a"], ScriptedAgents(good)).run())


def test_two_runs_of_one_name_at_once_are_refused(tmp_path: Path) -> None:
    entered = asyncio.Event()
    leave = asyncio.Event()

    async def waits(prompt: str) -> ConversationResult:
        entered.set()
        await leave.wait()
        return good(prompt)

    async def both() -> None:
        first = asyncio.create_task(runner(tmp_path, ["a"], ScriptedAgents(waits)).run())
        await entered.wait()
        with pytest.raises(RunLockedError, match=f"process {os.getpid()}"):
            await runner(tmp_path, ["a"], ScriptedAgents(good)).run(resume=True)
        leave.set()
        assert (await first).ok == 1

    asyncio.run(both())


def test_a_bad_line_is_one_error_row_with_its_line_number(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}\n\n{"prompt": 123}\n{oops\n{"prompt": "b"}\n')
    agents = ScriptedAgents(good)
    statistics = asyncio.run(runner(tmp_path, path, agents).run())
    assert (statistics.ok, statistics.error) == (2, 2)
    assert statistics.errors_by_kind == {"bad_row": 2}
    shard = (tmp_path / "data/run/shards/shard-00001.jsonl").read_bytes()
    errors = [
        record.error for line in shard.splitlines() if (record := decode_record(line)).status == "error"
    ]
    assert sorted(error.partition(":")[0] for error in errors) == ["line 3", "line 4"]
    again = asyncio.run(runner(tmp_path, path, agents).run(resume=True))
    assert again == statistics
    assert len(agents.requests) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "has no rows"), ("\n \n", "has no rows"), ("{\n[]\n", "no usable row; line 1: invalid JSON")],
)
def test_a_dataset_without_a_usable_row_starts_nothing(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(content)
    agents = ScriptedAgents(good)
    with pytest.raises(DatasetError, match=message):
        asyncio.run(runner(tmp_path, path, agents).run())
    assert agents.opened == 0
    assert not (tmp_path / "data").exists()


def test_a_missing_dataset_and_a_directory_start_nothing(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none.jsonl", "no dataset file at"), (tmp_path, "is not a file")):
        with pytest.raises(DatasetError, match=message):
            asyncio.run(runner(tmp_path, path, ScriptedAgents(good)).run())
    assert not (tmp_path / "data").exists()


def test_settings_that_can_not_work_are_refused_at_once(tmp_path: Path) -> None:
    path = dataset(tmp_path, ["a"])
    with pytest.raises(ConfigurationError, match="num_workers is 0"):
        BatchRunner(path, num_workers=0)
    with pytest.raises(ConfigurationError, match="run name"):
        BatchRunner(path, run_name="../elsewhere")
    with pytest.raises(UnknownNameError, match="did you mean 'default'"):
        BatchRunner(path, distribution="defalt")


def test_rows_without_reasoning_are_discarded_counted_and_not_run_again(tmp_path: Path) -> None:
    def half(prompt: str) -> ConversationResult:
        return conversation(prompt, answer="x", reasoning="because" if prompt == "a" else None)

    agents = ScriptedAgents(half)
    statistics = asyncio.run(runner(tmp_path, ["a", "b"], agents, require_reasoning=True).run())
    assert (statistics.ok, statistics.discarded, statistics.rows_with_reasoning) == (1, 1, 1)
    assert [record.prompt_index for record in merged(tmp_path)] == [0]
    asyncio.run(runner(tmp_path, ["a", "b"], agents, require_reasoning=True).run(resume=True))
    assert len(agents.requests) == 2


def test_one_failing_row_does_not_disturb_the_others(tmp_path: Path) -> None:
    def breaks(prompt: str) -> ConversationResult:
        match prompt:
            case "error":
                raise ProviderError("the host said no", kind=ErrorKind.FORMAT)
            case "bug":
                raise KeyError("oops")
            case _:
                return good(prompt)

    statistics = asyncio.run(runner(tmp_path, ["a", "error", "bug", "b"], ScriptedAgents(breaks)).run())
    assert (statistics.ok, statistics.error) == (2, 2)
    assert statistics.errors_by_kind == {"ProviderError": 1, "internal_error": 1}


def test_a_slow_row_keeps_no_other_waiting(tmp_path: Path) -> None:
    """It ends when the others are done. Were they to wait for it, say at a shard's end, it never would."""
    done: list[str] = []
    others_are_done = asyncio.Event()

    async def waits_for_the_others(prompt: str) -> ConversationResult:
        if prompt == "p0":
            await others_are_done.wait()
        done.append(prompt)
        if len(done) == 19:
            others_are_done.set()
        return good(prompt)

    prompts = [f"p{number}" for number in range(20)]
    agents = ScriptedAgents(waits_for_the_others)
    batch = runner(tmp_path, prompts, agents, num_workers=2, batch_size=3, row_timeout_s=60)
    assert asyncio.run(batch.run()).ok == 20
    assert done[-1] == "p0"


def test_separators_of_lines_inside_what_is_said_divide_no_record(tmp_path: Path) -> None:
    """JSON leaves U+2028 and its kin as they are; only a line feed ends a line."""
    said = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"

    def repeat(prompt: str) -> ConversationResult:
        return conversation(prompt, answer=f"{prompt} {said}", echo="x")

    path = tmp_path / "p.jsonl"
    rows = [{"prompt": f"{number} {said}", "id": said} for number in range(4)]
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    assert asyncio.run(runner(tmp_path, path, ScriptedAgents(repeat), max_samples=2).run()).ok == 2
    again = ScriptedAgents(repeat)
    assert asyncio.run(runner(tmp_path, path, again).run(resume=True)).ok == 4
    assert len(again.requests) == 2
    assert [record.id for record in merged(tmp_path)] == [said] * 4
    assert all(record.conversations[-1].value.endswith(said) for record in merged(tmp_path))
    written = asyncio.run(export_run(RunFiles(tmp_path / "data", "run"), tmp_path / "o.jsonl", "openai"))
    exported = (tmp_path / "o.jsonl").read_bytes().split(b"\n")[:-1]
    assert (written.written, [json.loads(line)["id"] for line in exported]) == (4, [said] * 4)


def test_merge_alone_rebuilds_the_files_from_the_shards(tmp_path: Path) -> None:
    batch = runner(tmp_path, ["a", "b"], ScriptedAgents(good))
    statistics = asyncio.run(batch.run())
    for name in ("trajectories.jsonl", "statistics.json"):
        (tmp_path / "data/run" / name).unlink()
    assert asyncio.run(batch.merge()) == statistics
    assert len(merged(tmp_path)) == 2
