"""In what order things reach the disk: a loss of power at any moment must find the rows, and never a name for
what is not there. The calls are those of the system, with a look at each as it passes."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import aiofiles.os
import pytest

from hermes_batch import BatchRunner
from hermes_batch.checkpoint import Checkpoint, write_checkpoint
from hermes_batch.files import AppendFile, replace_file
from hermes_batch.files import calls as file_calls
from hermes_batch.records import Record, decode_record
from hermes_batch.row_records import bad_row_record
from hermes_batch.rows import BadRow
from hermes_batch.shards import ShardWriter
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_messages.protocols import ConversationResult


def good(prompt: str) -> ConversationResult:
    return conversation(prompt, answer="fine", echo="x")


def record(index: int) -> Record:
    return bad_row_record(BadRow(index=index, line=index + 1, content_hash="h", reason="no JSON"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to the disk, in order: `write`, `sync`, `sync directory`, `rename`."""
    seen: list[str] = []

    write, fsync, replace = os.write, os.fsync, aiofiles.os.replace

    def look_at_write(fd: int, data: bytes) -> int:
        written = write(fd, data)
        if stat.S_ISREG(os.fstat(fd).st_mode):  # not what others write to a terminal or a pipe
            seen.append("write")
        return written

    def look_at_sync(fd: int) -> None:
        fsync(fd)
        seen.append("sync directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "sync")

    async def look_at_rename(*values: Any) -> None:
        await replace(*values)
        seen.append("rename")

    monkeypatch.setattr(os, "write", look_at_write)
    monkeypatch.setattr(file_calls, "write_fd", aiofiles.os.wrap(look_at_write))
    monkeypatch.setattr(os, "fsync", look_at_sync)
    monkeypatch.setattr(aiofiles.os, "replace", look_at_rename)
    return seen


def test_what_was_appended_is_synced_before_anybody_is_told(tmp_path: Path, calls: list[str]) -> None:
    async def append() -> None:
        file = await AppendFile.create(tmp_path / "shard")
        await file.append(b"one\n")
        assert calls == ["write", "sync"]
        await file.append(b"two\n")
        assert calls == ["write", "sync"] * 2
        await file.close()

    asyncio.run(append())


def test_a_new_shard_has_its_name_on_the_disk_before_its_first_row_counts(
    tmp_path: Path, calls: list[str]
) -> None:
    async def write() -> None:
        writer = ShardWriter(tmp_path, rows_per_shard=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(writer.run())
            await writer.append(record(0))
            assert calls == ["sync directory", "write", "sync"]
            await writer.append(record(1))
            assert calls == ["sync directory", "write", "sync"] * 2
            writer.close()

    asyncio.run(write())


def test_a_replaced_file_is_whole_on_the_disk_before_it_has_its_name(
    tmp_path: Path, calls: list[str]
) -> None:
    target = tmp_path / "target"
    target.write_text("old text")

    async def replace() -> None:
        async with replace_file(target) as write:
            await write(b"new")

    with target.open() as opened_before:
        asyncio.run(replace())
        assert calls == ["write", "sync", "rename", "sync directory"]
        assert opened_before.read() == "old text"  # never half of either
    assert target.read_text() == "new"


def test_two_that_replace_one_file_at_once_do_not_meet(tmp_path: Path) -> None:
    target = tmp_path / "target"

    async def replace(text: bytes, both: asyncio.Barrier) -> None:
        async with replace_file(target) as write:
            await write(text)
            await both.wait()
            await write(text)

    async def main() -> None:
        both = asyncio.Barrier(2)
        async with asyncio.TaskGroup() as group:
            group.create_task(replace(b"aa", both))
            group.create_task(replace(b"bb", both))

    asyncio.run(main())
    assert target.read_bytes() in (b"aaaa", b"bbbb")
    assert list(tmp_path.iterdir()) == [target]


def test_a_checkpoint_never_tells_of_a_row_that_is_in_no_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = tmp_path / "p.jsonl"
    dataset.write_text("".join(f'{{"prompt": "p{number}"}}\n' for number in range(330)))
    written: list[tuple[int, int]] = []

    async def look(path: Path, checkpoint: Checkpoint) -> None:
        lines = b"".join(shard.read_bytes() for shard in path.parent.glob("shards/*.jsonl")).split(b"\n")
        written.append((checkpoint.finished, sum(decode_record(line).status == "ok" for line in lines[:-1])))
        await write_checkpoint(path, checkpoint)

    monkeypatch.setattr("hermes_batch.runner.write_checkpoint", look)
    batch = BatchRunner(
        dataset, run_name="r", output_dir=tmp_path, require_reasoning=False,
        num_workers=1, agent_factory=ScriptedAgents(good),
    )  # fmt: skip
    assert asyncio.run(batch.run()).ok == 330
    assert written == [(100, 100), (200, 200), (300, 300), (330, 330)]


@pytest.mark.parametrize("told", ['{"run_name": "r", "finished": 3', "", None, "all"])
def test_a_checkpoint_that_lies_or_is_gone_changes_nothing(tmp_path: Path, told: str | None) -> None:
    """The shards are the truth: what they hold is not paid again, what they lack is run."""
    dataset, checkpoint = tmp_path / "p.jsonl", tmp_path / "r/checkpoint.json"
    dataset.write_text("".join(f'{{"prompt": "p{number}"}}\n' for number in range(3)))
    options: dict[str, Any] = {"run_name": "r", "output_dir": tmp_path, "require_reasoning": False}

    first = ScriptedAgents(good)
    asyncio.run(BatchRunner(dataset, max_samples=2, agent_factory=first, **options).run())
    match told:
        case None:
            checkpoint.unlink()
        case "all":
            checkpoint.write_text(checkpoint.read_text().replace('"finished": 2', '"finished": 3'))
        case _:
            checkpoint.write_text(told)
    second = ScriptedAgents(good)
    statistics = asyncio.run(BatchRunner(dataset, agent_factory=second, **options).run(resume=True))
    assert (statistics.ok, statistics.pending, len(second.requests)) == (3, 0, 1)
