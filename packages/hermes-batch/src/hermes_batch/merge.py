"""From shards to `trajectories.jsonl`: the good rows of a run, in the dataset's order, written whole."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from hermes_batch.files import replace_file
from hermes_batch.plan import Plan
from hermes_batch.records import Record, ToolStats, encode_record
from hermes_batch.shards import RecordReader
from hermes_batch.statistics import BatchStatistics, StatisticsBuilder

__all__ = ["merge_run"]


async def merge_run(
    *, shard_dir: Path, target: Path, plan: Plan, run_name: str, total: int, interrupted: bool = False
) -> BatchStatistics:
    """Write the `ok` rows of `plan.done` to `target` (atomically) and count all of them.

    Rows take the index they have in the dataset now, and every row names every tool of the run. Two passes;
    memory grows with the number of rows only by their places.
    """
    statistics = StatisticsBuilder(run_name, total)
    tools: set[str] = set()
    async with RecordReader(shard_dir) as read:
        for index in sorted(plan.done):
            record = await read(plan.done[index])
            tools.update(record.tool_stats)
            statistics.add(record)
        async with replace_file(target) as write:
            for index in sorted(plan.done):
                record = await read(plan.done[index])
                if record.status == "ok":
                    await write(encode_record(_normalised(record, index, tools)))
    return statistics.build(interrupted=interrupted)


def _normalised(record: Record, index: int, tools: Collection[str]) -> Record:
    names = sorted(tools)
    return msgspec.structs.replace(
        record,
        prompt_index=index,
        tool_stats={name: record.tool_stats.get(name, ToolStats()) for name in names},
        tool_error_counts={name: record.tool_error_counts.get(name, 0) for name in names},
    )
