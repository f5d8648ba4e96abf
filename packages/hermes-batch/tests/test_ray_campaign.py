"""A batch on Ray whose driver and workers are killed again and again, over a host that counts.

Each row is in the merged file once, and no row is paid for more than once plus the times that it was on its
way at a kill. All bounds hold however slow the machine is: the host answers no more requests than the next
kill may be away.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from counting_host import CountingHost, running_host

from hermes_batch.records import decode_record
from ray_processes import LIMIT_S, RayCluster, gateway_of, wait_until

pytestmark = [pytest.mark.ray_cluster, pytest.mark.timeout(1500)]

NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"
SHORT = ("worker", "driver")
LONG = (
    "worker", "driver", "gateway", "worker", "worker", "driver", "driver", "worker", "gateway", "driver",
)  # fmt: skip
"""What is killed, in this order; the run outlives its workers, each row two of them (then it is an error)."""
VICTIMS = LONG if NIGHTLY else SHORT
WORKERS, ACTORS, CALLS = 8, 2, 2
LOST_AT_MOST = {"worker": WORKERS // ACTORS, "driver": WORKERS, "gateway": WORKERS}
APART, SLACK = 24, 8
"""A kill comes at most so many requests after another, and so many further ones may be answered meanwhile."""
ROWS = len(VICTIMS) * (APART + SLACK + 2 * WORKERS) // CALLS


@pytest.fixture
def host(tmp_path: Path) -> Iterator[CountingHost]:
    with running_host(tmp_path) as started:
        started.answer_up_to(0)
        yield started


def has_heard(host: CountingHost, requests: int) -> bool:
    return len(host.rows()) >= requests


def are_gone(cluster: RayCluster, workers: set[int]) -> bool:
    return cluster.workers().isdisjoint(workers)


def finished_rows(run: Path) -> set[str]:
    """The rows whose record is whole in a shard."""
    found: set[str] = set()
    for shard in run.glob("shards/*.jsonl"):
        found |= {decode_record(line).id for line in shard.read_bytes().split(b"\n")[:-1]}
    return found


def test_a_run_on_ray_whose_processes_are_killed_pays_for_no_finished_row_twice(
    tmp_path: Path, host: CountingHost, ray_cluster: RayCluster
) -> None:
    dataset, run = tmp_path / "prompts.jsonl", tmp_path / "data/run"
    prompts = [f"p{number}" for number in range(ROWS)]
    dataset.write_text("".join(json.dumps({"prompt": text, "id": text}) + "\n" for text in prompts))
    command = [
        sys.executable, "-c", "import sys; from hermes_batch.cli import main; sys.exit(main())",
        "run", "--resume", "--quiet", f"--dataset-file={dataset}", "--run-name=run",
        f"--output-dir={tmp_path / 'data'}", f"--base-url={host.url}", "--model=m", "--api-key=none",
        "--toolsets=todo", f"--num-workers={WORKERS}", "--batch-size=16", "--engine=ray",
        *(f"--engine-setting={setting}" for setting in (
            f"address={ray_cluster.address}", f"actors={ACTORS}", "cpus_per_actor=0.1", "start_timeout_s=300",
        )),
    ]  # fmt: skip
    moments = random.Random(11)
    on_its_way = Counter[str]()
    finished_then: list[tuple[set[str], int]] = []
    driver: subprocess.Popen[bytes] | None = None
    try:
        for victim in VICTIMS:
            if driver is None:
                driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            wanted = len(host.rows()) + moments.randint(1, APART)
            host.answer_up_to(wanted + SLACK)
            wait_until(partial(has_heard, host, wanted), driver)
            assert driver.poll() is None, "the run ended before its time"
            finished = finished_rows(run)
            finished_then.append((finished, len(host.rows())))
            if victim == "worker":
                pid = moments.choice(sorted(ray_cluster.workers()))
                os.kill(pid, signal.SIGKILL)
                wait_until(partial(are_gone, ray_cluster, {pid}))
            else:
                pid = driver.pid if victim == "driver" else gateway_of(driver.pid)
                os.kill(pid, signal.SIGKILL)
                assert driver.wait(LIMIT_S) == (-signal.SIGKILL if victim == "driver" else 1)
                driver = None
                wait_until(partial(are_gone, ray_cluster, ray_cluster.workers()))
            on_its_way.update(set(host.rows()) - finished)
        host.answer_up_to(10**9)
        finished_then.append((finished_rows(run), len(host.rows())))
        done = subprocess.run(command, capture_output=True, check=False, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr.decode()
    finally:
        if driver is not None:
            driver.kill()
            driver.wait()

    merged = [decode_record(line) for line in (run / "trajectories.jsonl").read_bytes().split(b"\n")[:-1]]
    assert [record.id for record in merged] == prompts
    assert all(record.completed and record.api_calls == CALLS for record in merged)
    asked = host.rows()
    for finished, count in finished_then:
        assert finished.isdisjoint(asked[count:]), "a finished row was paid again"
    paid = Counter(asked)
    assert {row: count for row, count in paid.items() if count > CALLS * (1 + on_its_way[row])} == {}
    lost = sum(LOST_AT_MOST[victim] for victim in VICTIMS)
    again = sum(paid.values()) - ROWS * CALLS
    print(f"{len(VICTIMS)} kills, {ROWS} rows of {CALLS} requests, {again} more; {lost * CALLS} may be")
    assert again <= lost * CALLS
