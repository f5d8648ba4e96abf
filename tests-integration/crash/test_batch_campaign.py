"""A batch over a host with latency, killed again and again: every row once, and no finished row paid twice.

The host counts. At each kill the rows that stand in a shard are finished: the host must never hear of them
again. What was on its way may be asked for once more.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_batch.records import decode_record

pytestmark = pytest.mark.needs(
    "hermes-loop", "hermes-providers", "hermes-tools", "hermes-store", "hermes-batch"
)

NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"
ROWS, KILLS = (500, 50) if NIGHTLY else (120, 8)
WORKERS = 8
CALLS = 2
LIMIT_S = 120.0


class Host:
    """The counting host, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "requests.log"
        self._port = folder / "port"
        program = Path(__file__).with_name("counting_host.py")
        self.process = subprocess.Popen([sys.executable, program, self._port, self.log])
        deadline = time.monotonic() + LIMIT_S
        while not self._port.exists():
            assert time.monotonic() < deadline
            assert self.process.poll() is None
            time.sleep(0.01)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port.read_text()}/v1"

    def answer_up_to(self, requests: int) -> None:
        """Answer no more than so many: what is to be killed has not ended before, however late we are."""
        unfinished = self.log.with_name("limit.part")
        unfinished.write_text(str(requests))
        unfinished.rename(self.log.with_name("limit"))

    def requests(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    started = Host(tmp_path)
    yield started
    started.process.kill()
    started.process.wait()


def finished_rows(run: Path) -> set[str]:
    """The prompts whose record is whole in a shard."""
    found: set[str] = set()
    for shard in run.glob("shards/*.jsonl"):
        *lines, _torn = shard.read_bytes().split(b"\n")
        found |= {decode_record(line).id for line in lines}
    return found


@pytest.mark.timeout(3600)
def test_a_run_that_is_killed_again_and_again_pays_for_no_finished_row_twice(
    tmp_path: Path, host: Host
) -> None:
    dataset, run = tmp_path / "prompts.jsonl", tmp_path / "data/run"
    prompts = [f"p{number}" for number in range(ROWS)]
    dataset.write_text("".join(json.dumps({"prompt": text, "id": text}) + "\n" for text in prompts))
    command = [
        sys.executable, "-c", "import sys; from hermes_batch.cli import main; sys.exit(main())",
        "run", "--resume", "--quiet", "--dataset-file", str(dataset), "--run-name", "run",
        "--output-dir", str(tmp_path / "data"), "--base-url", host.url, "--model", "m", "--api-key", "none",
        "--toolsets", "todo", "--num-workers", str(WORKERS), "--batch-size", "16",
    ]  # fmt: skip
    moments = random.Random(11)
    in_flight = Counter[str]()
    kills = 0
    heard = 0
    per_life = ROWS * CALLS // (KILLS + 2)
    while kills < KILLS:
        finished = finished_rows(run)
        wanted = heard + moments.randint(1, 2 * per_life)
        host.answer_up_to(wanted + 2 * WORKERS)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            deadline = time.monotonic() + LIMIT_S
            while process.poll() is None and len(host.requests()) < wanted:
                assert time.monotonic() < deadline, host.requests()[heard:]
                time.sleep(0.002)  # leaves the processor to the run
            process.kill()
            assert process.stderr is not None
            told = process.stderr.read()
        life, heard = host.requests()[heard:], len(host.requests())
        asked = {line.split()[0] for line in life}
        assert asked.isdisjoint(finished), "a finished row was paid again"
        in_flight.update(asked - finished_rows(run))
        kills += 1
        assert process.returncode == -9, told.decode()
    host.answer_up_to(10**9)
    finished = finished_rows(run)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] for line in host.requests()[heard:]}.isdisjoint(finished)

    merged = [decode_record(line) for line in (run / "trajectories.jsonl").read_bytes().split(b"\n")[:-1]]
    assert [record.id for record in merged] == prompts
    assert all(record.completed and record.api_calls == CALLS for record in merged)
    paid = Counter(line.split()[0] for line in host.requests())
    over = {row: count for row, count in paid.items() if count > CALLS * (1 + in_flight[row])}
    assert over == {}
    assert sum(in_flight.values()) <= kills * WORKERS
    again = sum(paid.values()) - ROWS * CALLS
    under_way = sum(in_flight.values())
    print(
        f"{ROWS} rows, {kills} kills, {len(finished)} rows finished at the last; {under_way} rows under way"
        f" at kills; {again} of {sum(paid.values())} requests were made again"
    )
