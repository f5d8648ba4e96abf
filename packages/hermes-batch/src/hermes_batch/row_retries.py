"""A row that failed for a reason that may pass is run again, within the same run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from hermes_batch.records import Record
from hermes_batch.row_runner import RowSettings, run_row
from hermes_batch.rows import PromptRow
from hermes_messages.protocols import AgentFactory

__all__ = ["may_pass", "pause_s", "run_row_with_retries", "with_earlier_costs"]

_PASSING_REASONS = frozenset({"row_timeout", "internal_error"})
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


def may_pass(record: Record) -> bool:
    """Whether another attempt may go better: the host failed, or time ran out. Pure."""
    return record.status == "error" and (record.run_again or record.reason in _PASSING_REASONS)


def pause_s(attempt: int) -> float:
    """The wait after attempt number `attempt` (from 1), in seconds. Pure."""
    return float(min(_FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 30), _LONGEST_PAUSE_S))


def with_earlier_costs(record: Record, earlier: Sequence[Record]) -> Record:
    """`record` with what the attempts before it cost. Pure."""
    if not earlier:
        return record
    every = (*earlier, record)
    return msgspec.structs.replace(
        record,
        api_calls=sum(one.api_calls for one in every),
        input_tokens=sum(one.input_tokens for one in every),
        output_tokens=sum(one.output_tokens for one in every),
        cost_usd=sum(one.cost_usd for one in every),
        duration_s=round(sum(one.duration_s for one in every), 3),
    )


async def run_row_with_retries(
    row: PromptRow, factory: AgentFactory, settings: RowSettings, stop: asyncio.Event
) -> Record:
    """Run `row` up to `settings.attempts` times, with growing pauses; a stop ends the trying, not the attempt
    that runs. Raises as `run_row`."""
    earlier: list[Record] = []
    while True:
        record = await run_row(row, factory, settings)
        attempt = len(earlier) + 1
        if attempt >= settings.attempts or not may_pass(record) or await _stopped(stop, pause_s(attempt)):
            return with_earlier_costs(record, earlier)
        earlier.append(record)


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Wait; whether a stop came meanwhile."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True
