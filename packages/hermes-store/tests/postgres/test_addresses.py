"""An address holds a password, which nothing shows."""

import asyncio
import logging
import pickle
import traceback

import pytest
from quiet_port import quiet_port

from hermes_messages import ConfigurationError, StoreError
from hermes_store import SessionDB, StoreConnectionError
from hermes_store.entry_points import postgres
from hermes_store.postgres import PostgresBackend
from hermes_store.postgres_dsn import Dsn, is_dsn
from postgres.server import Server

SECRET = "hunter2+x"


def shown(value: object) -> str:
    return "\n".join([repr(value), str(value), f"{value!a}"])


def test_what_an_address_is() -> None:
    assert is_dsn("postgresql://localhost/db")
    assert is_dsn("POSTGRES://localhost/db")
    assert not is_dsn("state.db")
    assert not is_dsn("file:state.db?mode=ro")
    assert Dsn("postgresql://").name == "postgresql:///"


def test_a_store_shows_no_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    db = postgres(f"postgres://ann:{SECRET}@127.0.0.1:{quiet_port()}/d?sslmode=disable")
    assert isinstance(db, SessionDB)
    assert isinstance(db._backend, PostgresBackend)

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(StoreConnectionError) as caught:
                await db.get_session("s")
            text = "".join(traceback.format_exception(caught.value))
            assert SECRET not in text
            assert "ann@127.0.0.1" in text
        await db.close()

    asyncio.run(main())
    assert "ann@127.0.0.1" in shown(db)
    assert SECRET not in shown(db) + shown(db._backend._dsn) + db.path + caplog.text
    assert "password" not in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://ann:{SECRET}@[::1/db",
        f"postgresql://ann:{SECRET}%zz@host/db",
        f"postgresql://host/db?password={SECRET}&nonsense=1",
    ],
)
def test_a_bad_address_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match="percent codes") as caught:
        SessionDB(text)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None


def test_bad_options_are_refused_before_anything_is_opened() -> None:
    for options in ({"schema": 'x"; DROP'}, {"schema": "pg_x"}, {"schema": ""}, {"pool_size": 0}):
        with pytest.raises(ConfigurationError):
            SessionDB("postgresql://localhost/db", **options)


def test_secrets_are_masked_as_written_and_as_meant() -> None:
    dsn = Dsn("postgresql://ann:p%40ss@host/db")
    assert dsn.mask("p@ss p%40ss") == "*** ***"
    assert "p%40ss" in dsn.reveal()
    assert "p%40ss" not in repr(dsn)
    with pytest.raises(TypeError, match="password"):
        pickle.dumps(dsn)


def test_a_wrong_password_is_a_typed_error_without_it(server: Server) -> None:
    wrong = server.dsn().replace("s3cret", SECRET)

    async def main() -> None:
        with pytest.raises(StoreConnectionError, match="authentication failed") as caught:
            async with SessionDB(wrong):
                pass
        assert SECRET not in "".join(traceback.format_exception(caught.value))

    asyncio.run(main())


def test_a_database_that_is_not_there_is_a_typed_error(server: Server) -> None:
    async def main() -> None:
        with pytest.raises(StoreError, match="does not exist"):
            async with SessionDB(server.dsn("absent")):
                pass

    asyncio.run(main())


def test_a_server_whose_machine_is_gone_is_given_up_after_a_minute(server: Server, schema: str) -> None:
    """Where nobody says that it is gone, the system would wait for hours. The address may say else."""

    async def settings_of(address: str) -> dict[str, str]:
        db = SessionDB(address, schema=schema)
        async with db:
            await db.create_session("s" + address)
            assert isinstance(db._backend, PostgresBackend)
            link = db._backend._link
            assert link is not None
            [connection, *_] = link.connections
            return connection.info.get_parameters()

    async def main() -> None:
        found = await settings_of(server.dsn())
        assert (found["tcp_user_timeout"], found["keepalives_idle"]) == ("60000", "30")
        found = await settings_of(server.dsn(tcp_user_timeout="5000"))
        assert (found["tcp_user_timeout"], found["keepalives_idle"]) == ("5000", "30")

    asyncio.run(main())
