"""Addresses of hosts, as reprs, logs and errors may show them."""

from __future__ import annotations

__all__ = ["shown_url"]


def shown_url(url: str) -> str:
    """`url` without a name and password and without its query, where some gateways take their keys."""
    address, mark, _ = url.partition("?")
    scheme, slashes, rest = address.rpartition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{place.rpartition('@')[2]}{slash}{path}{mark and '?***'}"
