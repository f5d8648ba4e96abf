"""What a person sees of a run."""

import io

import pytest
from msgspec.structs import replace

from hermes_batch.progress import BarProgress, LineProgress, NoProgress, SteadyProgress, progress_for
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
    assert lines[3] == "ok=1 error=1 discarded=0 tokens=0"
    assert "\r" not in stream.getvalue()


def test_on_a_terminal_there_is_a_bar_with_counts() -> None:
    stream = io.StringIO()
    progress = BarProgress(stream)
    progress.begin(2, 0)
    progress.row(RECORD)
    progress.end()
    assert "row 4: line 5: no JSON" in stream.getvalue()
    assert "1/2" in stream.getvalue()
    assert "error=1" in stream.getvalue()


def test_an_error_from_a_host_does_not_steer_the_terminal() -> None:
    stream = io.StringIO()
    LineProgress(stream).row(replace(RECORD, error="\x1b[2J\rgone\nsecond line"))
    assert stream.getvalue().startswith("[1/0] row 4: error ( [2J gone;")
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
