"""What is left to do: the dataset's rows against the records of earlier runs. Pure.

A row is the same row when its content is the same; its place only decides between equals. So inserted,
removed and reordered rows do the right thing, and a prompt that stands twice in the file is run twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from hermes_batch.records import RecordStatus

__all__ = ["Finished", "Plan", "RetryPolicy", "RowKey", "is_final", "make_plan"]


_WORTH: dict[RecordStatus, int] = {"ok": 0, "discarded": 2, "error": 4}


class RowKey(Struct, frozen=True, gc=False):
    """A row's place and content."""

    index: int
    content_hash: str


class Finished(Struct, frozen=True, gc=False):
    """Where a record lies (the shard's name, the byte offset of its line, the line's length in bytes) and how
    its row ended."""

    key: RowKey
    shard: str
    offset: int
    length: int
    status: RecordStatus = "ok"
    run_again: bool = False

    def worth(self) -> int:
        """The lower, the better a record stands for its row."""
        return _WORTH[self.status] + self.run_again


class RetryPolicy(Struct, frozen=True):
    """Which recorded rows are run again on resume, beyond those whose host could not be reached."""

    failed: bool = False
    discarded: bool = False


class Plan(Struct, frozen=True):
    """`done` maps the index of each finished row to its record's place; `todo` are the others, in order."""

    done: dict[int, Finished]
    todo: tuple[int, ...]


def is_final(record: Finished, retry: RetryPolicy) -> bool:
    """Whether a recorded row counts as finished. An error on a host that could not be reached cost
    nothing: it does not count, so a run that a dead network stopped goes on where it stood."""
    match record.status:
        case "ok":
            return True
        case "discarded":
            return not retry.discarded
        case "error":
            return not (record.run_again or retry.failed)


def make_plan(rows: Sequence[RowKey], finished: Iterable[Finished]) -> Plan:
    """Match rows to finished records: the best records first, and of equals first by place and content, then
    by content alone.

    `finished` is in the order of recording; of two equally good records for one key the later one is taken.
    """
    best: dict[RowKey, Finished] = {}
    for entry in finished:
        known = best.get(entry.key)
        if known is None or entry.worth() <= known.worth():
            best[entry.key] = entry
    done: dict[int, Finished] = {}
    for worth in sorted({entry.worth() for entry in best.values()}):
        _match(rows, {key: entry for key, entry in best.items() if entry.worth() == worth}, done)
    return Plan(done, tuple(row.index for row in rows if row.index not in done))


def _match(rows: Sequence[RowKey], records: dict[RowKey, Finished], done: dict[int, Finished]) -> None:
    """Give the records to rows that are not done yet; each record to one row."""
    for row in rows:
        if row.index not in done and (exact := records.pop(row, None)) is not None:
            done[row.index] = exact
    moved: defaultdict[str, list[Finished]] = defaultdict(list)
    for entry in reversed(records.values()):
        moved[entry.key.content_hash].append(entry)
    if not moved:
        return
    for row in rows:
        if row.index not in done and (waiting := moved.get(row.content_hash)):
            done[row.index] = waiting.pop()
