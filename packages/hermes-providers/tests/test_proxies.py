"""Which proxy is taken, without a network."""

from __future__ import annotations

import pytest

from hermes_messages import ConfigurationError
from hermes_providers.proxies import Proxy, ProxyTable, read_proxy

ENVIRONMENT = {
    "http_proxy": "http://plain.example:3128",
    "HTTPS_PROXY": "secure.example",
    "ALL_PROXY": "socks5h://all.example",
    "no_proxy": " .corp.example, localhost,10.0.0.0/8 ,[::1],api.example:8443,*.wild.example ",
}


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("http://h:1", Proxy("http", "h", 1)),
        ("h:1", Proxy("http", "h", 1)),
        ("https://h", Proxy("https", "h", 443)),
        ("socks5://u%3A:p%40@[::1]:9", Proxy("socks5", "::1", 9, "u:", "p@")),
    ],
)
def test_forms_of_a_proxy(text: str, proxy: Proxy) -> None:
    assert read_proxy(text) == proxy
    assert "p@" not in repr(read_proxy(text))
    assert "address" in dict(read_proxy(text).__rich_repr__())
    assert read_proxy(proxy.address).address == proxy.address


@pytest.mark.parametrize(
    "text", ["", "http://", "socks://h:1", "ftp://h", "http://h:0", "http://h:99999", "http://h:pw", "h\n:1"]
)
def test_proxy_that_can_not_work_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_proxy(text)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://h.example/v1", "plain.example"),
        ("https://h.example/v1", "secure.example"),
        ("https://corp.example/", None),
        ("https://a.corp.example/", None),
        ("https://notcorp.example/", "secure.example"),
        ("http://localhost:8080/", None),
        ("http://10.1.2.3/", None),
        ("http://11.1.2.3/", "plain.example"),
        ("http://[::1]:80/", None),
        ("https://api.example:8443/", None),
        ("https://api.example/", "secure.example"),
        ("https://a.wild.example/", None),
    ],
)
def test_environment_is_read_as_other_clients_do(url: str, host: str | None) -> None:
    found = ProxyTable(None, ENVIRONMENT).find(url)
    assert (None if found is None else found.host) == host


def test_lower_case_wins_and_all_stands_for_the_rest() -> None:
    table = ProxyTable(None, {"https_proxy": "one", "HTTPS_PROXY": "two", "all_proxy": "socks5://three"})
    assert table.find("https://h/") == Proxy("http", "one", 80)
    assert table.find("http://h/") == Proxy("socks5", "three", 1080)
    assert table.any_socks
    assert ProxyTable(None, {**ENVIRONMENT, "NO_PROXY": "*", "no_proxy": ""}).find("http://h/") is None


def test_option_wins_over_the_environment_and_direct_over_both() -> None:
    assert ProxyTable("given:1", ENVIRONMENT).find("http://localhost/") == Proxy("http", "given", 1)
    assert ProxyTable(None, ENVIRONMENT, direct=True).find("http://h/") is None
    assert ProxyTable("given:1", ENVIRONMENT, direct=True).find("http://h/") is None
    assert not ProxyTable(None, ENVIRONMENT, direct=True).any_socks


def test_whoever_asks_a_cgi_program_chooses_no_proxy() -> None:
    assert ProxyTable(None, {"HTTP_PROXY": "evil", "REQUEST_METHOD": "GET"}).find("http://h/") is None
