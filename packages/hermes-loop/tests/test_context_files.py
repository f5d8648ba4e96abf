"""Context files: read once, bounded, and never again for the same conversation."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from hermes_loop import AIAgent
from hermes_loop.context_files import FILE_LIMIT
from hermes_messages import ConfigurationError
from hermes_messages.testing import MemoryStore, ScriptedProvider, SimpleExecutor, ToolDouble, text


def prompt(cwd: Path | None, store: MemoryStore | None = None, **others: object) -> str:
    provider = ScriptedProvider([text("ok")])

    async def main() -> None:
        agent = AIAgent(
            provider=provider,
            tools=SimpleExecutor([ToolDouble("look")], guidance="Skills: none yet."),
            session_db=store,
            session_id="s",
            cwd=cwd,
            **others,  # type: ignore[arg-type]
        )
        async with agent:
            assert (await agent.run_conversation("go"))["completed"]

    asyncio.run(main())
    return str(provider.requests[0].history[0].content)


def test_the_usual_files_of_the_given_directory_are_part_of_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    (tmp_path / "CLAUDE.md").write_text("Be kind.")
    found = prompt(tmp_path)
    assert found.index("Skills: none yet.") < found.index("Use tabs.") < found.index("Be kind.")
    assert found.endswith(f"Working directory: {tmp_path}")


def test_a_session_keeps_its_prompt_when_the_file_changes(tmp_path: Path) -> None:
    store = MemoryStore()
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    first = prompt(tmp_path, store)
    (tmp_path / "AGENTS.md").write_text("Use spaces.")
    assert prompt(tmp_path, store) == first
    assert "Use spaces." in prompt(tmp_path, MemoryStore())


@pytest.mark.parametrize(
    "others", [{"skip_context_files": True}, {"context_files": []}, {"system_prompt": "Only this."}]
)
def test_a_host_can_do_without(tmp_path: Path, others: dict[str, object]) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    assert "tabs" not in prompt(tmp_path, None, **others)


def test_without_a_given_directory_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service must not change its prompt with the directory that it was started in."""
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    monkeypatch.chdir(tmp_path)
    assert "tabs" not in prompt(None)
    assert "tabs" in prompt(None, context_files=["AGENTS.md"])


def test_large_same_missing_and_odd_files_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "big.md").write_text("x" * (FILE_LIMIT + 10))
    (tmp_path / "same.md").symlink_to(tmp_path / "big.md")
    (tmp_path / "bytes.md").write_bytes(b"caf\xe9 \xff")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "binary.md").write_bytes(b"\x7fELF\0\0")
    os.mkfifo(tmp_path / "pipe.md")
    names = ["big.md", "same.md", "bytes.md", "folder.md", "pipe.md", "missing.md", "\0", "binary.md"]
    found = prompt(tmp_path, context_files=names)
    assert found.count("# From ") == 2
    assert f"[cut after {FILE_LIMIT} bytes]" in found
    assert len(found) < FILE_LIMIT + 1000


def test_a_mark_at_the_start_of_a_file_is_no_part_of_its_text(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("\ufeffUse tabs.", encoding="utf-8")
    assert "\n\nUse tabs." in prompt(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")
def test_a_link_to_the_environment_of_the_process_gives_nothing_away(
    tmp_path: Path,
) -> None:
    (tmp_path / "AGENTS.md").symlink_to("/proc/self/environ")
    assert "PATH=" not in prompt(tmp_path)


@pytest.mark.parametrize("names", ["AGENTS.md", [1], [f"{i}.md" for i in range(9)]])
def test_wrong_names_are_refused_when_the_agent_is_made(names: object) -> None:
    with pytest.raises(ConfigurationError, match="context_files"):
        AIAgent(provider=ScriptedProvider([]), context_files=names)  # type: ignore[arg-type]
