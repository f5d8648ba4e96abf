"""One table: this library, a loop written by hand, and peers, all at the same work over one local server.

    uv run benchmarks/bench_contest.py [--quick] [--write FILE] [ROW ...]

The base, 1.0, is one shared `httpx.AsyncClient` with `json`; the floor is the least that a loop by hand can
do (`floor.py`). Peers are installed from the package index into environments of their own under `.cache/`.
Each figure is taken in a process of its own; contestants alternate, and medians count, so that a busy machine
slows all. `--quick` leaves the peers out. Figures and versions are stored as JSON, and the table beside them
as Markdown, in `.cache/bench/contest.json` unless `--write` says where.

With `--quick` the row of 1,000 agents is left out, too, unless it is named: its base alone takes minutes.
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

from contest.work import BATCH_CALLS, BATCH_PAUSE_MS, Figures

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parent / ".cache" / "bench"
FIGURES = ENVIRONMENTS / "contest.json"
LIMIT_S = 600.0
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
    """One line of the table: a work, what of it counts, our targets, and how often it is run.

    Cells are ratios to the base, or to `ideal_s` seconds; with `to_floor` ours show the ratio to the floor
    over the same library beside it.
    """

    work: str
    measure: Measure
    target: str = ""
    rounds: int = 5
    base_rounds: int = 5
    peer_rounds: int = 2
    without: frozenset[str] = frozenset()
    ideal_s: float | None = None
    to_floor: bool = False
    quick: bool = True

    def rounds_of(self, contestant: Contestant) -> int:
        """How often it is run."""
        if contestant.packages:
            return self.peer_rounds
        return min(self.rounds, self.base_rounds) if contestant is BASE else self.rounds

    @property
    def name(self) -> str:
        """As the table calls it."""
        measure = "CPU" if self.measure == "cpu" else self.measure
        return f"{self.work}, {measure}" if self.ideal_s is None else f"{self.work}, {measure} / ideal"


BASE = Contestant("bare httpx + json", ("contest.bare_json",), "httpx, json")
WITH_STORE = Contestant(
    "hermes-layers, SQLite", ("contest.hermes_layers", "sqlite"), "hermes_loop, hermes_store"
)
FLOOR = Contestant("floor: httpx + msgspec", ("floor", "httpx"), "httpx, msgspec")
AIOHTTP_FLOOR = Contestant("floor: aiohttp + msgspec", ("floor", "aiohttp"), "aiohttp, msgspec")
OURS = Contestant("hermes-layers", ("contest.hermes_layers", "httpx"), "hermes_loop, hermes_providers")
OVER_AIOHTTP = Contestant(
    "hermes-layers, aiohttp", ("contest.hermes_layers", "aiohttp"), "hermes_loop, hermes_providers"
)
FLOORS = {OURS.name: FLOOR.name, OVER_AIOHTTP.name: AIOHTTP_FLOOR.name, WITH_STORE.name: FLOOR.name}
CONTESTANTS = (
    BASE,
    FLOOR,
    AIOHTTP_FLOOR,
    OURS,
    OVER_AIOHTTP,
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
WAVES = 13
"""Of 200 samples on 16 workers: 12 of 16 and one of 8, since a sample is whole."""
TOO_LONG = frozenset({FLOOR.name, "hermes-agent"})
"""The pool of httpx once is enough, and a thousand threads would not do."""
ROWS = (
    Row("turn, reused agent", "wall", "1.3"),
    Row("turn, new agent", "wall", "1.8"),
    Row("20 tool rounds", "cpu", "1.4"),
    Row("200 agents", "wall", "0.16; aiohttp 0.08", rounds=3, peer_rounds=1),
    Row(
        "1,000 agents",
        "wall",
        "0.2; aiohttp 0.08",
        rounds=3,
        base_rounds=1,
        peer_rounds=1,
        without=TOO_LONG,
        quick=False,
    ),
    Row("call on 1,000 messages", "cpu", "1.2x the floor", to_floor=True),
    Row("call on 4,000 messages", "cpu", "1.2x the floor", peer_rounds=1, to_floor=True),
    Row("10,000 deltas", "cpu", "1.2"),
    Row("batch", "wall", "1.1", rounds=3, peer_rounds=1, ideal_s=WAVES * BATCH_CALLS * BATCH_PAUSE_MS / 1e3),
    Row("batch", "cpu", "2.0", rounds=3, peer_rounds=1),
    Row(IMPORT, "wall", "1.25x the floor", to_floor=True),
    Row(FIRST_ANSWER, "wall", "1.5"),
    Row(APPEND, "wall", "1.5", rounds=3),
)
NOTES = (
    "'x' beside a ratio: to the floor over the same library. The target of these rows is meant so.",
    f"The ideal of the batch is {WAVES} waves of {BATCH_CALLS} calls: a sample is whole.",
    "In the batch ours reads a file and writes every record durably; the others only bound their tasks.",
    "The server shares the machine: where many requests run at once, walls hold its work, too.",
    "inspect-ai does not stream through its public interface: its 10,000 deltas are one JSON object.",
    "hermes-agent is synchronous, with a thread for each agent; it is not tried with 1,000 agents.",
    "hermes-agent drops the middle of the 4,000 messages by itself and sends about 700 of them.",
    "The floor over httpx has the base's pool, which takes minutes for 1,000 agents; it is left out there.",
    "Memory is the growth of the process's peak, by agents; buffers of connections are in it.",
    "Only 'hermes-layers, SQLite' stores anything; it has no counterpart among the others.",
    "Imports are what the program of each contestant imports; peers load all that they have.",
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
                rounds = row.rounds_of(contestant)
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
    """To the base or the ideal, in three figures; a dash where there is none."""
    seconds, base = table.median(row, contestant), row.ideal_s or table.median(row, BASE.name)
    if seconds is None or base is None:
        return "-"
    floor = None
    if row.to_floor and contestant in FLOORS:
        floor = table.median(row, FLOOR.name if row.work == IMPORT else FLOORS[contestant])
    return f"{seconds / base:.3g}" + ("" if floor is None else f" ({seconds / floor:.2f}x)")


def print_row(table: Table, row: Row, contestants: list[Contestant]) -> None:
    """One row, as soon as it is there."""
    base = table.median(row, BASE.name) or 0.0
    print(f"{row.name}  (base {base * 1e3:.3g} ms; target {row.target})", flush=True)
    for contestant in contestants:
        memory = table.memory_kb(row.work, contestant.name)
        note = f"  {memory:.0f} kB an agent" if memory else ""
        print(f"    {contestant.name:26} {ratio(table, row, contestant.name):>14}{note}", flush=True)


def markdown(table: Table, rows: list[Row], contestants: list[Contestant], versions: dict[str, str]) -> str:
    """The whole table."""
    lines = [
        "| figure | target | " + " | ".join(contestant.name for contestant in contestants) + " |",
        "| --- | --- |" + " --- |" * len(contestants),
    ]
    for row in rows:
        cells = [ratio(table, row, contestant.name) for contestant in contestants]
        base = table.median(row, BASE.name) or 0.0
        cells[0] = f"{float(cells[0]) if base else 0:.3g} ({base * 1e3:.3g} ms)"
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
    named = tuple(asked.rows)
    rows = [row for row in ROWS if (row.name.startswith(named) if named else row.quick or not asked.quick)]
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
