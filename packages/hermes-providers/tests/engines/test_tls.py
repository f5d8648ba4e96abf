"""Real TLS on a loopback socket: whom we trust, what a failure is called, HTTP/2 and proxies by option."""

from __future__ import annotations

import importlib.util
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from byte_server import ByteServer, Script, stream
from hermes_messages import ConfigurationError, ErrorKind, MissingDependencyError, ProviderError
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpOptions, HttpProvider, Timeouts, from_profile, make_transport
from tls_help import AUTHORITY, CERTIFICATE, server_tls
from wire_help import KEY, answer, run, text_answer

OK = stream(text_answer("ok"))


@asynccontextmanager
async def tls_server(
    scripts: Sequence[Script], *, wants_certificate: bool = False
) -> AsyncIterator[ByteServer]:
    async with ByteServer(scripts, tls=server_tls(wants_certificate=wants_certificate)) as server:
        yield server


def provider_of(server: ByteServer, engine: str, **settings: Any) -> HttpProvider:
    settings["engine"] = engine
    return from_profile("custom", ProviderOptions(base_url=server.base_url, api_key=KEY, settings=settings))


def test_certificate_that_nobody_vouches_for_is_refused_once_and_nothing_is_sent(engine: str) -> None:
    async def main() -> None:
        async with tls_server([OK]) as server:
            provider = provider_of(server, engine)
            with pytest.raises(ProviderError, match="can not be trusted") as caught:
                await answer(provider)
            assert caught.value.kind is ErrorKind.AUTH  # a kind that nobody sends again
            assert not server.requests
            assert server.connections <= 1
            await provider.close()
            await server.wait_until_open(0)

    run(main())


def test_authority_of_ones_own_is_trusted(engine: str) -> None:
    async def main() -> None:
        async with tls_server([OK]) as server:
            provider = provider_of(server, engine, ca_file=AUTHORITY)
            for _ in range(3):
                assert (await answer(provider)).message.content == "ok"
            assert server.base_url.startswith("https://")
            assert server.connections == 1  # encrypted connections are kept
            await provider.close()
            await server.wait_until_open(0)

    run(main())


def test_whole_context_in_place_of_files(engine: str) -> None:
    async def main() -> None:
        async with tls_server([OK]) as server:
            options = HttpOptions(tls=ssl.create_default_context(cafile=AUTHORITY))
            provider = from_profile(
                "custom",
                ProviderOptions(base_url=server.base_url),
                transport=make_transport(engine, Timeouts(), options),
            )
            assert (await answer(provider)).message.content == "ok"
            await provider.close()

    run(main())


def test_client_shows_its_certificate_where_one_is_asked_for(engine: str) -> None:
    async def main() -> None:
        async with tls_server([OK], wants_certificate=True) as server:
            with_one = provider_of(server, engine, ca_file=AUTHORITY, client_certificate=list(CERTIFICATE))
            assert (await answer(with_one)).message.content == "ok"
            await with_one.close()
            without = provider_of(server, engine, ca_file=AUTHORITY)
            with pytest.raises(ProviderError):
                await answer(without)
            await without.close()
            assert len(server.requests) == 1

    run(main())


@pytest.mark.parametrize(
    "settings",
    [{"ca_file": "no/such/file.pem"}, {"ca_file": __file__}, {"client_certificate": ["no.pem", "no.key"]}],
)
def test_certificates_that_can_not_be_read_are_told_at_open(engine: str, settings: dict[str, Any]) -> None:
    async def main() -> None:
        provider = from_profile(
            "custom",
            ProviderOptions(base_url="https://127.0.0.1:1/v1", settings={**settings, "engine": engine}),
        )
        with pytest.raises(ConfigurationError, match="nothing was sent"):
            await provider.open()
        await provider.close()

    run(main())


def test_certificate_of_another_host_is_refused(engine: str) -> None:
    async def main() -> None:
        async with tls_server([OK]) as server:
            settings = {"engine": engine, "ca_file": AUTHORITY}
            provider = from_profile(
                "custom",
                ProviderOptions(
                    base_url=server.base_url.replace("127.0.0.1", "127.0.0.2"), settings=settings
                ),
            )
            with pytest.raises(ProviderError) as caught:
                await answer(provider)
            assert not server.requests
            assert caught.value.kind in {
                ErrorKind.AUTH,
                ErrorKind.TRANSPORT,
            }  # some systems have one loopback
            await provider.close()

    run(main())


def test_http2_is_an_extra_and_falls_back_where_the_host_speaks_none() -> None:
    async def main() -> None:
        async with tls_server([OK]) as server:
            provider = provider_of(server, "httpx", ca_file=AUTHORITY, http2=True)
            if importlib.util.find_spec("h2") is None:
                with pytest.raises(MissingDependencyError, match=r"hermes-providers\[http2\]"):
                    await provider.open()
            else:
                assert (await answer(provider)).message.content == "ok"
            await provider.close()

    run(main())


if importlib.util.find_spec("aiohttp") is not None:

    def test_option_that_an_engine_does_not_have_is_refused_before_anything_is_sent(
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        with pytest.raises(ConfigurationError, match="HTTP/2"):
            make_transport("aiohttp", Timeouts(), HttpOptions(http2=True))
        for options in (HttpOptions(proxy="socks5://u:hunter2@127.0.0.1:1"), HttpOptions()):
            monkeypatch.setenv("ALL_PROXY", "socks5h://u:hunter2@127.0.0.1:1")
            transport = make_transport("aiohttp", Timeouts(), options)
            with pytest.raises(ConfigurationError, match="SOCKS") as caught:
                run(transport.open())
            assert "hunter2" not in str(caught.value)
