"""How far workers go ahead of the disk: what a kill would cost beside the rows that run."""

import asyncio
from pathlib import Path

import pytest

from hermes_batch import BatchRunner
from hermes_batch.files import calls
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_messages.protocols import ConversationResult

LIMIT_S = 60


def good(prompt: str) -> ConversationResult:
    return conversation(prompt, answer="fine", echo="x")


@pytest.mark.parametrize(("workers", "begun"), [(1, 1), (4, 4), (9, 9), (10, 14), (20, 29)])
def test_while_the_disk_stands_still_no_more_rows_are_begun_than_is_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, begun: int
) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(f'{{"prompt": "p{number}"}}\n' for number in range(100)))
    agents = ScriptedAgents(good)
    plain = calls.fsync

    async def main() -> None:
        turning = asyncio.Event()

        async def stand_still(fd: int) -> None:
            await turning.wait()
            await plain(fd)

        monkeypatch.setattr(calls, "fsync", stand_still)
        batch = BatchRunner(
            path, run_name="run", output_dir=tmp_path, require_reasoning=False, num_workers=workers,
            agent_factory=agents,
        )  # fmt: skip
        running = asyncio.create_task(batch.run())
        async with asyncio.timeout(LIMIT_S):
            while len(agents.requests) < begun or not all(one.closed for one in agents.agents):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        for _ in range(500):
            await asyncio.sleep(0)
        assert len(agents.requests) == begun
        turning.set()
        assert (await running).ok == 100

    asyncio.run(main())
