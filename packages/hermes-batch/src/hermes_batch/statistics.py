"""What a run came to, counted record by record. Pure."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict

from msgspec import Struct

from hermes_batch.records import Record, ToolStats

__all__ = ["BatchStatistics", "StatisticsBuilder"]


class BatchStatistics(Struct, frozen=True, kw_only=True):
    """The figures of a run. `ok + error + discarded + pending` is `total`, the dataset's rows.

    Token and cost sums cover the rows whose host gave figures: `usage_known` and `cost_known` rows.
    Durations are seconds of wall time for a row. `interrupted`: the run was asked to stop; `aborted`: why it
    gave up by itself, "" when it did not.
    """

    run_name: str
    """Which run this is."""
    total: int
    ok: int
    error: int
    discarded: int
    pending: int
    api_calls: int
    """Requests to models for all rows."""
    tool_stats: dict[str, ToolStats]
    """Calls of each tool, summed over the rows."""
    rows_with_tools: int
    """Rows in which a tool was called."""
    rows_with_reasoning: int
    """Rows in which a step of the model holds reasoning."""
    input_tokens: int
    """All tokens of the requests, cached ones included."""
    output_tokens: int
    """All tokens of the answers, reasoning included."""
    usage_known: int
    cost_usd: float
    """In US dollars."""
    cost_known: int
    duration_s_median: float
    """Half of the rows took at most this."""
    duration_s_p90: float
    """Nine rows of ten took at most this."""
    duration_s_max: float
    """What the longest row took."""
    errors_by_kind: dict[str, int]
    """How many rows are not `ok`, by `Record.reason`."""
    interrupted: bool = False
    aborted: str = ""


class StatisticsBuilder:
    """Adds up records."""

    def __init__(self, run_name: str, total: int) -> None:
        self._run_name = run_name
        self._total = total
        self._status: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._tools: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        self._durations = array("d")
        self._api_calls = 0
        self._rows_with_tools = 0
        self._rows_with_reasoning = 0
        self._input_tokens = 0
        self._output_tokens = 0
        self._usage_known = 0
        self._cost = 0.0
        self._cost_known = 0

    def add(self, record: Record) -> None:
        """Count one record."""
        self._status[record.status] += 1
        if record.status != "ok":
            self._reasons[record.reason] += 1
        called = False
        for name, stats in record.tool_stats.items():
            sums = self._tools[name]
            sums[0] += stats.count
            sums[1] += stats.success
            sums[2] += stats.failure
            called = called or stats.count > 0
        self._durations.append(record.duration_s)
        self._api_calls += record.api_calls
        self._rows_with_tools += called
        self._rows_with_reasoning += has_reasoning(record)
        self._input_tokens += record.input_tokens
        self._output_tokens += record.output_tokens
        self._usage_known += record.usage_known
        self._cost += record.cost_usd
        self._cost_known += record.cost_known

    def build(self) -> BatchStatistics:
        """The statistics of what was added; rows without a record are pending."""
        durations = sorted(self._durations)
        return BatchStatistics(
            run_name=self._run_name,
            total=self._total,
            ok=self._status["ok"],
            error=self._status["error"],
            discarded=self._status["discarded"],
            pending=self._total - self._status.total(),
            api_calls=self._api_calls,
            tool_stats={name: ToolStats(*self._tools[name]) for name in sorted(self._tools)},
            rows_with_tools=self._rows_with_tools,
            rows_with_reasoning=self._rows_with_reasoning,
            input_tokens=self._input_tokens,
            output_tokens=self._output_tokens,
            usage_known=self._usage_known,
            cost_usd=round(self._cost, 6),
            cost_known=self._cost_known,
            duration_s_median=_quantile(durations, 0.5),
            duration_s_p90=_quantile(durations, 0.9),
            duration_s_max=durations[-1] if durations else 0.0,
            errors_by_kind=dict(sorted(self._reasons.items())),
        )


def has_reasoning(record: Record) -> bool:
    """Whether any step of the model in this record holds reasoning."""
    for turn in record.conversations:
        if turn.from_ == "gpt" and turn.value.startswith("<think>"):
            reasoning = turn.value.partition("</think>")[0].removeprefix("<think>")
            if reasoning and not reasoning.isspace():
                return True
    return False


def _quantile(ordered: list[float], share: float) -> float:
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
