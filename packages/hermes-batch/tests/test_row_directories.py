"""The directories of rows are new, and those that were given back do not stay."""

import asyncio
import stat
from pathlib import Path

import pytest

from hermes_batch.row_directories import RowDirectories


def names_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def write_file_in(directory: str) -> None:
    Path(directory, "file").write_text("x")


def test_each_row_gets_an_empty_directory_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        directories = RowDirectories(tmp_path, 4)
        names = await asyncio.gather(*(directories.take() for _ in range(30)))
        taken = [Path(name) for name in names]
        assert len(set(taken)) == 30
        for path in taken:
            assert path.parent == tmp_path
            assert list(path.iterdir()) == []
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        (taken[0] / "file").write_text("x")
        (taken[1] / "folder/deeper").mkdir(parents=True)
        for name in names:
            await directories.give_back(name)
        again = await directories.take()
        assert again not in names, "what an earlier row left running may still write to its directory"
        await directories.give_back(again)
        await directories.close()

    asyncio.run(main())


def test_no_row_gets_a_directory_that_can_not_be_made_and_the_next_may_have_better_luck(
    tmp_path: Path,
) -> None:
    place = tmp_path / "place"
    place.mkdir()

    async def main() -> None:
        directories = RowDirectories(place, 2)
        await directories.prepare()
        place.rename(tmp_path / "elsewhere")
        await directories.take()
        await directories.take()
        with pytest.raises(FileNotFoundError):
            await directories.take()
        place.mkdir()
        assert Path(await directories.take()).parent == place
        await directories.close()

    asyncio.run(main())


def test_what_rows_leave_does_not_pile_up(tmp_path: Path) -> None:
    async def main() -> None:
        directories = RowDirectories(tmp_path, 1)
        for _ in range(20):
            name = await directories.take()
            write_file_in(name)
            await directories.give_back(name)
            assert sum((left / "file").exists() for left in names_in(tmp_path)) <= 2
        await directories.close()
        assert names_in(tmp_path) == []

    asyncio.run(main())
