"""Rows that a program gives one by one instead of a file."""

from __future__ import annotations

import asyncio
import json
from collections import UserDict
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from hermes_batch import BatchRunner, BatchStatistics, RowLike, RunAbortedError
from hermes_batch.cli import main
from hermes_batch.progress import LineProgress
from hermes_batch.testing import ScriptedAgents, conversation, failed_conversation
from hermes_messages import ConfigurationError, ErrorKind
from hermes_messages.protocols import ConversationResult


class Rows:
    """Gives rows, and remembers how many were asked for."""

    def __init__(self, rows: Iterable[Any], *, fails_after: int | None = None) -> None:
        self._rows = list(rows)
        self._fails_after = fails_after
        self.given = 0
        self.closed = 0

    async def __aiter__(self) -> AsyncGenerator[RowLike, None]:
        try:
            for row in self._rows:
                if self.given == self._fails_after:
                    raise ConnectionError("the database went away")
                self.given += 1
                await asyncio.sleep(0)
                yield row
        finally:
            self.closed += 1


class Agents(ScriptedAgents):
    """Answers, and counts what was paid for."""

    def __init__(self) -> None:
        super().__init__(self.answer)
        self.paid: list[str] = []
        self.going = 0
        self.before: Callable[[], object] = lambda: None

    async def answer(self, prompt: str) -> ConversationResult:
        self.before()
        self.going += 1
        await asyncio.sleep(0.001)
        self.going -= 1
        self.paid.append(prompt)
        return conversation(prompt, answer=f"to {prompt}")


def runner(tmp_path: Path, rows: Any, agents: Agents, **options: Any) -> BatchRunner:
    return BatchRunner(
        rows, run_name="r", output_dir=tmp_path, require_reasoning=False, agent_factory=agents, **options
    )


def run(
    tmp_path: Path, rows: Any, agents: Agents, *, resume: bool = False, **options: Any
) -> BatchStatistics:
    return asyncio.run(runner(tmp_path, rows, agents, **options).run(resume=resume))


def merged(tmp_path: Path) -> list[str]:
    lines = (tmp_path / "r/trajectories.jsonl").read_bytes().split(b"\n")[:-1]
    records = [json.loads(line) for line in lines]
    assert [record["prompt_index"] for record in records] == sorted(
        record["prompt_index"] for record in records
    )
    return [
        next(step["value"] for step in record["conversations"] if step["from"] == "human")
        for record in records
    ]


def test_rows_are_asked_for_as_workers_become_free(tmp_path: Path) -> None:
    rows, agents = Rows(f"row {number}" for number in range(60)), Agents()
    ahead: list[int] = []
    agents.before = lambda: ahead.append(rows.given - len(agents.paid))
    statistics = run(tmp_path, rows, agents, num_workers=5)
    assert (statistics.ok, statistics.total, statistics.pending) == (60, 60, 0)
    assert max(ahead) <= 2 * 5, "rows were read that nobody could run yet"
    assert merged(tmp_path) == [f"row {number}" for number in range(60)]
    assert rows.closed == 1


def test_a_row_is_what_a_line_of_a_file_would_be_and_what_is_none_is_one_error(tmp_path: Path) -> None:
    given = [
        {"prompt": ["a", "b"], "id": "x", "metadata": {"k": 1}},
        {"nothing": 1},
        {"prompt": object()},
        "c\u2028d",
    ]
    agents = Agents()
    statistics = run(tmp_path, Rows(given), agents)
    assert (statistics.ok, statistics.error) == (2, 2)
    assert statistics.errors_by_kind == {"bad_row": 2}
    assert sorted(agents.paid) == ["a", "b", "c\u2028d"]


def test_a_resume_passes_over_finished_content_as_often_as_it_is_finished(tmp_path: Path) -> None:
    agents = Agents()
    run(tmp_path, Rows(["a", "b", "b"]), agents)
    again = Agents()
    statistics = run(tmp_path, Rows(["new", "b", "b", "b", "a"]), again, resume=True)
    assert sorted(again.paid) == ["b", "new"]
    assert (statistics.ok, statistics.total) == (5, 5)
    assert merged(tmp_path) == ["new", "b", "b", "b", "a"]


def test_a_row_that_was_run_again_elsewhere_counts_once(tmp_path: Path) -> None:
    """Else a prompt that failed and then went well would pass for two finished rows."""

    class Refused(Agents):
        async def answer(self, prompt: str) -> ConversationResult:
            self.paid.append(prompt)
            if prompt == "b":
                return failed_conversation(prompt, error="no", kind=ErrorKind.CONTENT_POLICY)
            return conversation(prompt, answer="x")

    run(tmp_path, Rows(["a", "b", "b", "c"]), Refused())
    retried = Agents()
    statistics = run(tmp_path, Rows(["b", "a", "c", "b"]), retried, resume=True, retry_failed=True)
    assert (statistics.ok, statistics.total, retried.paid) == (4, 4, ["b", "b"])
    none: tuple[str, ...] = ()
    with pytest.raises(RunAbortedError, match="gave no rows"):
        run(tmp_path, Rows(none), Agents(), resume=True)
    assert len(merged(tmp_path)) == 4
    more = Agents()
    statistics = run(tmp_path, Rows(["b", "b", "b", "new", "a", "b", "c"]), more, resume=True)
    assert sorted(more.paid) == ["b", "b", "new"]
    assert (statistics.ok, statistics.total, statistics.error) == (7, 7, 0)
    assert merged(tmp_path) == ["b", "b", "b", "new", "a", "b", "c"]
    last = Agents()
    assert run(tmp_path, Rows(["b"] * 5), last, resume=True).ok == 5
    assert last.paid == ["b"]


def test_what_was_discarded_or_refused_is_not_paid_again_unless_asked(tmp_path: Path) -> None:
    class Mixed(Agents):
        async def answer(self, prompt: str) -> ConversationResult:
            self.paid.append(prompt)
            if prompt in ("refused", "away"):
                kind = ErrorKind.CONTENT_POLICY if prompt == "refused" else ErrorKind.SERVER
                return failed_conversation(prompt, error="no", kind=kind)
            result = conversation(prompt, answer="x")
            if prompt == "empty":
                result["transcript"] = ()
            return result

    rows = ["good", "empty", "refused", "away"]
    first = run(tmp_path, Rows(rows), Mixed())
    assert (first.ok, first.discarded, first.error, first.pending) == (1, 1, 2, 0)
    for options, paid in (
        ({}, ["away"]),
        ({"retry_discarded": True}, ["empty"]),
        ({"retry_failed": True}, ["refused"]),
    ):
        again = Agents()
        last = run(tmp_path, Rows(rows[::-1]), again, resume=True, **options)
        assert again.paid == paid
    assert (last.ok, last.total) == (4, 4)
    assert merged(tmp_path) == rows[::-1]


def test_a_run_that_was_stopped_keeps_what_it_had_and_goes_on(tmp_path: Path) -> None:
    prompts = [str(number) for number in range(20)]
    first = Agents()
    run(tmp_path, Rows(prompts[:8]), first)
    stopped = Agents()
    runs = runner(tmp_path, Rows(reversed(prompts)), stopped, num_workers=1)
    stopped.before = lambda: runs.request_stop() if len(stopped.paid) == 2 else None
    statistics = asyncio.run(runs.run(resume=True))
    assert stopped.paid == ["19", "18", "17"]
    assert (statistics.interrupted, statistics.ok) == (True, 11)
    assert sorted(merged(tmp_path), key=int) == [*prompts[:8], *prompts[17:]]
    last = Agents()
    statistics = run(tmp_path, Rows(prompts), last, resume=True)
    assert sorted(last.paid, key=int) == prompts[8:17]
    assert (statistics.ok, statistics.pending) == (20, 0)
    assert merged(tmp_path) == prompts


def test_rows_that_can_not_be_read_on_end_the_run_in_order(tmp_path: Path) -> None:
    agents = Agents()
    with pytest.raises(RunAbortedError, match="could not be read on after 6: ConnectionError: the database"):
        run(tmp_path, Rows((str(number) for number in range(20)), fails_after=6), agents)
    assert agents.going == 0
    assert len(agents.paid) == 6
    assert len(merged(tmp_path)) == 6


def test_only_so_many_rows_are_taken_and_long_ones_may_come_first(tmp_path: Path) -> None:
    rows, agents = Rows(["a", "aaa", "aa", "aaaa"]), Agents()
    statistics = run(tmp_path, rows, agents, max_samples=3, order="longest", num_workers=1)
    assert agents.paid == ["aaa", "aa", "a"]
    assert (statistics.total, rows.given, rows.closed) == (3, 3, 1)


def test_the_shards_of_a_stream_can_be_merged_without_its_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, Rows(["a", "b"]), Agents())
    (tmp_path / "r/trajectories.jsonl").unlink()
    assert main(["merge", "r", "--output-dir", str(tmp_path)]) == 0
    assert merged(tmp_path) == ["a", "b"]
    assert "2 rows: 2 ok" in capsys.readouterr().out


def test_progress_without_a_known_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    now = iter(range(0, 1_000, 6))
    progress = LineProgress(sys.stderr, clock=lambda: float(next(now)))
    run(tmp_path, Rows(["a", "b", "c"]), Agents(), progress=progress)
    told = capsys.readouterr().err
    assert "unknown number of rows, 0 finished before" in told
    assert "[2] ok 2" in told
    assert "left" not in told


class Cancelled(Rows):
    """Is cancelled by something of its own."""

    async def __aiter__(self) -> AsyncGenerator[RowLike, None]:
        yield "a"
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner


def test_a_source_that_is_cancelled_by_itself_is_no_end_of_the_rows(tmp_path: Path) -> None:
    agents = Agents()
    with pytest.raises(RunAbortedError, match="after 1: its source was cancelled, which nobody here asked"):
        run(tmp_path, Cancelled([]), agents)
    assert agents.paid == ["a"]
    assert merged(tmp_path) == ["a"]


class Waiting(Rows):
    """Gives its rows, then waits for more that never come."""

    def __init__(self, rows: Iterable[Any], *, obeys: bool = True) -> None:
        super().__init__(rows)
        self._obeys = obeys
        self.waits = asyncio.Event()

    async def __aiter__(self) -> AsyncGenerator[RowLike, None]:
        async for row in super().__aiter__():
            yield row
        while True:
            self.waits.set()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                if self._obeys:
                    raise


@pytest.mark.parametrize("obeys", [True, False])
def test_a_stop_does_not_wait_for_a_source_that_has_nothing_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obeys: bool
) -> None:
    monkeypatch.setattr("hermes_batch.supervision.PATIENCE_S", 0.2)

    async def main() -> BatchStatistics:
        rows, agents = Waiting(["a", "b"], obeys=obeys), Agents()
        runs = runner(tmp_path, rows, agents, grace_s=300.0)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            going = group.create_task(runs.run())
            await rows.waits.wait()
            while len(agents.paid) < 2:  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.001)
            runs.request_stop()
        return await going

    statistics = asyncio.run(main()) if obeys else _run_and_leave(main)
    assert (statistics.ok, statistics.interrupted) == (2, True)
    assert sorted(merged(tmp_path)) == ["a", "b"]


def _run_and_leave(main: Callable[[], Any]) -> BatchStatistics:
    """As `asyncio.run`, which would wait for ever for a task that does not obey."""
    loop = asyncio.new_event_loop()
    try:
        statistics: BatchStatistics = loop.run_until_complete(main())
        return statistics
    finally:
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()


def test_all_rows_are_read_by_one_task(tmp_path: Path) -> None:
    readers: set[object] = set()

    async def rows() -> AsyncGenerator[str, None]:
        async with asyncio.TaskGroup() as group, asyncio.timeout(60):
            ticking = group.create_task(asyncio.sleep(3600))
            for number in range(20):
                readers.add(asyncio.current_task())
                await asyncio.sleep(0)
                yield str(number)
            ticking.cancel()
        readers.add(asyncio.current_task())

    statistics = run(tmp_path, rows(), Agents(), num_workers=4)
    assert statistics.ok == 20
    assert len(readers) == 1


def test_a_source_that_was_used_up_before_takes_nothing_out_of_what_is_merged(tmp_path: Path) -> None:
    async def rows() -> AsyncGenerator[str, None]:
        for prompt in ("a", "b"):
            yield prompt

    async def main() -> None:
        runs = runner(tmp_path, rows(), Agents())
        await runs.run()
        with pytest.raises(RunAbortedError, match="the iterable gave no rows"):
            await runs.run(resume=True)

    asyncio.run(main())
    assert merged(tmp_path) == ["a", "b"]


def test_what_no_program_means_as_a_source_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    for wrong in (["a", "b"], None, {"prompt": "a"}, iter("ab")):
        with pytest.raises(ConfigurationError, match="an async iterable of rows"):
            runner(tmp_path, wrong, Agents())


class Unshowable:
    """Can not be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_strange_items_are_rows_where_they_can_be_and_else_one_error_each(tmp_path: Path) -> None:
    read_only = MappingProxyType({"prompt": "b", "metadata": MappingProxyType({"k": 1})})
    strange: list[object] = [
        UserDict({"prompt": "a"}),
        read_only,
        Unshowable(),
        {"prompt": Unshowable()},
        None,
        7,
        b"c",
        ["d"],
        "lone \ud800",
        {"prompt": "e", "when": float("nan")},
    ]
    agents = Agents()
    statistics = run(tmp_path, Rows(strange), agents)
    assert (statistics.ok, statistics.error, statistics.total) == (3, 7, 10)
    assert sorted(agents.paid) == ["a", "b", "e"]
    again = Agents()
    assert run(tmp_path, Rows(strange), again, resume=True).total == 10
    assert not again.paid


def test_a_source_that_fails_while_it_is_closed_costs_no_row(tmp_path: Path) -> None:
    async def rows() -> AsyncGenerator[str, None]:
        try:
            for number in range(100):
                yield str(number)
        finally:
            raise OSError("the cursor is gone")

    agents = Agents()
    statistics = run(tmp_path, rows(), agents, max_samples=5)
    assert (statistics.ok, len(agents.paid)) == (5, 5)
