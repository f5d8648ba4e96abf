"""From shards to `trajectories.jsonl`: the good rows of a run, in the dataset's order, written whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from hermes_batch.files import replace_file
from hermes_batch.packed import Finished
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
    list is empty: table readers give an empty one a type of its own, which no later row fits. Two passes;
    memory grows with the number of rows only by their places. With `drop_unknown_tools` rows in which the
    model called a tool that it did not have count as discarded; their records stay.
    """
    statistics = StatisticsBuilder(run_name, total)
    tools = {UNKNOWN_TOOL}
    async with RecordReader(shard_dir) as read:
        for part in _in_parts(plan.done()):
            for record in await read([place for _, place in part]):
                tools.update(record.tool_stats)
                statistics.add(_dropped(record) if drop_unknown_tools and invents_tools(record) else record)
        names = sorted(tools)
        async with replace_file(target) as write:
            for part in _in_parts(row for row in plan.done() if row[1].status == "ok"):
                records = await read([place for _, place in part])
                lines = [
                    encode_record(_normalised(record, index, names))
                    for (index, _), record in zip(part, records, strict=True)
                    if not (drop_unknown_tools and invents_tools(record))
                ]
                await write(b"".join(lines))
    return statistics.build()


def invents_tools(record: Record) -> bool:
    """Whether the model called a tool that it did not have, in a row that is good otherwise."""
    stats = record.tool_stats.get(UNKNOWN_TOOL)
    return record.status == "ok" and stats is not None and stats.count > 0


def _dropped(record: Record) -> Record:
    return msgspec.structs.replace(record, status="discarded", reason="unknown_tool")


def _in_parts(rows: Iterable[tuple[int, Finished]]) -> Iterator[list[tuple[int, Finished]]]:
    return in_parts(rows, rows_at_most=_PART_ROWS, bytes_at_most=_PART_BYTES)


def _normalised(record: Record, index: int, names: Sequence[str]) -> Record:
    return msgspec.structs.replace(
        record,
        prompt_index=index,
        toolsets_used=record.toolsets_used or (NO_TOOLSET,),
        tool_stats={name: record.tool_stats.get(name, ToolStats()) for name in names},
        tool_error_counts={name: record.tool_error_counts.get(name, 0) for name in names},
    )
