"""A row that failed for a reason that may pass is run again, within the same run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from hermes_batch.engines import RowEngine
from hermes_batch.errors import WorkerLostError
from hermes_batch.records import Record
from hermes_batch.redelivery import GiveUpRow, HandOutAgain, LeaveForResume, after_loss
from hermes_batch.row_records import Outcome, record_of
from hermes_batch.row_settings import RowSettings, toolsets_for
from hermes_batch.rows import PromptRow

__all__ = ["may_pass", "pause_s", "run_row_with_retries", "with_earlier_costs"]

logger: logging.Logger = logging.getLogger(__name__)

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
    """`record` with what the attempts before it cost; figures that one of them did not give, though it may
    have cost something, are unknown for the row. Pure."""
    if not earlier:
        return record
    every = (*earlier, record)
    paid = [one for one in every if one is record or not one.run_again]
    return msgspec.structs.replace(
        record,
        api_calls=sum(one.api_calls for one in every),
        input_tokens=sum(one.input_tokens for one in every),
        output_tokens=sum(one.output_tokens for one in every),
        usage_known=all(one.usage_known for one in paid),
        cost_usd=sum(one.cost_usd for one in every),
        cost_known=all(one.cost_known for one in paid),
        duration_s=round(sum(one.duration_s for one in every), 3),
    )


async def run_row_with_retries(
    row: PromptRow, engine: RowEngine, settings: RowSettings, stop: asyncio.Event
) -> Record | None:
    """Run `row` up to `settings.attempts` times, with growing pauses; a stop ends the trying, not the attempt
    that runs. None when the row is left for resume. Raises as `RowEngine.run_row`, but for a lost worker."""
    earlier: list[Record] = []
    while (record := await _run_in_spite_of_losses(row, engine, settings, stop)) is not None:
        attempt = len(earlier) + 1
        if attempt >= settings.attempts or not may_pass(record) or await _stopped(stop, pause_s(attempt)):
            return with_earlier_costs(record, earlier)
        earlier.append(record)
    return with_earlier_costs(earlier.pop(), earlier) if earlier else None


async def _run_in_spite_of_losses(
    row: PromptRow, engine: RowEngine, settings: RowSettings, stop: asyncio.Event
) -> Record | None:
    """One attempt, handed out again when its worker is lost."""
    losses = 0
    while True:
        try:
            return await engine.run_row(row)
        except WorkerLostError as error:
            losses += 1
            verdict = after_loss(losses, last=str(error), stopping=stop.is_set())
            logger.warning("row %d: its worker was lost (%s)", row.index, error)
        match verdict:
            case HandOutAgain():
                continue
            case LeaveForResume():
                return None
            case GiveUpRow(error=explained):
                lost = Outcome(status="error", reason="worker_lost", error=explained)
                return record_of(row, lost, toolsets=toolsets_for(row, settings))


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Wait; whether a stop came meanwhile."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True
