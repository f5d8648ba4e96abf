"""What a person sees of a run."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes_batch.progress import (
    BarProgress,
    LineProgress,
    NoProgress,
    SteadyProgress,
    _Pace,
    _short,
    progress_for,
)
from hermes_batch.records import Record
from hermes_batch.row_records import bad_row_record
from hermes_batch.rows import BadRow

RECORD = bad_row_record(BadRow(index=4, line=5, content_hash="h", reason="no JSON"))


def test_without_a_terminal_there_is_a_plain_line_for_each_row() -> None:
    stream = io.StringIO()
    progress = progress_for(stream)
    assert isinstance(progress, LineProgress)
    progress.begin(3, 1)
    progress.row(RECORD)
    progress.row(replace(RECORD, status="ok", error=""))
    progress.end()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "3 rows, 1 finished before"
    assert lines[1].startswith("[2/3] row 4: error (line 5: no JSON;")
    assert lines[2].startswith("[3/3] row 4: ok (no tool;")
    assert lines[3] == "ok 1 error 1, 0 tokens"
    assert "\r" not in stream.getvalue()


def test_on_a_terminal_there_is_a_bar_with_counts() -> None:
    stream = io.StringIO()
    progress = BarProgress(stream)
    progress.begin(2, 0)
    progress.row(RECORD)
    progress.end()
    assert "row 4: line 5: no JSON" in stream.getvalue()
    assert "1/2 error 1, 0 tokens; " in stream.getvalue()


def test_a_long_run_in_a_log_says_now_and_then_how_it_goes() -> None:
    now = 100.0
    stream = io.StringIO()
    progress = LineProgress(stream, clock=lambda: now)
    progress.begin(10_000, 4_000)
    row = replace(RECORD, status="ok", error="", input_tokens=1_000, output_tokens=234, cost_usd=0.01)
    for number in range(1, 51):
        now = 100.0 + number * 0.5
        progress.row(replace(row, status="error", error="HTTP 500") if number == 3 else row)
    lines = stream.getvalue().splitlines()
    assert lines[1].startswith("[4003/10000] row 4: error (HTTP 500;")
    assert lines[2] == "[4020/10000] ok 19 error 1, 24.7K tokens, $0.2000; 2.0 rows/s, 50 min left"
    assert lines[3] == "[4040/10000] ok 39 error 1, 49.4K tokens, $0.4000; 2.0 rows/s, 50 min left"
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("rows", "every_s", "left", "told"),
    [
        (1, 0.0, 5, ""),
        (10, 4.0, 100, "4.0 s a row, 7 min left"),
        (500, 0.1, 10, "10.0 rows/s, 1 s left"),
        (5, 2.0, 10_000, "2.0 s a row, 5.6 h left"),
        (5, 2.0, 200_000, "2.0 s a row, 4.6 days left"),
        (5, 2.0, 0, "2.0 s a row"),
    ],
)
def test_the_pace_is_that_of_the_last_rows(rows: int, every_s: float, left: int, told: str) -> None:
    pace = _Pace(0.0)
    for number in range(1, rows + 1):
        pace.row(number * every_s)
    assert pace.text(left) == told


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [(0, "0"), (999, "999"), (1_000, "1K"), (12_345, "12.3K"), (999_900, "999K"), (1_234_567, "1.23M")],
)
def test_tokens_are_short(tokens: int, shown: str) -> None:
    assert _short(tokens) == shown


def screen_of(command: list[str], *, columns: int, terminal: str = "xterm") -> str:
    """All that a program writes to a terminal so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    written = b""
    with subprocess.Popen(
        command, stderr=theirs, stdout=subprocess.DEVNULL, env=os.environ | {"TERM": terminal}
    ) as process:
        os.close(theirs)
        with suppress(OSError):  # Linux tells the end of a terminal by an error
            while data := os.read(ours, 65536):
                written += data
        os.close(ours)
    assert process.returncode == 0, written
    return written.decode()


@pytest.mark.parametrize("columns", [80, 160])
def test_a_run_on_a_real_terminal_redraws_one_line_that_fits(tmp_path: Path, columns: int) -> None:
    written = screen_of(run_command(tmp_path), columns=columns)
    frames = [frame for frame in written.replace("\n", "\r").split("\r") if "/40 " in frame]
    assert len(frames) > 1
    assert all(len(frame) <= columns for frame in frames)
    shown = re.fullmatch(r"40/40 ok 40, 600 tokens, \$0.4000; +[\d.]+ rows/s, 00:00 left.*", frames[-1])
    assert shown, frames[-1]
    assert written.count("\n") <= 2


def test_a_terminal_that_can_not_redraw_gets_lines(tmp_path: Path) -> None:
    written = screen_of(run_command(tmp_path), columns=80, terminal="dumb")
    assert written.count("\r") == written.count("\r\n") == 42
    assert "ok 40, 600 tokens, $0.4000" in written


def run_command(tmp_path: Path) -> list[str]:
    (tmp_path / "p.jsonl").write_text("".join(f'{{"prompt": "p{number}"}}\n' for number in range(40)))
    options = ["--dataset-file", str(tmp_path / "p.jsonl"), "--run-name", "r", "--output-dir", str(tmp_path)]
    return [sys.executable, "-c", PRICED_MAIN, "run", "--keep-without-reasoning", *options]


PRICED_MAIN = """
import asyncio, sys
from hermes_batch import cli
from hermes_batch.runner import BatchRunner
from hermes_batch.testing import ScriptedAgents, conversation

async def behave(prompt):
    await asyncio.sleep(0.02)
    result = conversation(prompt, answer="a")
    result["cost_usd"] = 0.01
    return result

class Scripted(BatchRunner):
    def __init__(self, *args, **options):
        super().__init__(*args, **options | {"agent_factory": ScriptedAgents(behave)})

cli.BatchRunner = Scripted
sys.exit(cli.main())
"""


def test_an_error_from_a_host_does_not_steer_the_terminal() -> None:
    stream = io.StringIO()
    LineProgress(stream).row(replace(RECORD, error="\x1b[2J\rgone\nsecond line"))
    assert stream.getvalue().startswith("[1] row 4: error ( [2J gone;")
    assert stream.getvalue().count("\n") == 1


def test_a_progress_that_fails_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(NoProgress):
        asked = 0

        def row(self, record: Record) -> None:
            self.asked += 1
            raise BrokenPipeError

    broken = Broken()
    progress = SteadyProgress(broken)
    progress.row(RECORD)
    progress.row(RECORD)
    assert broken.asked == 1
    assert "can not be shown" in caplog.text
