"""Search engines for `web_search`: any object with one method; a package announces one by an entry point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from hermes_messages import ConfigurationError, UnknownNameError

__all__ = ["SEARCH_GROUP", "SearchBackend", "SearchResult", "load_search_backend"]

SEARCH_GROUP = "hermes.search_backends"
"""The entry point group in which a package announces its search backend."""


class SearchResult(Struct, frozen=True):
    """One hit of a search engine."""

    title: str
    """Shown to the model as a line; may be empty."""
    url: str
    """Where the page is."""
    snippet: str = ""
    """A few words of the page; "" where the engine gave none."""


class SearchBackend(Protocol):
    """A search engine."""

    async def search(self, query: str, limit: int) -> Sequence[SearchResult]:
        """The best hits, at most `limit`. An exception becomes an error result with its text."""
        ...


def load_search_backend(name: str) -> SearchBackend:
    """The backend that a package announces under `name` in the group `hermes.search_backends`, made without
    arguments. Raises `UnknownNameError`, `ConfigurationError`."""
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=SEARCH_GROUP)}
    if name not in points:
        raise UnknownNameError("search backend", name, points, "install the package that announces it")
    try:
        backend: SearchBackend = points[name].load()()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigurationError(f"search backend {name!r} can not be loaded: {error}") from error
    return backend
