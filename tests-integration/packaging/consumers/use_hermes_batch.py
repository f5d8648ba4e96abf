"""A program on hermes-batch: agents of its own make a dataset, and progress is shown in its own way."""

import asyncio
import tempfile
from pathlib import Path

from hermes_batch import BatchRunner, BatchStatistics, DatasetError, Progress, Record
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_messages.protocols import AgentFactory, ConversationResult


class Quiet:
    """Counts rows."""

    def __init__(self) -> None:
        self.rows: list[Record] = []

    def begin(self, total: int, finished: int) -> None:
        print(total, finished)

    def row(self, record: Record) -> None:
        self.rows.append(record)

    def message(self, text: str) -> None:
        print(text)

    def end(self) -> None:
        print(len(self.rows))


async def answer(prompt: str) -> ConversationResult:
    return conversation(prompt, answer=f"{prompt}, of course")


async def main(folder: Path) -> None:
    dataset = folder / "prompts.jsonl"
    dataset.write_text('{"prompt": "one"}\n{"prompt": "two"}\n')
    agents: AgentFactory = ScriptedAgents(answer)
    progress: Progress = Quiet()
    runner = BatchRunner(
        dataset,
        run_name="first",
        num_workers=2,
        output_dir=folder / "data",
        agent_factory=agents,
        progress=progress,
        require_reasoning=False,
    )
    statistics: BatchStatistics = await runner.run()
    assert (statistics.total, statistics.ok) == (2, 2)
    try:
        await BatchRunner(folder / "none.jsonl", output_dir=folder, agent_factory=agents).run()
    except DatasetError as error:
        print(error)


with tempfile.TemporaryDirectory() as place:
    asyncio.run(main(Path(place)))
