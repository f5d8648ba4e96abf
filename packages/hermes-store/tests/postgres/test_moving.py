"""Sessions move between SQLite and PostgreSQL, and back, without a byte of difference."""

import asyncio
from pathlib import Path

from hermes_store import SessionDB
from postgres.server import MakeStore
from postgres.test_both_back_ends import load

transfer, state_files = load("test_transfer"), load("test_hermes_state_files")


def test_from_sqlite_to_postgres_and_back(make_store: MakeStore, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            SessionDB(tmp_path / "a.db") as first,
            make_store() as through,
            SessionDB(tmp_path / "b.db") as back,
        ):
            await transfer.check_round_trip(first, through, back, tmp_path)

    asyncio.run(main())


def test_from_postgres_to_sqlite_and_back(make_store: MakeStore, schema: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            make_store() as first,
            SessionDB(tmp_path / "a.db") as through,
            make_store(schema=f"{schema}_back") as back,
        ):
            await transfer.check_round_trip(first, through, back, tmp_path)

    asyncio.run(main())


def test_the_file_of_hermes_agent_goes_into_postgres_as_into_sqlite(
    make_store: MakeStore, tmp_path: Path
) -> None:
    state_files.make_hermes_state(tmp_path / "state.db")

    async def main() -> None:
        async with make_store() as db, SessionDB(tmp_path / "s.db") as file:
            for store in (db, file):
                report = await store.import_hermes_state(tmp_path / "state.db")
                assert report.sessions == 2
            for store, name in ((db, "1"), (file, "2")):
                await store.export_to_file(tmp_path / name)

    asyncio.run(main())
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
