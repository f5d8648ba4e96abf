"""What file tools answer, asked of both places for files: this machine, and a container."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path
from typing import Any

from container_help import BOTH, EVERYWHERE, HOST_FIRST, Ask


def read(path: str, **more: object) -> tuple[str, dict[str, object]]:
    return "read_file", {"path": path, **more}


def write(path: str, content: str) -> tuple[str, dict[str, object]]:
    return "write_file", {"path": path, "content": content}


def patch(**arguments: object) -> tuple[str, dict[str, object]]:
    return "patch", arguments


@EVERYWHERE
def test_pages_of_a_file_that_is_larger_than_a_sample(ask: Ask, bench: Any) -> None:
    (bench.workspace / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 4001)))
    (bench.workspace / "open.txt").write_text("x" * 10_000 + "\nlast")
    first, middle, last, beyond, long, unended, none = ask(
        read("a.txt"),
        read("a.txt", offset=3000, limit=2),
        read("a.txt", offset=4000),
        read("a.txt", offset=4001),
        read("open.txt"),
        read("open.txt", offset=2),
        read("open.txt", offset=3),
    )
    assert first.startswith("1\n2\n")
    assert first.endswith("500\n[lines 1 to 500; more with offset=501]")
    assert middle == "3000\n3001\n[lines 3000 to 3001; more with offset=3002]"
    assert last == "4000\n[lines 4000 to 4000, the end]"
    assert beyond == "[a.txt has 4000 lines; there is no line 4001]"
    assert long == "x" * 4_000 + " [line cut: 10000 characters]\nlast"
    assert unended == "last\n[lines 2 to 2, the end]"
    assert none == "[open.txt has 2 lines; there is no line 3]"


@HOST_FIRST
def test_encodings_marks_and_what_is_no_text(ask: Ask, bench: Any) -> None:
    (bench.workspace / "wide.txt").write_text("漢字\n" * 5_000, encoding="utf-16")
    (bench.workspace / "latin.txt").write_bytes("naïve\n".encode("latin-1"))
    (bench.workspace / "b.bin").write_bytes(bytes(range(256)) * 40)
    (bench.workspace / "empty.txt").touch()
    (bench.workspace / "edge.txt").write_bytes(b"\n" * 8191 + "漢".encode())
    wide, latin, binary, empty, edge = ask(
        read("wide.txt", offset=4999), read("latin.txt"), read("b.bin"), read("empty.txt"),
        read("edge.txt", offset=8192),
    )  # fmt: skip
    assert wide == "漢字\n漢字\n[lines 4999 to 5000, the end]"
    assert latin == "na\\xefve"
    assert binary == "error: b.bin is a binary file of 10240 bytes; it can not be shown"
    assert empty == "[empty.txt is empty]"
    assert edge == "漢\n[lines 8192 to 8192, the end]"


@BOTH
def test_what_is_not_there_and_what_is_no_file(ask: Ask, bench: Any) -> None:
    (bench.workspace / "d").mkdir()
    (bench.workspace / "f").write_text("x")
    os.mkfifo(bench.workspace / "pipe")
    (bench.workspace / "loop").symlink_to("loop")
    answers = ask(
        read("none.txt"), read("f/g"), read("d"), read("pipe"), read("loop"),
        write("d", "x"), write("f/g", "x"), patch(path="none.txt", old_string="a", new_string="b"),
        read("\ud800"), read(""), read("x" * 300),
    )  # fmt: skip
    assert all(answer.startswith("error: ") for answer in answers), answers
    assert "none.txt: no such file" in answers[0]
    assert "f/g: no such file" in answers[1]
    assert "d is a directory" in answers[2]
    assert "pipe is a named pipe" in answers[3]
    assert "loop is a symbolic link" in answers[4]
    assert "d is a directory" in answers[5]
    assert "none.txt: no such file; nothing was changed" in answers[7]
    assert "can not be resolved" in answers[8]
    assert "the path is empty" in answers[9]
    assert sorted(path.name for path in bench.workspace.iterdir()) == ["d", "f", "loop", "pipe"]


@BOTH
def test_links_stay_links_and_missing_directories_are_made(ask: Ask, bench: Any) -> None:
    (bench.workspace / "real.txt").write_text("old\n")
    (bench.workspace / "link.txt").symlink_to("real.txt")
    (bench.workspace / "coming").symlink_to("deep/er/later.txt")
    answers = ask(
        read("link.txt"),
        write("link.txt", "new\n"),
        patch(path="link.txt", old_string="new", new_string="newer"),
        write("coming", "here"),
        write("a/b/../c/x.txt", ""),
        read("missing/../real.txt"),
    )
    assert answers[0] == "old"
    assert answers[1] == "replaced link.txt: 1 line, 4 bytes"
    assert answers[2].startswith("patched link.txt\n")
    assert answers[3] == "wrote coming: 1 line, 4 bytes"
    assert answers[4] == "wrote a/b/../c/x.txt: 0 lines, 0 bytes"
    assert answers[5] == "newer"
    assert (bench.workspace / "link.txt").is_symlink()
    assert (bench.workspace / "coming").is_symlink()
    assert (bench.workspace / "real.txt").read_text() == "newer\n"
    assert (bench.workspace / "deep/er/later.txt").read_text() == "here"
    assert [path.name for path in (bench.workspace / "a").rglob("*")] == ["c", "x.txt"]


NAMES = ["-rf", "a'; exit 9; '$(touch x)`\nb\n", "\U0001f600" * 62 + "\udcff*"]


@EVERYWHERE
def test_every_name_that_the_system_takes_is_written_patched_and_read(ask: Ask, bench: Any) -> None:
    calls = []
    for name in NAMES:
        calls += [write(name, "a\n"), patch(path=name, old_string="a", new_string="b"), read(f"./{name}")]
    answers = ask(*calls)
    assert answers[2::3] == ["b"] * len(NAMES)
    assert sorted(path.name for path in bench.workspace.iterdir()) == sorted(NAMES)


@BOTH
def test_mode_owner_mark_and_line_ends_of_the_old_file_are_kept(ask: Ask, bench: Any) -> None:
    script = bench.workspace / "run.sh"
    script.write_bytes(codecs.BOM_UTF8 + b"old\r\nlines\r\n")
    as_root = os.geteuid() == 0
    mode = 0o2750 if as_root else 0o750  # the system takes the bit from a file that another user writes
    if as_root:
        os.chown(script, 65534, 65533)
    script.chmod(mode)
    answers = ask(
        write("run.sh", "new\nlines\n"),
        patch(path="run.sh", old_string="new", new_string="newer"),
        write("n", ""),
    )
    assert answers[0].endswith("(kept: byte order mark, CRLF line ends)")
    assert script.read_bytes() == codecs.BOM_UTF8 + b"newer\r\nlines\r\n"
    status = script.stat()
    assert stat.S_IMODE(status.st_mode) == mode
    assert not as_root or (status.st_uid, status.st_gid) == (65534, 65533)
    assert stat.S_IMODE((bench.workspace / "n").stat().st_mode) & 0o700 == 0o600


@BOTH
def test_a_large_file_is_written_patched_and_not_torn(ask: Ask, bench: Any) -> None:
    text = "".join(f"line {n} \u6f22\n" for n in range(20_000))
    answers = ask(
        write("big.txt", text),
        patch(path="big.txt", old_string="line 19999 ", new_string="line the last "),
        patch(path="big.txt", old_string="nowhere", new_string="x"),
    )
    assert answers[0].startswith("wrote big.txt: 20000 lines")
    assert "+line the last" in answers[1]
    assert "the old text is not in the file" in answers[2]
    assert (bench.workspace / "big.txt").read_text() == text.replace("line 19999 ", "line the last ")


@HOST_FIRST
def test_a_diff_of_several_files_is_made_whole_or_not_at_all(ask: Ask, bench: Any) -> None:
    for name in ("a.txt", "b.txt", "gone.txt"):
        (bench.workspace / name).write_text("one\ntwo\n")
    good = """--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@
 one
-two
+2
--- a/gone.txt
+++ /dev/null
@@ -1,2 +0,0 @@
-one
-two
--- /dev/null
+++ b/new/n.txt
@@ -0,0 +1 @@
+new
"""
    bad = good.replace("a.txt", "b.txt").replace("gone.txt", "absent.txt").replace("new/n.txt", "other.txt")
    twice = "".join(
        f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-one\n+1\n" for name in ("a.txt", "./new/../a.txt")
    )
    made, refused, same = ask(patch(diff=good), patch(diff=bad), patch(diff=twice))
    assert [line for line in made.splitlines() if line.endswith(".txt") and line[0] in "cdp"] == [
        "patched a.txt", "deleted gone.txt", "created new/n.txt"
    ]  # fmt: skip
    assert "absent.txt: no such file; nothing was changed" in refused
    assert "are the same file" in same
    files = {
        str(p.relative_to(bench.workspace)): p.read_text() for p in bench.workspace.rglob("*") if p.is_file()
    }
    assert files == {"a.txt": "one\n2\n", "b.txt": "one\ntwo\n", "new/n.txt": "new\n"}


@HOST_FIRST
def test_a_file_that_may_not_be_read_or_written_says_so(ask: Ask, bench: Any) -> None:
    place = bench.workspace / "full"
    place.symlink_to("/dev/full")
    [answer] = ask(read("full"))
    assert answer.startswith("error: ")
    assert Path("/dev/full").is_char_device()
