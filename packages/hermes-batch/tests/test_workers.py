"""When a run gives up on a host."""

from msgspec.structs import replace

from hermes_batch.row_records import bad_row_record
from hermes_batch.rows import BadRow
from hermes_batch.workers import FailureStreak

NO_ROW = bad_row_record(BadRow(index=0, line=1, content_hash="h", reason="no JSON"))
UNREACHED = replace(NO_ROW, run_again=True, error="connection refused")
ANSWERED = replace(NO_ROW, status="ok", api_calls=1)
REFUSED = replace(NO_ROW, reason="provider_error:content_policy", api_calls=1)


def test_rows_that_say_nothing_about_the_host_do_not_hide_a_dead_one() -> None:
    streak = FailureStreak(3)
    notes = [streak.note(record) for record in (UNREACHED, NO_ROW, UNREACHED, NO_ROW, UNREACHED)]
    assert notes[:4] == [None] * 4
    assert (
        notes[4] == "the model could not be reached for 3 rows in a row; the last error: connection refused"
    )


def test_a_row_that_reached_the_host_ends_the_streak() -> None:
    for alive in (ANSWERED, REFUSED):
        streak = FailureStreak(2)
        assert [streak.note(record) for record in (UNREACHED, alive, UNREACHED)] == [None] * 3
