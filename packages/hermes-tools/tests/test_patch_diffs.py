"""Unified diffs: of several files, of places that moved, and what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_tools.builtin import patch as patch_module
from hermes_tools.standalone.edit import Edit, EditRequest, edit_bytes
from hermes_tools.standalone.unified_diff import DiffError, make_diff, parse_diff
from patch_help import patch, refused

pytestmark = pytest.mark.usefixtures("patient_patches")


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
