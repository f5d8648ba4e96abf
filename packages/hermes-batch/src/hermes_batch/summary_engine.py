"""The engine of the run that makes summaries: a row that came to no whole summary is one that failed."""

from __future__ import annotations

import msgspec

from hermes_batch.compression_step import summary_in
from hermes_batch.local_engine import LocalEngine
from hermes_batch.records import Record
from hermes_batch.rows import PromptRow

__all__ = ["SummaryEngine"]


class SummaryEngine(LocalEngine):
    """Runs rows here. An answer that is empty or cut off is no summary, so that its row is asked again like
    any other that failed."""

    async def run_row(self, row: PromptRow) -> Record:
        """One attempt of `row`. Raises as `LocalEngine.run_row`."""
        record = await super().run_row(row)
        if record.status == "error" or summary_in(record) is not None:
            return record
        return msgspec.structs.replace(
            record, status="error", reason="no_summary", error="the answer is empty, or was cut off"
        )
