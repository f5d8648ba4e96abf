"""The store keeps the promises of the Protocols on PostgreSQL, as the shared suite checks them."""

import asyncio
from itertools import count

from hermes_messages.testing import check_store
from hermes_store import SessionDB
from postgres.server import Server


def test_the_promises_of_the_protocols(server: Server, schema: str) -> None:
    numbers = count()
    latest = schema

    def make() -> SessionDB:
        nonlocal latest
        latest = f"{schema}_{next(numbers)}"
        return SessionDB(server.dsn(), schema=latest)

    reopen = lambda: SessionDB(server.dsn(), schema=latest)  # noqa: E731
    asyncio.run(check_store(make, reopen=reopen, limit_s=600))
