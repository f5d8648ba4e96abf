from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from hermes_tools.builtin import search_files as search_module
from hermes_tools.standalone.ignore_rules import IgnoreRules
from standalone_help import at_work


def search(bench: Any, pattern: str, **more: Any) -> list[str]:
    text: str = bench.text("search_files", {"pattern": pattern, **more}, "file")
    return text.splitlines()


def test_a_pattern_that_takes_for_ever_is_stopped_and_what_was_found_is_kept(
    bench: Any, monkeypatch: pytest.MonkeyPatch, growing_limits: tuple[float, ...]
) -> None:
    (bench.workspace / "a.txt").write_text("aaab\n")
    (bench.workspace / "b.txt").write_text("a" * 200 + "c\n")
    for limit_s in growing_limits:
        monkeypatch.setattr(search_module, "TIME_LIMIT_S", limit_s)
        found = search(bench, r"^(a+)+b$")
        if found[0].startswith("a.txt"):
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


def test_output_is_bounded_however_much_is_found(bench: Any) -> None:
    (bench.workspace / "wide.txt").write_text(("value " + "x" * 2_000 + "\n") * 5_000)
    found = search(bench, "value", limit=999_999)
    assert len("\n".join(found)) < 40_000
    assert found[-1] == "[only the first 1000 results are shown]"


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
