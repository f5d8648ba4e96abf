"""Every form of a dataset gives the same rows, and a damaged one says so."""

import asyncio
import functools
import gzip
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import ParamSpec

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from hermes_batch import BatchRunner, DatasetError, dataset_formats, worker_process
from hermes_batch.dataset import read_dataset, scan_dataset
from hermes_batch.dataset_formats import LONGEST_LINE, dataset_lines, form_of
from hermes_batch.rows import BadRow, PromptRow
from hermes_batch.testing import ScriptedAgents, conversation

P = ParamSpec("P")


def in_a_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def body() -> None:
            await test(*args, **kwargs)

        asyncio.run(body())

    return run


def children() -> list[str]:
    """The processes that this one has started and not reaped."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


PROMPTS = [f"prompt {number} \u2028 大别山" for number in range(5000)]
SCORES = [number / 3 if number % 5 else float("nan") for number in range(5000)]
PLAIN = "".join(
    json.dumps({"prompt": text, "score": score}, ensure_ascii=False) + "\n"
    for text, score in zip(PROMPTS, SCORES, strict=True)
).encode()


def write_gzip(path: Path) -> None:
    half = PLAIN.index(b"\n", len(PLAIN) // 2) - 7  # two members, cut inside a line
    path.write_bytes(gzip.compress(PLAIN[:half]) + gzip.compress(PLAIN[half:]))


def write_zstd(path: Path) -> None:
    pack = zstandard.ZstdCompressor().compress
    path.write_bytes(pack(PLAIN[:70_001]) + pack(PLAIN[70_001:]))


def write_parquet(path: Path) -> None:
    pq.write_table(pa.table({"prompt": PROMPTS, "score": SCORES}), path, row_group_size=1000)


WRITERS = {"gzip": write_gzip, "zstd": write_zstd, "parquet": write_parquet}


@pytest.mark.parametrize("form", WRITERS)
@in_a_loop
async def test_every_form_gives_the_rows_of_the_plain_file(tmp_path: Path, form: str) -> None:
    plain, path = tmp_path / "plain.jsonl", tmp_path / "odd.name"
    plain.write_bytes(PLAIN)
    WRITERS[form](path)
    assert form_of(path.read_bytes()[:16]) == form
    async with aclosing(read_dataset(path)) as rows:
        found = [row async for row in rows]
    assert [row.turns for row in found if isinstance(row, PromptRow)] == [(text,) for text in PROMPTS]
    assert [row.metadata["score"] for row in found[:3] if isinstance(row, PromptRow)] == [None, 1 / 3, 2 / 3]
    assert (await scan_dataset(path)).hashes == (await scan_dataset(plain)).hashes
    assert len((await scan_dataset(path, max_samples=7)).hashes) == 7


@pytest.mark.parametrize(
    ("form", "complaint"), [("gzip", "cut off"), ("zstd", "cut off"), ("parquet", "Arrow")]
)
@in_a_loop
async def test_a_file_that_was_cut_off_is_refused_before_anything_runs(
    tmp_path: Path, form: str, complaint: str
) -> None:
    path = tmp_path / "data"
    WRITERS[form](path)
    os.truncate(path, path.stat().st_size - 9)
    agents = ScriptedAgents(lambda prompt: conversation(prompt, answer="a"))
    runner = BatchRunner(path, run_name="r", output_dir=tmp_path / "out", agent_factory=agents)
    with pytest.raises(DatasetError, match=complaint):
        await runner.run()
    assert not (tmp_path / "out").exists()
    assert agents.opened == 0


@pytest.mark.parametrize("form", ["gzip", "zstd"])
@in_a_loop
async def test_damaged_bytes_are_a_dataset_error(tmp_path: Path, form: str) -> None:
    path = tmp_path / "data"
    WRITERS[form](path)
    data = bytearray(path.read_bytes())
    data[40:80] = b"\xff" * 40
    path.write_bytes(data)
    with pytest.raises(DatasetError, match=r"damaged|cut off"):
        await scan_dataset(path)


@in_a_loop
async def test_a_line_that_would_fill_the_memory_is_one_row_that_can_not_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_formats, "LONGEST_LINE", 3 << 20)
    length = 5_000_000
    plain, packed = tmp_path / "rows", tmp_path / "rows.gz"
    with plain.open("wb") as file:
        file.truncate(length)
        file.seek(length)
        file.write(b'\n{"prompt": "a"}\n')
    packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
    for path in (plain, packed):
        async with aclosing(read_dataset(path)) as rows:
            long, good = [row async for row in rows]
        assert isinstance(long, BadRow)
        assert (long.line, long.reason) == (1, f"{length:,} bytes are too long for a row")
        assert long.content_hash == hashlib.sha256(bytes(length)).hexdigest()[:32]
        assert isinstance(good, PromptRow)
        assert (good.line, good.turns) == (2, ("a",))


@in_a_loop
async def test_a_packed_line_of_one_letter_is_not_unpacked_in_one_piece(tmp_path: Path) -> None:
    path = tmp_path / "rows.zst"
    packer = zstandard.ZstdCompressor().compressobj()
    long = [packer.compress(b"a" * (1 << 20)) for _ in range((LONGEST_LINE >> 20) + 1)]
    path.write_bytes(b"".join([*long, packer.compress(b'\n{"prompt": "a"}\n'), packer.flush()]))
    async with aclosing(read_dataset(path)) as rows:
        bad, good = [row async for row in rows]
    assert isinstance(bad, BadRow)
    assert bad.reason.endswith("bytes are too long for a row")
    assert isinstance(good, PromptRow)


@in_a_loop
async def test_a_form_whose_reader_is_not_installed_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.parquet"
    write_parquet(path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DatasetError, match=r"pip install 'hermes-batch\[parquet\]'"):
        await scan_dataset(path)


@in_a_loop
async def test_leaving_a_parquet_file_early_ends_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_parquet(path)
    before = children()
    async with aclosing(dataset_lines(path)) as lines:
        async for _ in lines:
            break
    assert children() == before


@in_a_loop
async def test_cancelling_a_scan_of_parquet_leaves_no_process(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_parquet(path)
    before = children()
    for turns in range(0, 40, 4):
        task = asyncio.create_task(scan_dataset(path))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert children() == before


@in_a_loop
async def test_a_reader_is_ended_whose_output_nobody_takes_any_more() -> None:
    command = [sys.executable, "-c", "print('x' * (1 << 22))"]
    process = await worker_process.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while not process.stdout._paused:  # type: ignore[attr-defined]  # noqa: ASYNC110 - it sends no event
            await asyncio.sleep(0.001)
        await worker_process.kill(process)
    assert process.returncode is not None


@in_a_loop
async def test_a_reader_is_reaped_whose_output_somebody_reads_meanwhile() -> None:
    process = await worker_process.start(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stderr is not None
    listening = asyncio.create_task(process.stderr.read())
    await asyncio.sleep(0)  # it reads now
    async with asyncio.timeout(60):
        await worker_process.kill(process)
    assert process.returncode is not None
    assert await listening == b""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@in_a_loop
async def test_a_reader_is_ended_with_what_it_started() -> None:
    """A child of it has the other end of the pipe, too, and would go on."""
    script = "import subprocess as s; print(s.Popen(['sleep', '600']).pid, flush=True); input()"
    process = await worker_process.start(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    child = int(await process.stdout.readline())
    async with asyncio.timeout(60):
        await worker_process.kill(process)
        while runs(child):  # noqa: ASYNC110 - it sends no event
            await asyncio.sleep(0.01)
    assert process.returncode is not None


@in_a_loop
async def test_an_end_that_nobody_tells_of_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "_REAP_LIMIT_S", 0.05)
    process = await worker_process.start(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    async def never() -> int:
        await asyncio.Event().wait()
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(process, "wait", never)
        async with asyncio.timeout(60):
            await worker_process.kill(process)
    await process.wait()
