"""What compression did to a trajectory, and to a whole run. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal

import msgspec
from msgspec import Struct

from hermes_batch.records import Record
from hermes_batch.statistics import BatchStatistics

__all__ = [
    "CompressedRecord",
    "CompressionMetrics",
    "CompressionOutcome",
    "CompressionReport",
    "CompressionTotals",
    "encode_compressed",
]

CompressionOutcome = Literal["under_target", "summarised", "notice", "shortened", "kept"]
"""`under_target`: nothing to do. `summarised`, `notice`: a span was replaced by its summary, or by a notice
since there is none. `shortened`: only results of tools were cut. `kept`: longer than the target, and as it
was."""


class CompressionMetrics(Struct, frozen=True, kw_only=True):
    """What compression did to one trajectory. Steps are counted from 0; `span_begin` and `span_end` (without
    it) say which were replaced, -1 where none were. `ratio` is compressed to original tokens."""

    outcome: CompressionOutcome
    """What was done."""
    original_tokens: int
    """Before."""
    compressed_tokens: int
    """After."""
    ratio: float
    original_turns: int
    """Steps before."""
    compressed_turns: int
    """Steps after."""
    turns_removed: int
    """Steps that are gone, the summary that came instead set off."""
    span_begin: int = -1
    span_end: int = -1
    summary_failed: bool = False
    """A summary was asked for and there is none."""
    still_over_limit: bool = False
    """The result is longer than the target."""


class CompressedRecord(Record, frozen=True, kw_only=True):
    """A record of `compressed.jsonl`: that of `trajectories.jsonl`, and what compression did to it."""

    compression: CompressionMetrics


_encoder: Final = msgspec.json.Encoder()


def encode_compressed(record: Record, metrics: CompressionMetrics) -> bytes:
    """The record with its metrics as one line, its line feed included."""
    fields = {name: getattr(record, name) for name in Record.__struct_fields__}
    return _encoder.encode(CompressedRecord(**fields, compression=metrics)) + b"\n"


class CompressionReport(Struct, frozen=True, kw_only=True):
    """What compression came to in a whole run.

    `trajectories` is `under_target + summarised + notices + shortened + kept + dropped`. Tokens, turns and
    `ratio` are those of the trajectories that were written. `summaries` is the number of different spans of
    which a summary was asked for; its calls, tokens and cost are those of all of them, also of the ones that
    an earlier call made and this one took from the disk. `interrupted`: stopped before all summaries were
    there, so that nothing was written.
    """

    run_name: str
    """Which run this is."""
    target_tokens: int
    """What a trajectory was to be shorter than."""
    trajectories: int = 0
    under_target: int = 0
    summarised: int = 0
    notices: int = 0
    shortened: int = 0
    kept: int = 0
    dropped: int = 0
    still_over_limit: int = 0
    """Trajectories that are longer all the same."""
    tokens_before: int = 0
    """Before compression."""
    tokens_after: int = 0
    """After it."""
    ratio: float = 1.0
    turns_before: int = 0
    """Steps before."""
    turns_after: int = 0
    """Steps after."""
    turns_removed: int = 0
    """Steps that are gone, the summaries that came instead set off."""
    summaries: int = 0
    summaries_failed: int = 0
    """Trajectories whose span got no summary."""
    summary_api_calls: int = 0
    """Requests to models for all summaries."""
    summary_input_tokens: int = 0
    """All tokens of these requests."""
    summary_output_tokens: int = 0
    """All tokens of the answers to them."""
    summary_cost_usd: float = 0.0
    """In US dollars."""
    summary_cost_known: int = 0
    """Summaries whose host gave what they cost."""
    interrupted: bool = False


_COUNTED_AS: Final[dict[CompressionOutcome, str]] = {
    "under_target": "under_target",
    "summarised": "summarised",
    "notice": "notices",
    "shortened": "shortened",
    "kept": "kept",
}


class CompressionTotals:
    """Adds up the metrics of a run's trajectories."""

    def __init__(self, run_name: str, target_tokens: int) -> None:
        self._run_name = run_name
        self._target_tokens = target_tokens
        self._sums: Counter[str] = Counter()

    def add(self, metrics: CompressionMetrics, *, dropped: bool) -> None:
        """Take one trajectory in; one that was `dropped` counts as nothing else."""
        self._sums["trajectories"] += 1
        self._sums["summaries_failed"] += metrics.summary_failed
        if dropped:
            self._sums["dropped"] += 1
            return
        self._sums[_COUNTED_AS[metrics.outcome]] += 1
        self._sums.update(
            still_over_limit=metrics.still_over_limit,
            tokens_before=metrics.original_tokens,
            tokens_after=metrics.compressed_tokens,
            turns_before=metrics.original_turns,
            turns_after=metrics.compressed_turns,
            turns_removed=metrics.turns_removed,
        )

    def build(self, summaries: BatchStatistics | None, *, interrupted: bool = False) -> CompressionReport:
        """The report; `summaries` are the statistics of the run that made the summaries, if one was
        needed."""
        before = self._sums["tokens_before"]
        report = CompressionReport(
            run_name=self._run_name,
            target_tokens=self._target_tokens,
            ratio=round(self._sums["tokens_after"] / before, 4) if before else 1.0,
            interrupted=interrupted,
            **self._sums,
        )
        if summaries is None:
            return report
        return msgspec.structs.replace(
            report,
            summaries=summaries.total,
            summary_api_calls=summaries.api_calls,
            summary_input_tokens=summaries.input_tokens,
            summary_output_tokens=summaries.output_tokens,
            summary_cost_usd=summaries.cost_usd,
            summary_cost_known=summaries.cost_known,
        )
