"""HTTP/2 against a real server of its own, where the extra `http2` is installed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import pytest

from hermes_messages import ErrorKind, ProviderError
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpProvider, from_profile
from tls_help import AUTHORITY, server_tls
from wire_help import KEY, answer, ask, collect, run, text_answer

if importlib.util.find_spec("h2") is not None:
    # By name, because the type checker runs where the extra is not installed.
    configuration: Any = importlib.import_module("h2.config").H2Configuration
    connections: Any = importlib.import_module("h2.connection").H2Connection
    events: Any = importlib.import_module("h2.events")

    class Http2Server:
        """Answers each request as its place in `plan` says; after that always whole. Keeps their headers."""

        def __init__(self, plan: Sequence[str] = ()) -> None:
            self._plan = list(plan)
            self._tls = server_tls(protocols=("h2",))
            self.requests: list[dict[str, str]] = []
            self.open = 0
            self.changed = asyncio.Condition()
            self.base_url = ""

        @asynccontextmanager
        async def running(self) -> AsyncIterator[Http2Server]:
            async with await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls) as server:
                self.base_url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
                yield self

        async def wait_for(self, what: Callable[[], bool]) -> None:
            async with self.changed:
                await asyncio.wait_for(self.changed.wait_for(what), 120)

        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.open += 1
            connection = connections(configuration(client_side=False, header_encoding="utf-8"))
            connection.initiate_connection()
            writer.write(connection.data_to_send())
            with suppress(ConnectionError):
                while data := await reader.read(65536):
                    for event in connection.receive_data(data):
                        if isinstance(event, events.RequestReceived):
                            self.requests.append(dict(event.headers))
                        elif isinstance(event, events.StreamEnded):
                            self._answer(connection, event.stream_id)
                    writer.write(connection.data_to_send())
                    await writer.drain()
                    async with self.changed:
                        self.changed.notify_all()
            writer.close()
            self.open -= 1
            async with self.changed:
                self.changed.notify_all()

        def _answer(self, connection: Any, stream: int) -> None:
            what = self._plan.pop(0) if self._plan else "whole"
            status = "429" if what == "limited" else "200"
            connection.send_headers(stream, [(":status", status), ("content-type", "text/event-stream")])
            body = text_answer("over ", "two")
            half = len(body) // 2
            connection.send_data(stream, body[:half])
            match what:
                case "reset":
                    connection.reset_stream(stream, error_code=2)
                case "whole" | "limited":
                    connection.send_data(stream, body[half:], end_stream=True)
                case _:  # "half": the rest never comes
                    pass

    def provider_at(server: Http2Server, **settings: Any) -> HttpProvider:
        settings = {"http2": True, "ca_file": AUTHORITY, **settings}
        options = ProviderOptions(base_url=server.base_url, api_key=KEY, settings=settings)
        return from_profile("custom", options)

    @pytest.mark.parametrize("keep_alive", [None, False])
    def test_stream_over_http2(keep_alive: bool | None) -> None:
        async def main() -> None:
            async with Http2Server().running() as server:
                provider = provider_at(server, keep_alive=keep_alive)
                for _ in range(3):
                    assert (await answer(provider)).message.content == "over two"
                assert server.requests[0][":path"] == "/v1/chat/completions"
                assert server.requests[0]["authorization"] == f"Bearer {KEY}"
                assert "connection" not in server.requests[0]
                await provider.close()
                await server.wait_for(lambda: server.open == 0)

        run(main())

    @pytest.mark.parametrize("how", ["cancelled", "broken off", "timed out", "limited", "reset"])
    def test_two_connections_outlast_five_cancelled_streams(how: str) -> None:
        async def main() -> None:
            plan = {"limited": "limited", "reset": "reset"}.get(how, "half")
            async with Http2Server([plan] * 5).running() as server:
                limit = 0.1 if how == "timed out" else 20
                provider = provider_at(server, max_connections=2, between_events_s=limit)
                for number in range(1, 6):
                    await unfinished(how, server, provider, number)
                    if how != "limited":  # the one tidy end among them
                        await server.wait_for(lambda: server.open == 0)
                async with asyncio.timeout(120):
                    assert (await answer(provider)).message.content == "over two"
                await provider.close()
                await server.wait_for(lambda: server.open == 0)

        run(main())

    async def unfinished(how: str, server: Http2Server, provider: HttpProvider, number: int) -> None:
        if how == "cancelled":
            task = asyncio.ensure_future(collect(provider))
            await server.wait_for(lambda: len(server.requests) >= number)
            for _ in range(2):
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
        elif how == "broken off":
            async with aclosing(provider.stream(ask())) as deltas:
                async for _delta in deltas:
                    break
        else:
            kinds = {"timed out": ErrorKind.TIMEOUT, "limited": ErrorKind.RATE_LIMIT}
            with pytest.raises(ProviderError) as caught:
                await collect(provider)
            assert caught.value.kind is kinds.get(how, ErrorKind.TRANSPORT)
