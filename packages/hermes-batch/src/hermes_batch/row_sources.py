"""Where the rows of a run come from: a file that is read twice, or anything that gives rows one by one."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from hermes_batch.dataset import RowOrder, ScannedDataset, read_dataset, scan_dataset, sorted_in_windows
from hermes_batch.packed import FinishedRows, RowHashes
from hermes_batch.plan import RetryPolicy, best_of_each_row, is_final, make_plan
from hermes_batch.rows import BadRow, PromptRow, Row, read_row
from hermes_messages import ConfigurationError

__all__ = ["FileRows", "RowLike", "RowSource", "StreamRows", "row_source"]

logger: logging.Logger = logging.getLogger(__name__)

_PASSED_AT_ONCE: Final = 500
"""Rows that are passed over before other tasks have their turn."""

RowLike = Mapping[str, object] | str
"""A row as an iterable gives it: the object that would be a line of a file, or a prompt alone."""


class RowSource(Protocol):
    """The rows of one run: `scan`, then `plan`, then `rows`; after them `settled`."""

    @property
    def label(self) -> str:
        """The file, as the checkpoint names it; "" for none."""
        ...

    @property
    def total(self) -> int:
        """How many rows there are, as far as that is known."""
        ...

    @property
    def todo(self) -> Collection[int]:
        """The indices of the rows to run. Of a stream that is every one that `rows` gives."""
        ...

    @property
    def finished(self) -> int:
        """How many rows are known to be finished."""
        ...

    async def scan(self) -> ScannedDataset:
        """Look at the rows, where they can be looked at before they are run. Raises `DatasetError`."""
        ...

    def plan(self, recorded: FinishedRows, retry: RetryPolicy) -> None:
        """Find out what is left to do."""
        ...

    def rows(self, order: RowOrder) -> AsyncGenerator[Row, None]:
        """The rows, read as they are needed."""
        ...

    def changed(self, row: Row) -> str | None:
        """What is wrong when `row` is not the one that was planned."""
        ...

    def ended(self, met: int) -> str | None:
        """What is wrong when `rows` ended after `met` rows to run."""
        ...

    def settled(self, recorded: FinishedRows) -> RowHashes:
        """The rows of the run by their place, for the merge."""
        ...


def row_source(given: str | Path | AsyncIterable[RowLike], max_samples: int | None) -> RowSource:
    """The source of a run's rows. Raises `ConfigurationError` for what is neither a file nor asynchronous."""
    if isinstance(given, str | Path):
        return FileRows(Path(given), max_samples)
    if not isinstance(given, AsyncIterable):
        raise ConfigurationError(
            f"dataset_file is a {type(given).__name__}; it must be a file or an async iterable of rows,"
            " such as what an async def with yield returns"
        )
    return StreamRows(given, max_samples)


class FileRows:
    """The rows of a dataset file."""

    def __init__(self, path: Path, max_samples: int | None) -> None:
        self._path = path
        self._max_samples = max_samples
        self._hashes = RowHashes()
        self.todo: Collection[int] = ()
        self.finished: int = 0

    @property
    def label(self) -> str:
        """See `RowSource`."""
        return str(self._path)

    @property
    def total(self) -> int:
        """See `RowSource`."""
        return len(self._hashes)

    async def scan(self) -> ScannedDataset:
        """See `RowSource`."""
        dataset = await scan_dataset(self._path, max_samples=self._max_samples)
        self._hashes = dataset.hashes
        return dataset

    def plan(self, recorded: FinishedRows, retry: RetryPolicy) -> None:
        """See `RowSource`."""
        plan = make_plan(self._hashes, recorded, retry)
        self.todo, self.finished = plan.todo, plan.finished

    def rows(self, order: RowOrder) -> AsyncGenerator[Row, None]:
        """See `RowSource`."""
        rows = read_dataset(self._path, max_samples=len(self._hashes))
        return rows if order == "file" else sorted_in_windows(rows, order, self.todo)

    def changed(self, row: Row) -> str | None:
        """See `RowSource`."""
        if self._hashes.holds(row.index, row.content_hash):
            return None
        return f"{self._path}, line {row.line}, changed while the run read it"

    def ended(self, met: int) -> str | None:
        """See `RowSource`."""
        return f"{self._path} became shorter while the run read it" if met < len(self.todo) else None

    def settled(self, recorded: FinishedRows) -> RowHashes:  # noqa: ARG002 - the Protocol's
        """See `RowSource`."""
        return self._hashes


class _Every(Collection[int]):
    """Every index: what a stream gives is to be run."""

    def __contains__(self, index: object) -> bool:
        return True

    def __len__(self) -> int:
        return sys.maxsize

    def __iter__(self) -> Iterator[int]:
        raise TypeError("the rows of a stream are not counted before they came")


class StreamRows:
    """The rows that an iterable gives. It is read once, no further than workers are free.

    A row whose content is that of a finished one is passed over, as often as there are finished ones. So a
    resumed run needs an iterable that gives the same rows again, in any order. Memory: 16 bytes a row, and
    for each row that was finished before some 150.
    """

    label = ""
    todo: Collection[int] = _Every()

    def __init__(self, given: AsyncIterable[RowLike], max_samples: int | None) -> None:
        self._given = given
        self._max_samples = max_samples
        self._hashes = RowHashes()
        self._done: Counter[bytes] = Counter()
        self._again: defaultdict[bytes, list[int]] = defaultdict(list)
        self._next_index = 0
        self._trouble: str | None = None
        self._exhausted = False
        self.finished: int = 0

    @property
    def total(self) -> int:
        """See `RowSource`: a bound that was set, or 0."""
        return self._max_samples or 0

    async def scan(self) -> ScannedDataset:
        """See `RowSource`: nothing is known before."""
        self._hashes, self._trouble, self._exhausted = RowHashes(), None, False
        return ScannedDataset(self._hashes, 0, ())

    def plan(self, recorded: FinishedRows, retry: RetryPolicy) -> None:
        """See `RowSource`."""
        self._done, self._again, self._next_index, self.finished = Counter(), defaultdict(list), 0, 0
        for index, record in best_of_each_row(recorded):
            self._next_index = max(self._next_index, index + 1)
            if is_final(record.status, retry, run_again=record.run_again):
                self._done[record.packed_hash] += 1
                self.finished += 1
            else:
                self._again[record.packed_hash].append(index)

    def rows(self, order: RowOrder) -> AsyncGenerator[Row, None]:
        """See `RowSource`."""
        return self._rows() if order == "file" else sorted_in_windows(self._rows(), order, self.todo)

    async def _rows(self) -> AsyncGenerator[Row, None]:
        index = 0
        given: AsyncIterator[RowLike] | None = None
        try:
            given = aiter(self._given)
            while self._max_samples is None or index < self._max_samples:
                try:
                    item = await anext(given)
                except StopAsyncIteration:
                    break
                row = _row_of(item, index)
                self._hashes.add(row.content_hash)
                index += 1
                packed = self._hashes.packed(row.index)
                if self._done[packed] > 0:
                    self._done[packed] -= 1
                    if index % _PASSED_AT_ONCE == 0:
                        await asyncio.sleep(0)
                    continue
                known_as = self._index_of(row.index, packed)
                yield row if known_as == row.index else msgspec.structs.replace(row, index=known_as)
            self._end(index)
        except asyncio.CancelledError:
            if (reader := asyncio.current_task()) is not None and reader.cancelling():
                raise
            self._fail(index, "its source was cancelled, which nobody here asked for")
        except Exception as error:  # the caller's own code; what runs may end
            logger.exception("the rows could not be read on")
            self._fail(index, f"{type(error).__name__}: {error}")
        finally:
            if isinstance(given, AsyncGenerator):
                await _close(given)

    def _index_of(self, place: int, packed: bytes) -> int:
        """The index under which the row at `place` is recorded. One that is run again takes that of its
        earlier record, wherever it stands now, so that the two are known for one row; another of a content
        that is known takes one that no record has."""
        if packed not in self._done and packed not in self._again:
            return place
        if earlier := self._again[packed]:
            return earlier.pop()
        self._next_index += 1
        return self._next_index - 1

    def _end(self, came: int) -> None:
        """No row is left. Where none came at all the source was used up before, or is broken: what is
        finished stays in what is merged."""
        self._exhausted = came > 0
        if not came:
            self._trouble = "the iterable gave no rows; to go on, give one that gives all of them again"

    def _fail(self, came: int, why: str) -> None:
        self._trouble = f"the rows could not be read on after {came}: {why}"

    def changed(self, row: Row) -> str | None:  # noqa: ARG002 - the Protocol's
        """See `RowSource`: a stream has nothing to be compared with."""
        return None

    def ended(self, met: int) -> str | None:  # noqa: ARG002 - the Protocol's
        """See `RowSource`."""
        return self._trouble

    def settled(self, recorded: FinishedRows) -> RowHashes:
        """See `RowSource`: the rows that came; where not all did, the finished ones that are known stand
        after them, so that a run that was stopped keeps what it has."""
        if not self._exhausted:
            came = Counter(self._hashes.packed(place) for place in range(len(self._hashes)))
            for _, record in best_of_each_row(recorded):
                if came[record.packed_hash] > 0:
                    came[record.packed_hash] -= 1
                else:
                    self._hashes.add_packed(record.packed_hash)
            self._exhausted = True
        return self._hashes


async def _close(given: AsyncGenerator[RowLike, None]) -> None:
    """Let the source clean up. What it came to stands, however that goes."""
    try:
        await given.aclose()
    except Exception:  # the caller's own code
        logger.exception("the source of the rows could not be closed")


def _row_of(item: RowLike, index: int) -> Row:
    """One item, read as a line of a file would be. What is no row becomes an error record."""
    try:
        line = msgspec.json.encode({"prompt": item} if isinstance(item, str) else item, enc_hook=_plain)
    except Exception as error:  # noqa: BLE001 - an item is the caller's, and so is what reads it
        reason = f"no JSON: {type(error).__name__}: {error}"
        return BadRow(index=index, line=index + 1, content_hash=_mark_of(item), reason=reason)
    row: PromptRow | BadRow = read_row(line, index=index, line_number=index + 1)
    return row


def _plain(value: object) -> object:
    """A mapping of another kind as a dict."""
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"a {type(value).__name__} has no JSON form")


def _mark_of(item: object) -> str:
    """What tells an item that has no JSON form from others."""
    try:
        shown = repr(item)
    except Exception:  # noqa: BLE001 - as above
        shown = type(item).__name__
    return hashlib.sha256(shown.encode(errors="surrogatepass")).hexdigest()[:32]
