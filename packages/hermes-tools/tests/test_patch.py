"""Edits by text: what is found, what is kept of the file, and how long it may take."""

from __future__ import annotations

import codecs
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hermes_tools.builtin import patch as patch_module
from hermes_tools.child_work import run_standalone
from hermes_tools.standalone.edit import Edit, EditError, EditRequest, edit_bytes
from hermes_tools.standalone.text_matching import find
from patch_help import patch, refused

pytestmark = pytest.mark.usefixtures("patient_patches")


def edited(text: str, *edits: tuple[str, str], data: bytes | None = None) -> bytes:
    request: EditRequest = {
        "path": "f",
        "create": False,
        "delete": False,
        "edits": [Edit(old=old, new=new, everywhere=False, hunk=False, line=None) for old, new in edits],
    }
    return edit_bytes(text.encode() if data is None else data, request).data


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
