"""What every engine does: rows here and rows on Ray actors come to the same records, files and ends."""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from engine_help import (
    PATIENT,
    Engine,
    kept,
    merged,
    noted,
    on_cluster,
    records,
    run_and,
    runner,
    stop_when,
    with_two_workers,
)
from hermes_batch import EngineStartError, RunAbortedError
from hermes_batch.ray_engine import engine as ray_engine
from hermes_messages import ConfigurationError
from ray_processes import LIMIT_S, descendants, running, wait_until

MIXED: list[Any] = [
    {"prompt": "héllo \u2028 x", "id": "a", "metadata": {"n": 10**30, "f": 1.5}, "more": [None, {"x": []}]},
    "{not json",
    {"prompt": ["first", "second"], "system": "Be brief.", "toolsets": ["one", "two"]},
    {
        "prompt": [
            {"role": "user", "content": "was said"},
            {"role": "assistant", "content": "was answered", "unknown": {"kept": 1}},
            {"role": "user", "content": [{"type": "text", "text": "parts"}]},
        ]
    },
    "thoughtless row",
    "raise this",
    "cancel itself",
    "nothing at all",
    "refused row",
    {"prompt": "nowhere", "cwd": "/no/such/directory"},
    *(f"row {number}" for number in range(20)),
]


def test_every_row_ends_as_the_same_record_wherever_it_ran(where: Path, engine: Engine) -> None:
    options: dict[str, Any] = {"distribution": {"a": 0.5, "b": 0.5}, "seed": 5}
    statistics = asyncio.run(runner(where, MIXED, with_two_workers(engine), **options).run())
    assert (statistics.total, statistics.ok, statistics.error, statistics.discarded) == (30, 23, 6, 1)
    assert statistics.errors_by_kind == {
        "internal_error": 3,
        "bad_row": 2,
        "no_reasoning": 1,
        "provider_error:content_policy": 1,
    }
    reference = runner(where, MIXED, {"engine": "local"}, run_name="reference", **options)
    asyncio.run(reference.run())
    assert [kept(record) for record in records(where)] == [kept(r) for r in records(where, "reference")]
    assert merged(where) == [0, 2, 3, *range(10, 30)]
    assert len(noted(where, "directories")) == 2 * 28
    assert not any(Path(directory).exists() for directory in noted(where, "directories"))
    ran, closed = set(noted(where, "workers")), noted(where, "closed")
    assert len(closed) == len(set(closed)) + (engine["engine"] == "local")  # the reference run was here, too
    # All rows may end on one worker before another is ready, which is ended without agents to close.
    assert ran <= set(closed)


def test_a_stop_lets_running_rows_end_and_resume_runs_the_others_once(where: Path, engine: Engine) -> None:
    rows = [f"slow {number}" for number in range(32)]
    batch = runner(where, rows, engine, batch_size=3)
    watcher = stop_when(where, lambda: len(noted(where, "paid")) >= 6, batch.request_stop)
    stopped = asyncio.run(run_and(batch, watcher))
    assert stopped.interrupted
    assert stopped.ok == len(noted(where, "paid")) < 32
    checkpoint = json.loads((where / "r/checkpoint.json").read_text())
    assert (checkpoint["finished"], checkpoint["total"]) == (stopped.ok, 32)
    assert asyncio.run(batch.run(resume=True)).ok == 32
    assert Counter(noted(where, "paid")) == Counter(rows)
    assert merged(where) == list(range(32))


@pytest.mark.ray_nightly
def test_a_stop_at_once_cancels_rows_that_hang_and_cleans_up_after_them(where: Path, engine: Engine) -> None:
    batch = runner(where, ["row 0", *(f"hang {number}" for number in range(4))], engine)
    watcher = stop_when(where, lambda: len(noted(where, "paid")) >= 5, lambda: batch.request_stop(now=True))
    stopped = asyncio.run(run_and(batch, watcher))
    assert (stopped.ok, stopped.pending, stopped.interrupted) == (1, 4, True)
    assert not any(Path(directory).exists() for directory in noted(where, "directories"))
    assert noted(where, "closed")


@pytest.mark.ray_nightly
def test_rows_that_hang_end_with_the_grace_time(where: Path, engine: Engine) -> None:
    batch = runner(where, ["hang 0"], engine, grace_s=0.1)
    watcher = stop_when(where, lambda: bool(noted(where, "paid")), batch.request_stop)
    assert asyncio.run(run_and(batch, watcher)).pending == 1


@pytest.mark.ray_nightly
def test_a_row_that_hangs_ends_by_its_timeout_and_leaves_nothing(where: Path, engine: Engine) -> None:
    statistics = asyncio.run(runner(where, ["hang 0"], engine, row_timeout_s=1.0).run())
    assert statistics.errors_by_kind == {"row_timeout": 1}
    assert not any(Path(directory).exists() for directory in noted(where, "directories"))


@pytest.mark.ray_nightly
def test_rows_are_tried_again_and_tombstones_are_not_paid_again(where: Path, engine: Engine) -> None:
    rows = ["once 0", "refused 1", "thoughtless 2", "row 3"]
    first = asyncio.run(runner(where, rows, engine, attempts=3).run())
    assert (first.ok, first.error, first.discarded) == (2, 1, 1)
    assert Counter(noted(where, "paid")) == {"once 0": 2, "refused 1": 1, "thoughtless 2": 1, "row 3": 1}
    again = runner(where, rows, engine, retry_failed=True, retry_discarded=True)
    asyncio.run(again.run(resume=True))
    assert Counter(noted(where, "paid")) == {"once 0": 2, "refused 1": 2, "thoughtless 2": 2, "row 3": 1}


@pytest.mark.ray_nightly
def test_the_first_failed_row_ends_a_run_that_fails_fast(where: Path, engine: Engine) -> None:
    rows = ["row 0", "refused 1", *(f"slow {number}" for number in range(20))]
    with pytest.raises(RunAbortedError, match="row 1 failed"):
        asyncio.run(runner(where, rows, engine, fail_fast=True, num_workers=2).run())
    assert len(noted(where, "paid")) < 8
    assert {record.prompt_index for record in records(where)} >= {0, 1}


@pytest.mark.ray_nightly
def test_a_host_that_is_away_ends_the_run_and_resume_goes_on(where: Path, engine: Engine) -> None:
    rows = ["row 0", *(f"once {number}" for number in range(1, 9))]
    with pytest.raises(RunAbortedError, match="could not be reached for 3 rows in a row"):
        asyncio.run(runner(where, rows, engine, num_workers=1).run())
    assert noted(where, "paid") == rows[:4]
    assert asyncio.run(runner(where, rows[:4], engine, num_workers=1).run(resume=True)).ok == 4


@pytest.mark.ray_nightly
def test_agents_that_can_not_be_made_end_the_run_before_anything_is_written(
    where: Path, engine: Engine
) -> None:
    with pytest.raises(ConfigurationError, match="'no_such_module_of_agents'"):
        asyncio.run(runner(where, ["row 0"], engine, agent_factory="no_such_module_of_agents:make").run())
    assert not (where / "r").exists()


@pytest.mark.ray_nightly
def test_a_run_that_is_cancelled_ends_its_rows_and_resume_finishes_it(where: Path, engine: Engine) -> None:
    rows = [f"slow {number}" for number in range(24)]
    batch = runner(where, rows, with_two_workers(engine))

    async def cancelled() -> None:
        running = asyncio.create_task(batch.run())

        def cancel() -> None:
            running.cancel()

        await stop_when(where, lambda: len(noted(where, "paid")) >= 6, cancel)
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert not any(Path(directory).exists() for directory in noted(where, "directories"))
    assert asyncio.run(batch.run(resume=True)).ok == 24
    paid = Counter(noted(where, "paid"))
    assert set(paid) == set(rows)
    assert sum(paid.values()) - 24 <= 4
    assert merged(where) == list(range(24))


PROGRAM = """
import json, sys
from hermes_batch.cli import main

sys.path.insert(0, sys.argv[1])
sys.exit(main(["run", "--resume", *sys.argv[2:]]))
"""


def program(where: Path, rows: list[str], engine: Engine) -> list[str]:
    runner(where, rows, {"engine": "local"})
    settings = [f"--engine-setting={key}={value}" for key, value in engine.get("engine_settings", {}).items()]
    return [
        sys.executable, "-c", PROGRAM, str(where), f"--dataset-file={where / 'p.jsonl'}", "--run-name=r",
        f"--output-dir={where}", f"--agent-factory=agents_{where.name}:make", "--num-workers=4",
        "--batch-size=7", f"--engine={engine['engine']}", *settings,
    ]  # fmt: skip


GATED = [*(f"row {number}" for number in range(6)), *(f"gated {number}" for number in range(18))]
"""A run of these can not end before the gate is there."""


def gated_rows_run(where: Path) -> bool:
    return any(prompt.startswith("gated") for prompt in noted(where, "paid"))


@pytest.mark.ray_nightly
def test_ctrl_c_stops_a_run_of_the_command_line_in_order(where: Path, engine: Engine) -> None:
    command = program(where, GATED, engine)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        wait_until(lambda: gated_rows_run(where), process)
        process.send_signal(signal.SIGINT)
        told = [process.stderr.readline()]
        while told[-1] and b"stopping: running rows may end" not in told[-1]:
            told.append(process.stderr.readline())
        (where / "gate").touch()
        told += process.stderr.readlines()
        process.wait(LIMIT_S)
    assert process.returncode == 130, told
    assert b"stopping: running rows may end" in b"".join(told)
    assert b"Traceback" not in b"".join(told)
    done = subprocess.run(command, capture_output=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr.decode()
    assert Counter(noted(where, "paid")) == Counter(GATED)


def test_a_driver_that_is_killed_leaves_no_worker_behind_and_pays_no_finished_row_again(
    where: Path, engine: Engine
) -> None:
    command = program(where, GATED, with_two_workers(engine))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: gated_rows_run(where), process)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    workers = {int(pid) for pid in noted(where, "workers")}
    wait_until(lambda: not running(workers))
    (where / "gate").touch()
    done = subprocess.run(command, capture_output=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr.decode()
    paid = Counter(noted(where, "paid"))
    assert set(paid) == set(GATED)
    assert sum(paid.values()) - len(GATED) <= 4
    assert merged(where) == list(range(24))


@pytest.fixture
def on_ray(ray_address: str) -> Engine:
    return on_cluster(ray_address)


@pytest.mark.ray_cluster
@PATIENT
def test_rows_of_a_killed_worker_are_run_by_others_and_only_those_are_paid_again(
    where: Path, on_ray: Engine
) -> None:
    rows = [f"slow {number}" for number in range(16)]
    batch = runner(where, rows, with_two_workers(on_ray))

    def kill_one() -> None:
        os.kill(int(noted(where, "workers")[0]), signal.SIGKILL)

    watcher = stop_when(where, lambda: len(noted(where, "paid")) >= 6, kill_one)
    statistics = asyncio.run(run_and(batch, watcher))
    assert (statistics.ok, statistics.pending) == (16, 0)
    assert merged(where) == list(range(16))
    paid = Counter(noted(where, "paid"))
    assert set(paid) == set(rows)
    assert sum(paid.values()) - 16 <= 2


@pytest.mark.ray_cluster
@pytest.mark.ray_nightly
@PATIENT
@pytest.mark.parametrize("first", ["local", "ray"])
def test_a_run_is_resumed_on_the_other_engine_with_other_batches_and_a_changed_dataset(
    where: Path, on_ray: Engine, first: str
) -> None:
    begun_on, goes_on = ({"engine": "local"}, on_ray) if first == "local" else (on_ray, {"engine": "local"})
    rows = [f"slow {number}" for number in range(24)]
    batch = runner(where, rows, begun_on, batch_size=5)
    watcher = stop_when(where, lambda: len(noted(where, "paid")) >= 6, batch.request_stop)
    assert asyncio.run(run_and(batch, watcher)).interrupted
    changed = ["row new", *reversed(rows[1:]), "row new", "row 5"]
    statistics = asyncio.run(runner(where, changed, goes_on, batch_size=3).run(resume=True))
    assert (statistics.total, statistics.ok, statistics.pending) == (26, 26, 0)
    assert merged(where) == list(range(26))
    assert Counter(noted(where, "paid")) == Counter(changed) | Counter(set(noted(where, "paid")) & {rows[0]})


@pytest.mark.ray_cluster
@pytest.mark.ray_nightly
@PATIENT
def test_a_row_that_kills_its_worker_costs_itself_and_no_other(where: Path, on_ray: Engine) -> None:
    rows = ["row 0", "slow 1", "deadly 2", "slow 3", "row 4", "row 5"]
    statistics = asyncio.run(runner(where, rows, on_ray).run())
    assert (statistics.ok, statistics.error, statistics.errors_by_kind) == (5, 1, {"worker_lost": 1})
    [lost] = [record for record in records(where) if record.status == "error"]
    assert lost.prompt_index == 2
    assert lost.error.startswith("3 workers died while they ran this row; the last: ")
    assert noted(where, "paid").count("deadly 2") == 3


@pytest.mark.ray_cluster
@pytest.mark.ray_nightly
@PATIENT
def test_a_worker_that_hangs_is_ended_and_its_rows_are_run_by_another(
    where: Path, on_ray: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "_LATE_S", 1.0)

    def stop_it() -> None:
        os.kill(int(noted(where, "workers")[0]), signal.SIGSTOP)

    batch = runner(where, ["slow 0", "slow 1"], on_ray, num_workers=1, row_timeout_s=30.0)
    watcher = stop_when(where, lambda: bool(noted(where, "paid")), stop_it)
    assert asyncio.run(run_and(batch, watcher)).ok == 2
    assert noted(where, "paid") == ["slow 0", "slow 0", "slow 1"]
    wait_until(lambda: not running({int(pid) for pid in noted(where, "workers")}))


@pytest.mark.ray_cluster
@pytest.mark.ray_nightly
@PATIENT
@pytest.mark.parametrize("victim", ["gateway", "raylet"])
def test_a_cluster_that_goes_ends_the_run_in_order_and_leaves_no_process(
    where: Path,
    ray_environment: str,
    victim: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cluster of our own: what is killed is Ray's driver, or what holds its machine in the cluster."""
    for name in ("period_ms", "initial_delay_ms", "timeout_ms"):
        monkeypatch.setenv(f"RAY_health_check_{name}", "1000")  # the cluster notices sooner
    ours: set[int] = set()

    def kill_it() -> None:
        assert isinstance(batch._engine, ray_engine.RayEngine)
        assert batch._engine._gateway is not None
        assert batch._engine._cluster is not None
        gateway, holder = batch._engine._gateway.pid, batch._engine._cluster.pid
        ours.update({gateway, holder, *descendants(holder)})
        [raylet] = [pid for pid in ours if Path(f"/proc/{pid}/comm").read_text().strip() == "raylet"]
        os.kill(gateway if victim == "gateway" else raylet, signal.SIGKILL)

    rows = ["row 0", *(f"hang {number}" for number in range(3))]
    settings = {"address": "local", "start_timeout_s": 300}
    batch = runner(where, rows, {"engine": "ray", "engine_settings": settings})
    watcher = stop_when(where, lambda: bool(records(where)) and len(noted(where, "paid")) == 4, kill_it)
    with pytest.raises(ExceptionGroup) as ended:
        asyncio.run(run_and(batch, watcher))
    assert ended.group_contains(RunAbortedError, match="finished rows are kept, continue with resume=True")
    assert merged(where) == [0]
    wait_until(lambda: not running(ours))


@pytest.mark.ray_cluster
@PATIENT
def test_a_cluster_that_does_not_answer_is_told_in_time_and_nothing_is_written(
    where: Path, ray_environment: str
) -> None:
    settings = {"address": "127.0.0.2:9", "start_timeout_s": 4}
    with pytest.raises(EngineStartError, match=r"127\.0\.0\.2:9|did not answer"):
        asyncio.run(runner(where, ["row 0"], {"engine": "ray", "engine_settings": settings}).run())
    assert not (where / "r").exists()


@pytest.mark.ray_cluster
@pytest.mark.ray_nightly
@PATIENT
def test_workers_without_room_are_told_in_time(where: Path, on_ray: Engine) -> None:
    settings = on_ray["engine_settings"] | {"cpus_per_actor": 64, "start_timeout_s": 6}
    with pytest.raises(EngineStartError, match=r"a machine with 64 CPUs free|did not answer"):
        asyncio.run(runner(where, ["row 0"], {"engine": "ray", "engine_settings": settings}).run())
    assert not (where / "r").exists()


@pytest.mark.ray_cluster
@PATIENT
def test_a_key_reaches_the_host_and_nothing_that_ray_writes(
    where: Path, on_ray: Engine, ray_environment: str
) -> None:
    key = f"sk-{secrets.token_hex(16)}"
    asked: list[str | None] = []

    class Host(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.headers["Authorization"])
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"error": {"message": "no such model", "code": "model_not_found"}}'
            self.send_response(404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Host) as host:
        serving = Thread(target=host.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{host.server_port}/v1"
        model: dict[str, Any] = {
            "agent_factory": None,
            "base_url": url,
            "model": "m",
            "api_key": key,
            "toolsets": [],
        }
        statistics = asyncio.run(runner(where, ["row 0"], on_ray, **model).run())
        host.shutdown()
        serving.join()
    assert statistics.error == 1, records(where)
    assert set(asked) == {f"Bearer {key}"}, [record.error for record in records(where)]
    kept = [path for place in (Path(ray_environment), where) for path in place.rglob("*") if path.is_file()]
    assert len(kept) > 10
    assert [path for path in kept if key.encode() in path.read_bytes()] == []
