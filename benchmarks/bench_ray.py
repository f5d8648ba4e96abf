"""Ratios for the engine `ray`: rows on actors of a cluster of this machine against rows in one process.

Run with `uv run benchmarks/bench_ray.py`, or with the count of rows as an argument. A server in a process of
its own answers each request after 50 ms; every row is three requests of the default agents, two of them calls
of a tool. Each run is a command of its own, by turns on either engine, and is looked at from outside: what
its processes and Ray's have used, between its first rows, which load modules, and its last one. Linux only.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from datetime import datetime
from os import sysconf
from pathlib import Path
from typing import Any

from bench_batch import agents_of, served, write_dataset

from hermes_batch import BatchRunner
from hermes_batch.records import decode_record

ROWS, FIRST = 200, 40
WORKERS, ACTORS = 16, 2
CALLS, PAUSE_MS = 3, 50
ROUNDS = 3
LOOK_S, FAMILY_S = 0.02, 0.5
ENGINES: dict[str, dict[str, Any]] = {
    "local": {"engine": "local"},
    "ray": {
        "engine": "ray",
        "engine_settings": {"address": "local", "actors": ACTORS, "start_timeout_s": 600},
    },
}
PARTS = ("command", "gateway", "workers", "Ray")
Used = dict[str, float]


async def batch(name: str, rows: int, base_url: str) -> dict[str, float]:
    """Run it; when it began, and when its first rows and its last one were finished."""
    began = time.time()
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        write_dataset(directory, rows)
        done = await BatchRunner(
            directory / "prompts.jsonl",
            run_name="run",
            output_dir=directory,
            toolsets=["todo"],
            agent_factory=agents_of(base_url, WORKERS),
            num_workers=WORKERS,
            require_reasoning=False,
            **ENGINES[name],
        ).run()
        assert done.ok == rows, done
        shards = (directory / "run/shards").glob("*.jsonl")
        records = [decode_record(line) for shard in shards for line in shard.read_bytes().splitlines()]
    ends = sorted((datetime.fromisoformat(one.finished_at).timestamp(), one.duration_s) for one in records)
    first_begun = min(end - duration_s for end, duration_s in ends)
    return {"started": first_begun - began, "from": ends[FIRST - 1][0], "to": ends[-1][0]}


def family(root: int) -> dict[int, str]:
    """The processes of a run, and which part of it each is."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
    found = {root: "command"}
    for pid in parents:
        line = [pid]
        while line[-1] in parents and line[-1] != root:
            line.append(parents[line[-1]])
        if line[-1] == root and pid != root:
            found[pid] = part_of(pid)
    return found


def part_of(pid: int) -> str:
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
        if command.startswith("ray::RowWorker"):
            return "workers"
        if "\0hermes_batch.ray_engine\0" in command:
            return "gateway"
    return "Ray"


def used(processes: dict[int, str]) -> Used:
    """Processor time of each part so far, in seconds."""
    spent: Used = defaultdict(float)
    for pid, part in processes.items():
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            spent[part] += (int(fields[11]) + int(fields[12])) / sysconf("SC_CLK_TCK")
    return spent


def watched(name: str, rows: int, base_url: str) -> Used:
    """The figures of one run: rows in a second, seconds until the first row, CPU of 1,000 rows by part."""
    command = [sys.executable, __file__, name, str(rows), base_url]
    looks: list[tuple[float, Used]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        processes, looked = {process.pid: "command"}, 0.0
        while process.poll() is None:
            if time.time() - looked > FAMILY_S:
                processes, looked = family(process.pid), time.time()
            looks.append((time.time(), used(processes)))
            time.sleep(LOOK_S)
        assert process.stdout is not None
        told = json.loads(process.stdout.read())
    assert process.returncode == 0
    before, after = (min(looks, key=lambda look: abs(look[0] - told[end])) for end in ("from", "to"))
    counted = rows - FIRST
    spent = {part: (after[1][part] - before[1][part]) / counted * 1000 for part in PARTS}
    return {"rate": counted / (told["to"] - told["from"]), "started": told["started"], **spent}


def main(rows: int) -> None:
    found: dict[str, list[Used]] = {name: [] for name in ENGINES}
    with served() as server:
        for _ in range(ROUNDS):
            for name, figures in found.items():
                figures.append(watched(name, rows, f"{server}/{PAUSE_MS}/{CALLS - 1}/5/todo/v1"))
    local, ray = (
        {figure: statistics.median(one[figure] for one in all_) for figure in all_[0]}
        for all_ in found.values()
    )
    ideal = WORKERS / (CALLS * PAUSE_MS / 1000)
    of_local, of_ray = (sum(one[part] for part in PARTS) for one in (local, ray))
    print(
        f"{rows} rows of {CALLS} calls of {PAUSE_MS} ms, {WORKERS} at once: {local['rate']:.0f} rows/s in one"
        f" process ({local['rate'] / ideal:.2f}x of the ideal), {ray['rate']:.0f} on {ACTORS} Ray actors"
        f" ({ray['rate'] / ideal:.2f}x, {ray['rate'] / local['rate']:.2f}x of one process)\n"
        f"CPU of 1,000 rows: {of_local:.1f} s and {of_ray:.1f} s ({of_ray / of_local:.2f}x), which are "
        + ", ".join(f"{part} {ray[part]:.1f} s" for part in PARTS)
        + f"\nuntil the first row: {local['started']:.1f} s and, with a cluster of its own,"
        f" {ray['started']:.1f} s"
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case [name, rows, base_url]:
            print(json.dumps(asyncio.run(batch(name, int(rows), base_url))))
        case [rows]:
            main(int(rows))
        case _:
            main(ROWS)
