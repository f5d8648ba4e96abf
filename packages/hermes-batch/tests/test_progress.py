"""What a person sees of a run."""

import io

from msgspec.structs import replace

from hermes_batch.progress import BarProgress, LineProgress, progress_for
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
