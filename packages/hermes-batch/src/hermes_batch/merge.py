"""From shards to `trajectories.jsonl`: the good rows of a run, in the dataset's order, written whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes_batch.files import replace_file
from hermes_batch.plan import Plan
from hermes_batch.records import Record, ToolStats, encode_record
from hermes_batch.row_records import UNKNOWN_TOOL
from hermes_batch.shards import RecordReader, in_parts
from hermes_batch.statistics import BatchStatistics, StatisticsBuilder

__all__ = ["NO_TOOLSET", "merge_run"]

NO_TOOLSET = "none"
"""Stands in `toolsets_used` of a row without any."""

_PART_ROWS = 200
_PART_BYTES = 4 << 20


async def merge_run(
    *, shard_dir: Path, target: Path, plan: Plan, run_name: str, total: int, drop_unknown_tools: bool = False
) -> BatchStatistics:
    """Write the `ok` rows of `plan` to `target` (atomically) and count all of them.

    Rows take the index they have in the dataset now. Every row names every tool of the run, and no object or
    list is empty: table readers give an empty one a type of its own, which no later row fits. Each record is
    read once; memory grows with the number of rows only by their places. With `drop_unknown_tools` rows in
    which the model called a tool that it did not have count as discarded; their records stay.
    """
    statistics = StatisticsBuilder(run_name, total)
    names = sorted({UNKNOWN_TOOL, *plan.tools()})
    async with RecordReader(shard_dir) as read, replace_file(target) as write:
        for part in in_parts(plan.done(), rows_at_most=_PART_ROWS, bytes_at_most=_PART_BYTES):
            lines = []
            for (index, _), given in zip(part, await read([place for _, place in part]), strict=True):
                record = _dropped(given) if drop_unknown_tools and invents_tools(given) else given
                statistics.add(record)
                if record.status == "ok":
                    lines.append(encode_record(_normalised(record, index, names)))
            await write(b"".join(lines))
    return statistics.build()


def invents_tools(record: Record) -> bool:
    """Whether the model called a tool that it did not have, in a row that is good otherwise."""
    stats = record.tool_stats.get(UNKNOWN_TOOL)
    return record.status == "ok" and stats is not None and stats.count > 0


def _dropped(record: Record) -> Record:
    return msgspec.structs.replace(record, status="discarded", reason="unknown_tool")


def _normalised(record: Record, index: int, names: Sequence[str]) -> Record:
    return msgspec.structs.replace(
        record,
        prompt_index=index,
        toolsets_used=record.toolsets_used or (NO_TOOLSET,),
        tool_stats={name: record.tool_stats.get(name, ToolStats()) for name in names},
        tool_error_counts={name: record.tool_error_counts.get(name, 0) for name in names},
    )
