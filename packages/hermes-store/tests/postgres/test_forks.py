"""A forked child makes connections of its own and leaves those of its parent alone."""

import asyncio
import os

import pytest

from postgres.server import Server
from postgres.test_both_back_ends import load

forks = load("test_forks")

if hasattr(os, "fork"):

    @pytest.mark.parametrize("how", ["the same object", "another object", "closed"])
    def test_parent_and_children_write_what_they_acknowledge(server: Server, how: str) -> None:
        name = f"forks_{how.replace(' ', '_')}"
        asyncio.run(server.ask(f"CREATE DATABASE {name}"))
        assert forks.fork(server.dsn(name), how) == ["written"] * 3 + ["100"]
