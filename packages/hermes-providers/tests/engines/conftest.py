"""Every test that takes `engine` runs over each one that is installed."""

from __future__ import annotations

import importlib.util

import pytest

ENGINES = ("httpx", *(("aiohttp",) if importlib.util.find_spec("aiohttp") else ()))


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    name = request.param
    assert isinstance(name, str)
    return name
