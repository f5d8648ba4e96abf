"""Which proxy stands before an address: the one given, else what the environment says. Pure.

HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY are read as curl reads them:
https://curl.se/docs/manpage.html#ENVIRONMENT
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct

from hermes_messages import ConfigurationError

__all__ = ["Proxy", "ProxyTable", "proxy_passwords", "read_proxy"]

_SCHEMES = frozenset({"http", "https", "socks5", "socks5h"})
_SOCKS = frozenset({"socks5", "socks5h"})
_ADDRESS = re.compile(r"[\x21-\x7e]+")
_USUAL_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Proxy(Struct, frozen=True):
    """A proxy's address, apart from the name and password that it asks for; those are not in the repr."""

    scheme: str
    host: str
    port: int
    user: str | None = None
    password: str | None = None

    @property
    def is_socks(self) -> bool:
        """Whether it speaks SOCKS, not HTTP."""
        return self.scheme in _SOCKS

    @property
    def address(self) -> str:
        """The address without name and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return urlunsplit((self.scheme, f"{host}:{self.port}", "", "", ""))

    def __repr__(self) -> str:
        return f"Proxy({self.address!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("address", self.address)]


def read_proxy(text: str) -> Proxy:
    """The proxy of an address like `http://user:password@host:port`; without a scheme it is http.

    Raises `ConfigurationError` for one that can not work; the address is not in the error.
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port, host = parts.port, parts.hostname
    except ValueError:
        raise _unusable() from None
    if parts.scheme not in _SCHEMES or not host or port == 0 or not _ADDRESS.fullmatch(text):
        raise _unusable()
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    return Proxy(parts.scheme, host, port or _USUAL_PORTS[parts.scheme], user, password)


class ProxyTable:
    """The proxies for one transport."""

    def __init__(self, given: str | None, environment: Mapping[str, str], *, direct: bool = False) -> None:
        """`given` stands before every address; without it `environment` is asked, unless `direct`.

        Raises `ConfigurationError` for a proxy that can not work.
        """
        asked = {} if direct or given is not None else _variables(environment)
        self._given = None if direct or given is None else read_proxy(given)
        self._exempt = _places(asked.pop("no", ""))
        self._of_scheme = {scheme: read_proxy(text) for scheme, text in asked.items()}

    @property
    def any_socks(self) -> bool:
        """Whether one of them speaks SOCKS."""
        given = () if self._given is None else (self._given,)
        return any(proxy.is_socks for proxy in (*given, *self._of_scheme.values()))

    def find(self, url: str) -> Proxy | None:
        """The proxy before `url`; None goes there directly."""
        if self._given is not None or not self._of_scheme:
            return self._given
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _USUAL_PORTS.get(parts.scheme)
        if any(_covers(place, host, port) for place in self._exempt):
            return None
        return self._of_scheme.get(parts.scheme) or self._of_scheme.get("all")


def proxy_passwords(given: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The passwords in the address `given`, or else in the environment's, as they stand there and as sent."""
    texts = (given,) if given is not None else tuple(_variables(environment).values())
    found: dict[str, None] = {}
    for text in texts:
        name, at, _ = text.rpartition("@")
        password = name.rpartition("/")[2].partition(":")[2] if at else ""
        if password:
            found |= {password: None, unquote(password): None}
    return tuple(found)


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What the environment says for `http`, `https`, `all` and `no`; the lower-case name wins."""
    said: dict[str, str] = {}
    for kind in ("http", "https", "all", "no"):
        names = [f"{kind}_proxy", f"{kind.upper()}_PROXY"]
        if kind == "http" and "REQUEST_METHOD" in environment:
            names.pop()  # in a CGI program whoever asks sets it: https://httpoxy.org
        value = next((found for name in names if (found := environment.get(name, "").strip())), "")
        if value:
            said[kind] = value
    return said


def _places(text: str) -> tuple[str, ...]:
    return tuple(place for part in text.split(",") if (place := part.strip().lower()))


def _covers(place: str, host: str, port: int | None) -> bool:
    """Whether an entry of NO_PROXY means `host`: itself, a domain above it, a network, or `*`."""
    if place == "*":
        return True
    if "/" in place:
        return _in_network(place, host)
    name, colon, number = place.rpartition(":")
    if colon and number.isdigit() and ":" not in name:
        if int(number) != port:
            return False
        place = name
    place = place.removeprefix("*").removeprefix(".").strip("[]")
    return host == place or host.endswith(f".{place}")


def _in_network(place: str, host: str) -> bool:
    try:
        return ip_address(host) in ip_network(place, strict=False)
    except ValueError:
        return False


def _unusable() -> ConfigurationError:
    # The address may hold the proxy's password, so it stays out.
    return ConfigurationError(
        "the proxy can not be used (option proxy, or HTTP_PROXY, HTTPS_PROXY, ALL_PROXY in the "
        "environment): write it like http://host:port or socks5://host:port; nothing was sent"
    )
