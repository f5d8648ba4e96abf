"""Random operations, cancellations and reopenings on PostgreSQL: the answers of a store in memory."""

import asyncio
from itertools import count

import pytest
from hypothesis.stateful import run_state_machine_as_test

from hermes_store import SessionDB
from postgres.server import Server
from postgres.test_both_back_ends import load

model = load("test_against_model")
_numbers = count()


@pytest.mark.timeout(5400)
def test_the_server_answers_as_the_model(server: Server) -> None:
    class PostgresMachine(model.StoreMachine):  # type: ignore[misc, name-defined]
        resumptions = 8  # a call crosses the loop more often here

        def __init__(self) -> None:
            self.schema = f"model_{next(_numbers)}"
            super().__init__()

        def open_store(self) -> SessionDB:
            return SessionDB(server.dsn(), schema=self.schema, pool_size=3)

        def teardown(self) -> None:
            super().teardown()
            asyncio.run(server.ask(f'DROP SCHEMA IF EXISTS "{self.schema}" CASCADE'))

    run_state_machine_as_test(PostgresMachine, settings=model.SETTINGS)
