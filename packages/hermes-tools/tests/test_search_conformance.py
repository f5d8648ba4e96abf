"""What a search answers, asked of both places for files: this machine, and a container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from container_help import BOTH, EVERYWHERE, HOST_FIRST, Ask


def search(pattern: str, **more: object) -> tuple[str, dict[str, object]]:
    return "search_files", {"pattern": pattern, **more}


def write(workspace: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


TREE = {
    "a.py": "import os\nvalue = 1\n",
    "b.txt": "value two\r\n",
    "src/c.py": "def value():\n    pass\n",
    "src/deep/d.py": "nothing\n",
    "src/y.log": "value\n",
    "build/e.py": "value\n",
    "node_modules/f.py": "value\n",
    ".gitignore": "build/\n*.log\n!keep.log\n/only_here.py\n",
    "x.log": "value\n",
    "keep.log": "value\n",
    "src/only_here.py": "value\n",
    "only_here.py": "value\n",
    "odd.txt": "f(x[\n",
    "-n": "end\n\nthree\n",
    "empty": "",
}


@EVERYWHERE
def test_contents_and_names_are_found_and_ignore_files_honoured(ask: Ask, bench: Any) -> None:
    write(bench.workspace, TREE)
    (bench.workspace / "binary.dat").write_bytes(b"value\0\n")
    (bench.workspace / "wide.txt").write_text("value wide\n", encoding="utf-16")
    (bench.workspace / "wider.txt").write_text("find me\n", encoding="utf-32")
    os.link(bench.workspace / "keep.log", bench.workspace / "linked.txt")
    first, second, named = ask(search(r"value\b"), search("^$|find"), search("*.py", target="files"))
    assert first.splitlines() == [
        "a.py:2: value = 1",
        "b.txt:1: value two",
        "keep.log:1: value",
        "linked.txt:1: value",
        "src/c.py:1: def value():",
        "src/only_here.py:1: value",
        "wide.txt:1: value wide",
    ]
    assert second.splitlines() == ["-n:2: ", "wider.txt:1: find me"]
    assert named.splitlines() == ["a.py", "src/c.py", "src/deep/d.py", "src/only_here.py"]


@HOST_FIRST
def test_places_limits_and_patterns_of_a_search(ask: Ask, bench: Any) -> None:
    write(bench.workspace, TREE)
    answers = ask(
        search("f(x["),
        search("value", limit=2),
        search("value", path=str(bench.workspace / "src")),
        search("value", path="build/e.py"),
        search("src/**/*.py", target="files"),
        search("src/*.py", target="files"),
        search("KEEP", target="files"),
        search("d.py", target="files", path="src"),
        search("a.py", target="files", path="a.py"),
        search("absent", target="files"),
    )
    found = [answer.splitlines() for answer in answers]
    assert found[0][0] == "odd.txt:1: f(x["
    assert "not a valid regex" in found[0][1]
    assert found[1] == ["a.py:2: value = 1", "b.txt:1: value two", "[only the first 2 results are shown]"]
    assert found[2] == ["src/c.py:1: def value():", "src/only_here.py:1: value"]
    assert found[3] == ["build/e.py:1: value"]
    assert found[4] == ["src/c.py", "src/deep/d.py", "src/only_here.py"]
    assert found[5] == ["src/c.py", "src/only_here.py"]
    assert found[6] == ["keep.log"]
    assert found[7] == ["src/deep/d.py"]
    assert found[8] == ["a.py"]
    assert found[9] == ["no matches for absent"]


@HOST_FIRST
def test_rules_are_nested_taken_back_and_read_from_both_kinds_of_ignore_files(ask: Ask, bench: Any) -> None:
    write(
        bench.workspace,
        {
            ".gitignore": "\ufeff*.txt\r\n!kept.txt\r\n",
            ".ignore": "secret*\n",
            "kept.txt": "value",
            "a.txt": "value",
            "secret.md": "value",
            "sub/.gitignore": "!a.txt\n/only.md\n",
            "sub/a.txt": "value",
            "sub/b.txt": "value",
            "sub/only.md": "value",
            "sub/deep/only.md": "value",
            "sub/deep/.ignore": "!secret.md\n",
            "sub/deep/secret.md": "value",
            "gone/.gitignore": "*\n",
            "gone/x.md": "value",
        },
    )
    answers = ask(
        search("value"), search("*.md", target="files"), search("*.md", target="files", path="sub/deep")
    )
    assert answers[0].splitlines() == [
        "kept.txt:1: value",
        "sub/a.txt:1: value",
        "sub/deep/only.md:1: value",
        "sub/deep/secret.md:1: value",
    ]
    assert answers[1].splitlines() == ["sub/deep/only.md", "sub/deep/secret.md"]
    assert answers[2] == answers[1]


@BOTH
def test_links_pipes_odd_names_and_endless_trees(ask: Ask, bench: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("value\n")
    (bench.workspace / "link.txt").symlink_to(tmp_path / "secret.txt")
    (bench.workspace / "up").symlink_to(tmp_path)
    (bench.workspace / "circle").symlink_to(bench.workspace)
    (bench.workspace / "loop").symlink_to("loop")
    os.mkfifo(bench.workspace / "pipe")
    (bench.workspace / "a\nb.md").write_text("value\n")
    with open(os.fsencode(bench.workspace) + b"/caf\xe9.md", "w") as file:  # noqa: PTH123
        file.write("value\n")
    write(bench.workspace, {"d/d/a.md": "value\n", "/".join(["d"] * 130) + "/lost.md": "value\n"})
    content, names, pipe, loop, none = ask(
        search("value"),
        search("*.md", target="files"),
        search("x", path="pipe"),
        search("x", path="loop"),
        search("x", path="nowhere"),
    )
    lines = content.split("\n")
    assert lines[:2] == ["a", "b.md:1: value"]
    assert lines[2] == "caf\\xe9.md:1: value"
    assert lines[3] == "d/d/a.md:1: value"
    assert "lies deeper than 100 directories" in lines[4]
    assert len(lines) == 5
    assert names.split("\n")[:4] == ["a", "b.md", "caf\\xe9.md", "d/d/a.md"]
    assert "pipe is a named pipe, no file and no directory" in pipe
    assert "loop is a symbolic link, no file and no directory" in loop
    assert "nowhere: no such file or directory" in none
