"""File tools in a container that has files of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from container_help import Docker, contained, rounds
from hermes_tools import ToolFailure
from hermes_tools.builtin import search_files as search_module
from hermes_tools.containers import files as container_files
from hermes_tools.containers import runner as runner_module
from hermes_tools.containers.engine import ContainerEngine
from hermes_tools.containers.file_scripts import command_of
from hermes_tools.containers.files import ContainerFiles
from hermes_tools.containers.runner import ContainerCommands
from hermes_tools.containers.search import ContainerSearch, Searched
from hermes_tools.containers.settings import ContainerSettings
from hermes_tools.containers.shell import ContainerShell
from hermes_tools.errors import FilesLostError
from hermes_tools.task_files import SearchQuery
from hermes_tools.text_shape import SAMPLE_BYTES
from standalone_help import at_work


def texts(bench: Any, run_async: Any, *calls: tuple[str, dict[str, object]], **more: Any) -> list[str]:
    made = [bench.call(name, arguments) for name, arguments in calls]
    results = rounds(bench, run_async, *made, toolsets=("file", "terminal"), **more)
    return [result.content for result in results]


@pytest.fixture
def testbed(image: Path) -> Path:
    """A directory of the image, with a file in it."""
    place = image / "testbed"
    place.mkdir()
    (place / "a.py").write_text("x = 1\n")
    return place


def test_files_of_the_image_are_read_written_and_patched_as_commands_see_them(
    bench: Any, run_async: Any, docker: Docker, testbed: Path
) -> None:
    answers = texts(
        bench,
        run_async,
        ("read_file", {"path": "/testbed/a.py"}),
        ("patch", {"path": "/testbed/a.py", "old_string": "1", "new_string": "2"}),
        ("write_file", {"path": "/testbed/new/b.py", "content": "y = 3\n"}),
        (
            "terminal",
            {"command": "cd /testbed; cat a.py new/b.py; ls -A . new; echo z >c"},
        ),
        ("read_file", {"path": "/testbed/c"}),
    )
    assert answers[0] == "x = 1"
    assert answers[1].startswith("patched /testbed/a.py\n")
    assert answers[2] == "wrote /testbed/new/b.py: 1 line, 6 bytes"
    assert answers[3] == "x = 2\ny = 3\n.:\na.py\nnew\n\nnew:\nb.py"
    assert answers[4] == "z"
    assert len(docker.asked("run")) == 1
    assert (testbed / "a.py").read_text() == "x = 1\n", "the image itself was changed"
    assert not Path("/testbed").exists()


def test_links_lead_where_they_lead_in_the_container_and_never_to_this_machine(
    bench: Any, run_async: Any, testbed: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("of the host")
    (bench.workspace / "bed").symlink_to("/testbed")
    (bench.workspace / "way").symlink_to(secret)
    (bench.workspace / "own.txt").write_text("shared\n")
    (testbed / "back").symlink_to(bench.workspace)
    answers = texts(
        bench,
        run_async,
        ("read_file", {"path": "bed//a.py"}),
        ("read_file", {"path": "way"}),
        ("read_file", {"path": "../secret.txt"}),
        ("write_file", {"path": "way", "content": "planted"}),
        ("read_file", {"path": "way"}),
        ("patch", {"path": "/testbed/back/own.txt", "old_string": "shared", "new_string": "changed"}),
        ("read_file", {"path": "/etc/passwd"}),
        ("read_file", {"path": "~"}),
    )
    assert answers[0] == "x = 1"
    assert answers[1] == "way: no such file"
    assert answers[2] == "../secret.txt: no such file"
    assert answers[3] == "wrote way: 1 line, 7 bytes"
    assert answers[4] == "planted"
    assert secret.read_text() == "of the host"
    assert (bench.workspace / "own.txt").read_text() == "changed\n"
    assert answers[6] == "/etc/passwd: no such file"
    assert answers[7] == "Error: ~ is a directory, not a regular file"


def test_directories_that_the_host_names_and_long_results_stay_reachable(
    bench: Any, run_async: Any, image: Path, tmp_path: Path
) -> None:
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "a.txt").write_text("extra\n")
    (extra / "out").symlink_to("/etc/passwd")

    async def main() -> list[str]:
        settings = {"container": ContainerSettings(image="here"), "extra_roots": (str(extra),)}
        executor = bench.executor("file", "terminal", settings=settings)
        answers = []

        async def ask(name: str, **arguments: object) -> None:
            [result] = (await bench.outcome(executor, bench.call(name, arguments))).results
            answers.append(str(result.content))

        await ask("read_file", path=str(extra / "a.txt"))
        await ask("read_file", path=str(extra / "out"))
        await ask("terminal", command="seq 1 20000")
        place = next(word.strip(".,;]") for word in answers[2].split() if "/hermes-" in word)
        await ask("read_file", path=place, offset=12_345, limit=1)
        await ask("write_file", path=place, content="x")
        await executor.close()
        return answers

    answers = run_async(main())
    assert answers[0] == "extra"
    assert "is outside the working directory" in answers[1]
    assert answers[3].startswith("12345\n")
    assert "wrote" in answers[4], "a path of its own in the container"


def test_a_program_that_the_image_lacks_is_named_and_nothing_is_changed(
    bench: Any, run_async: Any, docker: Docker, testbed: Path
) -> None:
    programs = docker.use_own_shell()
    (programs / "stat").unlink()
    [answer] = texts(bench, run_async, ("read_file", {"path": "/testbed/a.py"}))
    assert answer == "the container's image has no `stat`, which file tools need there"
    (programs / "stat").symlink_to("busybox")
    (programs / "mv").unlink()
    wrote, listed = texts(
        bench,
        run_async,
        ("write_file", {"path": "/testbed/a.py", "content": "new"}),
        ("terminal", {"command": "cat /testbed/*; ls -A /testbed"}),
    )
    assert "has no `mv`" in wrote
    assert listed == "x = 1\na.py"


def test_what_the_system_says_of_a_write_is_told_and_the_old_file_stands(
    bench: Any, run_async: Any, docker: Docker, testbed: Path
) -> None:
    full = docker.use_own_shell() / "head"
    full.unlink()
    full.write_text(
        '#!/bin/sh\n[ $# -eq 3 ] && exec busybox head "$@"\n'
        "busybox head -c 3; echo 'head: write error: No space left on device' >&2; exit 1\n"
    )
    full.chmod(0o755)
    wrote, patched, listed = texts(
        bench,
        run_async,
        ("write_file", {"path": "/testbed/a.py", "content": "something new"}),
        ("patch", {"path": "/testbed/a.py", "old_string": "1", "new_string": "2"}),
        ("terminal", {"command": "cat /testbed/*; ls -A /testbed"}),
    )
    text = "/testbed/a.py could not be written: No space left on device; the old file is unchanged"
    assert wrote.startswith(text)
    assert patched.startswith(text)
    assert listed == "x = 1\na.py"


def test_what_a_shell_says_by_itself_is_taken_for_a_file(
    bench: Any, run_async: Any, docker: Docker, testbed: Path
) -> None:
    """As bash does of a locale that the image lacks, and of what `BASH_ENV` names."""
    programs = docker.use_own_shell()
    (programs / "sh").rename(programs / "real")
    (programs / "sh").write_text('#!/bin/real\n[ $# -ne 2 ] || echo warning >&2\nexec real "$@"\n')
    (programs / "sh").chmod(0o755)
    read, wrote, found, told = texts(
        bench,
        run_async,
        ("read_file", {"path": "/testbed/a.py"}),
        ("write_file", {"path": "/testbed/b.py", "content": "y = 2\n" * 9_000}),
        ("search_files", {"path": "/testbed", "pattern": "=", "limit": 2}),
        ("terminal", {"command": "ls -A /testbed"}),
    )
    assert read == "x = 1"
    assert wrote == "wrote /testbed/b.py: 9000 lines, 54000 bytes"
    assert found.startswith("/testbed/a.py:1: x = 1\n/testbed/b.py:1: y = 2\n")
    assert told.splitlines() == ["warning", "a.py", "b.py"]


def test_a_file_of_which_only_a_part_could_be_read_is_taken_for_the_whole(
    bench: Any, run_async: Any, docker: Docker, testbed: Path
) -> None:
    """The patch would put the part in its place."""
    (testbed / "long.py").write_text("x = 1\n" * 9_000)
    tail = docker.use_own_shell() / "tail"
    tail.unlink()
    tail.write_text('#!/bin/sh\nbusybox tail "$@" | busybox head -c 20000\nkill -KILL $$\n')
    tail.chmod(0o755)
    patched, deep, size = texts(
        bench,
        run_async,
        ("patch", {"path": "/testbed/long.py", "old_string": "1", "new_string": "2", "replace_all": True}),
        ("read_file", {"path": "/testbed/long.py", "offset": 4_000, "limit": 9_000}),
        ("terminal", {"command": "wc -c </testbed/long.py"}),
    )
    assert patched == "Error: OSError: [Errno 5] it can not be read to its end"
    assert deep == patched
    assert size == "54000"


def test_no_more_than_a_page_and_never_more_than_a_bound_leaves_the_container(
    bench: Any, run_async: Any, testbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_files, "MOST_READ_BYTES", 1_000_000)
    command = "cd /testbed; seq 1 400000 >long; head -c 3000000 /dev/zero | tr '\\0' x >wide"
    _, deep, wide, far = texts(
        bench,
        run_async,
        ("terminal", {"command": command}),
        ("read_file", {"path": "/testbed/long", "offset": 390_000, "limit": 2}),
        ("read_file", {"path": "/testbed/wide"}),
        ("read_file", {"path": "/testbed/long", "offset": 10**40}),
    )
    assert deep == "390000\n390001\n[lines 390000 to 390001; more with offset=390002]"
    assert "more than 1000000 bytes would have to be read for that" in wide
    assert far.startswith("[/testbed/long has 400000 lines; there is no line 1000")


@pytest.mark.parametrize("change", ["replaced", "written over", "cut"])
def test_a_file_that_is_changed_while_it_is_read_is_told_and_never_shown_in_parts_of_both(
    bench: Any, run_async: Any, docker: Docker, testbed: Path, change: str
) -> None:
    (testbed / "large").write_text("old\n" * 10_000)

    async def main() -> None:
        shell = Shell(bench)
        file = await shell.files.find("/testbed/large")
        async with file.reading() as reader:
            assert await reader.read(SAMPLE_BYTES) == b"old\n" * (SAMPLE_BYTES // 4)
            if change == "replaced":
                await put(await shell.files.find("/testbed/large"), b"new\n" * 10_000)
            else:
                writer = "yes new | head -n 10000" if change == "written over" else "echo old"
                await shell.run(f"{writer} >/testbed/large")
            with pytest.raises(
                ToolFailure, match="/testbed/large was changed while it was read; read it again"
            ):
                await reader.read()
        await shell.commands.release()

    run_async(main())


def test_a_file_that_grows_while_it_is_read_is_read_on(
    bench: Any, run_async: Any, docker: Docker, testbed: Path
) -> None:
    old = "".join(f"{number}\n" for number in range(10_000)).encode()
    (testbed / "log").write_bytes(old)

    async def main() -> bytes:
        shell = Shell(bench)
        file = await shell.files.find("/testbed/log")
        async with file.reading() as reader:
            told = await reader.read(SAMPLE_BYTES)
            await shell.run("echo more >>/testbed/log")
            while piece := await reader.read():
                told += piece
        await shell.commands.release()
        return told

    assert run_async(main()) == old + b"more\n"


def test_calls_at_once_share_one_container_and_do_not_mix(
    bench: Any, run_async: Any, docker: Docker, testbed: Path
) -> None:
    for number in range(6):
        (testbed / f"{number}.txt").write_text(f"{number}\n" * 9_000)

    async def main() -> list[Any]:
        executor = contained(bench, "file")
        await executor.open()
        calls = [bench.call("read_file", {"path": f"/testbed/{n}.txt", "limit": 3}) for n in range(6)]
        results = (await bench.outcome(executor, *calls)).results
        await executor.close()
        return list(results)

    for number, result in enumerate(run_async(main())):
        assert result.content == f"{number}\n{number}\n{number}\n[lines 1 to 3; more with offset=4]"
    assert len(docker.asked("run")) == 1


def test_files_of_the_image_are_searched_and_named_in_full(
    bench: Any, run_async: Any, docker: Docker, testbed: Path
) -> None:
    (testbed / ".gitignore").write_text("*.log\n")
    (testbed / "sub").mkdir()
    (testbed / "sub/b.log").write_text("x = 3\n")
    (testbed / "sub/c.py").write_text("x = 4\n")
    (testbed / "large.py").write_bytes(b"x = 5\n" * 2_000_000)
    (bench.workspace / "w.py").write_text("x = 6\n")
    answers = texts(
        bench,
        run_async,
        ("search_files", {"pattern": "x = ", "path": "/testbed"}),
        ("search_files", {"pattern": "x = ", "path": "/testbed/sub"}),
        ("search_files", {"pattern": "*.py", "path": "/", "target": "files"}),
        ("search_files", {"pattern": "x", "path": "/testbed/large.py"}),
        ("search_files", {"pattern": "4", "path": "//testbed/sub/c.py"}),
    )
    assert answers[0].splitlines() == ["/testbed/a.py:1: x = 1", "/testbed/sub/c.py:1: x = 4"]
    assert answers[1].splitlines() == ["/testbed/sub/c.py:1: x = 4"]
    of_the_image = ["/testbed/a.py", "/testbed/large.py", "/testbed/sub/c.py"]
    assert answers[2].splitlines() == sorted([*of_the_image, f"{bench.workspace}/w.py"])
    assert answers[3] == "no matches for x"
    assert answers[4] == "/testbed/sub/c.py:1: x = 4"
    assert len(docker.asked("run")) == 1


def test_a_search_that_is_cancelled_or_has_enough_leaves_no_process(
    bench: Any, run_async: Any, testbed: Path, wait_until: Any
) -> None:
    for number in range(300):
        (testbed / f"{number}.txt").write_text("many\n" * 5_000)
    (testbed / "!slow").write_text("a" * 200 + "c\n")  # it comes first, and all others wait for it

    def senders() -> list[int]:
        found = []
        for pid in bench.processes():
            with contextlib.suppress(OSError):
                found += [pid] if b"tar\0cf\0" in Path(f"/proc/{pid}/cmdline").read_bytes() else []
        return found

    async def main() -> None:
        executor = contained(bench, "file")
        await executor.open()
        call = bench.call("search_files", {"pattern": "many", "path": "/testbed", "limit": 3})
        enough = (await bench.outcome(executor, call)).results[0].content
        assert enough.splitlines()[-1] == "[only the first 3 results are shown]"
        assert not at_work("container_search")
        assert not senders()
        call = bench.call("search_files", {"pattern": r"^(a+)+b$", "path": "/testbed"})
        round_ = asyncio.ensure_future(bench.outcome(executor, call))
        await wait_until(senders)
        round_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await round_
        assert not at_work("container_search")
        assert not senders()
        await executor.close()

    run_async(main())


def test_a_search_that_takes_for_ever_is_stopped_and_what_was_found_is_kept(
    bench: Any, run_async: Any, testbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (testbed / "a.txt").write_text("aaab\n")
    (testbed / "b.txt").write_text("a" * 200 + "c\n")
    for limit_s in (1.0, 10.0, 60.0):
        monkeypatch.setattr(search_module, "TIME_LIMIT_S", limit_s)
        [answer] = texts(bench, run_async, ("search_files", {"pattern": "^(a+)+b$", "path": "/testbed"}))
        found = answer.splitlines()
        if found[0].startswith("/testbed"):
            break
    assert found == ["/testbed/a.txt:1: aaab", f"[stopped after {limit_s:g} s; there may be more]"]


class Shell:
    """The files of one container, without an agent around them."""

    def __init__(self, bench: Any) -> None:
        self.commands = ContainerCommands(ContainerEngine(ContainerSettings(image="here")), "task")
        self.shell = ContainerShell(self.commands, str(bench.workspace))
        self.files = ContainerFiles(self.commands, str(bench.workspace))
        self._cwd = str(bench.workspace)

    async def run(self, command: str) -> None:
        process = await self.commands.start(command, cwd=self._cwd, workdir=None, with_input=False)
        while await process.read():
            pass
        assert await process.wait() == 0

    async def die(self, docker: Docker) -> None:
        [name] = docker.containers()
        process = await asyncio.create_subprocess_exec(str(docker.cli), "rm", "--force", "--volumes", name)
        await process.wait()


async def put(file: Any, data: bytes) -> None:
    async with file.staged(data) as put_in_place:
        await put_in_place()


class Cancelling:
    """Runs commands, and cancels the task that uses them at the `at`-th thing that is asked of them."""

    def __init__(self, runner: Any, at: int) -> None:
        self._runner = runner
        self._left = at
        self.reached = False

    def count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.reached = True
            task = self.task
            assert task is not None
            task.cancel()

    async def start(self, command: str, **more: Any) -> Any:
        self.task = asyncio.current_task()
        self.count()
        return CountedProcess(await self._runner.start(command, **more), self.count)


class CountedProcess:
    def __init__(self, process: Any, count: Callable[[], None]) -> None:
        self._process = process
        self._count = count

    def __getattr__(self, name: str) -> Any:
        if name in ("read", "write", "wait", "stop", "stop_or_leave"):
            self._count()
        return getattr(self._process, name)


def test_a_write_that_is_cancelled_at_any_point_leaves_the_old_file_or_the_new(
    bench: Any, run_async: Any, docker: Docker, testbed: Path
) -> None:
    seen: list[str] = []

    async def main() -> None:
        shell = Shell(bench)
        found = await container_files.found_in(shell.shell, "/testbed/a.py", "/tmp")
        target = docker.root() / "testbed/a.py"
        for at in range(1, 100):
            target.write_text("old")
            steps = Cancelling(shell.commands, at)
            file = container_files.ContainerFile(ContainerShell(steps, "/tmp"), found.finding, "/tmp")
            writing = asyncio.create_task(put(file, b"new" * 40_000))
            await asyncio.wait({writing})
            text = target.read_text()
            assert text in ("old", "new" * 40_000)
            assert [path.name for path in target.parent.iterdir()] == ["a.py"]
            seen.append(text[:3])
            if not steps.reached:
                await writing
                break
            assert writing.cancelled()
        await shell.commands.release()

    run_async(main())
    assert {"old", "new"} == set(seen)
    assert len(seen) > 6


def test_a_container_that_dies_in_the_middle_is_told_and_leaves_nothing(
    bench: Any, run_async: Any, docker: Docker, testbed: Path
) -> None:
    async def main() -> tuple[str, str]:
        shell = Shell(bench)
        file = await shell.files.find("/testbed/a.py")
        said = []
        with pytest.raises(ToolFailure) as lost:  # noqa: PT012 - it is to be raised by the last step
            async with file.staged(b"new") as put_in_place:
                await shell.die(docker)
                await put_in_place()
        said.append(lost.value.text)
        with pytest.raises(ToolFailure) as gone:
            await shell.files.find("/testbed/a.py")
        said.append(gone.value.text)
        again = await shell.files.find("/testbed/a.py")
        assert await again.read_small(100) == b"x = 1\n"
        await shell.commands.release()
        return said[0], said[1]

    middle, after = run_async(main())
    assert "whether the file was changed is not known" in middle
    assert "the files of the container can not be reached" in after
    assert "the next call gets a new one" in after


def test_a_container_that_dies_in_a_search_is_told(
    bench: Any, run_async: Any, docker: Docker, testbed: Path
) -> None:
    names = []
    for number in range(300):
        (testbed / f"{number}.txt").write_text("many\n" * 5_000)
        names.append(f"./{number}.txt\0")

    async def main() -> None:
        shell = Shell(bench)
        place = Searched("/testbed", "", "/")
        search = ContainerSearch(shell.shell, place, SearchQuery("many", "content", 1_000), 1 << 20)
        sending = search._sent("".join(names).encode())
        assert await anext(sending)
        await shell.die(docker)
        with pytest.raises(FilesLostError, match="ended in the middle"):
            async for _ in sending:
                pass
        await shell.commands.release()

    run_async(main())


def test_an_engine_that_does_not_stop_a_reading_costs_no_container(
    bench: Any, run_async: Any, docker: Docker, testbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (testbed / "large").write_text("many\n" * 500_000)
    monkeypatch.setattr(runner_module, "_INSIDE_LIMIT_S", 0.2)

    async def main() -> None:
        shell = Shell(bench)
        file = await shell.files.find("/testbed/large")
        async with file.reading() as reader:
            assert await reader.read(SAMPLE_BYTES)
            assert await reader.read()
            (docker.state / "deaf").touch()
        (docker.state / "deaf").unlink()
        await put(await shell.files.find("/testbed/a.py"), b"new")
        assert len(docker.containers()) == 1
        await shell.commands.release()

    run_async(main())
    assert len(docker.asked("run")) == 1


def test_words_reach_a_script_as_they_are() -> None:
    command = command_of("exit 77", ["a'b", "$(x)", "-n", "\udcff\n"])
    assert command.startswith("set -- 'a'\"'\"'b' '$(x)' -n '\udcff\n'\n")
