"""Real TLS on a loopback socket: whom we trust, what a failure is called, HTTP/2 and proxies by option."""

from __future__ import annotations

import importlib.util
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from byte_server import ByteServer, Script, stream
from hermes_messages import ConfigurationError, ErrorKind, MissingDependencyError, ProviderError
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpOptions, HttpProvider, HttpxTransport, Timeouts, from_profile
from wire_help import KEY, answer, run, text_answer

FILES = Path(__file__).parent / "tls"
AUTHORITY = str(FILES / "authority.pem")
CERTIFICATE = (str(FILES / "server.pem"), str(FILES / "server-key.pem"))
OK = stream(text_answer("ok"))


def server_tls(*, wants_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*CERTIFICATE)
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(AUTHORITY)
    return context


@asynccontextmanager
async def tls_server(scripts: Sequence[Script], **options: bool) -> AsyncIterator[ByteServer]:
    async with ByteServer(scripts, tls=server_tls(**options)) as server:
        yield server


def provider_of(server: ByteServer, **settings: Any) -> HttpProvider:
    return from_profile("custom", ProviderOptions(base_url=server.base_url, api_key=KEY, settings=settings))


def test_certificate_that_nobody_vouches_for_is_refused_once_and_nothing_is_sent() -> None:
    async def main() -> None:
        async with tls_server([OK]) as server:
            provider = provider_of(server)
            with pytest.raises(ProviderError, match="can not be trusted") as caught:
                await answer(provider)
            assert caught.value.kind is ErrorKind.AUTH  # a kind that nobody sends again
            assert not server.requests
            assert server.connections <= 1
            await provider.close()
            await server.wait_until_open(0)

    run(main())


def test_authority_of_ones_own_is_trusted() -> None:
    async def main() -> None:
        async with tls_server([OK]) as server:
            provider = provider_of(server, ca_file=AUTHORITY)
            for _ in range(3):
                assert (await answer(provider)).message.content == "ok"
            assert server.base_url.startswith("https://")
            assert server.connections == 1  # encrypted connections are kept
            await provider.close()
            await server.wait_until_open(0)

    run(main())


def test_whole_context_in_place_of_files() -> None:
    async def main() -> None:
        async with tls_server([OK]) as server:
            options = HttpOptions(tls=ssl.create_default_context(cafile=AUTHORITY))
            provider = from_profile(
                "custom",
                ProviderOptions(base_url=server.base_url),
                transport=HttpxTransport(Timeouts(), options),
            )
            assert (await answer(provider)).message.content == "ok"
            await provider.close()

    run(main())


def test_client_shows_its_certificate_where_one_is_asked_for() -> None:
    async def main() -> None:
        async with tls_server([OK], wants_certificate=True) as server:
            with_one = provider_of(server, ca_file=AUTHORITY, client_certificate=list(CERTIFICATE))
            assert (await answer(with_one)).message.content == "ok"
            await with_one.close()
            without = provider_of(server, ca_file=AUTHORITY)
            with pytest.raises(ProviderError):
                await answer(without)
            await without.close()
            assert len(server.requests) == 1

    run(main())


@pytest.mark.parametrize(
    "settings",
    [{"ca_file": "no/such/file.pem"}, {"ca_file": __file__}, {"client_certificate": ["no.pem", "no.key"]}],
)
def test_certificates_that_can_not_be_read_are_told_at_open(settings: dict[str, Any]) -> None:
    async def main() -> None:
        provider = from_profile(
            "custom", ProviderOptions(base_url="https://127.0.0.1:1/v1", settings=settings)
        )
        with pytest.raises(ConfigurationError, match="nothing was sent"):
            await provider.open()
        await provider.close()

    run(main())


def test_proxy_gets_the_whole_address_and_its_own_password() -> None:
    async def main() -> None:
        async with ByteServer([OK]) as server:
            proxy = server.base_url.removesuffix("/v1").replace("http://", "http://user:hunter2@")
            provider = from_profile(
                "custom",
                ProviderOptions(base_url="http://far.example/v1", api_key=KEY, settings={"proxy": proxy}),
            )
            assert (await answer(provider)).message.content == "ok"
            request = server.requests[0]
            assert request.line == "POST http://far.example/v1/chat/completions HTTP/1.1"
            assert request.headers["proxy-authorization"] == "Basic dXNlcjpodW50ZXIy"
            assert "hunter2" in provider.secret_values()
            await provider.close()

    run(main())


def test_http2_is_an_extra_and_falls_back_where_the_host_speaks_none() -> None:
    async def main() -> None:
        async with tls_server([OK]) as server:
            provider = provider_of(server, ca_file=AUTHORITY, http2=True)
            if importlib.util.find_spec("h2") is None:
                with pytest.raises(MissingDependencyError, match=r"hermes-providers\[http2\]"):
                    await provider.open()
            else:
                assert (await answer(provider)).message.content == "ok"
            await provider.close()

    run(main())


def test_socks_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        provider = from_profile(
            "custom",
            ProviderOptions(base_url="https://h.example/v1", settings={"proxy": "socks5://127.0.0.1:1"}),
        )
        if importlib.util.find_spec("socksio") is None:
            with pytest.raises(MissingDependencyError, match=r"hermes-providers\[socks\]"):
                await provider.open()
        else:
            with pytest.raises(ProviderError) as caught:
                await answer(provider)
            assert caught.value.kind is ErrorKind.TRANSPORT
        await provider.close()

    run(main())
