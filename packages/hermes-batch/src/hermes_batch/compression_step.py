"""One trajectory through compression: whether it needs a summary, and what it becomes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hermes_batch.compression_plan import (
    CompressionSettings,
    CountTokens,
    Span,
    find_span,
    summary_prompt,
    with_summary_step,
)
from hermes_batch.compression_report import CompressionMetrics, CompressionOutcome
from hermes_batch.records import Record, Turn
from hermes_batch.trajectory_fitting import fit_messages, sample_tokens
from hermes_messages import AssistantMessage, HermesError, content_text
from hermes_messages.trajectory import from_trajectory, to_trajectory, tools_from_trajectory

__all__ = ["Compressed", "Trajectory", "compressed", "look_at", "summary_in"]


class Trajectory(Struct, frozen=True):
    """A trajectory, how many tokens each of its steps has, and the span that a summary is wanted of."""

    steps: tuple[Turn, ...]
    sizes: tuple[int, ...]
    span: Span | None

    @property
    def tokens(self) -> int:
        """Of all steps."""
        return sum(self.sizes)

    def prompt(self, settings: CompressionSettings, count: CountTokens) -> str:
        """What the summariser reads; there must be a span."""
        assert self.span is not None
        return summary_prompt(self.steps, self.span, settings, count)

    def room(self, settings: CompressionSettings, count: CountTokens) -> int:
        """How many tokens the step with the summary may have, so that the trajectory becomes shorter; there
        must be a span."""
        assert self.span is not None
        others = with_summary_step(self.steps, self.span, "", settings)
        others = (*others[: self.span.begin], *others[self.span.begin + 1 :])
        return self.tokens - _size(others, count) - 1


class Compressed(Struct, frozen=True):
    """What became of a trajectory; `steps` None means that it is dropped."""

    steps: tuple[Turn, ...] | None
    metrics: CompressionMetrics


def look_at(steps: tuple[Turn, ...], settings: CompressionSettings, count: CountTokens) -> Trajectory:
    """The trajectory and what of it is to be summed up, if it is longer than the target."""
    sizes = tuple(count(step.value) for step in steps)
    span = None
    if sum(sizes) > settings.target_tokens:
        span = find_span([step.from_ for step in steps], sizes, settings)
    return Trajectory(steps, sizes, span)


def summary_in(record: Record | None) -> str | None:
    """The summary that a row of the summaries' run came to; None when it came to none that is whole."""
    if record is None or record.status != "ok" or not record.completed or not record.conversations:
        return None
    last = record.conversations[-1]
    try:
        [said] = from_trajectory([{"from": last.from_, "value": last.value}])
    except (HermesError, ValueError):
        return None
    text = content_text(said.content).strip() if isinstance(said, AssistantMessage) else ""
    return text or None


def compressed(
    trajectory: Trajectory, summary: str | None, settings: CompressionSettings, count: CountTokens
) -> Compressed:
    """What the trajectory becomes with `summary` in the place of its span; None means that there is none. A
    summary with which it would become no shorter is as good as none."""
    steps, outcome = trajectory.steps, _untouched(trajectory, settings)
    failed = False
    if trajectory.span is not None:
        new = None if summary is None else with_summary_step(steps, trajectory.span, summary, settings)
        if new is not None and _size(new, count) < trajectory.tokens:
            steps, outcome = new, "summarised"
        else:
            failed = True
            if settings.on_failed_summary == "drop":
                return Compressed(None, _metrics(trajectory, steps, outcome, settings, count, failed=True))
            if settings.on_failed_summary == "notice":
                steps = with_summary_step(steps, trajectory.span, None, settings)
                outcome = "notice"
    if settings.over_limit == "shorten" and _size(steps, count) > settings.target_tokens:
        shorter = _shortened(steps, settings.target_tokens, count)
        if shorter is not None:
            outcome = "shortened" if outcome == "kept" else outcome
            steps = shorter
    metrics = _metrics(trajectory, steps, outcome, settings, count, failed=failed)
    dropped = metrics.still_over_limit and settings.over_limit == "drop"
    return Compressed(None if dropped else steps, metrics)


def _untouched(trajectory: Trajectory, settings: CompressionSettings) -> CompressionOutcome:
    return "under_target" if trajectory.tokens <= settings.target_tokens else "kept"


def _size(steps: Sequence[Turn], count: CountTokens) -> int:
    return sum(count(step.value) for step in steps)


def _shortened(steps: tuple[Turn, ...], target: int, count: CountTokens) -> tuple[Turn, ...] | None:
    """`steps` with older results of tools cut; None where that is not enough, or they can not be read."""
    plain = [{"from": step.from_, "value": step.value} for step in steps]
    tools = tools_from_trajectory(plain)
    try:
        messages = from_trajectory(plain)
    except HermesError:
        return None
    markup = _size(steps, count) - sample_tokens(messages, tools)
    fitted = fit_messages(messages, tools, target - markup)
    if fitted is None or fitted is messages:
        return None
    return tuple(Turn(step["from"], step["value"]) for step in to_trajectory(fitted, tools))


def _metrics(
    trajectory: Trajectory,
    steps: tuple[Turn, ...],
    outcome: CompressionOutcome,
    settings: CompressionSettings,
    count: CountTokens,
    *,
    failed: bool,
) -> CompressionMetrics:
    before, after = trajectory.tokens, _size(steps, count)
    span = trajectory.span if outcome in ("summarised", "notice") else None
    return CompressionMetrics(
        outcome=outcome,
        original_tokens=before,
        compressed_tokens=after,
        ratio=round(after / before, 4) if before else 1.0,
        original_turns=len(trajectory.steps),
        compressed_turns=len(steps),
        turns_removed=len(trajectory.steps) - len(steps),
        span_begin=-1 if span is None else span.begin,
        span_end=-1 if span is None else span.end,
        summary_failed=failed,
        still_over_limit=after > settings.target_tokens,
    )
