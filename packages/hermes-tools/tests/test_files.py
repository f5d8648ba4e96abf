from __future__ import annotations

import asyncio
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_tools import PathRefusedError, files
from hermes_tools.paths import Workspace
from hermes_tools.resources import TaskResources
from hermes_tools.text_shape import TextShape, encode_like, looks_binary, shape_of


def read(bench: Any, path: str, **more: Any) -> str:
    return str(bench.text("read_file", {"path": path, **more}, "file"))


def refused(bench: Any, name: str, **arguments: Any) -> str:
    [result] = bench.run(bench.call(name, arguments), toolsets=("file",))
    assert result.status == "error", result.content
    return str(result.content)


# -- read_file --------------------------------------------------------------------------------------------


def test_a_file_is_read_page_by_page(bench: Any) -> None:
    (bench.workspace / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 1001)))
    first = read(bench, "a.txt")
    assert first.startswith("1\n2\n")
    assert first.endswith("500\n[lines 1 to 500; more with offset=501]")
    assert read(bench, "a.txt", offset=501).endswith("1000\n[lines 501 to 1000, the end]")
    assert read(bench, "a.txt", offset="999", limit=1) == "999\n[lines 999 to 999; more with offset=1000]"
    assert read(bench, "a.txt", offset=1001) == "[a.txt has 1000 lines; there is no line 1001]"
    assert read(bench, "a.txt", offset=-5, limit=0).startswith("1\n[lines 1 to 1;")


@pytest.mark.parametrize("text", ["one", "one\n", "one\ntwo", "one\n\n"])
def test_a_file_that_fits_is_shown_as_it_is(bench: Any, text: str) -> None:
    (bench.workspace / "a.txt").write_text(text)
    assert read(bench, "a.txt") == text.removesuffix("\n")


def test_an_empty_file_says_so(bench: Any) -> None:
    (bench.workspace / "a.txt").touch()
    assert read(bench, "a.txt") == "[a.txt is empty]"


def test_a_very_long_line_is_cut_and_a_page_has_an_end(bench: Any) -> None:
    (bench.workspace / "long.txt").write_text("x" * 1_000_000 + "\nnext\n")
    text = read(bench, "long.txt")
    assert len(text) < 5_000
    assert "[line cut: 1000000 characters]\nnext" in text
    (bench.workspace / "wide.txt").write_text(("y" * 3_000 + "\n") * 200)
    assert len(read(bench, "wide.txt")) < 50_000
    assert "more with offset=" in read(bench, "wide.txt")


def test_a_character_on_the_edge_of_a_sample_or_chunk_is_not_torn(bench: Any) -> None:
    for size in (999, files.CHUNK_BYTES - 1, 8191):
        (bench.workspace / "cjk.txt").write_bytes(b"\n" * size + "漢字".encode())
        assert read(bench, "cjk.txt", offset=size + 1).startswith("漢字")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le-bom", "utf-16-be-bom", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding_and_is_not_shown(bench: Any, encoding: str) -> None:
    if encoding.endswith("-bom"):
        data = ("\ufeff" + "héllo 漢\n").encode(encoding.removesuffix("-bom"))
    else:
        data = "héllo 漢\n".encode(encoding)
    (bench.workspace / "a.txt").write_bytes(data)
    assert read(bench, "a.txt") == "héllo 漢"


def test_odd_bytes_are_shown_and_binary_files_are_named(bench: Any) -> None:
    (bench.workspace / "latin.txt").write_bytes("naïve café\n".encode("latin-1"))
    assert read(bench, "latin.txt") == "na\\xefve caf\\xe9"
    late_nul = b"text\n" * 4_000 + b"a\0b\n"
    (bench.workspace / "late.txt").write_bytes(late_nul)
    assert "a\u2400b" in read(bench, "late.txt", offset=4_001)
    (bench.workspace / "b.bin").write_bytes(bytes(range(256)) * 4)
    assert "binary file of 1024 bytes" in refused(bench, "read_file", path="b.bin")


def test_a_missing_file_and_a_directory_are_told_apart(bench: Any) -> None:
    assert "no such file" in refused(bench, "read_file", path="none.txt")
    (bench.workspace / "d").mkdir()
    assert "d is a directory" in refused(bench, "read_file", path="d")
    (bench.workspace / "f").write_text("x")
    assert "no such file" in refused(bench, "read_file", path="f/g")


# -- write_file -------------------------------------------------------------------------------------------


def test_a_file_and_the_directories_above_it_are_written(bench: Any) -> None:
    text = bench.text("write_file", {"path": "a/b/c.txt", "content": "héllo\nyou"}, "file")
    assert text == "wrote a/b/c.txt: 2 lines, 10 bytes"
    assert (bench.workspace / "a/b/c.txt").read_bytes() == "héllo\nyou".encode()
    assert [path.name for path in (bench.workspace / "a/b").iterdir()] == ["c.txt"]


def test_mode_encoding_mark_and_line_ends_of_the_old_file_are_kept(bench: Any) -> None:
    script = bench.workspace / "run.sh"
    script.write_bytes(b"\xef\xbb\xbfold\r\nlines\r\n")
    script.chmod(0o755)
    text = bench.text("write_file", {"path": "run.sh", "content": "new\nlines\n"}, "file")
    assert text.endswith("(kept: byte order mark, CRLF line ends)")
    assert script.read_bytes() == b"\xef\xbb\xbfnew\r\nlines\r\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    wide = bench.workspace / "wide.txt"
    wide.write_text("alt\n", encoding="utf-16")
    bench.text("write_file", {"path": "wide.txt", "content": "neu\n"}, "file")
    assert wide.read_bytes()[:2] == b"\xff\xfe"
    assert wide.read_text(encoding="utf-16") == "neu\n"


@pytest.mark.parametrize("name", ["\u6f22" * 85, "\U0001f600" * 63, "x" * 255, "-rf", "a\nb"])
def test_every_name_that_the_system_takes_can_be_written_and_patched(bench: Any, name: str) -> None:
    assert bench.text("write_file", {"path": name, "content": "a\n"}, "file").startswith("wrote ")
    bench.text("patch", {"path": name, "old_string": "a", "new_string": "b"}, "file")
    assert [entry.name for entry in bench.workspace.iterdir()] == [name]
    assert (bench.workspace / name).read_text() == "b\n"


def test_half_of_a_character_is_refused_in_a_text_and_told_in_a_name(bench: Any) -> None:
    text = refused(bench, "write_file", path="a.txt", content="\ud800")
    assert "half of a character (a lone surrogate); nothing was written" in text
    assert "no such file" in refused(bench, "read_file", path="\udcff.txt")
    assert "can not be resolved" in refused(bench, "read_file", path="\ud800")
    assert not list(bench.workspace.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="platform: only root may give a file to someone else")
def test_the_owner_of_the_old_file_is_kept(bench: Any) -> None:
    path = bench.workspace / "a.txt"
    path.write_text("a\n")
    path.chmod(0o640)
    os.chown(path, 65534, 65533)
    bench.text("patch", {"path": "a.txt", "old_string": "a", "new_string": "b"}, "file")
    bench.text("write_file", {"path": "a.txt", "content": "c\n"}, "file")
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (65534, 65533, 0o640)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(bench: Any, monkeypatch: Any) -> None:
    target = bench.workspace / "a.txt"
    target.write_text("old")

    async def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_write", full)
    text = refused(bench, "write_file", path="a.txt", content="new")
    assert "No space left on device; the old file is unchanged" in text
    assert target.read_text() == "old"
    assert [path.name for path in bench.workspace.iterdir()] == ["a.txt"]


def test_a_write_that_is_cancelled_at_any_point_leaves_the_old_file_or_the_new(bench: Any) -> None:
    target = bench.workspace / "a.txt"

    async def main(steps: int) -> bool:
        writing = asyncio.ensure_future(files.replace_file(str(target), b"new", 0o666))
        for step in range(steps):
            if writing.done():
                break
            # The later ones are for a disk or a machine that is slow.
            await asyncio.wait({writing}, timeout=0.0005 * 1.05 ** max(0, step - 30))
        writing.cancel()
        try:
            await writing
        except asyncio.CancelledError:
            return False
        return True

    finished = False
    for steps in range(300):
        target.write_text("old")
        finished = asyncio.run(main(steps))
        assert target.read_text() in ("old", "new")
        assert [path.name for path in bench.workspace.iterdir()] == ["a.txt"]
        if finished:
            break
    assert finished


def test_no_descriptor_stays_open(bench: Any, run_async: Any) -> None:
    def open_descriptors() -> set[str]:
        names = os.listdir("/proc/self/fd")  # noqa: PTH208
        return {path for name in names if str(bench.workspace) in (path := _target(name))}

    (bench.workspace / "a.txt").write_text("x" * 200_000)
    (bench.workspace / "d").mkdir()

    async def cancelled_reads() -> None:
        for delay in range(15):
            reading = asyncio.ensure_future(_read_all(str(bench.workspace / "a.txt")))
            await asyncio.wait({reading}, timeout=delay * 0.0001)
            reading.cancel()
            await asyncio.wait({reading})
        with pytest.raises(PathRefusedError):
            await files.open_regular(str(bench.workspace / "d"))

    run_async(cancelled_reads())
    assert not open_descriptors()


async def _read_all(path: str) -> int:
    size = 0
    async with await files.open_regular(path) as file:
        async for chunk in file.chunks():
            size += len(chunk)
    return size


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
    except OSError:
        return ""


# -- confinement ------------------------------------------------------------------------------------------


@pytest.fixture
def outside(bench: Any, tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret.txt").write_text("secret")
    return directory


def test_paths_outside_the_workspace_are_refused(bench: Any, outside: Path) -> None:
    evil = bench.workspace.parent / "ws-evil"
    evil.mkdir()
    (evil / "f").write_text("secret")
    for path in (
        "../ws-evil/f",
        "../outside/secret.txt",
        str(outside / "secret.txt"),
        "/etc/passwd",
        "~/x",
        "..",
    ):
        assert "outside the working directory" in refused(bench, "read_file", path=path)
        assert "outside the working directory" in refused(bench, "write_file", path=path, content="x")
        assert "outside the working directory" in refused(bench, "search_files", pattern="x", path=path)
    assert (evil / "f").read_text() == "secret"


def test_links_that_lead_out_are_refused_also_when_they_lead_nowhere_yet(bench: Any, outside: Path) -> None:
    (bench.workspace / "draft").symlink_to(outside / "new.txt")
    (bench.workspace / "dir").symlink_to(outside)
    (bench.workspace / "chain").symlink_to(bench.workspace / "draft")
    for path in ("draft", "chain", "dir/new.txt", "dir/deep/new.txt"):
        assert "outside" in refused(bench, "write_file", path=path, content="x")
    for path in ("dir/secret.txt", "dir/../outside/secret.txt"):
        assert "outside" in refused(bench, "read_file", path=path)
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


def test_links_inside_the_workspace_work_and_stay_links(bench: Any) -> None:
    (bench.workspace / "real.txt").write_text("old")
    (bench.workspace / "link.txt").symlink_to("real.txt")
    (bench.workspace / "coming").symlink_to("later.txt")
    assert read(bench, "link.txt") == "old"
    bench.text("write_file", {"path": "link.txt", "content": "new"}, "file")
    bench.text("write_file", {"path": "coming", "content": "here"}, "file")
    assert (bench.workspace / "link.txt").is_symlink()
    assert (bench.workspace / "real.txt").read_text() == "new"
    assert (bench.workspace / "later.txt").read_text() == "here"


def test_a_workspace_reached_through_a_link_is_the_same_workspace(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(bench.workspace)
    (bench.workspace / "a.txt").write_text("x")

    async def main() -> None:
        workspace = Workspace(str(tmp_path / "way"))
        real = str(bench.workspace / "a.txt")
        assert (await workspace.place("a.txt")).path == real
        assert (await workspace.place(real)).path == real
        assert await workspace.shown(real) == "a.txt"

    asyncio.run(main())


def test_a_link_planted_after_the_check_is_not_followed(bench: Any, outside: Path) -> None:
    (bench.workspace / "late").symlink_to(outside / "secret.txt")

    async def main() -> None:
        with pytest.raises(PathRefusedError, match="symbolic link"):
            await files.open_regular(str(bench.workspace / "late"))
        with pytest.raises(FileExistsError):
            await files.create_file(str(bench.workspace / "late"))
        await files.replace_file(str(bench.workspace / "late"), b"x", 0o666)

    asyncio.run(main())
    assert (outside / "secret.txt").read_text() == "secret"


def test_a_directory_swapped_for_a_link_between_check_and_use_is_never_followed(
    bench: Any, outside: Path, swapping: Any
) -> None:
    """A real process swaps them again and again while files are read and written."""
    real = bench.workspace / "d"
    real.mkdir()
    (real / "secret.txt").write_text("mine")

    async def main() -> tuple[int, int]:
        workspace = Workspace(str(bench.workspace))
        done = refused = number = 0
        while done < 50 or refused < 50:
            number += 1
            try:
                place = await workspace.place("d/secret.txt")
                text = await files.read_small(place, 100)
                assert text == b"mine", "what is outside was read"
                await files.replace_file(place.parent / f"new{number}", b"x", 0o666)
                done += 1
            except (PathRefusedError, FileNotFoundError):
                refused += 1
        return done, refused

    with swapping(real, outside):
        done, refused = asyncio.run(main())
    assert done, "never got through"
    assert refused, "never met a link or a gap"
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


@pytest.mark.parametrize("use", ["read", "write", "create", "remove", "status", "list"])
def test_a_link_on_the_way_that_came_after_the_check_is_refused(
    bench: Any, outside: Path, use: str, run_async: Any
) -> None:
    (bench.workspace / "d").mkdir()
    (bench.workspace / "d/secret.txt").write_text("mine")

    async def main() -> None:
        place = await Workspace(str(bench.workspace)).place("d/secret.txt")
        (bench.workspace / "d").rename(bench.workspace / "was")
        (bench.workspace / "d").symlink_to(outside)
        with pytest.raises(PathRefusedError, match="symbolic link"):  # noqa: PT012 - one of them runs
            match use:
                case "read":
                    await files.open_regular(place)
                case "write":
                    await files.replace_file(place, b"x", 0o666, create_parents=True)
                case "create":
                    await files.create_file(place.parent / "new")
                case "remove":
                    await files.remove_file(place)
                case "status":
                    await files.status_of(place)
                case _:
                    await files.list_names(place.parent)

    run_async(main())
    assert (outside / "secret.txt").read_text() == "secret"
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


def test_links_of_the_process_table_lead_nowhere_but_where_they_really_lead(
    bench: Any, outside: Path
) -> None:
    with (outside / "secret.txt").open() as opened:
        number = opened.fileno()
        for name, target in {
            "root": "/proc/self/root/etc/passwd",
            "fd": f"/proc/self/fd/{number}",
            "cwd": "/proc/self/cwd",
            "environ": "/proc/self/environ",
        }.items():
            (bench.workspace / name).symlink_to(target)
            assert "outside the working directory" in refused(bench, "read_file", path=name)
            assert "outside the working directory" in refused(bench, "write_file", path=name, content="x")
        assert "outside" in refused(bench, "read_file", path="root/../shadow")


def test_a_link_planted_where_a_long_result_is_to_be_kept_is_not_written_through(
    bench: Any, outside: Path, run_async: Any
) -> None:
    async def main() -> None:
        resources = TaskResources("task")
        async with await resources.new_file("terminal") as first:
            directory = Path(first.path).parent
        _plant(directory / "terminal-2.txt", outside / "secret.txt")
        async with await resources.new_file("terminal") as second:
            await second.write(b"spilled")
        assert second.path.endswith("terminal-3.txt")
        _swap(directory, outside)
        with pytest.raises((PathRefusedError, OSError)):
            await resources.new_file("terminal")
        directory.unlink()
        await resources.release()

    run_async(main())
    assert (outside / "secret.txt").read_text() == "secret"


def _plant(link: Path, target: Path) -> None:
    link.symlink_to(target)


def _swap(directory: Path, target: Path) -> None:
    shutil.rmtree(directory)
    directory.symlink_to(target)


def test_a_lock_is_held_by_one_at_a_time_and_given_back(bench: Any, run_async: Any) -> None:
    place = files.Place(str(bench.workspace), ("lock",))

    async def main() -> None:
        async with files.locked(place, 1):
            with pytest.raises(TimeoutError, match="is held"):
                async with files.locked(place, 0.05):
                    pass
        async with files.locked(place, 0.05):
            pass

    run_async(main())


def test_pipes_devices_and_sockets_are_refused_without_waiting(bench: Any) -> None:
    os.mkfifo(bench.workspace / "pipe")
    for name in ("read_file", "write_file"):
        more = {"content": "x"} if name == "write_file" else {}
        assert "is a named pipe" in refused(bench, name, path="pipe", **more)
    (bench.workspace / "null").symlink_to("/dev/null")
    assert "outside" in refused(bench, "read_file", path="null")
    with pytest.raises(PathRefusedError, match="is a device"):
        asyncio.run(files.open_regular("/dev/null"))


@pytest.mark.parametrize("path", ["", "  ", "a\0b", "x" * 5_000, "loop/x"])
def test_paths_that_are_no_paths_are_refused(bench: Any, path: str) -> None:
    (bench.workspace / "loop").symlink_to("loop")
    text = refused(bench, "write_file", path=path, content="x")
    assert text.startswith("Error: ")
    assert [entry.name for entry in bench.workspace.iterdir()] == ["loop"]


def test_further_roots_may_be_used_by_full_path(bench: Any, outside: Path) -> None:
    [result] = bench.run(
        bench.call("read_file", {"path": str(outside / "secret.txt")}),
        toolsets=("file",),
        settings={"extra_roots": (str(outside),)},
    )
    assert result.content == "secret"


# -- the shape of a text ----------------------------------------------------------------------------------


@given(st.text(), st.sampled_from([b"", b"\xef\xbb\xbf"]), st.sampled_from(["\n", "\r\n"]))
def test_text_is_written_in_a_shape_that_is_read_back(text: str, mark: bytes, newline: Any) -> None:
    shape = TextShape("utf-8", mark, newline)
    data = encode_like(text, shape)
    assert data.startswith(mark)
    if mark:
        assert shape_of(data).mark == mark


@given(st.text(min_size=1), st.integers(0, 3))
def test_text_without_nul_is_never_called_binary_wherever_the_sample_ends(text: str, cut: int) -> None:
    printable = "".join(letter for letter in text if letter.isprintable())
    data = printable.encode()
    assert not looks_binary(data[: len(data) - cut])
