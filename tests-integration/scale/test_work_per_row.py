"""A row of a batch costs the same beside ten workers and beside a thousand."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from counting import FEW, MANY, Counts, counted, same

from hermes_batch import BatchRunner
from hermes_batch.progress import NoProgress
from hermes_batch.records import Record
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_messages.protocols import ConversationResult

pytestmark = pytest.mark.needs("workspace")

TIMES = 5


class Parked:
    """Agents whose answers come when the test says so."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

    async def __call__(self, prompt: str) -> ConversationResult:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait(answer)
        await answer
        return conversation(prompt, answer="Done.")


class Written(NoProgress):
    """Hears of the rows whose records are on the disk."""

    def __init__(self) -> None:
        self.rows: asyncio.Queue[Record] = asyncio.Queue()

    def row(self, record: Record) -> None:
        self.rows.put_nowait(record)


def dataset(folder: Path, rows: int) -> Path:
    folder.mkdir()
    lines = [json.dumps({"prompt": str(number), "cwd": str(folder)}) for number in range(rows)]
    path = folder / "rows.jsonl"
    path.write_text("\n".join(lines))
    return path


async def costs(folder: Path, workers: int) -> Counts:
    """Of one row's end, its record and the next one's beginning, while all other workers wait.

    All of the record counts: how much of it is written before the next row begins is a matter of time.
    """
    parked, written = Parked(), Written()
    run = asyncio.create_task(
        BatchRunner(
            dataset(folder, workers + TIMES),
            run_name="r",
            output_dir=folder,
            agent_factory=ScriptedAgents(parked),
            num_workers=workers,
            require_reasoning=False,
            progress=written,
        ).run()
    )
    waiting = [await parked.begun.get() for _ in range(workers)]
    counts: Counts = {}
    for _ in range(TIMES):
        with counted(counts, "a row ends, another begins"):
            waiting.pop().set_result(None)
            waiting.append(await parked.begun.get())
            await written.rows.get()
    for answer in waiting:
        answer.set_result(None)
    assert (await run).ok == workers + TIMES
    return counts


def test_the_end_of_a_row_does_work_for_each_other_worker(tmp_path: Path) -> None:
    async def main() -> tuple[Counts, Counts]:
        return await costs(tmp_path / "few", FEW), await costs(tmp_path / "many", MANY)

    few, many = asyncio.run(main())
    assert same(few, many) == {}
