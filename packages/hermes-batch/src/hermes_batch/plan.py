"""What is left to do: the dataset's rows against the records of earlier runs. Pure.

A row is the same row when its content is the same; its place only decides between equals. So inserted,
removed and reordered rows do the right thing, and a prompt that stands twice in the file is run twice.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from msgspec import Struct

from hermes_batch.records import Record

__all__ = ["Finished", "Plan", "RetryPolicy", "RowKey", "is_final", "make_plan"]


class RowKey(Struct, frozen=True):
    """A row's place and content."""

    index: int
    content_hash: str


class Finished(Struct, frozen=True):
    """Where a record lies: the shard's name, the byte offset of its line and the line's length in bytes."""

    key: RowKey
    shard: str
    offset: int
    length: int


class RetryPolicy(Struct, frozen=True):
    """Which recorded rows are run again on resume, beyond those that never reached the model."""

    failed: bool = False
    discarded: bool = False


class Plan(Struct, frozen=True):
    """`done` maps the index of each finished row to its record's place; `todo` are the others, in order."""

    done: dict[int, Finished]
    todo: tuple[int, ...]


def is_final(record: Record, retry: RetryPolicy) -> bool:
    """Whether a recorded row counts as finished. An error on a host that could not be reached cost
    nothing: it does not count, so a run that a dead network stopped goes on where it stood."""
    match record.status:
        case "ok":
            return True
        case "discarded":
            return not retry.discarded
        case "error":
            return record.reached_model and not retry.failed


def make_plan(rows: Sequence[RowKey], finished: Iterable[Finished]) -> Plan:
    """Match rows to finished records, first by place and content, then by content alone.

    `finished` is in the order of recording; of two records for one key the later one is taken.
    """
    by_key: dict[RowKey, Finished] = {entry.key: entry for entry in finished}
    done: dict[int, Finished] = {}
    for row in rows:
        exact = by_key.pop(row, None)
        if exact is not None:
            done[row.index] = exact
    moved: defaultdict[str, deque[Finished]] = defaultdict(deque)
    for entry in by_key.values():
        moved[entry.key.content_hash].append(entry)
    for row in rows:
        if row.index not in done and moved.get(row.content_hash):
            done[row.index] = moved[row.content_hash].popleft()
    return Plan(done, tuple(row.index for row in rows if row.index not in done))
