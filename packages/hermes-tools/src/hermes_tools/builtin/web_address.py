"""Which addresses of the network a tool may ask: public ones, and those that the host allows. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from hermes_messages import ConfigurationError

__all__ = ["AddressRules", "WebAddress", "read_address", "read_rules"]

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_LONGEST_URL = 4_000

_DENIED_THOUGH_GLOBAL: tuple[_Network, ...] = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # Azure's host agent
            "192.0.0.0/24",  # protocol assignments (RFC 6890), Oracle's metadata at .192
            "192.88.99.0/24",  # relays of 6to4 (RFC 7526)
            "3fff::/20",  # documentation (RFC 9637)
            "5f00::/16",  # segment routing (RFC 9602)
            "64:ff9b::/96",  # NAT64: an IPv4 address in disguise (RFC 6052)
            "64:ff9b:1::/48",  # NAT64 of one's own network (RFC 8215)
            "2002::/16",  # 6to4 (RFC 3056)
            "2001::/32",  # Teredo (RFC 4380)
            "::/96",  # IPv4-compatible (RFC 4291, 2.5.5.1)
            "::ffff:0:0/96",  # IPv4-mapped (RFC 4291, 2.5.5.2)
        ),
    )
)


class WebAddress(Struct, frozen=True):
    """A checked address: http or https, a host, no name or password in it. `host` is in lower case."""

    url: str
    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """What stands in the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"

    def at(self, address: str) -> str:
        """The same page asked at one IP address of its host."""
        host = f"[{address}]" if ":" in address else address
        return urlsplit(self.url)._replace(netloc=f"{host}:{self.port}", fragment="").geturl()


def read_address(url: str) -> WebAddress:
    """Check an address that a model or a redirect gave. Raises `ValueError` with the reason."""
    url = url.strip()
    if len(url) > _LONGEST_URL or any(ord(sign) < 0x21 or ord(sign) == 0x7F for sign in url):
        raise ValueError("it is too long, or has blanks or control characters in it")
    parts: SplitResult = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError("only http:// and https:// can be read")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a name or password stands in it")
    if not parts.hostname:
        raise ValueError("it names no host")
    host = parts.hostname
    if not host.isascii():
        host = host.encode("idna").decode()  # a UnicodeError is a ValueError
    host = host.rstrip(".").lower()
    if not host or "%" in host:
        raise ValueError("it names no host that can be asked")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return WebAddress(url, parts.scheme, host, port)


class AddressRules(Struct, frozen=True):
    """What the host allows besides the public network: hosts (with any port where it is None), networks."""

    hosts: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[_Network, ...] = ()

    def allows_host(self, address: WebAddress) -> bool:
        """Whether this host is allowed whatever its addresses are."""
        return bool(self.hosts & {(address.host, None), (address.host, address.port)})

    def refusal(self, ip: str) -> str | None:
        """Why an IP address may not be asked; None when it may."""
        try:
            address = ipaddress.ip_address(ip.partition("%")[0])
        except ValueError:
            return "it is no IP address"
        if any(address in network for network in self.networks):
            return None
        if any(address in network for network in _DENIED_THOUGH_GLOBAL) or not address.is_global:
            return "it belongs to this machine, a private network or a reserved range"
        if address.is_multicast or address.is_reserved or address.is_unspecified or "%" in ip:
            return "it belongs to a reserved range"
        return None


def read_rules(allowed: Iterable[str]) -> AddressRules:
    """Rules from texts: `intranet.example`, `localhost:8080`, `10.1.0.0/16`. Raises `ConfigurationError`."""
    hosts: set[tuple[str, int | None]] = set()
    networks: list[_Network] = []
    for text in allowed:
        try:
            if "/" in text:
                networks.append(ipaddress.ip_network(text))
                continue
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigurationError(f"web: {text!r} is no host, host:port or network: {error}") from None
        if not host or parts.path or parts.query or parts.username:
            raise ConfigurationError(f"web: {text!r} is no host, host:port or network")
        hosts.add((host, port))
    return AddressRules(frozenset(hosts), tuple(networks))
