"""The records of a run on disk."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from hermes_batch.packed import FinishedRows
from hermes_batch.records import Record, decode_record, encode_record
from hermes_batch.row_records import bad_row_record
from hermes_batch.rows import BadRow
from hermes_batch.shards import RecordReader, ShardWriter, mend_torn_tails, scan_recorded, shard_names


def record(index: int) -> Record:
    return bad_row_record(BadRow(index=index, line=index + 1, content_hash=f"h{index}", reason="x\u2028y"))


async def write(
    shard_dir: Path, indices: range, *, rows_per_shard: int = 100, recorded: FinishedRows | None = None
) -> None:
    writer = ShardWriter(shard_dir, rows_per_shard=rows_per_shard, recorded=recorded)
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.run())
        async with asyncio.TaskGroup() as appenders:
            for index in indices:
                appenders.create_task(writer.append(record(index)))
        writer.close()


async def indices_in(shard_dir: Path) -> list[int]:
    return [place.index for place in (await scan_recorded(shard_dir)).records]


def test_a_record_is_one_line_and_reads_back_as_it_was() -> None:
    one = record(1)
    line = encode_record(one)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_record(line) == one


def test_concurrent_appends_are_all_there_in_shards_of_the_given_size(tmp_path: Path) -> None:
    asyncio.run(write(tmp_path, range(25), rows_per_shard=10))
    assert sorted(asyncio.run(indices_in(tmp_path))) == list(range(25))
    counts = [path.read_bytes().count(b"\n") for path in sorted(tmp_path.iterdir())]
    assert counts == [10, 10, 5]


def test_what_was_written_is_known_as_a_scan_of_the_shards_would_find_it(tmp_path: Path) -> None:
    async def main() -> None:
        await write(tmp_path, range(3))
        known = (await scan_recorded(tmp_path)).records
        await write(tmp_path, range(3, 28), rows_per_shard=10, recorded=known)
        assert list(known) == list((await scan_recorded(tmp_path)).records)
        async with RecordReader(tmp_path) as read:
            assert [one.prompt_index for one in await read(list(known))] == [place.index for place in known]

    asyncio.run(main())


def test_a_second_process_starts_new_shards(tmp_path: Path) -> None:
    asyncio.run(write(tmp_path, range(2)))
    before = (tmp_path / "shard-00001.jsonl").read_bytes()
    asyncio.run(write(tmp_path, range(2, 4)))
    assert asyncio.run(shard_names(tmp_path)) == ["shard-00001.jsonl", "shard-00002.jsonl"]
    assert (tmp_path / "shard-00001.jsonl").read_bytes() == before


def test_a_shard_that_is_gone_leaves_its_name_and_those_after_it_alone(tmp_path: Path) -> None:
    asyncio.run(write(tmp_path, range(6), rows_per_shard=2))
    (tmp_path / "shard-00001.jsonl").unlink()
    before = (tmp_path / "shard-00003.jsonl").read_bytes()
    asyncio.run(write(tmp_path, range(6, 8)))
    names = ["shard-00002.jsonl", "shard-00003.jsonl", "shard-00004.jsonl"]
    assert asyncio.run(shard_names(tmp_path)) == names
    assert (tmp_path / "shard-00003.jsonl").read_bytes() == before


def test_a_torn_tail_is_set_aside_and_whole_lines_are_kept(tmp_path: Path) -> None:
    asyncio.run(write(tmp_path, range(3)))
    shard = tmp_path / "shard-00001.jsonl"
    whole = shard.read_bytes()
    torn = encode_record(record(9))[:40]
    shard.write_bytes(whole + torn)
    assert asyncio.run(mend_torn_tails(tmp_path)) == ["shard-00001.jsonl"]
    assert shard.read_bytes() == whole
    assert shard.with_suffix(".torn").read_bytes() == torn
    assert asyncio.run(mend_torn_tails(tmp_path)) == []


def test_a_torn_tail_longer_than_many_reads_is_set_aside_whole(tmp_path: Path) -> None:
    whole, torn = encode_record(record(0)), b"x" * (3 * 2**20 + 1)
    shard = tmp_path / "shard-00001.jsonl"
    shard.write_bytes(whole + torn)
    assert asyncio.run(mend_torn_tails(tmp_path)) == ["shard-00001.jsonl"]
    assert shard.read_bytes() == whole
    assert shard.with_suffix(".torn").read_bytes() == torn
    shard.write_bytes(torn)
    asyncio.run(mend_torn_tails(tmp_path))
    assert shard.read_bytes() == b""


def test_a_record_whose_line_feed_alone_is_missing_is_torn_too(tmp_path: Path) -> None:
    asyncio.run(write(tmp_path, range(2)))
    shard = tmp_path / "shard-00001.jsonl"
    shard.write_bytes(shard.read_bytes()[:-1])
    asyncio.run(mend_torn_tails(tmp_path))
    assert asyncio.run(indices_in(tmp_path)) == [0]


def test_what_a_failed_write_left_is_not_continued_by_the_next_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room on the disk may come back while other records wait: together the two would be one damaged line,
    and a record lost that somebody was told is safe."""
    real = os.write

    def full_in_the_middle(fd: int, data: memoryview) -> int:
        if bytes(data).startswith(b'{"prompt_index":1,'):
            real(fd, data[:30])
            raise OSError(errno.ENOSPC, "no space")
        return real(fd, data)

    async def write_three() -> None:
        writer = ShardWriter(tmp_path, rows_per_shard=100)
        async with asyncio.TaskGroup() as group:
            group.create_task(writer.run())
            await writer.append(record(0))
            with pytest.raises(OSError, match="no space"):
                await writer.append(record(1))
            await writer.append(record(2))
            writer.close()

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_in_the_middle)
        asyncio.run(write_three())
    assert asyncio.run(mend_torn_tails(tmp_path)) == ["shard-00001.jsonl"]
    found = asyncio.run(scan_recorded(tmp_path))
    assert ([place.index for place in found.records], found.damaged) == ([0, 2], 0)


def test_a_damaged_line_in_the_middle_costs_only_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(write(tmp_path, range(3)))
    shard = tmp_path / "shard-00001.jsonl"
    lines = shard.read_bytes().splitlines(keepends=True)
    shard.write_bytes(lines[0] + b"\x00" * 50 + b"\n" + lines[2])
    assert asyncio.run(indices_in(tmp_path)) == [0, 2]
    assert "not a record" in caplog.text


def test_records_are_read_at_their_places(tmp_path: Path) -> None:
    asyncio.run(write(tmp_path, range(7), rows_per_shard=3))

    async def read_all() -> list[int]:
        async with RecordReader(tmp_path) as read:
            places = list((await scan_recorded(tmp_path)).records)
            return [record.prompt_index for record in await read(places[::-1])]

    assert asyncio.run(read_all()) == list(range(7))[::-1]
