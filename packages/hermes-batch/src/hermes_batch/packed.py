"""Rows and records of a run in a few dozen bytes each, so that a million of them fit anywhere. Pure.

A sequence here gives out values made at the moment; what it keeps are columns of numbers.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from hermes_batch.records import RecordStatus

__all__ = ["Finished", "FinishedRows", "RowHashes", "pack_hash"]

_HASH_BYTES: Final = 16
_STATUSES: Final[tuple[RecordStatus, ...]] = ("ok", "discarded", "error")


def pack_hash(content_hash: str) -> bytes:
    """The bytes of a content hash, which is 32 hexadecimal digits; of any other text, a hash."""
    if len(content_hash) == 2 * _HASH_BYTES:
        try:
            return bytes.fromhex(content_hash)
        except ValueError:
            pass
    return hashlib.sha256(content_hash.encode(errors="surrogatepass")).digest()[:_HASH_BYTES]


class _Hashes:
    """Hashes one after the other, 16 bytes each."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes) // _HASH_BYTES

    def add(self, content_hash: str) -> None:
        """Append one."""
        self._bytes += pack_hash(content_hash)

    def add_packed(self, packed: bytes) -> None:
        """Append one that is packed."""
        self._bytes += packed

    def packed(self, place: int) -> bytes:
        """The hash at `place`."""
        start = place * _HASH_BYTES
        return bytes(self._bytes[start : start + _HASH_BYTES])


class RowHashes(_Hashes):
    """The content hashes of a dataset's rows by their index."""

    def __eq__(self, other: object) -> bool:
        return self._bytes == other._bytes if isinstance(other, RowHashes) else NotImplemented

    def __hash__(self) -> int:
        raise TypeError("row hashes grow; they are no key")

    def holds(self, index: int, content_hash: str) -> bool:
        """Whether the row at `index` has this hash."""
        return self.packed(index) == pack_hash(content_hash)


class Finished(Struct, frozen=True):
    """Where a record lies (the shard's name, the byte offset of its line, the line's length in bytes), whose
    it is (the row's index at the time, and its packed content hash) and how its row ended."""

    index: int
    packed_hash: bytes
    shard: str
    offset: int
    length: int
    status: RecordStatus = "ok"
    run_again: bool = False


class FinishedRows:
    """The records of a run in the order of writing."""

    def __init__(self) -> None:
        self._hashes = _Hashes()
        self._index = array("q")
        self._shard = array("i")
        self._offset = array("q")
        self._length = array("q")
        self._worth = bytearray()
        self._shards: list[str] = []
        self._named = array("i")
        self._names: list[tuple[str, ...]] = []
        self._place_of_names: dict[tuple[str, ...], int] = {}

    def __len__(self) -> int:
        return len(self._index)

    def add(
        self,
        *,
        index: int,
        content_hash: str,
        shard: str,
        offset: int,
        length: int,
        status: RecordStatus = "ok",
        run_again: bool = False,
        tools: Iterable[str] = (),
    ) -> None:
        """Append one, which names `tools`; the records of a shard come together."""
        if not self._shards or self._shards[-1] != shard:
            self._shards.append(shard)
        self._hashes.add(content_hash)
        self._index.append(index)
        self._shard.append(len(self._shards) - 1)
        self._offset.append(offset)
        self._length.append(length)
        self._worth.append(2 * _STATUSES.index(status) + run_again)
        self._named.append(self._place_of(tuple(tools)))

    def _place_of(self, names: tuple[str, ...]) -> int:
        """The records of a run name few combinations of tools, each of which is kept once."""
        place = self._place_of_names.setdefault(names, len(self._names))
        if place == len(self._names):
            self._names.append(names)
        return place

    def __getitem__(self, number: int) -> Finished:
        worth = self._worth[number]
        return Finished(
            index=self._index[number],
            packed_hash=self._hashes.packed(number),
            shard=self._shards[self._shard[number]],
            offset=self._offset[number],
            length=self._length[number],
            status=_STATUSES[worth // 2],
            run_again=bool(worth % 2),
        )

    def __iter__(self) -> Iterator[Finished]:
        return (self[number] for number in range(len(self)))

    def worth(self, number: int) -> int:
        """The lower, the better a record stands for its row: good, discarded, failed; a failed one that cost
        nothing is the worst."""
        return self._worth[number]

    def tools(self, numbers: Iterable[int]) -> set[str]:
        """The names of all tools that these records name."""
        return {name for place in {self._named[number] for number in numbers} for name in self._names[place]}

    def row(self, number: int) -> tuple[int, bytes]:
        """The row's index at the time, and its packed content hash."""
        return self._index[number], self._hashes.packed(number)
