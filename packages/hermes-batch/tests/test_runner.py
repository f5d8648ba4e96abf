"""A run from its dataset to its files, with scripted agents."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from hermes_batch import (
    BatchRunner,
    BatchStatistics,
    DatasetError,
    NoProgress,
    RunAbortedError,
    RunExistsError,
    RunLockedError,
)
from hermes_batch.export import export_run
from hermes_batch.records import Record, decode_record
from hermes_batch.run_files import RunFiles
from hermes_batch.testing import ScriptedAgents, conversation, failed_conversation
from hermes_messages import ConfigurationError, ErrorKind, ProviderError, UnknownNameError
from hermes_messages.protocols import ConversationResult


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


def test_a_slow_row_is_ended_by_its_timeout(tmp_path: Path) -> None:
    async def one_hangs(prompt: str) -> ConversationResult:
        if prompt == "p0":
            await asyncio.Event().wait()
        return good(prompt)

    prompts = [f"p{number}" for number in range(10)]
    for limit_s in (0.3, 3.0, 30.0):  # where the machine stands still, others run out of time as well
        folder = tmp_path / str(limit_s)
        folder.mkdir()
        batch = runner(folder, prompts, ScriptedAgents(one_hangs), num_workers=2, row_timeout_s=limit_s)
        statistics = asyncio.run(batch.run())
        if statistics.error == 1:
            break
    assert (statistics.ok, statistics.error) == (9, 1)
    assert statistics.errors_by_kind == {"row_timeout": 1}


def test_an_unreachable_host_ends_the_run_and_its_rows_are_run_on_resume(tmp_path: Path) -> None:
    def dead(prompt: str) -> ConversationResult:
        return failed_conversation(prompt, error="connection refused", kind=ErrorKind.TRANSPORT)

    prompts = [f"p{number}" for number in range(50)]
    agents = ScriptedAgents(dead)
    with pytest.raises(RunAbortedError, match=r"3 rows in a row.*connection refused.*resume=True"):
        asyncio.run(runner(tmp_path, prompts, agents, num_workers=1, failure_limit=3).run())
    assert len(agents.requests) == 3
    statistics = asyncio.run(runner(tmp_path, prompts, ScriptedAgents(good)).run(resume=True))
    assert (statistics.ok, statistics.error) == (50, 0)


def test_a_refused_row_is_not_paid_again_unless_asked(tmp_path: Path) -> None:
    def refused(prompt: str) -> ConversationResult:
        return failed_conversation(prompt, error="policy", kind=ErrorKind.CONTENT_POLICY)

    asyncio.run(runner(tmp_path, ["a"], ScriptedAgents(refused)).run())
    plain, asked = ScriptedAgents(good), ScriptedAgents(good)
    asyncio.run(runner(tmp_path, ["a"], plain).run(resume=True))
    assert plain.requests == []
    statistics = asyncio.run(runner(tmp_path, ["a"], asked, retry_failed=True).run(resume=True))
    assert (statistics.ok, statistics.error) == (1, 0)
    assert asyncio.run(runner(tmp_path, ["a"], plain).run(resume=True)).ok == 1


def test_a_stop_lets_running_rows_end_and_leaves_the_rest_pending(tmp_path: Path) -> None:
    running = asyncio.Event()
    leave = asyncio.Event()

    async def waits(prompt: str) -> ConversationResult:
        running.set()
        await leave.wait()
        return good(prompt)

    async def stop_in_the_middle() -> BatchStatistics:
        batch = runner(tmp_path, [f"p{number}" for number in range(8)], ScriptedAgents(waits), num_workers=2)
        task = asyncio.create_task(batch.run())
        await running.wait()
        batch.request_stop()
        leave.set()
        return await task

    statistics = asyncio.run(stop_in_the_middle())
    assert statistics.interrupted
    assert 1 <= statistics.ok <= 2
    assert adds_up(statistics)
    assert (
        asyncio.run(runner(tmp_path, [f"p{n}" for n in range(8)], ScriptedAgents(good)).run(resume=True)).ok
        == 8
    )


@pytest.mark.parametrize("now", [True, False])
def test_a_row_that_does_not_end_is_cancelled_after_the_grace_or_at_once(tmp_path: Path, now: bool) -> None:
    running = asyncio.Event()
    cancelled: list[str] = []

    async def hangs(prompt: str) -> ConversationResult:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(prompt)
            raise
        return good(prompt)

    async def stop_in_the_middle() -> BatchStatistics:
        batch = runner(tmp_path, ["a", "b"], ScriptedAgents(hangs), num_workers=1, grace_s=60 if now else 0.1)
        task = asyncio.create_task(batch.run())
        await running.wait()
        batch.request_stop(now=now)
        return await task

    statistics = asyncio.run(stop_in_the_middle())
    assert cancelled == ["a"]
    assert (statistics.pending, statistics.ok) == (2, 0)


def test_cancelling_the_run_releases_everything_and_a_resume_finishes_it(tmp_path: Path) -> None:
    running = asyncio.Event()

    async def hangs(prompt: str) -> ConversationResult:
        if prompt != "p0":
            running.set()
            await asyncio.Event().wait()
        return good(prompt)

    async def cancel() -> None:
        agents = ScriptedAgents(hangs)
        task = asyncio.create_task(runner(tmp_path, ["p0", "p1", "p2"], agents, num_workers=1).run())
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert all(agent.closed for agent in agents.agents)

    asyncio.run(cancel())
    again = ScriptedAgents(good)
    assert asyncio.run(runner(tmp_path, ["p0", "p1", "p2"], again).run(resume=True)).ok == 3
    assert len(again.requests) == 2


def test_merge_alone_rebuilds_the_files_from_the_shards(tmp_path: Path) -> None:
    batch = runner(tmp_path, ["a", "b"], ScriptedAgents(good))
    statistics = asyncio.run(batch.run())
    for name in ("trajectories.jsonl", "statistics.json"):
        (tmp_path / "data/run" / name).unlink()
    assert asyncio.run(batch.merge()) == statistics
    assert len(merged(tmp_path)) == 2


def test_a_full_disk_ends_the_run_with_one_clear_error_and_a_resume_finishes_it(tmp_path: Path) -> None:
    prompts = dataset(tmp_path, [f"p{number}" for number in range(60)])
    program = """
import asyncio, resource, signal, sys
from hermes_batch import BatchRunner, RunAbortedError
from hermes_batch.testing import ScriptedAgents, conversation
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # else the limit would cut the cached modules of everybody
resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, 15_000))
agents = ScriptedAgents(lambda prompt: conversation(prompt, answer="x", echo="y"))
batch = BatchRunner(
    sys.argv[1], run_name="run", output_dir=sys.argv[2], agent_factory=agents, require_reasoning=False
)
try:
    asyncio.run(batch.run())
except RunAbortedError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(prompts), str(tmp_path / "data")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert re.search(r"\(File too large: .*shard-00001\.jsonl\); finished rows are kept", done.stdout)
    agents = ScriptedAgents(good)
    assert asyncio.run(runner(tmp_path, prompts, agents).run(resume=True)).ok == 60
    assert 0 < len(agents.requests) < 60


class Heard(NoProgress):
    """Keeps what a person is told."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


@pytest.mark.parametrize(
    ("thinking_row", "rows", "warned"), [(None, 30, 10), (None, 3, 3), (9, 30, 0), (20, 30, 10)]
)
def test_a_run_that_discards_all_it_pays_for_says_so_after_its_first_rows(
    tmp_path: Path, thinking_row: int | None, rows: int, warned: int
) -> None:
    heard = Heard()
    seen: list[int] = []

    def answer(prompt: str) -> ConversationResult:
        told = [text for text in heard.messages if "gave no reasoning" in text]
        seen.append(len(told))
        reasoning = "hm" if prompt == str(thinking_row) else None
        return conversation(prompt, answer="x", reasoning=reasoning)

    run = BatchRunner(
        dataset(tmp_path, [str(number) for number in range(rows)]),
        run_name="run", output_dir=tmp_path / "data", num_workers=1, progress=heard,
        agent_factory=ScriptedAgents(answer),
    )  # fmt: skip
    asyncio.run(run.run())
    told = [text for text in heard.messages if "gave no reasoning" in text]
    assert len(told) == (1 if warned else 0)
    if warned:
        assert told[0].startswith(f"all of the first {warned} rows were discarded")
        assert "require_reasoning=False" in told[0]
        assert seen.count(0) == min(warned, rows)


def test_the_record_of_a_row_that_came_to_nothing_holds_what_was_asked(tmp_path: Path) -> None:
    rows = [
        {"prompt": ["one", "two"], "system": "be brief"},
        {"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                    {"role": "user", "content": "c"}]},
        {"prompt": 5},
    ]  # fmt: skip
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def fail(prompt: str) -> ConversationResult:
        raise RuntimeError("it broke")

    asyncio.run(runner(tmp_path, path, ScriptedAgents(fail)).run())
    found = {
        record.prompt_index: [(turn.from_, turn.value) for turn in record.conversations]
        for shard in (tmp_path / "data/run/shards").glob("*.jsonl")
        for record in map(decode_record, shard.read_bytes().splitlines())
    }
    first = found[0]
    assert [said for said, _ in first] == ["system", "human", "human"]
    assert first[0][1].startswith("be brief")
    assert [text for said, text in first if said == "human"] == ["one", "two"]
    assert [said for said, _ in found[1]] == ["human", "gpt", "human"]
    assert found[2] == []
