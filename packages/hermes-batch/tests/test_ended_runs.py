"""Rows that fail, hang or come to nothing, and runs that are stopped, cancelled or can not go on."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from batch_help import adds_up, dataset, good, runner
from hermes_batch import BatchRunner, BatchStatistics, NoProgress, RunAbortedError
from hermes_batch.records import decode_record
from hermes_batch.testing import ScriptedAgents, conversation, failed_conversation
from hermes_messages import ErrorKind
from hermes_messages.protocols import ConversationResult


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
