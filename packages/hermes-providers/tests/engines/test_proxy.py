"""Real proxies on loopback: forwarding, a tunnel, SOCKS, and what stands in the environment."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from byte_server import ByteServer, Hold, plain, stream
from hermes_messages import ConfigurationError, ErrorKind, MissingDependencyError, ProviderError
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpProvider, from_profile
from tls_help import AUTHORITY, server_tls
from wire_help import KEY, answer, collect, run, text_answer

OK = stream(text_answer("ok"))


def provider_at(base_url: str, engine: str, **settings: Any) -> HttpProvider:
    settings = {"engine": engine, "ca_file": AUTHORITY, **settings}
    return from_profile("custom", ProviderOptions(base_url=base_url, api_key=KEY, settings=settings))


@dataclass
class Tunnels:
    """What a proxy was asked for, and how many of its connections are open."""

    port: int = 0
    asked: list[bytes] = field(default_factory=list)
    open: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _join(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int, greeting: bytes
) -> None:
    far_reader, far_writer = await asyncio.open_connection(host, port)
    writer.write(greeting)
    await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


@asynccontextmanager
async def proxy(refusal: bytes | None = None) -> AsyncIterator[Tunnels]:
    """A proxy that opens tunnels (CONNECT, or SOCKS 5 by RFC 1928 and 1929), or refuses to."""
    tunnels = Tunnels()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tunnels.open += 1
        try:
            first = await reader.readexactly(1)
            if first == b"\x05":
                await _socks(reader, writer)
            else:
                asked = first + await reader.readuntil(b"\r\n\r\n")
                tunnels.asked.append(asked)
                host, _, port = asked.split(b" ")[1].decode().partition(":")
                if refusal is None:
                    await _join(reader, writer, host, int(port), b"HTTP/1.1 200 Fine\r\n\r\n")
                else:
                    writer.write(refusal)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            tunnels.open -= 1
            tunnels.closed.set()

    async def _socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        who = b""
        if 2 in methods:
            writer.write(b"\x05\x02")
            await reader.readexactly(1)
            user = await reader.readexactly((await reader.readexactly(1))[0])
            who = user + b":" + await reader.readexactly((await reader.readexactly(1))[0])
            writer.write(b"\x01\x00")
        else:
            writer.write(b"\x05\x00")
        kind = (await reader.readexactly(4))[3]
        if kind == 1:
            host = ".".join(map(str, await reader.readexactly(4)))
        else:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        port = int.from_bytes(await reader.readexactly(2), "big")
        tunnels.asked.append(b"SOCKS " + f"{host}:{port} ".encode() + who)
        await _join(reader, writer, host, port, b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    tunnels.port = server.sockets[0].getsockname()[1]
    async with server:
        yield tunnels


def test_proxy_gets_the_whole_address_and_its_own_password(engine: str) -> None:
    async def main() -> None:
        async with ByteServer([OK]) as server:
            address = server.base_url.removesuffix("/v1").replace("http://", "http://user:hunter2@")
            provider = provider_at("http://far.example/v1", engine, proxy=address)
            assert (await answer(provider)).message.content == "ok"
            request = server.requests[0]
            assert request.line == "POST http://far.example/v1/chat/completions HTTP/1.1"
            assert request.headers["proxy-authorization"] == "Basic dXNlcjpodW50ZXIy"
            assert request.headers["host"] == "far.example"
            assert "hunter2" in provider.secret_values()
            await provider.close()

    run(main())


def test_tunnel_hides_the_key_from_the_proxy(engine: str) -> None:
    async def main() -> None:
        async with ByteServer([OK], tls=server_tls()) as server, proxy() as tunnels:
            address = f"http://us%40er:hunter2@127.0.0.1:{tunnels.port}"
            provider = provider_at(server.base_url, engine, proxy=address)
            for _ in range(2):
                assert (await answer(provider)).message.content == "ok"
            assert len(tunnels.asked) == server.connections == 1  # the tunnel is kept
            place = server.base_url.removeprefix("https://").removesuffix("/v1")
            assert tunnels.asked[0].startswith(f"CONNECT {place} HTTP/1.1\r\n".encode())
            assert b"Basic dXNAZXI6aHVudGVyMg==" in tunnels.asked[0]
            assert KEY.encode() not in tunnels.asked[0]
            await provider.close()
            await server.wait_until_open(0)

    run(main())


def test_nothing_secret_is_logged_however_much_is_logged(
    engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        refused = plain(b'{"error":{"message":"no"}}', "401 Unauthorized")
        async with ByteServer([OK, refused], tls=server_tls()) as server, proxy() as tunnels:
            address = f"http://user:hunter2@127.0.0.1:{tunnels.port}"
            provider = provider_at(server.base_url, engine, proxy=address, headers={"x-own": "own-secret-1"})
            assert (await answer(provider)).message.content == "ok"
            with pytest.raises(ProviderError):
                await answer(provider)
            await provider.close()

    with caplog.at_level(logging.DEBUG):
        run(main())
    for secret in (KEY, "hunter2", "dXNlcjpodW50ZXIy", "own-secret-1"):
        assert secret not in caplog.text


@pytest.mark.parametrize("status", [b"407 Proxy Authentication Required", b"502 Bad Gateway"])
def test_proxy_that_refuses_is_a_transport_error_that_says_so(engine: str, status: bytes) -> None:
    async def main() -> None:
        async with proxy(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n") as tunnels:
            address = f"http://user:hunter2@127.0.0.1:{tunnels.port}"
            provider = provider_at("https://far.example/v1", engine, proxy=address)
            with pytest.raises(ProviderError, match=r"the proxy before far\.example") as caught:
                await answer(provider)
            assert caught.value.kind is ErrorKind.TRANSPORT
            assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"
            await provider.close()

    run(main())


def test_cancel_within_a_tunnel_leaves_no_connection_to_the_proxy(engine: str) -> None:
    async def main() -> None:
        hold = Hold()
        async with ByteServer([[hold], OK], tls=server_tls()) as server, proxy() as tunnels:
            address = f"http://127.0.0.1:{tunnels.port}"
            provider = provider_at(server.base_url, engine, proxy=address, max_connections=1)
            task = asyncio.ensure_future(collect(provider))
            await hold.reached.wait()
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(tunnels.closed.wait(), 120)
            assert (await answer(provider)).message.content == "ok"
            await provider.close()
            await server.wait_until_open(0)

    run(main())


@pytest.mark.parametrize("through", [True, False])
def test_environment_says_which_hosts_go_through_the_proxy(
    engine: str, through: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with ByteServer([OK]) as server, ByteServer([plain(b"", "503 No")]) as other:
            monkeypatch.setenv("HTTP_PROXY", (other if through else server).base_url.removesuffix("/v1"))
            monkeypatch.setenv("NO_PROXY", "" if through else "far.example,127.0.0.1")
            provider = provider_at(server.base_url, engine)
            if through:
                with pytest.raises(ProviderError):
                    await answer(provider)
                assert other.requests[0].line.startswith("POST http://127.0.0.1:")
            else:
                assert (await answer(provider)).message.content == "ok"
                assert server.requests[0].line.startswith("POST /v1/")
            await provider.close()

    for name in ("http_proxy", "no_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    run(main())


@pytest.mark.parametrize(
    "address", ["socks://u:hunter2@127.0.0.1:10808", "http://", "http://a b:1", "ftp://a"]
)
def test_proxy_that_can_not_be_used_is_told_at_open(
    engine: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        for settings in ({"proxy": address}, {}):
            with pytest.raises(ConfigurationError, match="nothing was sent") as caught:
                await provider_at("http://h.example/v1", engine, **settings).open()
            assert "hunter2" not in str(caught.value)

    monkeypatch.setenv("ALL_PROXY", address)
    run(main())


@pytest.mark.parametrize("who", ["", "user:hunter2@"])
def test_socks_is_an_extra(who: str) -> None:
    async def main() -> None:
        async with ByteServer([OK], tls=server_tls()) as server, proxy() as tunnels:
            provider = provider_at(server.base_url, "httpx", proxy=f"socks5://{who}127.0.0.1:{tunnels.port}")
            if importlib.util.find_spec("socksio") is None:
                with pytest.raises(MissingDependencyError, match=r"hermes-providers\[socks\]"):
                    await provider.open()
            else:
                assert (await answer(provider)).message.content == "ok"
                place = server.base_url.removeprefix("https://").removesuffix("/v1")
                assert tunnels.asked == [f"SOCKS {place} {who.rstrip('@')}".encode()]
            await provider.close()

    run(main())


def test_password_of_a_proxy_in_the_environment_is_never_told(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        echo = plain(b"no entry for user:hunter2-hunter2", "407 hunter2-hunter2", "text/plain")
        async with ByteServer([echo]) as server:
            address = server.base_url.removesuffix("/v1").replace("://", "://user:hunter2-hunter2@")
            for name in ("HTTP_PROXY", "HTTPS_PROXY"):
                monkeypatch.setenv(name, address)
            for scheme in ("http", "https"):
                provider = provider_at(f"{scheme}://far.example/v1", engine)
                assert "hunter2-hunter2" in provider.secret_values()
                with pytest.raises(ProviderError) as caught:
                    await answer(provider)
                await provider.close()
                told = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
                assert "hunter2" not in told

    run(main())
