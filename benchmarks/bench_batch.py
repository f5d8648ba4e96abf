"""Ratios for hermes-batch: workers against the ideal and against the floor, CPU per row, going on with a big
run, memory.

Run with `uv run benchmarks/bench_batch.py`; `served` as an argument runs the part with a server alone. The
floor is that of `floor.py`, over the same HTTP engine of ours; both have two tool rounds and a text for each
row, and run by turns in processes of their own; `stored` keeps the sessions in SQLite, too. The other agents
only wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
from floor import HEADERS, Floor

from hermes_batch import BatchRunner
from hermes_batch.agent_options import AgentOptions
from hermes_batch.dataset import scan_dataset
from hermes_batch.plan import make_plan
from hermes_batch.records import encode_record
from hermes_batch.row_records import outcome_of_result, record_of
from hermes_batch.rows import PromptRow, read_row
from hermes_batch.shards import mend_torn_tails, scan_recorded
from hermes_batch.testing import ScriptedAgent, conversation
from hermes_messages.protocols import AgentRequest, ConversationResult
from hermes_providers.timeouts import StreamClock, Timeouts
from hermes_providers.transport import HttpOptions, make_transport

CALL_S = 0.05
CALLS = 3
MANY = 100_000
FEW = 10_000
ROUNDS = 3
ENGINES = ("httpx", "aiohttp")
SERVED = ((16, 320, 50), (256, 2560, 50), (256, 512, 1_000))
"""Workers, rows, and what the server waits, in milliseconds."""


class Waiting:
    """Agents that answer after `calls` waits; unlike `ScriptedAgents` they remember nothing."""

    def __init__(self, calls: int) -> None:
        self._calls = calls

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def create_agent(self, _request: AgentRequest) -> ScriptedAgent:
        return ScriptedAgent(self._behave)

    async def _behave(self, prompt: str) -> ConversationResult:
        for _ in range(self._calls):
            await asyncio.sleep(CALL_S)
        return conversation(prompt, answer="An answer of ordinary length. " * 15, echo="z")


def write_dataset(directory: Path, rows: int) -> Path:
    path = directory / "prompts.jsonl"
    with path.open("w") as file:
        for number in range(rows):
            file.write(json.dumps({"prompt": f"{number}: " + "Do this. " * 20, "id": f"r{number}"}) + "\n")
    return path


def runner(directory: Path, *, workers: int = 16, calls: int = 0) -> BatchRunner:
    return BatchRunner(
        directory / "prompts.jsonl",
        run_name="run",
        output_dir=directory / "data",
        num_workers=workers,
        require_reasoning=False,
        agent_factory=Waiting(calls),
    )


def write_shards(directory: Path, rows: int) -> None:
    """The shards of a finished run, quicker than by running it."""
    shards = directory / "data/run/shards"
    shards.mkdir(parents=True)
    outcome = outcome_of_result(conversation("x", answer="An answer of ordinary length. " * 15, echo="z"))
    row = read_row(b'{"prompt": "x"}', index=0, line_number=1)
    assert isinstance(row, PromptRow)
    record = record_of(row, outcome, toolsets=("file",), duration_s=1.0)
    lines: list[bytes] = []
    with (directory / "prompts.jsonl").open("rb") as file:
        for index, line in enumerate(file):
            key = read_row(line.rstrip(), index=index, line_number=index + 1).content_hash
            lines.append(
                encode_record(
                    msgspec.structs.replace(record, prompt_index=index, row_hash=key, id=f"r{index}")
                )
            )
    for number, start in enumerate(range(0, rows, 100), 1):
        (shards / f"shard-{number:05}.jsonl").write_bytes(b"".join(lines[start : start + 100]))


def against_the_ideal(workers: int, rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_dataset(directory, rows)
        started = time.perf_counter()
        asyncio.run(runner(directory, workers=workers, calls=CALLS).run())
        wall = time.perf_counter() - started
    ideal = rows / workers * CALLS * CALL_S
    print(
        f"{workers} workers, {rows} rows of {CALLS} calls of 50 ms:"
        f" {wall:.2f} s, {wall / ideal:.3f}x of the ideal"
    )


def cpu(rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_dataset(directory, rows)
        started = time.process_time()
        asyncio.run(runner(directory).run())
        spent = (time.process_time() - started) / rows * 1000
    print(f"CPU per 1,000 rows, fsync and directories of the rows included: {spent:.2f} s")


async def resume_scan(directory: Path) -> None:
    shards = directory / "data/run/shards"
    started = time.perf_counter()
    dataset = await scan_dataset(directory / "prompts.jsonl")
    await mend_torn_tails(shards)
    recorded = await scan_recorded(shards)
    plan = make_plan(dataset.hashes, recorded.records)
    print(json.dumps({"scan": time.perf_counter() - started, "todo": len(plan.todo)}))


def peak_mb() -> float:
    """The peak of this process; unlike `ru_maxrss` it does not begin with that of the parent."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


async def whole_resume(directory: Path) -> None:
    started = time.perf_counter()
    statistics = await runner(directory).run(resume=True)
    peak = peak_mb()
    print(json.dumps({"resume": time.perf_counter() - started, "ok": statistics.ok, "peak": peak}))


def in_a_process(*words: str | Path) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, *words], check=True, stdout=subprocess.PIPE)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def finished_runs() -> None:
    peaks = []
    for rows in (FEW, MANY):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            write_dataset(directory, rows)
            write_shards(directory, rows)
            scan = in_a_process("scan", directory)
            whole = in_a_process("resume", directory)
            assert (scan["todo"], whole["ok"]) == (0, rows)
            peaks.append(whole["peak"])
            print(
                f"{rows} finished rows: {scan['scan']:.2f} s until the first row could run;"
                f" {whole['resume']:.2f} s with merge and statistics; peak {whole['peak']:.0f} MB"
            )
    print(f"memory per further row: {(peaks[1] - peaks[0]) * 1024 / (MANY - FEW):.2f} KB")


class OverOurEngine:
    """One of our HTTP engines as the client of the floor."""

    def __init__(self, engine: str, base_url: str, connections: int) -> None:
        options = HttpOptions(keep_alive=True, max_connections=connections)
        self._transport = make_transport(engine, Timeouts(), options)
        self._url = f"{base_url}/chat/completions"

    async def open(self) -> None:
        await self._transport.open()

    async def post(self, body: bytes) -> AsyncIterator[bytes]:
        clock = StreamClock(Timeouts(), asyncio.get_running_loop().time(), None)
        async with self._transport.post(self._url, HEADERS, body, clock) as reply:
            assert reply.status == 200
            while data := await reply.read(clock):
                yield data

    async def close(self) -> None:
        await self._transport.close()


async def floor_batch(engine: str, workers: int, rows: int, base_url: str) -> None:
    sender = OverOurEngine(engine, base_url, workers)
    await sender.open()
    floor = Floor(sender)
    await floor.batch(rows, workers)
    await floor.close()


def agents_of(
    base_url: str, workers: int, *, engine: str = "httpx", state_db: Path | None = None
) -> AgentOptions:
    """The default agents on a host of ours, with the tools that its answers call."""
    return AgentOptions(
        toolsets=("todo",),
        state_db=state_db,
        base_url=base_url,
        api_key="none",
        model="bench",
        provider_settings={"engine": engine, "keep_alive": True, "max_connections": workers},
    )


async def agents_batch(engine: str, workers: int, rows: int, base_url: str, *, stored: bool = False) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_dataset(directory, rows)
        done = await BatchRunner(
            directory / "prompts.jsonl",
            run_name="run",
            output_dir=directory,
            toolsets=["todo"],
            agent_factory=agents_of(
                base_url, workers, engine=engine, state_db=directory / "state.db" if stored else None
            ),
            num_workers=workers,
            require_reasoning=False,
        ).run()
        assert done.ok == rows, done


async def stored_batch(engine: str, workers: int, rows: int, base_url: str) -> None:
    await agents_batch(engine, workers, rows, base_url, stored=True)


RUNS = {"floor": (floor_batch, "look"), "agents": (agents_batch, "todo"), "stored": (stored_batch, "todo")}


async def one_batch(who: str, engine: str, workers: int, rows: int, pause_ms: int, server: str) -> None:
    """A batch after a small one, which loads all modules."""
    run, tool = RUNS[who]
    await run(engine, 16, 16, f"{server}/0/2/5/{tool}/v1")
    wall, cpu = time.perf_counter(), time.process_time()
    await run(engine, workers, rows, f"{server}/{pause_ms}/2/5/{tool}/v1")
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}))


@contextlib.contextmanager
def served() -> Iterator[str]:
    command = [sys.executable, "-m", "contest.server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


def against_the_floor() -> None:
    with served() as server:
        for engine in ENGINES:
            for workers, rows, pause_ms in SERVED:
                found: dict[str, list[dict[str, float]]] = {who: [] for who in RUNS}
                for _ in range(ROUNDS):
                    for who, figures in found.items():
                        words = [who, engine, workers, rows, pause_ms, server]
                        figures.append(in_a_process(*map(str, words)))
                wall, cpu = (
                    {who: statistics.median(one[kind] for one in all_) for who, all_ in found.items()}
                    for kind in ("wall", "cpu")
                )
                ideal = rows / workers * CALLS * pause_ms / 1000
                per_thousand = cpu["agents"] / rows * 1000
                print(
                    f"{engine}, {workers} workers, {rows} rows of {CALLS} calls of {pause_ms} ms: wall"
                    f" {wall['agents']:.2f} s, {wall['agents'] / ideal:.3f}x of the ideal and"
                    f" {wall['agents'] / wall['floor']:.2f}x of the floor's; CPU of 1,000 rows"
                    f" {per_thousand:.2f} s, {cpu['agents'] / cpu['floor']:.2f}x of the floor's"
                    f" (with SQLite {cpu['stored'] / cpu['floor']:.2f}x)",
                    flush=True,
                )


def main() -> None:
    match sys.argv[1:]:
        case ["scan", directory]:
            asyncio.run(resume_scan(Path(directory)))
        case ["resume", directory]:
            asyncio.run(whole_resume(Path(directory)))
        case ["floor" | "agents" | "stored" as who, engine, workers, rows, pause_ms, server]:
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            asyncio.run(one_batch(who, engine, int(workers), int(rows), int(pause_ms), server))
        case ["served"]:
            against_the_floor()
        case _:
            against_the_ideal(16, 320)
            against_the_ideal(256, 2560)
            cpu(2000)
            finished_runs()
            against_the_floor()


if __name__ == "__main__":
    main()
