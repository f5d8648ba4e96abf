"""Which worker takes the next row, and what the loss of a worker means. Pure.

A row whose worker was lost is a suspect: it may be what killed it. Suspects are kept apart, one to a worker,
so that one that kills again takes no other suspect with it, and rows that only had bad company get through.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from hermes_batch.agent_options import AgentOptions, FallbackModel
from hermes_messages import ConfigurationError
from hermes_messages.argument_text import JsonValue

__all__ = [
    "MOST_LOSSES_AT_A_STRETCH",
    "Broken",
    "Replace",
    "WorkerPool",
    "share_of_limits",
    "share_of_options",
    "slots_of_each",
]

MOST_LOSSES_AT_A_STRETCH: Final = 10
"""So many workers lost without a row finished between them, and the fault is not a row's."""


class Replace(Struct, frozen=True, tag=True):
    """Start worker number `worker` in the place of the lost one."""

    worker: int


class Broken(Struct, frozen=True, tag=True):
    """Worker after worker is lost."""

    losses: int


class _Worker(Struct):
    ready: bool = False
    rows: set[int] = set()


class WorkerPool:
    """The workers of a run, numbered from 0 and each number used once, and the rows (by index) on them."""

    def __init__(self, workers: int, slots: int) -> None:
        self._slots = slots
        self._workers = {number: _Worker() for number in range(workers)}
        self._next = workers
        self._suspects: set[int] = set()
        self._losses = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """The workers that are there or being started."""
        return tuple(self._workers)

    @property
    def ready(self) -> int:
        """How many workers take rows."""
        return sum(worker.ready for worker in self._workers.values())

    def is_ready(self, worker: int) -> None:
        """A worker takes rows from now on."""
        if worker in self._workers:
            self._workers[worker].ready = True

    def place(self, row: int) -> int | None:
        """Put `row` on the worker with the fewest rows; None if no worker may take it now."""
        suspect = row in self._suspects
        free = [
            (len(worker.rows), number)
            for number, worker in self._workers.items()
            if worker.ready
            and len(worker.rows) < self._slots
            and not (suspect and worker.rows & self._suspects)
        ]
        if not free:
            return None
        _, number = min(free)
        self._workers[number].rows.add(row)
        return number

    def leave(self, worker: int, row: int, *, finished: bool) -> None:
        """`row` is off `worker`; `finished`: the worker came to a result."""
        if worker in self._workers:
            self._workers[worker].rows.discard(row)
        if finished:
            self._losses = 0
            self._suspects.discard(row)

    def lost(self, worker: int) -> Replace | Broken | None:
        """A worker is gone; its rows are suspects now. None if that was known."""
        gone = self._workers.pop(worker, None)
        if gone is None:
            return None
        self._suspects |= gone.rows
        self._losses += 1
        if self._losses >= MOST_LOSSES_AT_A_STRETCH:
            return Broken(self._losses)
        number = self._next
        self._next += 1
        self._workers[number] = _Worker()
        return Replace(number)


def slots_of_each(num_workers: int, workers: int) -> int:
    """How many rows one worker runs at once, so that all together can run `num_workers`."""
    return math.ceil(num_workers / workers)


def share_of_limits(settings: Mapping[str, JsonValue], workers: int) -> dict[str, JsonValue]:
    """A provider's settings for one of `workers` workers: rates and concurrency are divided among them, the
    concurrency rounded down, so that together they never exceed what was asked for.

    Raises `ConfigurationError` when there are more workers than requests that may run at once.
    """
    shared = dict(settings)
    for name in ("requests_per_minute", "tokens_per_minute"):
        rate = shared.get(name)
        if isinstance(rate, int | float) and not isinstance(rate, bool):
            shared[name] = rate / workers
    most = shared.get("max_concurrent")
    if isinstance(most, int) and not isinstance(most, bool):
        if 0 < most < workers:
            raise ConfigurationError(
                f"max_concurrent is {most}, which can not be divided among {workers} Ray actors; ask for at"
                f" most {most} (engine_settings actors)"
            )
        shared["max_concurrent"] = most // workers
    return shared


def share_of_options(options: AgentOptions, workers: int) -> AgentOptions:
    """The options for one of `workers` workers. Raises as `share_of_limits`."""

    def share(fallback: FallbackModel) -> FallbackModel:
        if isinstance(fallback, str):
            return fallback
        settings = fallback.get("settings")
        if not isinstance(settings, dict):
            return fallback
        return {**fallback, "settings": share_of_limits(settings, workers)}

    return msgspec.structs.replace(
        options,
        provider_settings=share_of_limits(options.provider_settings, workers),
        fallback_models=tuple(share(fallback) for fallback in options.fallback_models),
    )
