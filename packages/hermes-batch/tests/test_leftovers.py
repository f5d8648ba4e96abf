"""What a killed run leaves where temporary files go is removed by the next run, and nothing else is."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from hermes_batch import BatchRunner
from hermes_batch.files import OwnDirectory, owned
from hermes_batch.testing import ScriptedAgents, conversation

PROGRAM = """
import asyncio, os, sys
from hermes_batch import BatchRunner
from hermes_batch.testing import ScriptedAgents, conversation

class Agents(ScriptedAgents):
    def create_agent(self, request):
        with open(os.path.join(request.cwd, "made by the row"), "w") as file:
            file.write("x")
        return super().create_agent(request)

async def behave(prompt):
    print(agents.requests[-1].cwd, flush=True)
    await asyncio.Event().wait()

agents = Agents(behave)
asyncio.run(BatchRunner(sys.argv[1], run_name=sys.argv[2], output_dir=sys.argv[3], require_reasoning=False,
    num_workers=1, agent_factory=agents).run(resume=True))
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go, and where they usually go: nobody else's are there."""
    place, usual = tmp_path / "temporary", tmp_path / "usual"
    place.mkdir()
    usual.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(owned, "_USUAL", str(usual))
    return place


@contextmanager
def running(tmp_path: Path, name: str, temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A run of a process of its own that hangs in a row, and the directory of that row."""
    dataset = tmp_path / "prompts.jsonl"
    dataset.write_text(json.dumps({"prompt": "p"}) + "\n")
    command = [sys.executable, "-c", PROGRAM, str(dataset), name, str(tmp_path / "data")]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def run(tmp_path: Path, name: str) -> None:
    agents = ScriptedAgents(lambda prompt: conversation(prompt, answer="done"))
    batch = BatchRunner(
        tmp_path / "prompts.jsonl", run_name=name, output_dir=tmp_path / "data", require_reasoning=False,
        agent_factory=agents,
    )  # fmt: skip
    assert asyncio.run(batch.run(resume=True)).ok == 1
    assert not Path(agents.requests[0].cwd).exists()


def test_directories_of_killed_runs_are_removed_and_those_of_live_ones_stay(
    tmp_path: Path, temporary: Path
) -> None:
    with ExitStack() as stack:
        killed, left = stack.enter_context(running(tmp_path, "killed", temporary))
        _, usual = stack.enter_context(running(tmp_path, "other", tmp_path / "usual"))
        alive, used = stack.enter_context(running(tmp_path, "alive", temporary))
        for directory in (left, usual, used):
            assert (directory / "made by the row").exists()
        killed.kill()
        killed.wait()
        run(tmp_path, "killed")
        assert not left.parent.exists()
        assert usual.exists()
        assert (used / "made by the row").exists()
        assert alive.poll() is None
    assert used.exists()
    assert usual.exists()
    run(tmp_path, "alive")  # goes on with another run that was killed, and is the first to come after all
    assert list(temporary.iterdir()) == []
    assert list((tmp_path / "usual").iterdir()) == []


def test_only_directories_that_are_really_ours_are_removed(tmp_path: Path, temporary: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    link, file, left = (temporary / f"hermes-rows-{digit * 32}" for digit in "123")
    link.symlink_to(kept)
    file.write_text("x")
    (left / "row").mkdir(parents=True)
    (temporary / "others").mkdir()
    (temporary / "hermes-rows-training").mkdir()  # what a person calls so is a person's
    owned.remove_abandoned("hermes-rows-")
    assert sorted(path.name for path in temporary.iterdir()) == [
        link.name,
        file.name,
        "hermes-rows-training",
        "others",
    ]
    assert (kept / "file").exists()


def test_a_tree_that_is_too_deep_to_be_removed_stops_no_run(temporary: Path) -> None:
    async def make_and_remove(depth: int) -> None:
        directory = await OwnDirectory.make("hermes-rows-")
        inner = os.open(directory.path, os.O_RDONLY)
        for _ in range(depth):
            os.mkdir("d", dir_fd=inner)
            outer, inner = inner, os.open("d", os.O_RDONLY, dir_fd=inner)
            os.close(outer)
        os.close(inner)
        await directory.remove()

    asyncio.run(make_and_remove(sys.getrecursionlimit() + 100))
    asyncio.run(make_and_remove(0))
    subprocess.run(["rm", "-rf", temporary], check=True)  # pytest can not


def test_one_that_is_made_while_others_clean_up_is_never_lost(temporary: Path) -> None:
    async def make_and_use(number: int) -> None:
        directory = await OwnDirectory.make("hermes-rows-")
        (directory.path / str(number)).touch()
        await asyncio.sleep(0)
        assert (directory.path / str(number)).exists()
        await directory.remove()
        await directory.remove()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(make_and_use(number))

    asyncio.run(main())
    assert list(temporary.iterdir()) == []


def test_a_cancelled_making_leaves_nothing(temporary: Path) -> None:
    async def main() -> None:
        for turns in range(12):
            making = asyncio.create_task(OwnDirectory.make("hermes-rows-"))
            for _ in range(turns):
                await asyncio.sleep(0)
            making.cancel()
            with suppress(asyncio.CancelledError):
                await (await making).remove()

    asyncio.run(main())
    assert list(temporary.iterdir()) == []
