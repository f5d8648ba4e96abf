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
from counting_host import CountingHost, running_host

from hermes_batch.records import decode_record

pytestmark = pytest.mark.needs(
    "hermes-loop", "hermes-providers", "hermes-tools", "hermes-store", "hermes-batch"
)

NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"
ROWS, KILLS = (500, 50) if NIGHTLY else (120, 8)
WORKERS = 8
CALLS = 2
LIMIT_S = 120.0


@pytest.fixture
def host(tmp_path: Path) -> Iterator[CountingHost]:
    with running_host(tmp_path) as started:
        yield started


def finished_rows(run: Path) -> set[str]:
    """The prompts whose record is whole in a shard."""
    found: set[str] = set()
    for shard in run.glob("shards/*.jsonl"):
        *lines, _torn = shard.read_bytes().split(b"\n")
        found |= {decode_record(line).id for line in lines}
    return found


@pytest.mark.timeout(3600)
def test_a_run_that_is_killed_again_and_again_pays_for_no_finished_row_twice(
    tmp_path: Path, host: CountingHost
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
            while process.poll() is None and len(host.rows()) < wanted:
                assert time.monotonic() < deadline, host.rows()[heard:]
                time.sleep(0.002)  # leaves the processor to the run
            process.kill()
            assert process.stderr is not None
            told = process.stderr.read()
        host.hear_out()
        rows = host.rows()
        asked, heard = set(rows[heard:]), len(rows)
        assert asked.isdisjoint(finished), "a finished row was paid again"
        in_flight.update(asked - finished_rows(run))
        kills += 1
        assert process.returncode == -9, told.decode()
    host.answer_up_to(10**9)
    finished = finished_rows(run)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(host.rows()[heard:]).isdisjoint(finished)

    merged = [decode_record(line) for line in (run / "trajectories.jsonl").read_bytes().split(b"\n")[:-1]]
    assert [record.id for record in merged] == prompts
    assert all(record.completed and record.api_calls == CALLS for record in merged)
    paid = Counter(host.rows())
    over = {row: count for row, count in paid.items() if count > CALLS * (1 + in_flight[row])}
    assert over == {}
    assert sum(in_flight.values()) <= kills * WORKERS
    again = sum(paid.values()) - ROWS * CALLS
    under_way = sum(in_flight.values())
    print(
        f"{ROWS} rows, {kills} kills, {len(finished)} rows finished at the last; {under_way} rows under way"
        f" at kills; {again} of {sum(paid.values())} requests were made again"
    )
