"""Signals, terminals and closed pipes, met by a process of its own."""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import termios
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from hermes_batch.records import decode_record

ROWS = 40

pytestmark = pytest.mark.timeout(1200)

PROGRAM = """
import asyncio, os, sys
from hermes_batch import BatchRunner, cli
from hermes_batch.progress import progress_for
from hermes_batch.testing import ScriptedAgents, conversation

where, way = sys.argv[1:]
paid = os.open(where + "/paid", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def count():
    with open(where + "/paid") as payments:
        return payments.read().count("\\n")

async def behave(prompt):
    os.write(paid, (prompt + "\\n").encode())
    await asyncio.sleep(3600 if way == "hang" else 0.01)
    # From the row on at which the signal comes it waits for that, however late it comes.
    while way.isdigit() and count() >= int(way) and not os.path.exists(where + "/go"):
        await asyncio.sleep(0.01)
    return conversation(prompt, answer="\\x1b[2J" + prompt, echo="x")

class Agents(ScriptedAgents):
    async def open(self):
        if way == "hang-open":
            print("opening", flush=True)
            await asyncio.Event().wait()

cli._runner = lambda arguments: BatchRunner(
    arguments.dataset_file, run_name="run", output_dir=where + "/data", batch_size=7, num_workers=4,
    require_reasoning=False, agent_factory=Agents(behave), progress=progress_for(),
)
sys.exit(cli.main(["run", "--resume", "--dataset-file", where + "/prompts.jsonl", "--run-name", "run"]))
"""


@pytest.fixture
def where(tmp_path: Path) -> Path:
    lines = (json.dumps({"prompt": f"p{number}"}) + "\n" for number in range(ROWS))
    (tmp_path / "prompts.jsonl").write_text("".join(lines))
    return tmp_path


def command(where: Path, way: str = "quick") -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(where), way]


def payments(where: Path) -> list[str]:
    return (where / "paid").read_text().split() if (where / "paid").exists() else []


def until(process: subprocess.Popen[bytes], paid: int, where: Path) -> None:
    while process.poll() is None and len(payments(where)) < paid:
        time.sleep(0.001)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_in_order_and_nothing_is_paid_twice(
    where: Path, number: signal.Signals
) -> None:
    moments = random.Random(number)
    codes: Counter[int] = Counter()
    done = 0
    while codes[0] == 0:
        (where / "go").unlink(missing_ok=True)
        wanted = done + moments.randint(1, 25)
        words = command(where, str(wanted))
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            until(process, wanted, where)
            if len(payments(where)) >= wanted:  # else it does the rest, and ends
                process.send_signal(number)
                (where / "go").touch()
            process.communicate(timeout=300)
        codes[process.returncode] += 1
        assert set(codes) <= {0, 130}
        done = len(payments(where))
    assert codes[130] > 0
    assert Counter(payments(where)) == Counter(f"p{row}" for row in range(ROWS))
    merged = (where / "data/run/trajectories.jsonl").read_bytes().split(b"\n")[:-1]
    assert [decode_record(line).prompt_index for line in merged] == list(range(ROWS))


def test_a_second_signal_ends_rows_that_hang(where: Path) -> None:
    with subprocess.Popen(
        command(where, "hang"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        until(process, 4, where)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while b"once more to stop" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
    assert process.returncode == 130


def test_a_signal_ends_an_opening_that_hangs(where: Path) -> None:
    with subprocess.Popen(
        command(where, "hang-open"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"opening\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    assert process.returncode == 130
    assert payments(where) == []


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_goes_away_costs_no_row(where: Path, stream: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    out, err = (writing, subprocess.PIPE) if stream == "stdout" else (subprocess.PIPE, writing)
    try:
        done = subprocess.run(command(where), check=False, timeout=300, stdout=out, stderr=err)
    finally:
        os.close(writing)
    if stream == "stdout":
        assert b"Traceback" not in done.stderr
    assert len(payments(where)) == ROWS


def on_terminal(where: Path, columns: int) -> tuple[int, bytes]:
    """Run with the progress on a terminal of this width: the exit code and what was shown."""
    mine, its = pty.openpty()
    termios.tcsetwinsize(its, (24, columns))
    shown = b""
    with subprocess.Popen(command(where), stdout=subprocess.DEVNULL, stderr=its) as process:
        os.close(its)
        with suppress(OSError):  # the end of a terminal
            while piece := os.read(mine, 4096):
                shown += piece
    os.close(mine)
    return process.returncode, shown


def test_progress_on_a_terminal_is_a_bar_without_control_characters_of_others(where: Path) -> None:
    (where / "prompts.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b", "cwd": "/\\u001b[2J"}\n')
    code, shown = on_terminal(where, 80)
    assert code == 1
    assert b"2/2" in shown
    assert b"\r" in shown
    assert b"row 1: line 2" in shown
    assert b"\x1b[2J" not in shown


def test_a_terminal_without_a_size_gets_lines(where: Path) -> None:
    code, shown = on_terminal(where, 0)
    assert code == 0
    assert b"[40/40] row" in shown
