from __future__ import annotations

import asyncio
import codecs
import errno
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hermes_tools import files
from hermes_tools.builtin import patch as patch_module
from hermes_tools.child_work import run_standalone
from hermes_tools.standalone.edit import Edit, EditError, EditRequest, edit_bytes
from hermes_tools.standalone.text_matching import find
from hermes_tools.standalone.unified_diff import DiffError, make_diff, parse_diff


def patch(bench: Any, **arguments: Any) -> str:
    return str(bench.text("patch", arguments, "file"))


def refused(bench: Any, **arguments: Any) -> str:
    [result] = bench.run(bench.call("patch", arguments), toolsets=("file",))
    assert result.status == "error", result.content
    return str(result.content)


def edited(text: str, *edits: tuple[str, str], data: bytes | None = None) -> bytes:
    request: EditRequest = {
        "path": "f",
        "create": False,
        "delete": False,
        "edits": [Edit(old=old, new=new, everywhere=False, hunk=False, line=None) for old, new in edits],
    }
    return edit_bytes(text.encode() if data is None else data, request).data


@pytest.fixture
def file(bench: Any) -> Path:
    path = Path(bench.workspace / "a.py")
    path.write_text("def f(x):\n    return x\n\n\ndef g(x):\n    return x + 1\n")
    return path


@pytest.fixture(autouse=True)
def time_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch_module, "TIME_LIMIT_S", 100.0)


# -- edits by text ----------------------------------------------------------------------------------------


def test_a_text_that_is_there_once_is_replaced_and_the_difference_shown(bench: Any, file: Path) -> None:
    text = patch(bench, path="a.py", old_string="x + 1", new_string="x + 2")
    assert text.splitlines() == [
        "patched a.py",
        "--- a/a.py",
        "+++ b/a.py",
        "@@ -3,4 +3,4 @@",
        " ",
        " ",
        " def g(x):",
        "-    return x + 1",
        "+    return x + 2",
    ]
    assert file.read_text().endswith("return x + 2\n")


def test_a_text_that_is_there_more_than_once_is_refused_with_the_places(bench: Any, file: Path) -> None:
    before = file.read_text()
    text = refused(bench, path="a.py", old_string="return x", new_string="return y")
    assert "there 2 times, in lines 2, 6" in text
    assert "Nothing was changed" in text
    assert file.read_text() == before
    patch(bench, path="a.py", old_string="return x", new_string="return y", replace_all=True)
    assert file.read_text().count("return y") == 2


def test_matches_that_overlap_are_ambiguous_too() -> None:
    with pytest.raises(EditError, match="2 times"):
        edited("aaa", ("aa", "b"))


def test_several_edits_are_made_in_order_or_none_at_all(bench: Any, file: Path) -> None:
    edits = [
        {"old_string": "def f", "new_string": "def first"},
        {"old_string": "def first(x)", "new_string": "def first(y)"},
    ]
    patch(bench, path="a.py", edits=edits)
    assert file.read_text().startswith("def first(y):\n")
    before = file.read_text()
    text = refused(bench, path="a.py", edits=[*edits[1:], {"old_string": "absent", "new_string": ""}])
    assert "edit 1: the old text is not in the file" in text
    edits = [{"old_string": "first", "new_string": "f"}, {"old_string": "absent", "new_string": "x"}]
    assert "edit 2: the old text is not in the file" in refused(bench, path="a.py", edits=edits)
    assert file.read_text() == before


def test_what_makes_no_sense_is_refused_before_anything_is_read(bench: Any, file: Path) -> None:
    for arguments in (
        {},
        {"path": "a.py"},
        {"path": "a.py", "old_string": "x"},
        {"path": "a.py", "old_string": "x", "new_string": "y", "diff": "@@"},
        {"old_string": "x", "new_string": "y"},
        {"path": "a.py", "edits": []},
        {"path": "a.py", "old_string": "f", "new_string": "f"},
        {"path": "a.py", "old_string": "", "new_string": "f"},
        {"path": "none.py", "old_string": "x", "new_string": "f"},
        {"path": "../a.py", "old_string": "x", "new_string": "f"},
        {"diff": "nothing"},
    ):
        assert refused(bench, **arguments)
    (bench.workspace / "b.bin").write_bytes(b"\0\1\2")
    assert "binary" in refused(bench, path="b.bin", old_string="x", new_string="y")
    (bench.workspace / "d").mkdir()
    assert "d is a directory" in refused(bench, path="d", old_string="x", new_string="y")


def test_a_text_that_is_not_there_is_answered_with_what_is_like_it(bench: Any, file: Path) -> None:
    text = refused(bench, path="a.py", old_string="def g(x):\n    return 5\n", new_string="z")
    assert "its first line is like line 5, what follows differs" in text
    text = refused(bench, path="a.py", old_string="def h(x):", new_string="def g(x):")
    assert "the new text is there already" in text


# -- the ladder -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "old", "rung"),
    [
        ("a b\nc\n", "b\nc", 0),
        ("say \u201chi\u201d \u2014 now\n", 'say "hi" - now', 1),
        ("a\u00a0b\n", "a b", 1),
        ("if x:  \n    y\t\nz\n", "if x:\n    y\n", 2),
        ("class A:\n        def f():\n            pass\n", "    def f():\n        pass\n", 3),
        ("class A:\n\tdef f():\n\t\tpass\n", "def f():\n    pass", 3),
        ("x  =   1\ny = 2\n", "x = 1\ny = 2", 4),
    ],
)
def test_what_a_match_forgives(text: str, old: str, rung: int) -> None:
    assert [match.rung for match in find(text, old)] == [rung]


def test_a_stricter_match_wins_over_one_that_forgives_more() -> None:
    assert edited("  a = 1\na = 1 \n", ("a = 1\n", "b\n")) == b"  b\na = 1 \n"
    assert edited("x = 'a'\nx = \u2018a\u2019\n", ("x = \u2018a\u2019", "y")) == b"x = 'a'\ny\n"


def test_a_forgiving_match_is_ambiguous_as_an_exact_one_is(bench: Any) -> None:
    (bench.workspace / "a.txt").write_text("  go\n\n    go \n")
    text = refused(bench, path="a.txt", old_string="go\t", new_string="x")
    assert "2 times (with other indentation), in lines 1, 3" in text


def test_new_lines_are_indented_as_the_file_is_where_the_old_ones_were_not() -> None:
    text = "class A:\n\tdef f(self):\n\t\treturn 1\n"
    old = "def f(self):\n    return 1\n"
    new = "def f(self):\n    if x:\n        return 2\n\n    return 1\n"
    expected = "class A:\n\tdef f(self):\n\t\tif x:\n\t\t    return 2\n\n\t\treturn 1\n"
    assert edited(text, (old, new)).decode() == expected


def test_white_space_alone_is_no_text_to_look_for() -> None:
    with pytest.raises(EditError, match="not in the file"):
        edited("a\n\nb\n", ("\t\n \n", "x"))


@given(st.lists(st.sampled_from(["a", " a", "a ", "\ta", "b", "", "\u201ca\u201d"]), min_size=1, max_size=8))
def test_a_text_is_always_found_in_itself_exactly_and_cuts_at_line_ends(lines: list[str]) -> None:
    text = "\n".join(lines)
    for match in find(text, text, whole_lines=True) if text.strip() else ():
        assert (match.start, match.end, match.rung) == (0, len(text), 0)
    for number, line in enumerate(lines):
        found = find(text, f"{line}", whole_lines=True)
        if line.strip():
            starts = {match.start for match in found}
            assert len("\n".join([*lines[:number], ""])) in starts
            assert all(match.rung == 0 for match in found)


# -- what is kept -----------------------------------------------------------------------------------------


def test_line_ends_mark_encoding_mode_and_final_newline_are_kept(bench: Any) -> None:
    path = bench.workspace / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\nthree\r\nfour")
    path.chmod(0o754)
    patch(bench, path="a.txt", old_string="two\nthree", new_string="2\n2b\n3")
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n2b\r\n3\r\nfour"
    patch(bench, path="a.txt", old_string="four\n", new_string="4\n")
    assert path.read_bytes().endswith(b"3\r\n4")
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    path.write_bytes("alt\r\nneu".encode("utf-16"))
    patch(bench, path="a.txt", old_string="alt", new_string="\u6f22")
    assert path.read_bytes() == "\u6f22\r\nneu".encode("utf-16")


def test_line_ends_away_from_the_edit_stay_as_they_are() -> None:
    data = b"a\r\nb\nc\r\nd\ne\r\nf\r\n"
    assert edited("", ("c", "C"), data=data) == b"a\r\nb\nC\r\nd\ne\r\nf\r\n"


def test_lines_of_context_keep_their_own_ends_in_a_file_of_mixed_ends() -> None:
    request: EditRequest = {"path": "f", "create": False, "delete": False, "edits": []}
    request["edits"] = [Edit(old="a\nb\nc\n", new="a\nB\nc\n", everywhere=False, hunk=True, line=1)]
    assert edit_bytes(b"a\r\nb\nc\r\nd\ne\nf\n", request).data == b"a\r\nB\nc\r\nd\ne\nf\n"
    assert edit_bytes(b"a\nb\r\nc\nd\r\ne\r\nf\r\n", request).data == b"a\nB\r\nc\nd\r\ne\r\nf\r\n"


_LINES = st.lists(
    st.tuples(st.text("ab\u03bb \t\u2028\x85", max_size=4), st.sampled_from(["\n", "\r\n"])),
    min_size=1,
    max_size=8,
)
_WRITTEN = [
    *[(b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le")],
    *[
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
]


@given(_LINES, st.data(), st.sampled_from(_WRITTEN), st.booleans(), st.booleans())
def test_a_change_of_one_line_leaves_every_other_byte(
    lines: list[tuple[str, str]], data: st.DataObject, written: tuple[bytes, str], ended: bool, hunk: bool
) -> None:
    mark, encoding = written
    if not ended:
        lines = [*lines[:-1], (lines[-1][0], "")]
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    changed = data.draw(st.integers(first, last))
    text = "".join(line + end for line, end in lines)
    windows = text.count("\r\n")
    most = "\r\n" if windows and windows * 2 >= text.count("\n") else "\n"
    new_lines = list(lines)
    new_lines[changed] = ("NEW", lines[changed][1] and most)
    old, new = (
        "".join(line + end[-1:] for line, end in part[first : last + 1]) for part in (lines, new_lines)
    )
    plain = text.replace("\r\n", "\n")
    assume(old and sum(plain.startswith(old, start) for start in range(len(plain))) == 1)
    request: EditRequest = {"path": "f", "create": False, "delete": False, "edits": []}
    request["edits"] = [Edit(old=old, new=new, everywhere=False, hunk=hunk, line=first + 1)]
    expected = mark + "".join(line + end for line, end in new_lines).encode(encoding)
    assert edit_bytes(mark + text.encode(encoding), request).data == expected


def test_bytes_that_are_no_utf8_survive_and_are_not_mixed_with_others() -> None:
    data = "na\u00efve caf\u00e9\nplain\n".encode("latin-1")
    assert edited("", ("plain", "fancy"), data=data) == "na\u00efve caf\u00e9\nfancy\n".encode("latin-1")
    with pytest.raises(EditError, match="only ASCII"):
        edited("", ("plain", "caf\u00e9"), data=data)
    with pytest.raises(EditError, match="lone surrogate"):
        edited("a", ("a", "\ud800"))


def test_a_file_that_changes_while_the_edit_is_made_is_not_overwritten(
    bench: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = patch_module._edited

    def someone_else() -> None:
        file.write_text("someone else was here\n")

    async def slow(job: Any) -> Any:
        someone_else()
        return await real(job)

    monkeypatch.setattr(patch_module, "_edited", slow)
    text = refused(bench, path="a.py", old_string="x + 1", new_string="x + 2")
    assert "changed by someone else" in text
    assert file.read_text() == "someone else was here\n"


# -- unified diffs ----------------------------------------------------------------------------------------


def test_a_diff_of_several_files_changes_creates_and_deletes(bench: Any, file: Path) -> None:
    (bench.workspace / "old.txt").write_text("bye\n")
    diff = """diff --git a/a.py b/a.py
index 1..2 100644
--- a/a.py
+++ b/a.py
@@ -1,2 +1,2 @@
-def f(x):
+def f(y):
     return x
@@ -5,2 +5,3 @@
 def g(x):
+    # one more
     return x + 1
--- /dev/null
+++ b/new/b.txt
@@ -0,0 +1,2 @@
+one
+two
\\ No newline at end of file
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
"""
    text = patch(bench, diff=diff)
    assert file.read_text() == "def f(y):\n    return x\n\n\ndef g(x):\n    # one more\n    return x + 1\n"
    assert (bench.workspace / "new/b.txt").read_text() == "one\ntwo"
    assert not (bench.workspace / "old.txt").exists()
    assert [line for line in text.splitlines() if line.startswith(("patched", "created", "deleted"))] == [
        "patched a.py",
        "created new/b.txt",
        "deleted old.txt",
    ]


def test_a_diff_is_applied_as_a_whole_or_not_at_all(bench: Any, file: Path) -> None:
    before = file.read_text()
    (bench.workspace / "b.txt").write_text("b\n")
    diff = (
        "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-def f(x):\n+def h(x):\n"
        "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-c\n+d\n"
    )
    assert "b.txt: the old text is not in the file" in refused(bench, diff=diff)
    assert file.read_text() == before


def test_numbers_of_a_hunk_only_choose_between_places_that_match(bench: Any) -> None:
    path = bench.workspace / "a.txt"
    path.write_text("x\na\ny\na\nz\n")
    assert "2 times" in refused(bench, path="a.txt", diff="@@\n-a\n+b\n")
    assert "2 times" in refused(bench, path="a.txt", diff="@@ -9 +9 @@\n-a\n+b\n")
    patch(bench, path="a.txt", diff="@@ -4 +4 @@\n-a\n+b\n")
    assert path.read_text() == "x\na\ny\nb\nz\n"
    patch(bench, path="a.txt", diff="@@ -99,7 +1,2 @@\n y\n-b\n+c\n")
    assert path.read_text() == "x\na\ny\nc\nz\n"
    patch(bench, path="a.txt", diff="@@ -1,0 +2,1 @@\n+second\n")
    assert path.read_text().startswith("x\nsecond\na\n")


def test_a_hunk_never_matches_in_the_middle_of_a_line() -> None:
    request: EditRequest = {
        "path": "f",
        "create": False,
        "delete": False,
        "edits": [Edit(old="x\n", new="y\n", everywhere=False, hunk=True, line=1)],
    }
    assert edit_bytes(b"fox\nx\n", request).data == b"fox\ny\n"


def test_what_is_no_diff_is_told_with_its_line() -> None:
    for text, expected in {
        "": "no hunk",
        "@@ -1 +1 @@\n-a\n+b\n": "line 1: a hunk without a file",
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n a\n": "changes nothing",
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\nwhat\n": "line 6 is no line of a diff",
        "rename from a\nrename to b\n": "line 1: rename is not supported",
    }.items():
        with pytest.raises(DiffError, match=expected):
            parse_diff(text)


LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\n", "-x\n", "+y\n", " z\n", "-- q\n"]), max_size=14)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_a_diff_that_is_made_turns_the_old_text_into_the_new(
    old_lines: list[str], new_lines: list[str], cut_old: bool, cut_new: bool
) -> None:
    old, new = "".join(old_lines), "".join(new_lines)
    old, new = (old[:-1] if cut_old else old), (new[:-1] if cut_new else new)
    diff = make_diff(old, new, "f", "f")
    if old == new:
        assert not diff
        return
    [part] = parse_diff(diff)
    request: EditRequest = {
        "path": "f",
        "create": False,
        "delete": False,
        "edits": [Edit(old=h.old, new=h.new, everywhere=False, hunk=True, line=h.line) for h in part.hunks],
    }
    assert edit_bytes(old.encode(), request).data.decode() == new


# -- size and time ----------------------------------------------------------------------------------------


def test_a_large_file_is_patched_in_a_process_of_its_own_with_the_same_result(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []
    real = run_standalone

    async def counted(*args: Any, **keywords: Any) -> Any:
        ran.append(args[0])
        return await real(*args, **keywords)

    monkeypatch.setattr(patch_module, "run_standalone", counted)
    path = bench.workspace / "big.txt"
    lines = "".join(f"line {number} \u6f22\r\n" for number in range(200_000))
    path.write_bytes(lines.encode())
    text = patch(bench, path="big.txt", old_string="line 150000 \u6f22", new_string="changed")
    assert "@@ -149998,7 +149998,7 @@" in text
    assert path.read_bytes() == lines.replace("line 150000 \u6f22", "changed").encode()
    assert ran == ["edit"]
    assert "more than 10 times" in refused(bench, path="big.txt", old_string="9", new_string="")


def test_a_very_long_difference_is_shown_in_part(bench: Any) -> None:
    path = bench.workspace / "big.txt"
    path.write_text("a\n" * 300_000)
    [result] = bench.run(
        bench.call("patch", {"path": "big.txt", "old_string": "a", "new_string": "b", "replace_all": True}),
        toolsets=("file",),
        settings={"result_limit": 100_000},
    )
    assert "characters of the diff left out" in result.content
    assert len(result.content) < 60_000
    assert path.read_text() == "b\n" * 300_000


def test_an_edit_that_takes_too_long_is_stopped_and_nothing_changes(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patch_module, "TIME_LIMIT_S", 0.01)
    path = bench.workspace / "big.txt"
    path.write_text("a\n" * 100_000 + "b\n")
    assert "were stopped. Nothing was changed" in refused(
        bench, path="big.txt", old_string="b", new_string="c"
    )
    assert path.read_text().endswith("a\nb\n")


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("a\n" * 200_000, "a\n" * 100_000 + "b"),
        (" \n" * 200_000, "\t\n" * 100_000 + "x"),
        ("a " * 200_000, "a\t" * 100_000 + "b"),
        ("\u201c" * 200_000, '"' * 100_000 + "b"),
    ],
)
def test_work_that_is_done_in_place_is_linear_whatever_the_text(text: str, old: str) -> None:
    # Many times more than is done in place: with the square of the length it would not end.
    with pytest.raises(EditError):
        edited(text, (old, "y"))


# -- a full disk ------------------------------------------------------------------------------------------

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


def test_one_file_by_two_names_in_a_diff_is_refused_before_anything_changes(bench: Any, file: Path) -> None:
    before = file.read_text()
    part = "--- a/{0}\n+++ b/{0}\n@@\n-def {1}(x):\n+def {1}(y):\n"
    text = refused(bench, diff=part.format("a.py", "f") + part.format("./a.py", "g"))
    assert "a.py and ./a.py are the same file" in text
    assert file.read_text() == before
    many = "".join(
        f"--- /dev/null\n+++ b/f{n}\n@@ -0,0 +1 @@\n+x\n" for n in range(patch_module.MAX_FILES + 1)
    )
    assert "changes 101 files, at most 100" in refused(bench, diff=many)
    assert [entry.name for entry in bench.workspace.iterdir()] == ["a.py"]


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
        await wait_until(lambda: _editors(str(sys.executable)))
        round_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await round_
        assert not _editors(str(sys.executable))
        await executor.close()

    run_async(main())
    assert path.read_text() == before


def _editors(python: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:1] == [python.encode()] and words[-2:-1] == [b"edit"]:
            found.append(entry.name)
    return found
