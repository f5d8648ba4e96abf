"""The main job on the real local model: what it leaves, how it goes on, how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from processes import job_environment, model_servers, read_until, run_batch, start_batch, wait_until_gone

from hermes_batch import Record
from hermes_batch.records import decode_record
from hermes_store import SessionDB

pytestmark = [pytest.mark.needs("workspace"), pytest.mark.local_model, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
DEMO = "examples/demo/prompts.jsonl"
NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"
ONE_OF_A_KIND = (0, 4, 8, 10)
"""Of the demo's rows: a command, a file written and read, a list of tasks, and an answer without a tool."""
FLAGS = (
    "--toolsets", "file,terminal,todo", "--num-workers", "2", "--max-iterations", "6",
    "--max-tokens", "256", "--temperature", "0", "--keep-without-reasoning",
)  # fmt: skip


def call(command: str, *, rows: Path | str) -> tuple[str, ...]:
    return (command, "--dataset-file", str(rows), "--run-name", "demo", *FLAGS)


def records(directory: Path) -> list[Record]:
    lines = (directory / "data/demo/trajectories.jsonl").read_bytes().split(b"\n")
    assert lines.pop() == b""
    return [decode_record(line) for line in lines]


def quick(command: str, rows: Path) -> tuple[str, ...]:
    """Rows of one command each, with the terminal alone: a short prompt is quick to read for the model."""
    return (*call(command, rows=rows), "--toolsets", "terminal")


def few_rows(directory: Path, count: int) -> Path:
    """Rows that run a command each, which begins with `expr` and the row's number."""
    rows = directory / "few.jsonl"
    prompts = [f'Run the shell command "expr {number} + 1"' for number in range(count)]
    rows.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    return rows


class HeldRows:
    """`few_rows` whose commands end when the test lets them: what is to be hit then is still there."""

    def __init__(self, directory: Path, count: int) -> None:
        self.file = few_rows(directory, count)
        self._gates = directory / "gates"
        programs = directory / "programs"
        for folder in (self._gates, programs):
            folder.mkdir()
        expr = programs / "expr"
        expr.write_text(
            f"""#!/bin/sh
for _ in $(seq 6000); do
    [ -e {shlex.quote(str(self._gates))}/"${{1%%[!0-9]*}}" ] && exec {shutil.which("expr")} "$@"
    sleep 0.1
done
"""
        )
        expr.chmod(0o755)
        self.env = job_environment(directory, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")

    def let_go(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            (self._gates / str(number)).touch()


def clean_copy(folder: Path) -> Path:
    """What a clone holds of what `make demo` uses; in CI with `ONE_OF_A_KIND` of the demo's rows."""
    copy = folder / "copy"
    copy.mkdir()
    for name in ("Makefile", "pyproject.toml", "uv.lock", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    for name in ("packages", ".ci", "examples"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "data"))
    if not NIGHTLY:
        lines = (copy / DEMO).read_text().splitlines(keepends=True)
        (copy / DEMO).write_text("".join(lines[place] for place in ONE_OF_A_KIND))
    return copy


def test_make_demo_on_a_clean_copy_leaves_trajectories_statistics_and_searchable_sessions(
    tmp_path: Path,
) -> None:
    copy = clean_copy(tmp_path)
    prompts = [json.loads(line)["prompt"] for line in (copy / DEMO).read_text().splitlines()]
    done = subprocess.run(
        ["make", "--no-print-directory", "demo"],
        cwd=copy, env=job_environment(tmp_path), capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(prompts)} rows: {len(prompts)} ok, 0 error, 0 discarded, 0 pending" in done.stdout
    assert f"[{len(prompts)}/{len(prompts)}]" in done.stderr
    rows = records(copy)
    assert [turn.value for row in rows for turn in row.conversations if turn.from_ == "human"] == prompts
    assert all(row.completed and row.usage_known for row in rows)
    used = {name for row in rows for name, stats in row.tool_stats.items() if stats.success}
    assert {"write_file", "terminal", "todo"} <= used
    statistics = json.loads((copy / "data/demo/statistics.json").read_text())
    assert statistics["ok"] == statistics["total"] == len(prompts)
    assert statistics["api_calls"] > len(prompts)
    word = max(prompts[0].replace("'", " ").split(), key=len).strip(".:,")
    asyncio.run(the_sessions_can_be_searched(copy / "data/demo/state.db", word, len(prompts)))

    before = (copy / "data/demo/trajectories.jsonl").read_bytes()
    again = run_batch(copy, *call("resume", rows=DEMO))
    assert again.returncode == 0
    assert "every row is finished" in again.stderr
    assert (copy / "data/demo/trajectories.jsonl").read_bytes() == before
    shown = run_batch(copy, "stats", "--run-name", "demo")
    assert shown.stdout == again.stdout


async def the_sessions_can_be_searched(state_db: Path, word: str, sessions: int) -> None:
    async with SessionDB(state_db) as store:
        assert len(await store.list_sessions(limit=1000)) == sessions
        assert await store.search_messages(word)


def test_an_interrupt_lets_running_rows_end_and_a_resume_finishes_the_rest(tmp_path: Path) -> None:
    rows = HeldRows(tmp_path, 5)  # one has ended, two are running, two were not begun
    rows.let_go([0])
    with start_batch(tmp_path, *quick("run", rows.file), env=rows.env) as process:
        read_until(process, "[1/5]")
        servers = model_servers(process.pid)
        assert len(servers) == 1
        process.send_signal(signal.SIGINT)
        read_until(process, "stopping: running rows may end")
        rows.let_go(range(5))
        output, progress = process.communicate(timeout=800)
    assert process.returncode == 130, progress
    assert "pending" in output
    wait_until_gone(servers)
    kept = len(records(tmp_path))
    assert 1 <= kept < 5
    done = run_batch(tmp_path, *quick("resume", rows.file))
    assert done.returncode == 0, done.stderr
    assert f"5 rows, {kept} finished before" in done.stderr
    assert len(records(tmp_path)) == 5


def test_two_interrupts_stop_at_once_and_leave_no_server(tmp_path: Path) -> None:
    rows = HeldRows(tmp_path, 30)
    rows.let_go([0])
    with start_batch(tmp_path, *quick("run", rows.file), env=rows.env) as process:
        read_until(process, "[1/30]")
        servers = model_servers(process.pid)
        process.send_signal(signal.SIGINT)
        read_until(process, "stopping: running rows may end")
        process.send_signal(signal.SIGINT)
        _, progress = process.communicate(timeout=800)
    assert process.returncode == 130, progress
    assert len(servers) == 1
    wait_until_gone(servers)


def test_a_killed_process_takes_its_server_with_it_and_loses_no_row(tmp_path: Path) -> None:
    rows = HeldRows(tmp_path, 4)  # one has ended, two are running, one was not begun
    rows.let_go([0])
    with start_batch(tmp_path, *quick("run", rows.file), env=rows.env) as process:
        read_until(process, "[1/4]")
        servers = model_servers(process.pid)
        process.kill()
    rows.let_go(range(4))  # those commands are nobody's now
    assert len(servers) == 1
    wait_until_gone(servers)
    done = run_batch(tmp_path, *quick("resume", rows.file))
    assert done.returncode == 0, done.stderr
    assert "4 rows, 0 finished before" not in done.stderr
    assert [row.prompt_index for row in records(tmp_path)] == list(range(4))


def test_a_model_server_that_dies_is_replaced_and_finished_rows_are_kept(tmp_path: Path) -> None:
    rows = HeldRows(tmp_path, 4)  # one has ended, two are running, one was not begun
    rows.let_go([0])
    with start_batch(tmp_path, *quick("run", rows.file), env=rows.env) as process:
        read_until(process, "[1/4]")
        (server,) = model_servers(process.pid)
        os.kill(server, signal.SIGKILL)
        rows.let_go(range(4))
        output, progress = process.communicate(timeout=800)
    assert process.returncode == 0, progress
    assert "4 rows: 4 ok" in output


def test_the_familiar_command_line_runs_against_any_host(tmp_path: Path) -> None:
    program = """
import asyncio, subprocess, sys
from hermes_providers.local import LocalServer, LocalServerOptions
from hermes_providers.local.weights import find_default_weights

async def main():
    async with LocalServer(LocalServerOptions(model=find_default_weights())) as server:
        command = [sys.executable, "-m", "batch_runner", "--dataset_file=few.jsonl", "--batch_size=2",
            "--run_name=demo", "--distribution=terminal_only", "--num_workers=1", "--max_turns=5",
            "--keep_without_reasoning", f"--base_url={server.base_url}", f"--model={server.model}"]
        process = await asyncio.create_subprocess_exec(*command)
        sys.exit(await process.wait())

asyncio.run(main())
"""
    few_rows(tmp_path, 3)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=job_environment(tmp_path),
        capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {row.provider for row in records(tmp_path)} == {"custom"}
    assert len(list((tmp_path / "data/demo/shards").iterdir())) == 2
