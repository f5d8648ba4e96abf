from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from container_help import Docker, contained, rounds
from hermes_tools.errors import ContainerError


def shell(bench: Any, run_async: Any, command: str, **more: Any) -> Any:
    return rounds(bench, run_async, bench.call("terminal", {"command": command, **more}))[0]


# -- the container ----------------------------------------------------------------------------------------


def test_a_command_runs_in_a_container_of_its_task_with_limits_and_nothing_of_ours_but_the_directory(
    bench: Any, run_async: Any, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1")
    monkeypatch.setenv("PLAIN", "of-the-host")
    result = shell(bench, run_async, "pwd; echo $FAKE_CONTAINER; env; echo bad >&2; exit 3")
    [run] = docker.asked("run")
    name = run[run.index("--name") + 1]
    assert name.startswith("hermes-task-")
    assert result.content.startswith(f"{bench.workspace}\n{name}\n")
    assert result.content.endswith("bad\n[exit code 3]")
    assert "of-the-host" not in result.content
    for words in (
        ["--label", "hermes.task=task"],
        ["--network", "none"],
        ["--memory", "2g"],
        ["--pids-limit", "512"],
        ["--user", f"{os.getuid()}:{os.getgid()}"],
        ["--cap-drop", "ALL"],
        ["--mount", f"type=bind,source={bench.workspace},target={bench.workspace}"],
    ):
        place = run.index(words[0]) if words[0] != "--label" else run.index(words[1]) - 1
        assert run[place : place + 2] == words
    assert docker.asked("rm") == [["rm", "--force", "--volumes", name]]
    assert "sk-very-secret-1" not in (docker.state / "log").read_text()
    assert all("OPENAI_API_KEY" not in environment for environment in docker.environments())


def test_no_container_is_started_for_a_task_without_commands_and_files(
    bench: Any, run_async: Any, docker: Docker
) -> None:
    call = bench.call("todo", {})
    assert rounds(bench, run_async, call, toolsets=("todo", "file", "terminal"))[0].status == "ok"
    assert not docker.asked("run")


def test_file_tools_and_commands_see_the_same_files_and_share_one_container(
    bench: Any, run_async: Any, docker: Docker
) -> None:
    results = rounds(
        bench,
        run_async,
        bench.call("write_file", {"path": "a.txt", "content": "from the host\n"}),
        bench.call("terminal", {"command": "cat a.txt; mkdir sub; echo from inside > sub/b.txt"}),
        bench.call("read_file", {"path": "sub/b.txt"}),
        bench.call("terminal", {"command": "cat b.txt", "workdir": "sub"}),
        bench.call("terminal", {"command": "pwd", "workdir": "nowhere"}),
        toolsets=("file", "terminal"),
    )
    assert results[1].content == "from the host"
    assert "from inside" in results[2].content
    assert results[3].content == "from inside"
    assert (
        results[4].content
        == f"{bench.workspace}/nowhere: no such directory in the container; nothing was run"
    )
    assert len(docker.asked("run")) == 1


def test_every_task_has_a_container_which_goes_when_the_task_is_released(
    bench: Any, run_async: Any, docker: Docker
) -> None:
    async def main() -> None:
        executor = contained(bench)
        await executor.open()
        for task in ("one", "two"):
            outcome = await bench.outcome(
                executor, bench.call("terminal", {"command": "echo $FAKE_CONTAINER"}), task_id=task
            )
            assert outcome.results[0].content.startswith(f"hermes-{task}-")
        assert len(docker.containers()) == 2
        await executor.release("one")
        assert [name[:10] for name in docker.containers()] == ["hermes-two"]
        await executor.close()

    run_async(main())


def test_output_is_capped_and_cleaned_as_on_the_host(bench: Any, run_async: Any, docker: Docker) -> None:
    result = shell(bench, run_async, "head -c 3000000 /dev/zero | tr '\\0' x; printf '\\033[31mred\\033[0m'")
    assert len(result.content) < 31_000
    assert result.content.rstrip().endswith("red")
    assert shell(bench, run_async, "kill -KILL $$").content == "[exit code 137, SIGKILL]"
    assert shell(bench, run_async, "cat").content == "[no output, exit code 0]"
    assert shell(bench, run_async, "printf '@hermes- and so on'").content == "@hermes- and so on"


# -- stopping ---------------------------------------------------------------------------------------------


def sleepers(bench: Any, seconds: str) -> list[int]:
    """Processes of this test that sleep so long."""
    found = []
    for pid in bench.processes():
        with contextlib.suppress(OSError):
            if seconds.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2]:
                found.append(pid)
    return found


def test_a_timeout_ends_the_command_inside_and_the_container_goes_on(
    bench: Any, run_async: Any, docker: Docker, growing_limits: tuple[float, ...]
) -> None:
    seen: list[int] = []

    async def main() -> None:
        executor = contained(bench)
        await executor.open()
        command = "echo begun; trap '' TERM; sleep 671.5 & sleep 671.5"
        for limit_s in growing_limits:
            call = bench.call("terminal", {"command": command, "timeout": limit_s})
            outcome = await bench.outcome(executor, call)
            seen.extend(sleepers(bench, "671.5"))
            assert outcome.results[0].status == "timed_out"
            if "There was no output" not in outcome.results[0].content:
                break
        assert "begun" in outcome.results[0].content
        again = await bench.outcome(executor, bench.call("terminal", {"command": "echo well"}))
        assert again.results[0].content == "well"
        await executor.close()

    run_async(main())
    assert not seen, "the command went on in the container"
    assert len(docker.asked("run")) == 1


def test_a_cancelled_round_ends_its_command_inside(
    bench: Any, run_async: Any, docker: Docker, wait_until: Any
) -> None:
    async def main() -> None:
        executor = contained(bench)
        await executor.open()
        call = bench.call("terminal", {"command": "sleep 672.5"})
        task = asyncio.create_task(bench.outcome(executor, call))
        await wait_until(lambda: sleepers(bench, "672.5"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not sleepers(bench, "672.5")
        assert len(docker.containers()) == 1
        await executor.close()

    run_async(main())


def test_a_round_that_is_cancelled_while_the_container_starts_leaves_none(
    bench: Any, run_async: Any, docker: Docker, wait_until: Any
) -> None:
    (docker.state / "slow").touch()

    async def main() -> None:
        executor = contained(bench)
        await executor.open()
        task = asyncio.create_task(bench.outcome(executor, bench.call("terminal", {"command": "echo x"})))
        await wait_until(lambda: docker.asked("run"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await executor.release("task")
        assert docker.asked("rm")
        await executor.close()

    run_async(main())
    assert not docker.asked("exec")


def test_what_runs_in_the_background_can_be_written_to_looked_after_and_killed(
    bench: Any, run_async: Any, docker: Docker
) -> None:
    results = rounds(
        bench,
        run_async,
        bench.call("terminal", {"command": "while read -r x; do echo got $x; done", "background": True}),
        bench.call("process", {"action": "write", "process_id": "p1", "text": "a\n", "end_input": True}),
        bench.call("process", {"action": "wait", "process_id": "p1"}),
        bench.call("terminal", {"command": "sleep 673.5", "background": True}),
        bench.call("process", {"action": "kill", "process_id": "p2"}),
    )
    assert "got a" in results[2].content
    assert "ended with exit code 0" in results[2].content
    assert "ended with exit code 143" in results[4].content, results[4].content


def test_what_a_command_leaves_running_is_told_and_can_be_killed(
    bench: Any, run_async: Any, docker: Docker, wait_until: Any
) -> None:
    left: list[int] = []

    async def main() -> None:
        executor = contained(bench)
        await executor.open()
        command = "sleep 674.5 >/dev/null 2>&1 & echo started"
        first = await bench.outcome(executor, bench.call("terminal", {"command": command}))
        assert "a background process is still running, p1" in first.results[0].content
        await wait_until(lambda: sleepers(bench, "674.5"))
        killed = await bench.outcome(executor, bench.call("process", {"action": "kill", "process_id": "p1"}))
        left.extend(sleepers(bench, "674.5"))
        assert killed.results[0].content == "p1: stopped"
        holding = await bench.outcome(
            executor, bench.call("terminal", {"command": "sleep 675.5 & echo said"})
        )
        assert holding.results[0].content.startswith("said\n[a background process")
        await executor.close()
        left.extend(sleepers(bench, "675.5"))

    run_async(main())
    assert not left


def test_a_container_that_dies_costs_one_call(bench: Any, run_async: Any, docker: Docker) -> None:
    async def main() -> None:
        executor = contained(bench)
        await executor.open()
        call = bench.call("terminal", {"command": "echo here"})
        assert (await bench.outcome(executor, call)).results[0].content == "here"
        [name] = docker.containers()
        (docker.state / "containers" / name).unlink()
        lost = (await bench.outcome(executor, call)).results[0]
        assert (lost.status, "No such container" in lost.content) == ("error", True)
        assert (await bench.outcome(executor, call)).results[0].content == "here"
        await executor.close()

    run_async(main())
    assert len(docker.asked("run")) == 2


# -- what is found out before anything runs ---------------------------------------------------------------


def opening(bench: Any, run_async: Any, **settings: Any) -> str:
    async def main() -> str:
        executor = contained(bench, **settings)
        try:
            with pytest.raises(ContainerError) as caught:
                await executor.open()
            return str(caught.value)
        finally:
            await executor.close()

    text: str = run_async(main())
    return text


def test_without_the_program_the_daemon_or_the_image_nothing_is_opened(
    bench: Any, run_async: Any, docker: Docker
) -> None:
    missing = opening(bench, run_async, cli="no-such-docker")
    assert "no-such-docker can not be started" in missing
    assert "install one" in missing
    assert "pull access denied for nowhere" in opening(bench, run_async, image="nowhere")
    assert "is not to be fetched" in opening(bench, run_async, image="fetched", pull=False)
    (docker.state / "down").touch()
    assert "is its daemon running" in opening(bench, run_async)
    assert not docker.asked("run")


def test_an_image_that_is_not_there_is_fetched_once_however_many_agents_start(
    bench: Any, run_async: Any, docker: Docker
) -> None:
    async def main() -> None:
        executors = [contained(bench, image="fetched") for _ in range(5)]
        await asyncio.gather(*(executor.open() for executor in executors))
        for executor in executors:
            await executor.close()

    run_async(main())
    assert docker.asked("pull") == [["pull", "--quiet", "fetched"]]
    assert docker.asked("ps").count(["ps", "--quiet"]) == 1


def test_containers_of_processes_that_are_gone_are_removed_and_those_of_others_stay(
    bench: Any, run_async: Any, docker: Docker
) -> None:
    containers = docker.state / "containers"
    containers.mkdir()
    with subprocess.Popen(["sleep", "0"]) as gone:
        gone.wait()
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    owners = {"dead": f"{gone.pid}.123", "reused": f"{os.getpid()}.123", "alive": f"{os.getpid()}.{ticks}"}
    for name, owner in owners.items():
        labels = {"hermes.host": socket.gethostname(), "hermes.owner": owner}
        (containers / name).write_text(json.dumps({"cwd": "/", "labels": labels, "env": []}))
    foreign = {"hermes.host": "another-machine", "hermes.owner": "1.1"}
    (containers / "foreign").write_text(json.dumps({"cwd": "/", "labels": foreign, "env": []}))
    assert rounds(bench, run_async) == []
    assert docker.containers() == ["alive", "foreign"]
    shutil.rmtree(containers)


# -- a real one -------------------------------------------------------------------------------------------

REAL_CLI = os.environ.get("HERMES_CONTAINER_CLI", "docker")
REAL_IMAGE = os.environ.get("HERMES_CONTAINER_IMAGE", "busybox")


def _answers(*words: str) -> bool:
    try:
        done = subprocess.run([REAL_CLI, *words], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


if _answers("ps", "--quiet") and _answers(
    "image", "inspect", REAL_IMAGE
):  # elsewhere there is nothing to ask

    def test_a_real_engine_runs_stops_and_removes(bench: Any, run_async: Any) -> None:
        async def main() -> None:
            executor = contained(bench, "terminal", "file", image=REAL_IMAGE, cli=REAL_CLI)
            await executor.open()

            async def say(command: str, **more: Any) -> Any:
                outcome = await bench.outcome(executor, bench.call("terminal", {"command": command, **more}))
                return outcome.results[0]

            bench.workspace.chmod(0o755)
            (bench.workspace / "a.txt").write_text("from the host")
            told = await say("cat a.txt; echo; echo from inside > b.txt; hostname; ls / | head -50; exit 4")
            assert told.content.startswith("from the host\n")
            assert told.content.endswith("[exit code 4]")
            assert socket.gethostname() not in told.content
            assert (bench.workspace / "b.txt").read_text() == "from inside\n"

            async def files(name: str, **arguments: Any) -> str:
                outcome = await bench.outcome(executor, bench.call(name, arguments))
                return str(outcome.results[0].content)

            assert await files("write_file", path="/tmp/a b/x", content="one\n" * 9_000) == (
                "wrote /tmp/a b/x: 9000 lines, 36000 bytes"
            )
            edit = "@@ -9000 +9000 @@\n-one\n+last\n"
            assert "patched /tmp/a b/x" in await files("patch", path="/tmp/a b/x", diff=edit)
            assert (await files("read_file", path="/tmp/a b/x", offset=9_000)).startswith("last\n")
            assert (await files("read_file", path="b.txt")) == "from inside"
            assert await files("search_files", pattern="la.t", path="/tmp/a b") == "/tmp/a b/x:9000: last"
            assert await files("search_files", pattern="b.*", target="files") == "b.txt"
            assert (await say("tail -n 1 '/tmp/a b/x'; ls -A '/tmp/a b'")).content == "last\nx"
            assert (await files("read_file", path="/etc/shadow-")).endswith("no such file")
            late = await say("trap '' TERM; sleep 76.5 & sleep 76.5", timeout=0.5)
            assert late.status == "timed_out"
            assert "76.5" not in (await say("ps -o args | grep -v grep | grep sleep")).content
            left = await say("sleep 77.5 >/dev/null 2>&1 & echo begun")
            assert "still running, p1" in left.content
            killed = await bench.outcome(
                executor, bench.call("process", {"action": "kill", "process_id": "p1"})
            )
            assert killed.results[0].content == "p1: stopped"
            holding = await say("sleep 78.5 & echo said")
            assert holding.content.startswith("said\n[a background process is still running")
            assert (await say("cut -d: -f1 -s /proc/net/dev")).content.split() == ["lo"]
            await executor.close()

        run_async(main())
        left = subprocess.run(
            [REAL_CLI, "ps", "--all", "--quiet", "--filter", "label=hermes.task=task"],
            capture_output=True, check=True, text=True,
        )  # fmt: skip
        assert not left.stdout.split()
