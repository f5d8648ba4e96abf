"""Telling a person how a run goes: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Never, Protocol, TextIO

from hermes_batch.records import Record

__all__ = ["BarProgress", "LineProgress", "NoProgress", "Progress", "SteadyProgress", "progress_for"]

logger: logging.Logger = logging.getLogger(__name__)

_LINES_FOR_ALL: Final = 200
"""Up to so many rows, each has a line of its own; of more, those that failed and how it goes now and then."""
_SAY_EVERY_S: Final = 10.0
_PACE_ROWS: Final = 200


class Progress(Protocol):
    """Hears what happens in a run. Called on the event loop: every method must be short."""

    def begin(self, total: int, finished: int) -> None:
        """The run has `total` rows, 0 when nobody knows, of which `finished` were done before."""
        ...

    def row(self, record: Record) -> None:
        """A row ended."""
        ...

    def message(self, text: str) -> None:
        """One line for the person."""
        ...

    def end(self) -> None:
        """Nothing more comes."""
        ...


class NoProgress:
    """Says nothing."""

    def begin(self, total: int, finished: int) -> None:
        """Nothing."""

    def row(self, record: Record) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


class SteadyProgress:
    """Passes everything on until the first failure: a closed pipe must not cost a run."""

    def __init__(self, shown: Progress) -> None:
        self._shown: Progress | None = shown

    def begin(self, total: int, finished: int) -> None:
        """Pass it on."""
        self._tell(lambda shown: shown.begin(total, finished))

    def row(self, record: Record) -> None:
        """Pass it on."""
        self._tell(lambda shown: shown.row(record))

    def message(self, text: str) -> None:
        """Pass it on."""
        self._tell(lambda shown: shown.message(text))

    def end(self) -> None:
        """Pass it on."""
        self._tell(lambda shown: shown.end())

    def _tell(self, what: Callable[[Progress], None]) -> None:
        if self._shown is None:
            return
        try:
            what(self._shown)
        except Exception:  # a display of the host's must not end the run
            self._shown = None
            logger.warning("the progress can not be shown any more", exc_info=True)


class _Tally:
    """Counts for the line beside the bar."""

    def __init__(self) -> None:
        self.status: Counter[str] = Counter()
        self.tokens = 0
        self.cost = 0.0

    def add(self, record: Record) -> None:
        self.status[record.status] += 1
        self.tokens += record.input_tokens + record.output_tokens
        self.cost += record.cost_usd

    def text(self) -> str:
        counts = " ".join(
            f"{name} {self.status[name]}" for name in ("ok", "error", "discarded") if self.status[name]
        )
        cost = f", ${self.cost:.4f}" if self.cost else ""
        return f"{counts or 'ok 0'}, {_short(self.tokens)} tokens{cost}"


def _short(number: int) -> str:
    """Three figures and a letter, as 12.3K."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "K")):
        if number >= size:
            return f"{number / size:.3g}{letter}" if number < 999.5 * size else f"{number // size}{letter}"
    return str(number)


class _Pace:
    """How fast rows end now: by the times of the last ones, in seconds of any clock."""

    def __init__(self, now: float) -> None:
        self._ends = deque([now], maxlen=_PACE_ROWS)

    def row(self, now: float) -> None:
        self._ends.append(now)

    def text(self, left: int) -> str:
        took = self._ends[-1] - self._ends[0]
        if took <= 0:
            return ""
        rate = (len(self._ends) - 1) / took
        shown = f"{rate:.1f} rows/s" if rate >= 1 else f"{1 / rate:.1f} s a row"
        return f"{shown}, {_time_text(left / rate)} left" if left else shown


def _time_text(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    if minutes >= 120:
        return f"{hours:.1f} h"
    return f"{minutes:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def _plain(text: str) -> str:
    """Text from a host or a dataset without what would steer a terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


class LineProgress:
    """A line for each row that ended; in a run of many rows one for each that failed, and every ten seconds
    one on the whole. `clock` tells the time in seconds."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._pace = _Pace(clock())
        self._said_at = clock()
        self._tally = _Tally()
        self._total = 0
        self._finished = 0
        self._each_row = True

    def begin(self, total: int, finished: int) -> None:
        """Say how much there is to do."""
        self._total, self._finished = total, finished
        self._each_row = total > 0 and total - finished <= _LINES_FOR_ALL
        self._pace = _Pace(self._clock())
        self._said_at = self._clock()
        self.message(f"{total or 'unknown number of'} rows, {finished} finished before")

    def row(self, record: Record) -> None:
        """Say how the row ended."""
        self._tally.add(record)
        self._finished += 1
        now = self._clock()
        self._pace.row(now)
        if self._each_row or record.status == "error":
            self._tell(record)
        if now - self._said_at >= _SAY_EVERY_S and (self._finished < self._total or not self._total):
            self._said_at = now
            pace = self._pace.text(max(0, self._total - self._finished))
            self.message(f"[{self._place()}] {self._tally.text()}; {pace}")

    def _place(self) -> str:
        return f"{self._finished}/{self._total}" if self._total else str(self._finished)

    def _tell(self, record: Record) -> None:
        called = ", ".join(
            f"{name} x{stats.count}" for name, stats in record.tool_stats.items() if stats.count
        )
        detail = record.error.partition("\n")[0] if record.status == "error" else called or "no tool"
        self.message(
            f"[{self._place()}] row {record.prompt_index}: {record.status}"
            f" ({detail}; {record.api_calls} calls, {record.duration_s:.1f} s)"
        )

    def message(self, text: str) -> None:
        """Write one line."""
        self._stream.write(_plain(text) + "\n")
        self._stream.flush()

    def end(self) -> None:
        """Say what it came to."""
        self.message(self._tally.text())


class BarProgress:
    """Counts, tokens, cost, rate and remaining time in one line, and a bar in the room that is left."""

    def __init__(self, stream: TextIO) -> None:
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # tqdm's monitor is a thread of its own
        self._new_bar = tqdm
        self._stream = stream
        self._tally = _Tally()
        self._bar: tqdm[Never] | None = None

    def begin(self, total: int, finished: int) -> None:
        """Draw the bar."""
        self._bar = self._new_bar(
            total=total or None,
            initial=finished,
            file=self._stream,
            unit=" rows",
            dynamic_ncols=True,
            desc=self._tally.text(),
            bar_format="{n_fmt}/{total_fmt} {desc}; {rate_noinv_fmt}, {remaining} left {bar}",
        )

    def row(self, record: Record) -> None:
        """Move the bar."""
        self._tally.add(record)
        if self._bar is not None:
            self._bar.set_description_str(self._tally.text(), refresh=False)
            self._bar.update()
        if record.status == "error":
            self.message(f"row {record.prompt_index}: {record.error.partition(chr(10))[0]}")

    def message(self, text: str) -> None:
        """Write one line above the bar."""
        self._new_bar.write(_plain(text), file=self._stream)

    def end(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.close()


def progress_for(stream: TextIO | None = None) -> Progress:
    """A bar when `stream` (standard error by default) is a terminal that can redraw a line, else lines."""
    target = sys.stderr if stream is None else stream
    redraws = target.isatty() and os.environ.get("TERM") != "dumb" and _columns(target)
    return BarProgress(target) if redraws else LineProgress(target)


def _columns(terminal: TextIO) -> int:
    """Its width; 0 for one that does not know its size, as a container's may be."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns
    except (OSError, ValueError):
        return 0
