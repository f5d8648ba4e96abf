"""HTTP/2 against a real server of its own, where the extra `http2` is installed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import ssl
from pathlib import Path
from typing import Any

import pytest

from hermes_messages.protocols import ProviderOptions
from hermes_providers import from_profile
from wire_help import KEY, answer, run, text_answer

FILES = Path(__file__).parent.parent / "tls"

if importlib.util.find_spec("h2") is not None:
    # By name, because the type checker runs where the extra is not installed.
    configuration: Any = importlib.import_module("h2.config").H2Configuration
    connections: Any = importlib.import_module("h2.connection").H2Connection
    events: Any = importlib.import_module("h2.events")

    class Http2Server:
        """Answers every stream with the same body, in two frames. Keeps the headers of each request."""

        def __init__(self, body: bytes) -> None:
            self._body = body
            self.requests: list[dict[str, str]] = []

        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = connections(configuration(client_side=False, header_encoding="utf-8"))
            connection.initiate_connection()
            writer.write(connection.data_to_send())
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    if isinstance(event, events.RequestReceived):
                        self.requests.append(dict(event.headers))
                    elif isinstance(event, events.StreamEnded):
                        self._answer(connection, event.stream_id)
                writer.write(connection.data_to_send())
                await writer.drain()
            writer.close()

        def _answer(self, connection: Any, stream: int) -> None:
            connection.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream")])
            half = len(self._body) // 2
            connection.send_data(stream, self._body[:half])
            connection.send_data(stream, self._body[half:], end_stream=True)

    @pytest.mark.parametrize("keep_alive", [None, False])
    def test_stream_over_http2(keep_alive: bool | None) -> None:
        async def main() -> None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(FILES / "server.pem", FILES / "server-key.pem")
            tls.set_alpn_protocols(["h2"])
            host = Http2Server(text_answer("over ", "two"))
            async with await asyncio.start_server(host.serve, "127.0.0.1", 0, ssl=tls) as server:
                port = server.sockets[0].getsockname()[1]
                provider = from_profile(
                    "custom",
                    ProviderOptions(
                        base_url=f"https://127.0.0.1:{port}/v1",
                        api_key=KEY,
                        settings={
                            "http2": True,
                            "ca_file": str(FILES / "authority.pem"),
                            "keep_alive": keep_alive,
                        },
                    ),
                )
                for _ in range(2):
                    assert (await answer(provider)).message.content == "over two"
                assert host.requests[0][":path"] == "/v1/chat/completions"
                assert host.requests[0]["authorization"] == f"Bearer {KEY}"
                await provider.close()

        run(main())
