"""Event loops of others lack what asyncio's own adds to the common interface."""

import asyncio
from typing import Any

import httpcore
import pytest

from hermes_providers.engines import sockets


class PlainLoop(asyncio.SelectorEventLoop):
    """A loop whose `create_connection` knows no staggered attempts, as that of uvloop."""

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        assert "happy_eyeballs_delay" not in options
        return await super().create_connection(*args, **options)


def test_a_connection_is_made_on_a_loop_without_staggered_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "BaseEventLoop", type("Own", (), {}))

    async def connect() -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            backend = sockets.Sockets()
            stream: httpcore.AsyncNetworkStream = await backend.connect_tcp("localhost", port, timeout=120.0)
            try:
                return await stream.read(5, timeout=120.0)
            finally:
                await stream.aclose()

    with asyncio.Runner(loop_factory=PlainLoop) as runner:
        assert runner.run(connect()) == b"hello"
