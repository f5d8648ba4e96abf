"""Patches that can not be brought to an end: the files are as they were."""

from __future__ import annotations

import asyncio
import errno
import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hermes_tools import files
from patch_help import refused
from standalone_help import at_work

pytestmark = pytest.mark.usefixtures("patient_patches")

_LIMITED = """
async def main(run):
    sys.dont_write_bytecode = True  # else the limit would cut the cached modules of everybody
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    print(json.dumps([await run(name, **arguments) for name, arguments in json.load(sys.stdin)]))
"""


@pytest.fixture
def with_size_limit(program: Any) -> Any:
    def run(cwd: Path, limit: int, *calls: tuple[str, dict[str, str]]) -> list[list[str]]:
        ended = subprocess.run(
            [*program(_LIMITED), str(cwd), str(limit)],
            input=json.dumps(calls).encode(),
            capture_output=True,
            check=True,
            timeout=100,
        )
        answer: list[list[str]] = json.loads(ended.stdout)
        return answer

    return run


def test_a_file_that_may_not_grow_keeps_its_old_content_and_the_error_says_so(
    bench: Any, with_size_limit: Any
) -> None:
    path = bench.workspace / "a.txt"
    path.write_text("old\n" * 100)
    grown = "new\n" * 5_000
    results = with_size_limit(
        bench.workspace,
        4_096,
        ("write_file", {"path": "a.txt", "content": grown}),
        ("patch", {"path": "a.txt", "diff": "@@ -1,0 +2,1 @@\n" + "+new\n" * 3_000}),
        ("write_file", {"path": "deep/new.txt", "content": grown}),
        ("write_file", {"path": "small.txt", "content": "fits"}),
    )
    assert [status for status, _ in results] == ["error", "error", "error", "ok"]
    assert "File too large; the old file is unchanged" in results[0][1]
    assert "File too large; the old file is unchanged" in results[1][1]
    assert "nothing was written" in results[2][1]
    assert path.read_text() == "old\n" * 100
    assert sorted(entry.name for entry in bench.workspace.iterdir()) == ["a.txt", "deep", "small.txt"]
    assert not list((bench.workspace / "deep").iterdir())


def test_a_disk_that_is_full_keeps_the_old_content(bench: Any, tmp_path: Path, with_size_limit: Any) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("platform: no file system may be mounted here")
    try:
        (disk / "a.txt").write_text("old\n" * 5_000)
        results = with_size_limit(
            disk,
            1 << 30,
            ("write_file", {"path": "a.txt", "content": "new\n" * 20_000}),
            ("patch", {"path": "a.txt", "diff": "@@ -1,0 +2,1 @@\n" + "+new\n" * 15_000}),
        )
        assert [status for status, _ in results] == ["error", "error"]
        assert all("No space left on device; the old file is unchanged" in text for _, text in results)
        assert (disk / "a.txt").read_text() == "old\n" * 5_000
        assert [entry.name for entry in disk.iterdir()] == ["a.txt"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_diff_of_several_files_for_which_the_disk_has_no_room_changes_none(
    bench: Any, with_size_limit: Any
) -> None:
    (bench.workspace / "a.txt").write_text("a\n")
    (bench.workspace / "b.txt").write_text("b\n")
    grown = "".join(f"+{number}\n" for number in range(2_000))
    diff = (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+A\n"
        f"--- /dev/null\n+++ b/c.txt\n@@ -0,0 +1 @@\n+c\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-b\n{grown}"
    )
    [[status, text]] = with_size_limit(bench.workspace, 4_096, ("patch", {"diff": diff}))
    assert status == "error"
    assert "b.txt could not be written: File too large; the old file is unchanged, as are all others" in text
    assert (bench.workspace / "a.txt").read_text() == "a\n"
    assert sorted(entry.name for entry in bench.workspace.iterdir()) == ["a.txt", "b.txt"]


def test_files_changed_before_one_that_can_not_be_put_in_place_are_restored(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "gone.txt", "z.txt"):
        (bench.workspace / name).write_bytes(b"\xef\xbb\xbfold\r\n")
        (bench.workspace / name).chmod(0o751)
    rename = files.OpenDirectory.replace

    async def failing(self: files.OpenDirectory, old: str, new: str) -> None:
        if new == "z.txt":
            raise OSError(errno.EIO, "Input/output error")
        await rename(self, old, new)

    monkeypatch.setattr(files.OpenDirectory, "replace", failing)
    text = refused(
        bench,
        diff="--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n"
        "--- /dev/null\n+++ b/c.txt\n@@ -0,0 +1 @@\n+c\n"
        "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
        "--- a/z.txt\n+++ b/z.txt\n@@ -1 +1 @@\n-old\n+new\n",
    )
    assert (
        "z.txt could not be written: Input/output error; the old file is unchanged, as are all others" in text
    )
    assert sorted(entry.name for entry in bench.workspace.iterdir()) == ["a.txt", "gone.txt", "z.txt"]
    for name in ("a.txt", "gone.txt", "z.txt"):
        assert (bench.workspace / name).read_bytes() == b"\xef\xbb\xbfold\r\n"
        assert stat.S_IMODE((bench.workspace / name).stat().st_mode) == 0o751


def test_a_patch_that_is_cancelled_leaves_the_old_file_and_no_process(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    path = bench.workspace / "big.txt"
    before = "a\n" * 2_000_000
    path.write_text(before)

    async def main() -> None:
        executor = bench.executor("file")
        arguments = {"path": "big.txt", "old_string": "b", "new_string": "c"}
        round_ = asyncio.ensure_future(bench.outcome(executor, bench.call("patch", arguments)))
        await wait_until(lambda: at_work("edit"))
        round_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await round_
        assert not at_work("edit")
        await executor.close()

    run_async(main())
    assert path.read_text() == before
