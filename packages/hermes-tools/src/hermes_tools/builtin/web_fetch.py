"""Asking the web for one page, without being led to a place that only we can reach.

The host's name is resolved once; every address must be public, and one of these is then connected to, so that
a name can not mean another machine a moment later. Redirects are followed by hand, each checked in the same
way. Proxies of the environment are not used: they would resolve the name again.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import cache
from urllib.parse import urljoin

import httpx
from msgspec import Struct

from hermes_tools.builtin.web_address import AddressRules, WebAddress, read_address
from hermes_tools.builtin.web_page import BoundedBody, Page
from hermes_tools.failures import describe

__all__ = ["FetchLimits", "PageError", "fetch_page"]

_HEADERS = {
    "User-Agent": "hermes-tools (web_extract)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class PageError(Exception):
    """A page that can not be had, with the reason."""


class FetchLimits(Struct, frozen=True, kw_only=True):
    """Bounds of one page: bytes after decompression, seconds in all, redirects."""

    size: int = 5_000_000
    time_s: float = 30.0
    redirects: int = 5


async def fetch_page(url: str, rules: AddressRules, limits: FetchLimits) -> Page:
    """Ask for one page. Raises `PageError`."""
    try:
        async with (
            asyncio.timeout(limits.time_s),
            httpx.AsyncClient(
                verify=_tls(),
                trust_env=False,
                follow_redirects=False,
                headers=_HEADERS,
                timeout=limits.time_s,
                # A connection that is kept would be used for another host at the same address, unverified.
                limits=httpx.Limits(max_keepalive_connections=0),
            ) as client,
        ):
            return await _follow(client, url, rules, limits)
    except TimeoutError:
        raise PageError(f"no answer within {limits.time_s:g} s") from None
    except httpx.TimeoutException:
        raise PageError(f"no answer within {limits.time_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
        raise PageError(describe(error)) from None
    except ValueError as error:
        raise PageError(str(error)) from None


async def _follow(client: httpx.AsyncClient, url: str, rules: AddressRules, limits: FetchLimits) -> Page:
    asked = ""
    for _ in range(limits.redirects + 1):
        address = read_address(url)
        if address.authority != asked:  # the client knows hosts by their IP address, which several may share
            client.cookies.clear()
            asked = address.authority
        response = await _ask(client, address, await _addresses(address, rules))
        try:
            location = response.headers.get("location")
            if response.status_code in _REDIRECTS and location:
                url = urljoin(url, location)
                continue
            if response.status_code >= 400:
                raise PageError(f"HTTP {response.status_code} {response.reason_phrase}".strip())
            return await _read(response, address, limits)
        finally:
            await response.aclose()
    raise PageError(f"more than {limits.redirects} redirects")


async def _addresses(address: WebAddress, rules: AddressRules) -> list[str]:
    """The addresses of the host, all of which may be asked. Raises `PageError`."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except OSError as error:
        raise PageError(f"the host {address.host} is not known ({error.strerror or error})") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not rules.allows_host(address):
        for ip in addresses:
            refusal = rules.refusal(ip)
            if refusal is not None:
                raise PageError(f"the host {address.host} may not be asked: its address {ip}: {refusal}")
    return addresses


async def _ask(client: httpx.AsyncClient, address: WebAddress, ips: list[str]) -> httpx.Response:
    """The response, its body not yet read, from the first address that takes the connection."""
    refused: httpx.ConnectError | None = None
    for ip in ips:
        request = client.build_request(
            "GET",
            address.at(ip),
            headers={"Host": address.authority},
            extensions={"sni_hostname": address.host},  # the certificate is that of the name
        )
        try:
            return await client.send(request, stream=True)
        except httpx.ConnectError as error:
            refused = error
    raise refused or PageError(f"the host {address.host} has no address")


async def _read(response: httpx.Response, address: WebAddress, limits: FetchLimits) -> Page:
    body = BoundedBody(response.headers.get("content-encoding", ""), limits.size)
    async for piece in response.aiter_raw():
        if not body.feed(piece):
            break
    return Page(address.url, response.headers.get("content-type", ""), body.bytes(), body.cut)


@cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()
