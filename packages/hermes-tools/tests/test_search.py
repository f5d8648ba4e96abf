from __future__ import annotations

import asyncio
import os
import re
from typing import Any

import pytest

from hermes_tools.builtin import search_files as search_module
from hermes_tools.standalone.ignore_rules import IgnoreRules
from standalone_help import at_work


def search(bench: Any, pattern: str, **more: Any) -> list[str]:
    text: str = bench.text("search_files", {"pattern": pattern, **more}, "file")
    return text.splitlines()


@pytest.fixture
def tree(bench: Any) -> Any:
    for name, text in {
        "a.py": "import os\nvalue = 1\n",
        "b.txt": "value two\r\n",
        "src/c.py": "def value():\n    pass\n",
        "src/deep/d.py": "nothing\n",
        "build/e.py": "value\n",
        "node_modules/f.py": "value\n",
        ".gitignore": "build/\n*.log\n!keep.log\n/only_here.py\n",
        "x.log": "value\n",
        "keep.log": "value\n",
        "src/only_here.py": "value\n",
        "only_here.py": "value\n",
    }.items():
        path = bench.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    (bench.workspace / "binary.dat").write_bytes(b"value\0\n")
    (bench.workspace / "wide.txt").write_text("value wide\n", encoding="utf-16")
    return bench


def test_content_is_found_with_place_and_ignore_files_are_honoured(tree: Any) -> None:
    assert search(tree, r"value\b") == [
        "a.py:2: value = 1",
        "b.txt:1: value two",
        "keep.log:1: value",
        "src/c.py:1: def value():",
        "src/only_here.py:1: value",
        "wide.txt:1: value wide",
    ]


def test_files_are_found_by_name(tree: Any) -> None:
    assert search(tree, "*.py", target="files") == ["a.py", "src/c.py", "src/deep/d.py", "src/only_here.py"]
    assert search(tree, "src/**/*.py", target="files") == ["src/c.py", "src/deep/d.py", "src/only_here.py"]
    assert search(tree, "src/*.py", target="files") == ["src/c.py", "src/only_here.py"]
    assert search(tree, "KEEP", target="files") == ["keep.log"]
    assert search(tree, "d.py", target="files", path="src") == ["src/deep/d.py"]


def test_one_file_can_be_searched_and_rules_above_a_directory_hold(tree: Any) -> None:
    assert search(tree, "value", path="build/e.py") == ["build/e.py:1: value"]
    (tree.workspace / "src/y.log").write_text("value\n")
    assert search(tree, "value", path="src") == ["src/c.py:1: def value():", "src/only_here.py:1: value"]


def test_no_match_too_many_and_an_invalid_pattern_are_said(tree: Any) -> None:
    assert search(tree, "absent") == ["no matches for absent"]
    assert search(tree, "value", limit=2)[-1] == "[only the first 2 results are shown]"
    assert len(search(tree, "value", limit=2)) == 3
    (tree.workspace / "odd.txt").write_text("f(x[\n")
    found = search(tree, "f(x[")
    assert found[0] == "odd.txt:1: f(x["
    assert "not a valid regex" in found[1]


def test_links_and_pipes_are_not_followed(bench: Any, tmp_path: Any) -> None:
    (tmp_path / "secret.txt").write_text("value\n")
    (bench.workspace / "link.txt").symlink_to(tmp_path / "secret.txt")
    (bench.workspace / "up").symlink_to(tmp_path)
    (bench.workspace / "loop").symlink_to(bench.workspace)
    os.mkfifo(bench.workspace / "pipe")
    assert search(bench, "value") == ["no matches for value"]


def test_a_pipe_or_a_circle_of_links_as_the_place_to_search_is_told_in_words(bench: Any) -> None:
    os.mkfifo(bench.workspace / "pipe")
    (bench.workspace / "loop").symlink_to("loop")
    for name, kind in (("pipe", "a named pipe"), ("loop", "a symbolic link")):
        [result] = bench.run(bench.call("search_files", {"pattern": "x", "path": name}), toolsets=("file",))
        assert f"{name} is {kind}, no file and no directory" in result.content


def test_the_end_of_the_last_line_begins_no_further_line(bench: Any) -> None:
    (bench.workspace / "a.txt").write_text("one\n\nthree\n")
    (bench.workspace / "binary").write_bytes(b"\0\n\n")
    (bench.workspace / "empty").touch()
    assert search(bench, "^$") == ["a.txt:2: "]


def test_a_byte_order_mark_is_no_part_of_the_first_rule(bench: Any) -> None:
    (bench.workspace / ".gitignore").write_bytes(b"\xef\xbb\xbf*.log\r\n")
    (bench.workspace / "a.log").write_text("here\n")
    (bench.workspace / "b.txt").write_text("here\n")
    assert search(bench, "here") == ["b.txt:1: here"]


def test_text_in_utf_32_is_searched(bench: Any) -> None:
    (bench.workspace / "a.txt").write_text("find me\n", encoding="utf-32")
    assert search(bench, "find") == ["a.txt:1: find me"]


def test_a_pattern_that_takes_for_ever_is_stopped_and_what_was_found_is_kept(
    bench: Any, monkeypatch: pytest.MonkeyPatch, growing_limits: tuple[float, ...]
) -> None:
    (bench.workspace / "a.txt").write_text("aaab\n")
    (bench.workspace / "b.txt").write_text("a" * 200 + "c\n")
    for limit_s in growing_limits:
        monkeypatch.setattr(search_module, "TIME_LIMIT_S", limit_s)
        found = search(bench, r"^(a+)+b$")
        if len(found) > 1:
            break
    assert found == ["a.txt:1: aaab", f"[stopped after {limit_s:g} s; there may be more]"]


def test_a_search_that_is_cancelled_leaves_no_process(bench: Any, run_async: Any, wait_until: Any) -> None:
    (bench.workspace / "b.txt").write_text("a" * 200 + "c\n")

    async def main() -> None:
        executor = bench.executor("file")
        round_ = asyncio.ensure_future(
            bench.outcome(executor, bench.call("search_files", {"pattern": r"^(a+)+b$"}))
        )
        await wait_until(lambda: at_work("search"))
        round_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await round_
        assert not at_work("search")
        await executor.close()

    run_async(main())


@pytest.mark.parametrize(
    ("line", "path", "is_directory", "ignored"),
    [
        ("*.o", "a/b.o", False, True),
        ("/*.o", "a/b.o", False, False),
        ("a/b", "a/b", False, True),
        ("a/b", "x/a/b", False, False),
        ("**/b", "x/y/b", False, True),
        ("a/**", "a/x/y", False, True),
        ("a/**/b", "a/b", False, True),
        ("a/**/b", "a/x/y/b", False, True),
        ("logs/", "logs", False, False),
        ("logs/", "logs", True, True),
        ("[ab].txt", "b.txt", False, True),
        ("[!ab].txt", "b.txt", False, False),
        ("?.txt", "ab.txt", False, False),
        (r"\#x", "#x", False, True),
        ("# x", "# x", False, False),
        ("x ", "x", False, True),
        ("[", "[", False, True),
    ],
)
def test_a_rule_of_an_ignore_file(line: str, path: str, is_directory: bool, ignored: bool) -> None:
    assert IgnoreRules().adding("", line).ignores(path, is_directory=is_directory) is ignored
    assert IgnoreRules().adding("d/e", line).ignores(f"d/e/{path}", is_directory=is_directory) is ignored


def test_the_nearest_rule_wins() -> None:
    rules = IgnoreRules().adding("", "*.log").adding("d", "!a.log")
    assert not rules.ignores("d/a.log", is_directory=False)
    assert rules.ignores("d/b.log", is_directory=False)
    assert rules.ignores("a.log", is_directory=False)


def test_rules_are_nested_taken_back_and_read_from_both_kinds_of_ignore_files(bench: Any) -> None:
    for name, text in {
        ".gitignore": "*.txt\n!kept.txt\n",
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
    }.items():
        path = bench.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert search(bench, "value", target="content") == [
        "kept.txt:1: value",
        "sub/a.txt:1: value",
        "sub/deep/only.md:1: value",
        "sub/deep/secret.md:1: value",
    ]
    assert search(bench, "*.md", target="files") == ["sub/deep/only.md", "sub/deep/secret.md"]
    assert search(bench, "*.md", target="files", path="sub/deep") == [
        "sub/deep/only.md",
        "sub/deep/secret.md",
    ]


def test_output_is_bounded_however_much_is_found(bench: Any) -> None:
    (bench.workspace / "wide.txt").write_text(("value " + "x" * 2_000 + "\n") * 5_000)
    found = search(bench, "value", limit=999_999)
    assert len("\n".join(found)) < 40_000
    assert found[-1] == "[only the first 1000 results are shown]"


def test_a_tree_that_is_deeper_than_any_is_searched_to_a_limit(bench: Any) -> None:
    descriptor = os.open(bench.workspace, os.O_RDONLY)
    try:
        for _ in range(130):
            os.mkdir("d", dir_fd=descriptor)
            inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    finally:
        os.close(descriptor)
    (bench.workspace / "d/d/a.txt").write_text("value\n")
    found = search(bench, "value")
    assert found[0] == "d/d/a.txt:1: value"
    assert "lies deeper than 100 directories" in found[1]


def test_a_file_whose_name_is_no_text_is_found_all_the_same(bench: Any) -> None:
    with open(os.fsencode(bench.workspace) + b"/caf\xe9.txt", "w") as file:  # noqa: PTH123
        file.write("value\n")
    assert search(bench, "value") == ["caf\\xe9.txt:1: value"]


def test_further_roots_are_searched_and_named_in_full(bench: Any, tmp_path: Any) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("value\n")
    [result] = bench.run(
        bench.call("search_files", {"pattern": "value", "path": str(other)}),
        toolsets=("file",),
        settings={"extra_roots": (str(other),)},
    )
    assert result.content == f"{other}/a.txt:1: value"


def test_a_directory_swapped_for_a_link_while_it_is_searched_is_not_followed(
    bench: Any, tmp_path: Any, swapping: Any
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("value\n")
    (bench.workspace / "d").mkdir()
    (bench.workspace / "d/secret.txt").write_text("mine\n")
    with swapping(bench.workspace / "d", outside):
        for _ in range(12):
            assert search(bench, "value") == ["no matches for value"]


def test_the_pattern_is_bounded(bench: Any) -> None:
    for pattern in ("", "a\0", "x" * 3_000):
        [result] = bench.run(bench.call("search_files", {"pattern": pattern}), toolsets=("file",))
        assert result.status == "error"
        assert re.match("the pattern must", result.content)
