"""What is left to do: the dataset's rows against the records of earlier runs. Pure.

A row is the same row when its content is the same; its place only decides between equals. So inserted,
removed and reordered rows do the right thing, and a prompt that stands twice in the file is run twice.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from hermes_batch.packed import Finished, FinishedRows, RowHashes
from hermes_batch.records import RecordStatus

__all__ = ["Plan", "RetryPolicy", "RowsLeft", "best_of_each_row", "is_final", "make_plan"]

_NONE = -1


class RetryPolicy(Struct, frozen=True):
    """Which recorded rows are run again on resume, beyond those whose host could not be reached."""

    failed: bool = False
    discarded: bool = False


def is_final(status: RecordStatus, retry: RetryPolicy, *, run_again: bool) -> bool:
    """Whether a recorded row counts as finished. An error on a host that could not be reached cost
    nothing: it does not count, so a run that a dead network stopped goes on where it stood."""
    match status:
        case "ok":
            return True
        case "discarded":
            return not retry.discarded
        case "error":
            return not (run_again or retry.failed)


class RowsLeft(Collection[int]):
    """The indices of the rows that have no record, in order."""

    def __init__(self, record_of: array[int]) -> None:
        self._record_of = record_of
        self._count = record_of.count(_NONE)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and self._record_of[index] == _NONE

    def __iter__(self) -> Iterator[int]:
        return (index for index, number in enumerate(self._record_of) if number == _NONE)


class Plan:
    """Which record stands for which row."""

    def __init__(self, record_of: array[int], records: FinishedRows) -> None:
        self._record_of = record_of
        self._records = records
        self.todo: RowsLeft = RowsLeft(record_of)

    @property
    def finished(self) -> int:
        """How many rows have a record."""
        return len(self._record_of) - len(self.todo)

    def done(self) -> Iterator[tuple[int, Finished]]:
        """The finished rows in order: index and record."""
        return (
            (index, self._records[number]) for index, number in enumerate(self._record_of) if number != _NONE
        )

    def tools(self) -> set[str]:
        """The names of all tools that the records of the finished rows name."""
        return self._records.tools(number for number in self._record_of if number != _NONE)


def make_plan(rows: RowHashes, records: FinishedRows, retry: RetryPolicy | None = None) -> Plan:
    """Match rows to records: the best records first, and of equals first by place and content, then by
    content alone; of two equally good records for one place and content the later one is taken.

    With `retry`, records that are not final are left out. Memory beside the answer grows with the rows that
    were moved since their records were written.
    """
    record_of = array("q", [_NONE]) * len(rows)
    moved: dict[tuple[int, bytes], int] = {}
    for number in range(len(records)):
        if retry is not None and not _is_final(records[number], retry):
            continue
        index, packed = records.row(number)
        in_place = 0 <= index < len(rows) and rows.packed(index) == packed
        known = record_of[index] if in_place else moved.get((index, packed), _NONE)
        if known != _NONE and records.worth(number) > records.worth(known):
            continue
        if in_place:
            record_of[index] = number
        else:
            moved[index, packed] = number
    if moved:
        _place_moved(rows, records, record_of, moved.values())
    return Plan(record_of, records)


def best_of_each_row(records: FinishedRows) -> list[tuple[int, Finished]]:
    """The records where the dataset is not known: for each place and content the best one, in the order of
    places. Memory grows with the records."""
    best: dict[tuple[int, bytes], int] = {}
    for number in range(len(records)):
        row = records.row(number)
        if row not in best or records.worth(number) <= records.worth(best[row]):
            best[row] = number
    return [(index, records[number]) for (index, _), number in sorted(best.items())]


def _is_final(record: Finished, retry: RetryPolicy) -> bool:
    return is_final(record.status, retry, run_again=record.run_again)


def _place_moved(rows: RowHashes, records: FinishedRows, record_of: array[int], moved: Iterable[int]) -> None:
    """Deal the records of every content of which some stand at no row, once more and to all its rows."""
    pool: defaultdict[bytes, list[int]] = defaultdict(list)
    for number in moved:
        pool[records.row(number)[1]].append(number)
    places: defaultdict[bytes, list[int]] = defaultdict(list)
    for index in range(len(rows)):
        packed = rows.packed(index)
        if packed in pool:
            places[packed].append(index)
    for packed, indices in places.items():
        in_place = {index: record_of[index] for index in indices if record_of[index] != _NONE}
        _deal(records, record_of, indices, in_place, [*in_place.values(), *pool[packed]])


def _deal(
    records: FinishedRows,
    record_of: array[int],
    indices: list[int],
    in_place: dict[int, int],
    given: list[int],
) -> None:
    """Give `given`, all of one content, to the rows at `indices`; each record to one row."""
    free = set(indices)
    for index in indices:
        record_of[index] = _NONE
    by_worth: defaultdict[int, list[int]] = defaultdict(list)
    for number in sorted(given):
        by_worth[records.worth(number)].append(number)
    for _, numbers in sorted(by_worth.items()):
        left = set(numbers)
        for index in indices:
            if index in free and in_place.get(index) in left:
                record_of[index] = in_place[index]
                left.discard(in_place[index])
                free.discard(index)
        for index, number in zip(sorted(free), sorted(left), strict=False):
            record_of[index] = number
            free.discard(index)
