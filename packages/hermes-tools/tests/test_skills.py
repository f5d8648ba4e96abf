from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hermes_tools.builtin import skills as skills_module
from hermes_tools.builtin.front_matter import read_front_matter
from hermes_tools.builtin.skills import SkillsToolset


def skill(folder: Path, name: str = "", description: str = "", body: str = "Do it.\n") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    head = f"---\nname: {name}\ndescription: {description}\n---\n" if name else ""
    (folder / "SKILL.md").write_text(head + body)


def refused(bench: Any, **arguments: Any) -> str:
    [result] = bench.run(bench.call("skill_view", arguments), toolsets=("skills",))
    assert result.status == "error", result.content
    return str(result.content)


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "hermes-home" / "skills"
    skill(first / "pdf", "pdf", "Read PDF files", "Use pdftotext.\n")
    (first / "pdf/scripts").mkdir()
    (first / "pdf/scripts/run.sh").write_text("echo run\n")
    skill(first / "writing/letters", "letters", '"Write \\"good\\" letters"')
    skill(second / "pdf", "pdf", "Another of this name", "Never shown.\n")
    skill(second / "bare")
    monkeypatch.setenv("HERMES_SKILLS", str(first))
    return first, second


def test_skills_of_several_roots_are_listed_the_earlier_root_first(bench: Any, roots: Any) -> None:
    assert bench.text("skills_list", {}, "skills").splitlines() == [
        "pdf: Read PDF files",
        'letters: Write "good" letters',
        "bare",
    ]


def test_a_skill_and_the_files_of_its_folder_are_read(bench: Any, roots: Any) -> None:
    text = bench.text("skill_view", {"name": "pdf"}, "skills")
    assert text.endswith("Use pdftotext.\n[further files: scripts/run.sh]")
    assert bench.text("skill_view", {"name": "pdf", "file": "scripts/run.sh"}, "skills") == "echo run"
    assert "Do it." in bench.text("skill_view", {"name": "bare"}, "skills")


def test_what_is_not_there_is_answered_with_what_is(bench: Any, roots: Any) -> None:
    assert "known: pdf, letters, bare" in refused(bench, name="absent")
    assert "its files: SKILL.md, scripts/run.sh" in refused(bench, name="pdf", file="absent.md")


def test_a_skill_folder_can_not_be_left(bench: Any, roots: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = roots[0] / "pdf"
    (folder / "link.md").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    for file in ("../writing/letters/SKILL.md", "link.md", "up/secret.txt", str(tmp_path / "secret.txt"), ""):
        assert "secret\n" not in refused(bench, name="pdf", file=file) + "\n"
    assert "named pipe" in refused(bench, name="pdf", file="pipe")
    assert "link.md" not in bench.text("skill_view", {"name": "pdf"}, "skills")
    (roots[0] / "linked").symlink_to(tmp_path)
    skill(tmp_path / "outside", "outside", "x")
    assert "outside" not in bench.text("skills_list", {}, "skills")


def test_large_binary_and_deep_files_have_limits(
    bench: Any, roots: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skills_module, "MAX_FILE_BYTES", 1_000)
    (roots[0] / "pdf/big.md").write_text("x" * 5_000)
    (roots[0] / "pdf/bin").write_bytes(b"\0" * 10)
    text = bench.text("skill_view", {"name": "pdf", "file": "big.md"}, "skills")
    assert text == "x" * 1_000 + "\n[cut at 1000 bytes]"
    assert "binary" in refused(bench, name="pdf", file="bin")
    skill(roots[0] / "a/b/c/d", "deep", "too deep")
    assert "deep" not in bench.text("skills_list", {}, "skills")
    monkeypatch.setattr(skills_module, "MAX_SKILLS", 2)
    assert "[only the first 2 are shown]" in bench.text("skills_list", {}, "skills")


def test_the_toolset_is_absent_where_there_is_no_skill(bench: Any, run_async: Any, tmp_path: Path) -> None:
    empty = tmp_path / "empty"

    async def main() -> None:
        executor = bench.executor("skills")
        snapshot = await executor.refresh(bench.turn())
        assert not snapshot.tools
        assert "there is no skill in" in snapshot.unavailable[0].reason
        assert not snapshot.guidance
        await executor.close()
        toolset = SkillsToolset([str(empty)])
        await toolset.refresh(bench.turn())
        assert toolset.unavailable_reason() == f"there is no skill in {empty}"
        skill(empty / "one", "one", "first")
        await toolset.refresh(bench.turn())
        assert toolset.unavailable_reason() is None
        assert "skills_list" in toolset.guidance

    run_async(main())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\nname: a\n---\nbody", {"name": "a"}),
        ("---\r\nname: 'it''s'\r\n---\r\n", {"name": "it's"}),
        ('\ufeff---\nname: "a: b"  \n---\n', {"name": "a: b"}),
        ("---\ndescription: >-\n  one\n  two\n---\n", {"description": "one two"}),
        ("---\ndescription: one\n  two\nname: x # note\n---\n", {"description": "one two", "name": "x"}),
        ("---\nmetadata:\n  name: inner\nName: outer\n---\n", {"metadata": "name: inner", "name": "outer"}),
        ("---\n- list\n  x\n---\n", {}),
        ("---\nname: a\n", {}),
        ("no head", {}),
        ("", {}),
    ],
)
def test_the_head_of_a_skill_file(text: str, expected: dict[str, str]) -> None:
    assert read_front_matter(text) == expected


@pytest.mark.parametrize(
    "head",
    [
        "description: x" + " " * 1_000_000 + "y",
        "description: x\n" + " a\n" * 300_000,
        "a:\n" * 300_000,
        "name: " + "x" * 1_000_000,
    ],
)
def test_a_head_that_is_made_to_be_slow_is_read_in_linear_time(head: str) -> None:
    # Many times longer than any that is read: with the square of the length it would not end.
    assert read_front_matter(f"---\n{head}\n---\n")


def test_a_folder_of_very_many_files_is_named_in_part_and_a_long_name_is_cut(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "hermes-home" / "skills"
    skill(root / "many", "n" * 5_000)
    for number in range(300):
        (root / "many" / f"f{number}").write_text("x")
    [line] = bench.text("skills_list", {}, "skills").splitlines()
    assert line == "n" * skills_module.MAX_NAME
    text = bench.text("skill_view", {"name": line}, "skills")
    assert len(text.split("further files: ")[1].split(", ")) == skills_module.MAX_FILES_NAMED - 1
