"""The engines that a setting can name, and where each one is. Imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["DEFAULT_ENGINE", "ENGINES"]

DEFAULT_ENGINE: Final = "httpx"

ENGINES: Final[Mapping[str, tuple[str, str]]] = {
    "httpx": ("hermes_providers.engines.httpx_engine", "HttpxTransport"),
    "aiohttp": ("hermes_providers.engines.aiohttp_engine", "AiohttpTransport"),
}
"""The module and the name of each engine's `Transport`."""
