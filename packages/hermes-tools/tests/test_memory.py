from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_tools.builtin import memory as memory_module
from hermes_tools.builtin.memory import MemoryToolset
from hermes_tools.builtin.notes import SEPARATOR, added, join_notes, read_notes
from hermes_tools.errors import ToolFailure


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "hermes-home" / "memory"


def memory(bench: Any, action: str, **more: Any) -> str:
    return str(bench.text("memory", {"action": action, **more}, "memory"))


def refused(bench: Any, action: str, **more: Any) -> str:
    [result] = bench.run(bench.call("memory", {"action": action, **more}), toolsets=("memory",))
    assert result.status == "error", result.content
    return str(result.content)


async def guidance(bench: Any, toolset: MemoryToolset, session_id: str) -> str:
    await toolset.refresh(bench.turn(session_id=session_id))
    return toolset.guidance


def test_notes_are_added_replaced_and_removed(bench: Any, home: Path) -> None:
    assert memory(bench, "add", content=" tests run with make ") == "kept; 1 in notes, 20 of 4000 characters"
    memory(bench, "add", content="the port is 8080\nin tests 8081")
    assert "was there already" in memory(bench, "add", content="tests run with make")
    memory(bench, "replace", old_text="8080", content="the port is 9090")
    assert (home / "NOTES.md").read_text() == "tests run with make\n\u00a7\nthe port is 9090\n"
    memory(bench, "remove", old_text="make")
    memory(bench, "add", target="user", content="likes short answers")
    assert (home / "NOTES.md").read_text() == "the port is 9090\n"
    assert (home / "USER.md").read_text() == "likes short answers\n"
    assert stat.S_IMODE((home / "NOTES.md").stat().st_mode) == 0o600


def test_what_can_not_be_done_changes_nothing_and_says_what_is_there(bench: Any, home: Path) -> None:
    memory(bench, "add", content="first note about tests")
    memory(bench, "add", content="second note about tests")
    before = (home / "NOTES.md").read_text()
    text = refused(bench, "remove", old_text="about tests")
    assert "2 notes hold 'about tests'" in text
    assert "- first note about tests" in text
    assert "no note holds 'absent'" in refused(bench, "replace", old_text="absent", content="x")
    assert "content is empty" in refused(bench, "add", content=" ")
    assert "old_text is empty" in refused(bench, "remove")
    assert "only \u00a7" in refused(bench, "add", content="a\n\u00a7\nb")
    text = refused(bench, "add", content="x" * 4_000)
    assert "of 4000; nothing was changed" in text
    assert "- second note" in text
    assert (home / "NOTES.md").read_text() == before


def test_what_is_known_is_in_the_guidance_and_stays_the_same_for_a_session(
    bench: Any, run_async: Any, home: Path
) -> None:
    memory(bench, "add", content="tests run with make")
    memory(bench, "add", target="user", content="likes short answers")

    async def main() -> None:
        executor = bench.executor("memory")
        first = (await executor.refresh(bench.turn())).guidance
        assert "tests run with make" in first
        assert "likes short answers" in first
        [result] = (
            await bench.outcome(executor, bench.call("memory", {"action": "add", "content": "new"}))
        ).results
        assert result.status == "ok"
        assert (await executor.refresh(bench.turn())).guidance == first
        later = (await executor.refresh(bench.turn(session_id="next"))).guidance
        assert "new" in later
        assert (await executor.refresh(bench.turn())).guidance == first
        await executor.close()

    run_async(main())


def test_a_credential_and_invisible_text_are_not_kept(
    bench: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1")
    memory(bench, "add", content="the key is sk-very-secret-1\U000e0041\U000e0042")
    assert (home / "NOTES.md").read_text() == "the key is [hidden]\n"


_WRITER = """
import hermes_tools.builtin.memory
hermes_tools.builtin.memory.LOCK_LIMIT_S = 300  # the one that holds the lock may be stopped a while

def toolsets():
    return [MemoryToolset(sys.argv[1], notes_limit=100_000)]

async def main(run):
    for number in range(int(sys.argv[3])):
        status, text = await run("memory", action="add", content=f"{sys.argv[2]} {number}")
        assert status == "ok", text
"""


def test_processes_that_write_at_once_lose_nothing(home: Path, program: Any) -> None:
    each = 40
    writers = [
        subprocess.Popen([*program(_WRITER), str(home), name, str(each)]) for name in ("one", "two", "three")
    ]
    assert [writer.wait(timeout=300) for writer in writers] == [0, 0, 0]
    notes = read_notes((home / "NOTES.md").read_text())
    for name in ("one", "two", "three"):
        assert [note for note in notes if note.startswith(name + " ")] == [f"{name} {n}" for n in range(each)]
    assert sorted(entry.name for entry in home.iterdir()) == [".lock", "NOTES.md"]


def test_a_lock_that_is_held_too_long_is_told(
    bench: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "LOCK_LIMIT_S", 0.05)
    memory(bench, "add", content="one")
    program = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(home / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    holder.stdout.readline()
    assert "held by another process" in refused(bench, "add", content="two")
    holder.stdin.write(b"\n")
    holder.stdin.close()
    holder.wait()
    holder.stdout.close()
    memory(bench, "add", content="two")


def test_files_that_are_links_or_no_text_are_refused_and_do_not_end_the_turn(
    bench: Any, home: Path, run_async: Any, tmp_path: Path
) -> None:
    home.mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (home / "NOTES.md").symlink_to(tmp_path / "secret.txt")
    (home / "USER.md").write_bytes(b"caf\xe9")
    assert "symbolic link" in refused(bench, "add", content="x")
    assert "not UTF-8" in refused(bench, "add", target="user", content="x")
    text = run_async(guidance(bench, MemoryToolset(), "s"))
    assert "secret" not in text
    assert "caf\ufffd" in text
    assert (tmp_path / "secret.txt").read_text() == "secret"


def test_a_file_that_is_too_large_to_be_read_whole_is_not_cut_by_a_change(bench: Any, home: Path) -> None:
    home.mkdir(parents=True)
    before = "first\n\u00a7\n" + "x" * (memory_module.MAX_FILE_BYTES + 10)
    (home / "NOTES.md").write_text(before)
    assert "is larger than" in refused(bench, "remove", old_text="first")
    assert (home / "NOTES.md").read_text() == before


def test_the_toolset_is_absent_without_a_directory_and_says_why(
    bench: Any, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HERMES_HOME")
    monkeypatch.delenv("HOME", raising=False)

    async def main() -> None:
        executor = bench.executor("memory")
        snapshot = await executor.refresh(bench.turn())
        assert not snapshot.tools
        assert "set HERMES_HOME" in snapshot.unavailable[0].reason
        assert not snapshot.guidance
        await executor.close()

    run_async(main())
    monkeypatch.setenv("HOME", "/somewhere")
    assert MemoryToolset().unavailable_reason() is None
    assert not os.path.exists("/somewhere")  # noqa: PTH110


NOTES = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=20)


@given(st.lists(NOTES))
def test_notes_are_read_back_as_they_were_kept(contents: list[str]) -> None:
    notes: tuple[str, ...] = ()
    for content in contents:
        try:
            notes = added(notes, content, 1_000)
        except ToolFailure:
            assert not content.strip() or SEPARATOR in f"\n{content.strip()}\n"
    assert read_notes(join_notes(notes)) == notes
