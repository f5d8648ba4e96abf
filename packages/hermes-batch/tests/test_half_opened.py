"""What is opened or begun has an owner at once: a failure or a cancellation right after it leaves nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hermes_batch import files, shards, supervision
from hermes_batch.files import calls, owned
from hermes_batch.ray_engine import worker
from hermes_batch.ray_engine.own_cluster import holding
from hermes_batch.row_records import bad_row_record
from hermes_batch.rows import BadRow

RECORD = bad_row_record(BadRow(index=0, line=1, content_hash="h", reason="none"))


def open_below(directory: Path) -> list[Path]:
    """The files in `directory` that this process has open."""
    found: list[Path] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(descriptor.readlink())
    return [path for path in found if path.parent == directory]


def refuse(*_: object, **__: object) -> Any:
    raise OSError(errno.EIO, "Input/output error")


async def refuse_later(*_: object, **__: object) -> Any:
    refuse()


def test_a_shard_whose_directory_can_not_be_synced_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "sync_directory", refuse_later)

    async def main() -> None:
        writer = shards.ShardWriter(tmp_path, rows_per_shard=10)
        running = asyncio.create_task(writer.run())
        for _ in range(3):
            with pytest.raises(OSError, match="Input/output"):
                await writer.append(RECORD)
        assert open_below(tmp_path) == []
        writer.close()
        await running

    asyncio.run(main())


@pytest.mark.parametrize("patience_s", [0.0, 300.0])
def test_a_temporary_directory_that_comes_after_its_caller_went_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    monkeypatch.setattr(supervision, "PATIENCE_S", patience_s)
    began, may_go_on, made = threading.Event(), threading.Event(), tempfile.mkdtemp

    def slowly(*, prefix: str, dir: str) -> str:  # noqa: A002 - as mkdtemp has it
        began.set()
        may_go_on.wait()
        return made(prefix=prefix, dir=dir)

    monkeypatch.setattr(tempfile, "mkdtemp", slowly)

    async def main() -> None:
        making = asyncio.create_task(files.make_temporary_directory("x-", str(tmp_path)))
        while not began.is_set():  # noqa: ASYNC110 - it is set in a thread
            await asyncio.sleep(0.001)
        making.cancel()
        asyncio.get_running_loop().call_later(0.01, may_go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await making
        may_go_on.set()

    asyncio.run(main())  # which waits for its threads
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_can_not_be_locked_for_want_of_descriptors_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(owned, "_opened", refuse)
    with pytest.raises(OSError, match="Input/output"):
        asyncio.run(files.OwnDirectory.make("hermes-"))
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_file_that_can_not_be_closed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system tells a failed write when the file is closed."""

    async def close(fd: int) -> None:
        os.close(fd)
        refuse()

    async def main() -> None:
        async with files.replace_file(tmp_path / "target") as write:
            await write(b"half")
            monkeypatch.setattr(calls, "close_fd", close)
            raise ZeroDivisionError

    with pytest.raises(OSError, match="Input/output"):
        asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", ["free_ports", "command_of_cluster"])
def test_the_directory_of_a_cluster_that_is_never_started_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(holding, part, refuse)

    async def main() -> None:
        with pytest.raises(OSError, match="Input/output"):
            await holding._hold_one(1, (), asyncio.Event())

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_a_row_whose_call_was_cancelled_goes_on_while_its_worker_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []

    class Engine:
        def __init__(self) -> None:
            self.runs = asyncio.Event()

        async def run_row(self, row: Sequence[object]) -> None:
            self.runs.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)
                order.append("the row has ended")

        async def close(self) -> None:
            order.append("the engine is closed")

    async def main() -> None:
        running = worker.RowWorker()
        engine = Engine()
        monkeypatch.setattr(running, "_engine", engine)
        row = asyncio.create_task(running.run_row(1, b""))
        await engine.runs.wait()
        row.cancel()
        with pytest.raises(asyncio.CancelledError):
            await row
        await running.close()

    monkeypatch.setattr(worker, "decode_row", lambda row: row)
    asyncio.run(main())
    assert order == ["the row has ended", "the engine is closed"]
