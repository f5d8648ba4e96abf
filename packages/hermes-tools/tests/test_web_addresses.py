"""Who of the web may be asked: no machine of the private network, by whatever name or detour."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_messages import ConfigurationError
from hermes_tools import Executor
from hermes_tools.builtin import web_fetch
from hermes_tools.builtin.web import WebSettings, WebToolset
from hermes_tools.builtin.web_address import read_address, read_rules
from web_help import Site, page, redirect

NOT_PUBLIC = [
    "192.0.0.192", "192.88.99.1", "3fff::1", "5f00::1",
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.100.100.200", "168.63.129.16", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1", "::127.0.0.1",
    "not an address",
]  # fmt: skip


@pytest.mark.parametrize("ip", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_refused(ip: str) -> None:
    assert read_rules([]).refusal(ip) is not None


@pytest.mark.parametrize("ip", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111"])
def test_a_public_address_may_be_asked(ip: str) -> None:
    assert read_rules([]).refusal(ip) is None


def test_what_a_host_allows_may_be_asked() -> None:
    rules = read_rules(["10.1.0.0/16", "intranet.example", "localhost:8080", "[::1]:9"])
    assert rules.refusal("10.1.2.3") is None
    assert rules.refusal("10.2.2.3") is not None
    assert rules.allows_host(read_address("https://Intranet.Example./x"))
    assert rules.allows_host(read_address("http://localhost:8080/"))
    assert not rules.allows_host(read_address("http://localhost/"))
    assert rules.allows_host(read_address("http://[::1]:9/"))
    for wrong in ("10.1.0.0/99", "http://a", "a/b", "", "a:b"):
        with pytest.raises(ConfigurationError):
            read_rules([wrong])


@pytest.mark.parametrize(
    "url",
    ["", "file:///etc/passwd", "//host/", "http://", "http://u:p@h/", "http://h\r\n.x/", "http://a b/", "http://h:99999/",
     "http://%31/", "gopher://h/", "http://" + "x" * 4_000, "http://\u2024/", "data:text/html,x"],
)  # fmt: skip
def test_what_is_no_address_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        read_address(url)
    assert "\n" not in str(raised.value)


@given(st.text(max_size=60))
def test_any_text_at_all_is_an_address_or_refused(text: str) -> None:
    for url in (text, f"http://{text}/"):
        try:
            address = read_address(url)
        except ValueError:
            continue
        assert address.host
        assert address.host.isascii()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0"]
)
def test_this_machine_is_not_asked_by_any_of_its_names(bench: Any, run_async: Any, host: str) -> None:
    site = Site({"/": page("secret")})

    async def main() -> Any:
        async with site:
            executor = Executor([WebToolset()])
            call = bench.call("web_extract", {"urls": [f"http://{host}:{site.port}/"]})
            outcome = await executor.execute([call], bench.context())
            await executor.close()
            return outcome.results[0]

    result = run_async(main())
    assert result.status == "error"
    assert "may not be asked" in result.content or "is not known" in result.content
    assert not site.asked


def test_a_redirect_into_the_private_network_is_refused(bench: Any, run_async: Any) -> None:
    inside = Site({"/": page("secret")})

    async def main() -> Any:
        async with inside, Site({"/": redirect(inside.url())}) as outside:
            toolset = WebToolset(settings=WebSettings(allow=(f"127.0.0.1:{outside.port}",)))
            executor = Executor([toolset])
            call = bench.call("web_extract", {"urls": [outside.url()]})
            outcome = await executor.execute([call], bench.context())
            await executor.close()
            return outcome.results[0]

    assert "may not be asked" in run_async(main()).content
    assert not inside.asked


def resolve_as(monkeypatch: pytest.MonkeyPatch, *answers: Sequence[str]) -> list[str]:
    """Have names resolve to the next of `answers`: there is no name server here. Gives who was asked for."""
    asked: list[str] = []
    left = list(answers)

    async def getaddrinfo(loop: object, host: str, port: int, **options: int) -> list[Any]:
        asked.append(host)
        ips = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ips]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return asked


def test_a_name_with_one_private_address_is_refused_as_a_whole(
    bench: Any, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_as(monkeypatch, ["93.184.216.34", "10.0.0.1"])

    async def main() -> str:
        with pytest.raises(web_fetch.PageError) as raised:
            await web_fetch.fetch_page("http://two.example/", read_rules([]), web_fetch.FetchLimits())
        return str(raised.value)

    assert "two.example may not be asked: its address 10.0.0.1" in run_async(main())


def test_the_address_that_was_checked_is_the_one_connected_to(
    bench: Any, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that means a public machine when it is checked, and this one a moment later."""

    async def main() -> None:
        async with Site({"/": page("<p>hi</p>")}) as site:
            rules = read_rules(["127.0.0.1/32"])
            asked = resolve_as(monkeypatch, ["127.0.0.1"], ["10.0.0.1"])
            url = f"http://rebinding.example:{site.port}/"
            found = await web_fetch.fetch_page(url, rules, web_fetch.FetchLimits(time_s=5))
            assert found.body == b"<p>hi</p>"
            assert asked == ["rebinding.example"]  # once: the connection is made by number
            assert site.asked == [(f"rebinding.example:{site.port}", "/")]

    run_async(main())


def self_signed(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate for `name`, and the file that a client must trust for it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "certificate.pem", folder / "key.pem"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate_file, key_file)
    return context, certificate_file


@pytest.mark.parametrize(("name", "good"), [("right.example", True), ("wrong.example", False)])
def test_the_certificate_must_be_that_of_the_name_and_not_of_the_number(
    bench: Any, run_async: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, good: bool
) -> None:
    server, trusted = self_signed(tmp_path, "right.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    web_fetch._tls.cache_clear()

    async def main() -> None:
        async with Site({"/": page("<p>hi</p>")}, server) as site:
            resolve_as(monkeypatch, ["127.0.0.1"])
            url, rules = f"https://{name}:{site.port}/", read_rules(["127.0.0.1/32"])
            if good:
                assert (await web_fetch.fetch_page(url, rules, web_fetch.FetchLimits())).body == b"<p>hi</p>"
            else:
                with pytest.raises(web_fetch.PageError, match="Hostname mismatch"):
                    await web_fetch.fetch_page(url, rules, web_fetch.FetchLimits())

    try:
        run_async(main())
    finally:
        web_fetch._tls.cache_clear()
