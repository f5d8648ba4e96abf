"""The engine of the run that makes summaries: a row that came to no usable summary is one that failed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hermes_batch.compression_plan import CountTokens, summary_step
from hermes_batch.compression_step import summary_in
from hermes_batch.local_engine import LocalEngine
from hermes_batch.packed import pack_hash
from hermes_batch.records import Record
from hermes_batch.rows import PromptRow

__all__ = ["SummaryEngine"]


class SummaryEngine(LocalEngine):
    """Runs rows here. An answer that is empty or cut off is no summary, nor is one that is no shorter than
    what it stands for, so that its row is asked again like any other that failed.

    `rooms` tells for the packed hash of each row how many tokens (of `count`) its summary may have.
    """

    def __init__(self, rooms: Mapping[bytes, int], count: CountTokens) -> None:
        super().__init__()
        self._rooms = rooms
        self._count = count

    async def run_row(self, row: PromptRow) -> Record:
        """One attempt of `row`. Raises as `LocalEngine.run_row`."""
        record = await super().run_row(row)
        if record.status == "error":
            return record
        summary = summary_in(record)
        if summary is None:
            return _no_summary(record, "the answer is empty, or was cut off")
        size, room = self._count(summary_step(summary).value), self._rooms[pack_hash(row.content_hash)]
        if size > room:
            return _no_summary(
                record, f"the answer has {size} tokens, which is no less than what it stands for"
            )
        return record


def _no_summary(record: Record, why: str) -> Record:
    return msgspec.structs.replace(record, status="error", reason="no_summary", error=why)
