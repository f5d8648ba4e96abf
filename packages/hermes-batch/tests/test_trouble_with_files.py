"""Disks that are full, directories that can not be used, leftovers of a crash, links."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_batch import BatchRunner, RunAbortedError, RunExistsError
from hermes_batch.records import decode_record
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_messages import ConfigurationError
from hermes_messages.protocols import ConversationResult


def good(prompt: str) -> ConversationResult:
    return conversation(prompt, answer="fine", echo="x")


def batch(tmp_path: Path, rows: int, agents: ScriptedAgents, **options: Any) -> BatchRunner:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(f'{{"prompt": "p{number}"}}\n' for number in range(rows)))
    settings: dict[str, Any] = {
        "run_name": "run",
        "output_dir": tmp_path / "data",
        "require_reasoning": False,
    }
    return BatchRunner(path, agent_factory=agents, **(settings | options))


FULL_DISK = """
import asyncio, resource, signal, sys, tempfile
from pathlib import Path
tempfile.gettempdir()  # it looks for a directory that can be written, once
sys.path.insert(0, {tests!r})
from test_trouble_with_files import ROWS, batch, good
from hermes_batch import RunAbortedError
from hermes_batch.testing import ScriptedAgents

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # else the limit would cut the cached modules of everybody

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

failures = 0
for size in [0, 5, 100, 500, 2000, 4000, 6000, 9000, 12000, 20000]:
    where = Path(sys.argv[1]) / str(size)
    where.mkdir()
    first, second = ScriptedAgents(good), ScriptedAgents(good)
    batch(where, ROWS, first)
    runner = batch(where, ROWS, first, batch_size=4, num_workers=2)
    limit(size)
    try:
        asyncio.run(runner.run())
    except RunAbortedError as error:
        failures += 1
        assert "File too large" in str(error) and "finished rows are kept" in str(error), error
    finally:
        limit(resource.RLIM_INFINITY)
    assert not list(where.rglob("*.tmp")), list(where.rglob("*.tmp"))
    assert asyncio.run(batch(where, ROWS, second).run(resume=True)).ok == ROWS
    paid = len(first.requests) + len(second.requests)
    assert paid <= ROWS + 2, (size, paid)
print(failures)
"""
ROWS = 10


def test_a_disk_that_is_full_at_any_write_costs_no_finished_row(tmp_path: Path) -> None:
    program = FULL_DISK.format(tests=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert int(done.stdout) >= 5


def file_instead(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")


def loop_instead(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path)


@pytest.mark.parametrize("make", [file_instead, loop_instead])
@pytest.mark.parametrize("place", ["data", "data/run", "data/run/.lock/x", "data/run/shards"])
def test_a_run_directory_that_can_not_be_used_is_one_clear_error(
    tmp_path: Path, place: str, make: Callable[[Path], None]
) -> None:
    make(tmp_path / place)
    with pytest.raises((ConfigurationError, RunAbortedError), match=str(tmp_path / "data")):
        asyncio.run(batch(tmp_path, 2, ScriptedAgents(good)).run(resume=True))


def test_a_run_directory_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/run").symlink_to(tmp_path / "elsewhere")
    assert asyncio.run(batch(tmp_path, 2, ScriptedAgents(good)).run()).ok == 2
    assert (tmp_path / "elsewhere/trajectories.jsonl").read_bytes().count(b"\n") == 2


def test_what_a_crash_left_half_written_is_removed_by_the_next_run(tmp_path: Path) -> None:
    asyncio.run(batch(tmp_path, 1, ScriptedAgents(good)).run())
    left = tmp_path / "data/run/.trajectories.jsonl.0123456789abcdef.tmp"
    left.write_text("half")
    mine = tmp_path / "data/run/.notes.tmp"
    mine.write_text("kept")
    asyncio.run(batch(tmp_path, 1, ScriptedAgents(good)).run(resume=True))
    assert not left.exists()
    assert mine.exists()


def test_a_record_that_rotted_on_the_disk_is_run_again_and_told(tmp_path: Path) -> None:
    asyncio.run(batch(tmp_path, 3, ScriptedAgents(good)).run())
    shard = tmp_path / "data/run/shards/shard-00001.jsonl"
    shard.write_bytes(shard.read_bytes().replace(b"fine", b"f\xffne", 1))
    agents = ScriptedAgents(good)
    assert asyncio.run(batch(tmp_path, 3, agents).run(resume=True)).ok == 3
    assert len(agents.requests) == 1


def test_a_run_that_another_finishes_while_the_agents_are_opened_is_not_begun_again(tmp_path: Path) -> None:
    class Slow(ScriptedAgents):
        async def open(self) -> None:
            assert (await batch(tmp_path, 3, other).run()).ok == 3

    other, mine = ScriptedAgents(good), Slow(good)
    with pytest.raises(RunExistsError):
        asyncio.run(batch(tmp_path, 3, mine).run())
    assert (len(other.requests), mine.requests) == (3, [])


def test_two_processes_that_begin_one_run_at_the_same_moment(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_trouble_with_files import *\n"
        "where = Path(sys.argv[1]); agents = ScriptedAgents(good)\n"
        "runner = BatchRunner(where / 'prompts.jsonl', run_name='run', output_dir=where / 'data',\n"
        "    agent_factory=agents, require_reasoning=False, batch_size=3)\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "try: asyncio.run(runner.run())\n"
        "except ConfigurationError as error: print(type(error).__name__)\n"
        "print(len(agents.requests))\n"
    )
    batch(tmp_path, 30, ScriptedAgents(good))
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program, tmp_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    one, other = sorted((process.communicate(timeout=300)[0].split() for process in both), key=len)
    assert one == ["30"]
    assert other in (["RunLockedError", "0"], ["RunExistsError", "0"])
    lines = (tmp_path / "data/run/trajectories.jsonl").read_bytes().splitlines()
    assert [decode_record(line).prompt_index for line in lines] == list(range(30))
