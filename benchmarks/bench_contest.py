"""One table: this library, a loop written by hand, and peers, all at the same work over one local server.

    uv run benchmarks/bench_contest.py [--quick] [--write FILE] [ROW ...]

The base, 1.0, is one shared `httpx.AsyncClient` with `json`; the floor is the least that a loop by hand can
do (`floor.py`). Peers are installed from the package index into environments of their own under `.cache/`.
Each figure is taken in a process of its own; contestants alternate, and medians count, so that a busy machine
slows all. `--quick` leaves the peers out. Figures and versions are stored as JSON, and the table beside them
as Markdown, in `.cache/bench/contest.json` unless `--write` says where.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from contest.work import Figures

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parent / ".cache" / "bench"
FIGURES = ENVIRONMENTS / "contest.json"
LIMIT_S = 400.0
Measure = Literal["wall", "cpu"]


@dataclass(frozen=True)
class Contestant:
    """A module under `benchmarks` with its arguments; `packages` are what its own environment holds."""

    name: str
    command: tuple[str, ...]
    imports: str
    packages: tuple[str, ...] = ()

    @property
    def python(self) -> Path:
        """The interpreter that it runs with."""
        return ENVIRONMENTS / self.packages[0] / "bin" / "python" if self.packages else Path(sys.executable)


@dataclass(frozen=True)
class Row:
    """One line of the table: a work, what of it counts, our targets, and how often it is run."""

    work: str
    measure: Measure
    target: str = ""
    rounds: int = 5
    peer_rounds: int = 2
    without: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """As the table calls it."""
        return f"{self.work}, {'CPU' if self.measure == 'cpu' else self.measure}"


BASE = Contestant("bare httpx + json", ("contest.bare_json",), "httpx, json")
WITH_STORE = Contestant(
    "hermes-layers, SQLite", ("contest.hermes_layers", "sqlite"), "hermes_loop, hermes_store"
)
CONTESTANTS = (
    BASE,
    Contestant("floor: httpx + msgspec", ("floor", "httpx"), "httpx, msgspec"),
    Contestant("floor: aiohttp + msgspec", ("floor", "aiohttp"), "aiohttp, msgspec"),
    Contestant("hermes-layers", ("contest.hermes_layers", "httpx"), "hermes_loop, hermes_providers"),
    Contestant(
        "hermes-layers, aiohttp", ("contest.hermes_layers", "aiohttp"), "hermes_loop, hermes_providers"
    ),
    WITH_STORE,
    Contestant("inspect-ai", ("contest.inspect_ai",), "inspect_ai.model", ("inspect-ai", "openai")),
    Contestant("openai-agents", ("contest.openai_agents",), "agents", ("openai-agents",)),
    Contestant(
        "pydantic-ai", ("contest.pydantic_ai",), "pydantic_ai.models.openai", ("pydantic-ai-slim[openai]",)
    ),
    Contestant("hermes-agent", ("contest.hermes_agent",), "run_agent", ("hermes-agent",)),
)
IMPORT = "import"
FIRST_ANSWER = "first answer"
APPEND = "one stored append"
THREADS_WOULD_NOT_DO = frozenset({"hermes-agent"})
ROWS = (
    Row("turn, reused agent", "wall", "1.3"),
    Row("turn, new agent", "wall", "1.8"),
    Row("20 tool rounds", "cpu", "1.4"),
    Row("200 agents", "wall", "0.16; aiohttp 0.08", rounds=3, peer_rounds=1),
    Row("1,000 agents", "wall", "0.2; aiohttp 0.08", rounds=1, peer_rounds=1, without=THREADS_WOULD_NOT_DO),
    Row("call on 1,000 messages", "cpu", "1.2x the floor"),
    Row("call on 4,000 messages", "cpu", "1.2x the floor", peer_rounds=1),
    Row("10,000 deltas", "cpu", "1.2"),
    Row("batch", "wall", "1.1x ideal", rounds=3, peer_rounds=1),
    Row("batch", "cpu", "2.0", rounds=3, peer_rounds=1),
    Row(IMPORT, "wall", "1.25x httpx + msgspec"),
    Row(FIRST_ANSWER, "wall", "1.5"),
    Row(APPEND, "wall", "1.5", rounds=3),
)
NOTES = (
    "1.0 of the row 'one stored append' is bare aiosqlite (WAL, synchronous NORMAL), one commit a row.",
    "kosong, which the targets were set against, has no release on the package index and is not measured.",
)


@dataclass
class Table:
    """Medians by row and contestant, in seconds, and memory for one agent in kB where it is measured."""

    taken: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)

    def add(self, work: str, contestant: str, figures: Figures) -> None:
        """Keep one run."""
        self.taken.setdefault(work, {}).setdefault(contestant, []).append(figures)

    def median(self, row: Row, contestant: str) -> float | None:
        """Seconds, or None if it was not run or failed."""
        runs = self.taken.get(row.work, {}).get(contestant, [])
        return statistics.median(getattr(one, f"{row.measure}_s") for one in runs) if runs else None

    def memory_kb(self, work: str, contestant: str) -> float | None:
        """For one agent of a crowd."""
        runs = self.taken.get(work, {}).get(contestant, [])
        return statistics.median(one.memory_kb for one in runs) if runs else None


def prepare(contestant: Contestant) -> str:
    """Make the environment of a peer where it is missing; return what it runs, with versions."""
    if contestant.packages and not contestant.python.exists():
        folder = contestant.python.parents[1]
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, folder], check=True)
        subprocess.run(
            ["uv", "pip", "install", "--quiet", "--python", contestant.python, *contestant.packages],
            check=True,
        )
    names = contestant.packages or ("httpx", "httpcore", "aiohttp", "msgspec", "aiosqlite")
    plain = [name.partition("[")[0] for name in names]
    asked = (
        f"from importlib.metadata import version; print(*(n + ' ' + version(n) for n in {plain!r}), sep=', ')"
    )
    done = subprocess.run([contestant.python, "-c", asked], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def run(contestant: Contestant, work: str, server: str) -> Figures | None:
    """The figures of one run in a process of its own; None, with a word, if it failed."""
    if work == IMPORT:
        command = [str(contestant.python), "-c", f"import {contestant.imports}"]
    else:
        command = [str(contestant.python), "-m", *contestant.command, work, server]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONSAFEPATH": "1"}
    started = time.perf_counter()
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=LIMIT_S, env=environment
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1:]
        print(f"  {contestant.name} failed at {work}: {last}", file=sys.stderr)
        return None
    wall = time.perf_counter() - started
    if work in (IMPORT, FIRST_ANSWER):
        return Figures(wall, wall)
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def measure(table: Table, works: dict[str, list[Row]], contestants: list[Contestant], server: str) -> None:
    """Fill the table, row by row."""
    for work, rows in works.items():
        row = rows[0]
        if work == APPEND:
            measure_append(table, row)
            print_row(table, row, contestants)
            continue
        for number in range(max(row.rounds, row.peer_rounds)):
            for contestant in contestants:
                rounds = row.peer_rounds if contestant.packages else row.rounds
                if number >= rounds or contestant.name in row.without:
                    continue
                if (figures := run(contestant, work, server)) is not None:
                    table.add(work, contestant.name, figures)
        for row in rows:
            print_row(table, row, contestants)


def measure_append(table: Table, row: Row) -> None:
    """Of the store alone: `bench_store.py` alternates both sides in one process."""
    for _ in range(row.rounds):
        command = [sys.executable, str(HERE / "bench_store.py"), "append"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S)
        seconds: dict[str, float] = json.loads(done.stdout)
        for side, contestant in (("bare", BASE.name), ("ours", WITH_STORE.name)):
            table.add(APPEND, contestant, Figures(seconds[side], 0.0))


def ratio(table: Table, row: Row, contestant: str) -> str:
    """To the base, in three figures; a dash where there is none."""
    seconds, base = table.median(row, contestant), table.median(row, BASE.name)
    return "-" if seconds is None or base is None else f"{seconds / base:.3g}"


def print_row(table: Table, row: Row, contestants: list[Contestant]) -> None:
    """One row, as soon as it is there."""
    base = table.median(row, BASE.name) or 0.0
    print(f"{row.name}  (base {base * 1e3:.3g} ms; target {row.target})", flush=True)
    for contestant in contestants:
        memory = table.memory_kb(row.work, contestant.name)
        note = f"  {memory:.0f} kB an agent" if memory else ""
        print(f"    {contestant.name:26} {ratio(table, row, contestant.name):>7}{note}", flush=True)


def markdown(table: Table, rows: list[Row], contestants: list[Contestant], versions: dict[str, str]) -> str:
    """The whole table."""
    lines = [
        "| figure | target | " + " | ".join(contestant.name for contestant in contestants) + " |",
        "| --- | --- |" + " --- |" * len(contestants),
    ]
    for row in rows:
        cells = [ratio(table, row, contestant.name) for contestant in contestants]
        base = table.median(row, BASE.name) or 0.0
        cells[0] = f"1.0 ({base * 1e3:.3g} ms)"
        lines.append(f"| {row.name} | {row.target} | " + " | ".join(cells) + " |")
        if any(table.memory_kb(row.work, contestant.name) for contestant in contestants):
            memories = [table.memory_kb(row.work, contestant.name) for contestant in contestants]
            kilobytes = ["-" if kb is None else f"{kb:.0f}" for kb in memories]
            lines.append(f"| {row.work}, kB an agent | 60 | " + " | ".join(kilobytes) + " |")
    lines += ["", *(f"- {name}: {found}" for name, found in versions.items())]
    lines += [*(f"- {note}" for note in NOTES), ""]
    return "\n".join(lines)


def main() -> None:
    """Take all figures over one server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the peers")
    parser.add_argument(
        "--write", type=Path, default=FIGURES, help="a JSON file; the table goes beside it as Markdown"
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="begins of names of rows; all without")
    asked = parser.parse_args()
    rows = [row for row in ROWS if not asked.rows or row.name.startswith(tuple(asked.rows))]
    contestants = [one for one in CONTESTANTS if not (asked.quick and one.packages)]
    versions = {one.name: prepare(one) for one in contestants}
    works: dict[str, list[Row]] = {}
    for row in rows:
        works.setdefault(row.work, []).append(row)
    table = Table()
    with subprocess.Popen(
        [sys.executable, HERE / "contest" / "server.py"], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            measure(table, works, contestants, f"http://127.0.0.1:{server.stdout.readline().strip()}")
        finally:
            server.kill()
    text = markdown(table, rows, contestants, versions)
    print(text)
    stored = {
        "taken": dt.datetime.now(dt.UTC).isoformat(timespec="minutes"),
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "versions": versions,
        "seconds": {w: {c: [asdict(f) for f in fs] for c, fs in by.items()} for w, by in table.taken.items()},
    }
    asked.write.parent.mkdir(parents=True, exist_ok=True)
    asked.write.write_text(json.dumps(stored, indent=1) + "\n", "utf-8")
    asked.write.with_suffix(".md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
