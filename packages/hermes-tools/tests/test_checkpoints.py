"""Snapshots with the real git, beside a user's own repository."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hermes_tools import CheckpointError, Checkpoints, tool
from hermes_tools.checkpoint_git import ignore_line

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git, which CI always has")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def contents(root: Path) -> dict[str, bytes | str]:
    """Every file of a tree, links as what they point to, the user's .git included."""
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def git(cwd: Path, *arguments: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    return subprocess.run(
        ["git", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_tree_is_snapshot_compared_and_restored_byte_for_byte(
    bench: Any, store: Path, run_async: Any
) -> None:
    root = bench.workspace
    (root / "a.txt").write_bytes(b"one\r\ntwo\n")
    (root / ".gitattributes").write_text("* text=auto eol=lf\n*.txt filter=evil ident\n")
    (root / "sub").mkdir()
    (root / "sub" / "b.bin").write_bytes(bytes(range(256)))
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "odd \n name ü").write_text("$Id$")
    (root / "link").symlink_to("/etc/hostname")
    before = contents(root)

    async def main() -> None:
        checkpoints = Checkpoints(str(root), directory=str(store))
        first = await checkpoints.take("first")
        assert first is not None
        assert await checkpoints.take("again") is None
        (root / "a.txt").write_text("changed\n")
        (root / "new").write_text("new\n")
        (root / "sub" / "b.bin").unlink()
        (root / "sub").rmdir()
        (root / "sub").write_text("a file now")
        (root / "run.sh").chmod(0o644)
        (root / "link").unlink()
        changed = contents(root)
        diff = await checkpoints.diff(first.id)
        assert "+changed" in diff
        assert "new mode 100644" in diff
        kept = await checkpoints.restore(first.id)
        assert contents(root) == before
        assert os.access(root / "run.sh", os.X_OK)
        assert kept is not None
        assert [item.id for item in await checkpoints.list()] == [kept.id, first.id]
        assert "-changed" in await checkpoints.diff(kept.id, first.id)
        other = Checkpoints(str(root), directory=str(store))
        await other.restore(kept.id)
        assert contents(root) == changed

    run_async(main())


def test_the_users_own_repository_is_never_touched(bench: Any, store: Path, run_async: Any) -> None:
    root = bench.workspace
    git(root, "init", "-q")
    (root / "a").write_text("committed")
    git(root, "add", "a")
    git(root, "commit", "-qm", "x")
    (root / ".git" / "hooks" / "post-checkout").write_text(f"#!/bin/sh\ntouch {root}/hook-ran\n")
    (root / ".git" / "hooks" / "post-checkout").chmod(0o755)
    (root / "a").write_text("staged")
    git(root, "add", "a")
    (root / "a").write_text("dirty")
    before = contents(root)

    async def main() -> None:
        checkpoints = Checkpoints(str(root), directory=str(store))
        first = await checkpoints.take("first")
        assert first is not None
        (root / "a").write_text("by a tool")
        git(root, "status")
        kept = contents(root / ".git")
        await checkpoints.restore(first.id)
        assert contents(root / ".git") == kept
        assert (root / "a").read_text() == "dirty"
        assert git(root, "diff", "--cached").count("+staged") == 1
        assert not (root / "hook-ran").exists()
        assert {name for name in contents(root) if not name.startswith(".git/")} == {
            name for name in before if not name.startswith(".git/")
        }
        assert not (store / "x").is_relative_to(root)

    run_async(main())


def test_ignored_and_large_files_are_left_alone(bench: Any, store: Path, run_async: Any) -> None:
    root = bench.workspace
    (root / ".gitignore").write_text("build/\n*.log\n")
    (root / "build").mkdir()
    (root / "build" / "out").write_text("1")
    (root / "x.log").write_text("1")
    (root / "big [1].bin").write_bytes(b"x" * 2_000)
    (root / "grows").write_text("small")
    (root / "kept").write_text("1")

    async def main() -> None:
        checkpoints = Checkpoints(str(root), directory=str(store), file_limit=1_000)
        first = await checkpoints.take("first")
        assert first is not None
        assert first.left_out == ("big [1].bin",)
        for name in ("build/out", "x.log", "big [1].bin", "kept"):
            (root / name).write_text("2")
        (root / "grows").write_bytes(b"y" * 2_000)
        second = await checkpoints.take("second")
        assert second is not None
        assert second.left_out == ("grows",)
        await checkpoints.restore(second.id)
        assert (root / "grows").stat().st_size == 2_000
        await checkpoints.restore(first.id)
        assert (root / "kept").read_text() == "1"
        assert [(root / name).read_text() for name in ("build/out", "x.log")] == ["2", "2"]

    run_async(main())


def test_nothing_is_read_or_written_through_a_link(
    bench: Any, store: Path, tmp_path: Path, run_async: Any
) -> None:
    root = bench.workspace
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("a secret")
    (root / "dir").mkdir()
    (root / "dir" / "f").write_text("inside")

    async def main() -> None:
        checkpoints = Checkpoints(str(root), directory=str(store))
        first = await checkpoints.take("first")
        assert first is not None
        (root / "dir" / "f").unlink()
        (root / "dir").rmdir()
        (root / "dir").symlink_to(outside)
        second = await checkpoints.take("second")
        assert second is not None
        assert "a secret" not in await checkpoints.diff(first.id, second.id)
        await checkpoints.restore(first.id)
        assert (root / "dir" / "f").read_text() == "inside"
        assert not (root / "dir").is_symlink()
        assert (outside / "f").read_text() == "a secret"
        await checkpoints.restore(second.id)
        assert (root / "dir").is_symlink()
        assert (outside / "f").read_text() == "a secret"

    run_async(main())


def test_only_the_newest_are_kept_and_space_is_given_back(bench: Any, store: Path, run_async: Any) -> None:
    async def main() -> None:
        checkpoints = Checkpoints(str(bench.workspace), directory=str(store), keep=3)
        for number in range(14):
            (bench.workspace / "a").write_bytes(os.urandom(50_000))
            await checkpoints.take(str(number))
        labels = [item.label for item in await checkpoints.list()]
        assert labels == ["13", "12", "11"]

    run_async(main())
    assert sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) < 8 * 50_000


def test_what_can_not_be_covered_says_why(
    bench: Any, store: Path, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = bench.workspace

    async def reason(cwd: Path, **options: Any) -> str:
        return str(await Checkpoints(str(cwd), **({"directory": str(store)} | options)).unavailable_reason())

    async def main() -> None:
        assert await reason(root) == "None"
        assert "no project" in await reason(Path("/"))
        assert "inside the working directory" in await reason(root, directory=str(root / "inner"))
        for number in range(5):
            (root / str(number)).write_text("x")
        few = Checkpoints(str(root), directory=str(store), files_limit=4)
        with pytest.raises(CheckpointError, match=r"5 files.*\.gitignore"):
            await few.take("x")
        checkpoints = Checkpoints(str(root), directory=str(store))
        for bad in ("", "HEAD", "../../heads/x", "20260101T000000.000000-abcdef"):
            with pytest.raises(CheckpointError, match="checkpoint"):
                await checkpoints.restore(bad)
        monkeypatch.setenv("PATH", str(store))
        assert "git is not installed" in await reason(root, directory=str(store / "other"))
        monkeypatch.delenv("HERMES_HOME", raising=False)
        monkeypatch.delenv("HOME")
        assert "HERMES_HOME" in await reason(root, directory=None)

    run_async(main())


def test_a_lock_of_a_git_that_was_killed_is_cleared(bench: Any, store: Path, run_async: Any) -> None:
    def take() -> Any:
        return run_async(Checkpoints(str(bench.workspace), directory=str(store)).take("x"))

    take()
    [index] = store.glob("*/index")
    index.with_name("index.lock").write_text("")
    (bench.workspace / "a").write_text("1")
    assert take() is not None


def test_cancelling_leaves_no_git_and_the_next_snapshot_works(
    bench: Any, store: Path, run_async: Any
) -> None:
    async def main() -> None:
        for number in range(300):
            (bench.workspace / str(number)).write_bytes(os.urandom(20_000))
        checkpoints = Checkpoints(str(bench.workspace), directory=str(store))
        for pause in (0.0, 0.005, 0.02, 0.04):
            task = asyncio.ensure_future(checkpoints.take("x"))
            await asyncio.sleep(pause)
            task.cancel()
            await asyncio.wait({task})
            assert not bench.processes()
        taken = await checkpoints.take("x")
        assert taken is not None or await checkpoints.list()

    run_async(main())


@pytest.mark.parametrize("name", ["config", "HEAD", "index", "packed-refs"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_lock_that_a_killed_git_left_behind_does_not_end_checkpoints(
    bench: Any, store: Path, run_async: Any, name: str, begun: bool
) -> None:
    place = store / hashlib.sha256(os.fsencode(os.path.realpath(bench.workspace))).hexdigest()[:24]

    async def main() -> None:
        (bench.workspace / "a").write_text("1")
        checkpoints = Checkpoints(str(bench.workspace), directory=str(store), keep=1)
        if begun:
            assert await checkpoints.take("before")
        else:
            place.mkdir(parents=True)
        (place / f"{name}.lock").touch()
        for number in range(14):  # until old ones are removed
            (bench.workspace / "a").write_text(f"changed {number}")
            assert await checkpoints.take("after")
            (place / f"{name}.lock").touch()
        assert len(await checkpoints.list()) < 14

    run_async(main())


def test_several_at_once_do_not_disturb_each_other(bench: Any, store: Path, run_async: Any) -> None:
    async def main() -> None:
        (bench.workspace / "a").write_text("1")
        many = [Checkpoints(str(bench.workspace), directory=str(store)) for _ in range(4)]
        taken = await asyncio.gather(*(checkpoints.take("x") for checkpoints in many))
        assert sum(item is not None for item in taken) == 1

    run_async(main())


# -- in the path of a call --------------------------------------------------------------------------------


def test_a_snapshot_is_taken_before_a_tool_that_changes_files_and_not_before_others(
    bench: Any, store: Path, run_async: Any
) -> None:
    (bench.workspace / "a.txt").write_text("old")

    @tool(description="D.", changes_files=True)
    async def scribble() -> str:
        (bench.workspace / "a.txt").write_text("scribbled")
        return "done"

    async def main() -> None:
        settings = {"checkpoints": True, "checkpoint_directory": str(store)}
        executor = bench.executor("file", tools=(scribble,), settings=settings)
        assert (await executor.refresh(bench.turn())).unavailable == ()
        await bench.outcome(executor, bench.call("read_file", {"path": "a.txt"}))
        checkpoints = executor.checkpoints_of(str(bench.workspace))
        assert await checkpoints.list() == ()
        await bench.outcome(executor, bench.call("write_file", {"path": "a.txt", "content": "new"}))
        await bench.outcome(executor, bench.call("scribble"))
        second, first = await checkpoints.list()
        assert [second.label, first.label] == ["before scribble", "before write_file"]
        await checkpoints.restore(second.id)
        assert (bench.workspace / "a.txt").read_text() == "new"
        await checkpoints.restore(first.id)
        assert (bench.workspace / "a.txt").read_text() == "old"
        await executor.close()

    run_async(main())


def test_without_git_the_turn_is_told_and_tools_still_run(
    bench: Any, store: Path, run_async: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(store))

    async def main() -> None:
        settings = {"checkpoints": True, "checkpoint_directory": str(store)}
        executor = bench.executor("file", settings=settings)
        [absent] = (await executor.refresh(bench.turn())).unavailable
        assert (absent.name, absent.reason) == (
            "checkpoints",
            "git is not installed; install it to have checkpoints",
        )
        for text in ("1", "2"):
            call = bench.call("write_file", {"path": "a.txt", "content": text})
            [result] = (await bench.outcome(executor, call)).results
            assert result.status == "ok"
        await executor.close()

    with caplog.at_level(logging.WARNING):
        run_async(main())
    assert caplog.text.count("no checkpoint was taken") == 1


@pytest.mark.parametrize("name", ["a b", "#x", "!x", "*?[a]", "back\\slash", "sub/x ", "ü"])
def test_a_line_of_an_ignore_file_fits_its_file_alone(name: str, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for path in (name, "other", f"x{name}"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x")
    (tmp_path / ".gitignore").write_text(f"{ignore_line(name)}\n")
    listed = git(tmp_path, "ls-files", "-z", "--others", "--exclude-standard").split("\0")
    assert set(listed) - {""} == {".gitignore", "other", f"x{name}"}
