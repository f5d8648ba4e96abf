"""The store keeps the promises of the Protocols, as the shared suite checks them."""

import asyncio
from itertools import count
from pathlib import Path

from hermes_messages.testing import check_store
from hermes_store import SessionDB


def test_the_promises_of_the_protocols(tmp_path: Path) -> None:
    numbers = count()
    latest = tmp_path

    def make() -> SessionDB:
        nonlocal latest
        latest = tmp_path / f"{next(numbers)}.db"
        return SessionDB(latest)

    asyncio.run(check_store(make, reopen=lambda: SessionDB(latest), limit_s=600))


def test_the_promises_also_without_the_search_index(tmp_path: Path) -> None:
    numbers = count()
    make = lambda: SessionDB(tmp_path / f"{next(numbers)}.db", search_index=False)  # noqa: E731
    asyncio.run(check_store(make, limit_s=600))
