"""Figures for `hermes-batch view` with 10,000 rows of several tool calls: size of the page, time and memory;
and, where there is a Chromium, how soon it shows the page and how long a search takes.

Run with `uv run benchmarks/bench_view.py`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hermes_batch.records import Record, ToolStats, Turn, encode_record
from hermes_batch.row_records import bad_row_record
from hermes_batch.rows import BadRow
from hermes_batch.run_files import RunFiles
from hermes_batch.view import view_run
from hermes_messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolSpec, UserMessage
from hermes_messages.trajectory import to_trajectory

ROWS = 10_000
DRIVER = Path(__file__).parents[1] / ".ci/browser.py"
READY = "document.documentElement.dataset.ready === 'yes'"
TOOLS = [
    ToolSpec.from_schema(name, "What it does. " * 12, {"type": "object"}) for name in ("read", "run", "find")
]
CHANCE = random.Random(5)
WORDS = ["".join(CHANCE.choices("etaoinshrdlu", k=CHANCE.randint(2, 9))) for _ in range(3_000)]
EMPTY = bad_row_record(BadRow(index=0, line=1, content_hash="h", reason=""))


def words(most: int) -> str:
    return " ".join(CHANCE.choices(WORDS, k=CHANCE.randint(1, most)))


def record(index: int) -> Record:
    said: list[Message] = [UserMessage(words(60))]
    rounds = CHANCE.randint(1, 6)
    for number in range(rounds):
        call = ToolCall(f"call_{number}", CHANCE.choice(TOOLS).name, json.dumps({"path": words(3)}))
        said += [AssistantMessage(words(10), tool_calls=(call,), reasoning=words(120))]
        said += [ToolMessage(call.id, words(300))]
    said.append(AssistantMessage(words(150), reasoning=words(60)))
    return replace(
        EMPTY,
        prompt_index=index,
        row_hash=f"{index:032x}",
        status="ok",
        error="",
        conversations=tuple(Turn(step["from"], step["value"]) for step in to_trajectory(said, TOOLS)),
        tool_stats={"read": ToolStats(rounds, rounds, 0)},
        duration_s=CHANCE.lognormvariate(1.6, 0.7),
    )


def write_page(directory: Path) -> None:
    started = time.perf_counter()
    asyncio.run(view_run(RunFiles(directory, "run")))
    took = time.perf_counter() - started
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps({"took": took, "peak": peak}))


def in_a_browser(page_file: Path, profile: Path) -> None:
    found = importlib.util.spec_from_file_location("driver", DRIVER)
    assert found is not None
    assert found.loader is not None
    driver: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(driver)
    with driver.running_browser(profile, READY) as page:
        started = time.perf_counter()
        page.open(page_file)
        ready = time.perf_counter() - started
        paint = page.value("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
        started = time.perf_counter()
        page.press("/", *"never said")
        page.wait("document.getElementById('count').textContent === '0 of 10,000 rows'")
        searched = time.perf_counter() - started
        elements = page.value("document.querySelectorAll('*').length")
    print(f"Chromium: first paint {paint:.2f} s, plots and rows {ready:.2f} s, a search {searched:.2f} s")
    print(f"elements in its document: {elements}")


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        files = RunFiles(Path(name), "run")
        files.shards.mkdir(parents=True)
        shard = files.shards / "shard-00001.jsonl"
        with shard.open("wb") as file:
            for index in range(ROWS):
                file.write(encode_record(record(index)))
        command = [sys.executable, __file__, name]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        page_file = files.directory / "view.html"
        sizes = (shard.stat().st_size / 1e6, page_file.stat().st_size / 1e6)
        print(f"{ROWS} rows, {sizes[0]:.0f} MB of shards: a page of {sizes[1]:.1f} MB", end="")
        print(f" in {told['took']:.1f} s, peak {told['peak']:.0f} MB")
        if shutil.which("chromium"):
            in_a_browser(page_file, Path(name) / "profile")


if __name__ == "__main__":
    write_page(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
