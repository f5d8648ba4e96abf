from __future__ import annotations

import asyncio
import os
import re
from typing import Any

import pytest

from hermes_tools.builtin import search_files as search_module
from hermes_tools.builtin.search_worker import IgnoreRules, ignore_rule, rules_above


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


def test_a_pattern_that_takes_for_ever_is_stopped_and_what_was_found_is_kept(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "TIME_LIMIT_S", 1.0)
    (bench.workspace / "a.txt").write_text("aaab\n")
    (bench.workspace / "b.txt").write_text("a" * 200 + "c\n")
    found = search(bench, r"^(a+)+b$")
    assert found == ["a.txt:1: aaab", "[stopped after 1 s; there may be more]"]


def test_a_search_that_is_cancelled_leaves_no_process(bench: Any, run_async: Any, wait_until: Any) -> None:
    (bench.workspace / "b.txt").write_text("a" * 200 + "c\n")

    async def main() -> None:
        executor = bench.executor("file")
        round_ = asyncio.ensure_future(
            bench.outcome(executor, bench.call("search_files", {"pattern": r"^(a+)+b$"}))
        )
        await wait_until(lambda: search_processes(bench))
        round_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await round_
        assert not search_processes(bench)
        await executor.close()

    run_async(main())


def search_processes(bench: Any) -> list[str]:
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:  # noqa: PTH123
                line = file.read().decode(errors="replace")
        except OSError:
            continue
        if "search_worker" in line and str(bench.workspace) in line:
            found.append(name)
    return found


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
    rule = ignore_rule(line)
    rules = IgnoreRules((("/w", (rule,)),)) if rule else IgnoreRules()
    assert rules.ignores(f"/w/{path}", is_directory) is ignored


def test_the_nearest_rule_wins() -> None:
    outer, inner = ignore_rule("*.log"), ignore_rule("!a.log")
    assert outer
    assert inner
    rules = IgnoreRules((("/w", (outer,)), ("/w/d", (inner,))))
    assert not rules.ignores("/w/d/a.log", False)
    assert rules.ignores("/w/d/b.log", False)
    assert not rules_above("/w", "/elsewhere").ignores("/elsewhere/x", False)


def test_the_pattern_is_bounded(bench: Any) -> None:
    for pattern in ("", "a\0", "x" * 3_000):
        [result] = bench.run(bench.call("search_files", {"pattern": pattern}), toolsets=("file",))
        assert result.status == "error"
        assert re.match("the pattern must", result.content)
