"""A store that is open when its process forks. SQLite loses what such a child writes, and tells nobody."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FORKS = """
import asyncio, os, sys
from hermes_messages import StoreError, UserMessage
from hermes_store import SessionDB

path, how, expected = sys.argv[1:]
db = SessionDB(path)

async def append(store, name):
    await store.create_session("s")
    for number in range(20):
        await store.append_message("s", UserMessage("x"), uid=f"{name}-{number}")

async def before():
    await append(db, "before")
    if how == "closed":
        await db.close()

asyncio.run(before())
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        async def main():
            async with asyncio.timeout(120):
                async with SessionDB(path) if how == "another object" else db as store:
                    await append(store, f"child {number}")
        try:
            asyncio.run(main())
            os.write(1, b"written\\n")
        except StoreError as error:
            os.write(1, b"refused\\n" if "forked" in str(error) else repr(error).encode())
        sys.exit(0)  # with all that runs at exit
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0

async def after():
    async with db:
        await append(db, "parent")
        assert await db.check_integrity() == []
        print(len(await db.get_messages("s")), flush=True)

asyncio.run(after())
"""


def fork(address: str, how: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKS, address, how, ""],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr, run.stderr
    return run.stdout.split("\n")[:-1]


if hasattr(os, "fork"):

    @pytest.mark.parametrize("how", ["the same object", "another object"])
    def test_a_child_of_a_process_with_an_open_store_is_refused(tmp_path: Path, how: str) -> None:
        """It lost every message that it had acknowledged."""
        assert fork(str(tmp_path / "s.db"), how) == ["refused"] * 3 + ["40"]

    def test_a_store_that_was_closed_before_the_fork_serves_everybody(tmp_path: Path) -> None:
        assert fork(str(tmp_path / "s.db"), "closed") == ["written"] * 3 + ["100"]
