"""A bench on which rounds are run, and a check that no process and no temporary file outlives a test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from hermes_messages import ToolCall, ToolMessage
from hermes_messages.protocols import ExecutorOptions, RoundContext, RoundOutcome, TurnContext
from hermes_messages.testing import InterruptFlag
from hermes_tools import Executor, ExecutorSettings, build_executor
from hermes_tools.toolsets import load_toolsets

sys.path.insert(0, str(Path(__file__).parents[3] / ".ci"))  # for the modules `hard_times` and `quiet_port`
sys.path.insert(0, str(Path(__file__).parent))  # for the modules that several tests use

from container_help import Ask, Docker, no_own_files, rounds

MARK = "HERMES_TEST_MARK"

# How long the product waits for something that ends by itself in no time, unless the machine stands still.
# A test whose matter is one of them sets it itself.
BOUNDS = {
    "hermes_tools.builtin.process_table": ("_END_LIMIT_S",),
    "hermes_tools.builtin.running_command": ("STOP_LIMIT_S",),
    "hermes_tools.builtin.delegate_task": ("_CLOSE_LIMIT_S",),
    "hermes_tools.builtin.memory": ("LOCK_LIMIT_S",),
    "hermes_tools.builtin.patch": ("RESTORE_LIMIT_S", "TIME_LIMIT_S"),
    "hermes_tools.builtin.search_files": ("TIME_LIMIT_S",),
    "hermes_tools.builtin.web": ("_HTML_TIME_S",),
    "hermes_tools.child_work": ("_END_LIMIT_S",),
    "hermes_tools.checkpoint_git": ("_LIMIT_S",),
    "hermes_tools.checkpoints": ("_LOCK_LIMIT_S",),
    "hermes_tools.containers.engine": ("_ASK_LIMIT_S", "_REMOVE_LIMIT_S"),
    "hermes_tools.containers.files": ("_CLEAN_LIMIT_S", "_FINISH_LIMIT_S"),
    "hermes_tools.containers.runner": (
        "_HEAD_LIMIT_S", "_INSIDE_LIMIT_S", "_REMOVE_LIMIT_S", "_REST_LIMIT_S", "_STOP_LIMIT_S"
    ),
    "hermes_tools.executor": ("_RELEASE_LIMIT_S",),
    "hermes_tools.files": ("CLEANUP_LIMIT_S",),
    "hermes_tools.mcp.connection": ("_LEAVE_LIMIT_S", "_REASON_WAIT_S", "_STOP_LIMIT_S"),
    "hermes_tools.mcp.server": ("_CALLBACK_STOP_S",),
    "hermes_tools.mcp.stdio": ("_STOP_LIMIT_S",),
    "hermes_tools.processes": ("KILL_WAIT_S", "_LATE_NOTICE_S", "_START_LIMIT_S", "_STOP_LIMIT_S"),
}  # fmt: skip
PATIENCE_S = 300.0

# No test of properties fails because the machine is busy.
settings.register_profile(
    "hermes-tools", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("hermes-tools")


def call(name: str, arguments: object = None, *, id_: str = "") -> ToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return ToolCall(id_ or f"call_{uuid.uuid4().hex[:8]}", name, text)


class Bench:
    """Runs rounds in a workspace and remembers what was handed on."""

    def __init__(self, workspace: Path, mark: str) -> None:
        self.workspace = workspace
        self.mark = mark
        self.interrupt = InterruptFlag()
        self.stored: list[tuple[int, ToolMessage]] = []
        self.events: list[tuple[str, str]] = []

    call = staticmethod(call)

    def context(self, **changes: Any) -> RoundContext:
        async def on_result(position: int, message: ToolMessage) -> None:
            self.stored.append((position, message))

        given: dict[str, Any] = {
            "session_id": "session",
            "task_id": "task",
            "turn_id": "turn",
            "cwd": str(self.workspace),
            "interrupt": self.interrupt,
            "on_result": on_result,
        }
        return RoundContext(**(given | changes))

    def turn(self, **changes: Any) -> TurnContext:
        given: dict[str, Any] = {"session_id": "session", "task_id": "task", "turn_id": "turn"}
        return TurnContext(**(given | {"cwd": str(self.workspace)} | changes))

    def executor(self, *toolsets: str, tools: tuple[Any, ...] = (), **options: Any) -> Executor:
        settings = ExecutorSettings(**options.pop("settings", {}))
        return Executor(load_toolsets(toolsets), tools, settings=settings, **options)

    async def outcome(self, executor: Executor, *calls: ToolCall, **changes: Any) -> RoundOutcome:
        return await executor.execute(calls, self.context(**changes))

    def run(
        self, *calls: ToolCall, toolsets: tuple[str, ...] = (), tools: tuple[Any, ...] = (), **options: Any
    ) -> list[ToolMessage]:
        """The results of one round on a fresh executor that is closed afterwards."""

        async def main() -> list[ToolMessage]:
            executor = self.executor(*toolsets, tools=tools, **options)
            try:
                outcome = await self.outcome(executor, *calls)
            finally:
                await executor.close()
            assert not outcome.pending
            results = [result for result in outcome.results if result is not None]
            assert len(results) == len(calls)
            return results

        results: list[ToolMessage] = run(main())
        return results

    def text(self, name: str, arguments: object, *toolsets: str) -> str:
        """The text of the result of one call that goes well."""
        [result] = self.run(call(name, arguments), toolsets=toolsets)
        assert result.status == "ok", result.content
        assert isinstance(result.content, str)
        return result.content

    def processes(self) -> list[int]:
        """Processes that this test started, their children included."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end, and make sure that no task is left behind."""

    async def main() -> Any:
        result = await work
        # What was closed in the last moment may need one more turn of the loop.
        for _ in range(3):
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    return asyncio.run(main())


async def until(condition: Callable[[], object], limit_s: float = 120.0) -> None:
    """Return once `condition` holds; for the outside world, which sends no signals."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 - it sends no event
            await asyncio.sleep(0.005)


@pytest.fixture
def run_async() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    return run


@pytest.fixture
def growing_limits() -> tuple[float, ...]:
    """Time limits to be tried one after the other, where something must have happened before one is over."""
    return (0.3, 3.0, 30.0)


@pytest.fixture
def wait_until() -> Callable[..., Awaitable[None]]:
    return until


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bound of a clean-up is reached because the machine is slow or this process was stopped a while."""
    for module, names in BOUNDS.items():
        for name in names if module in sys.modules else ():
            monkeypatch.setattr(f"{module}.{name}", PATIENCE_S)


@pytest.fixture
def patient_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for patches, whose module may not have been imported yet."""
    monkeypatch.setattr("hermes_tools.builtin.patch.TIME_LIMIT_S", PATIENCE_S)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    workspace = tmp_path / "ws"
    temporary = tmp_path / "tmp"
    workspace.mkdir()
    temporary.mkdir()
    mark = uuid.uuid4().hex
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "hermes-home"))
    monkeypatch.delenv("HERMES_SKILLS", raising=False)
    bench = Bench(workspace, mark)
    yield bench
    # A process that was killed vanishes from /proc a moment later.
    deadline = time.monotonic() + 60
    while (left := bench.processes()) and time.monotonic() < deadline:
        time.sleep(0.01)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    assert not left, "processes outlived the test"
    assert not list(temporary.iterdir()), "temporary files outlived the test"


@pytest.fixture
def docker(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Docker]:
    """A docker on `PATH` that needs none; its containers see the files of this machine."""
    directory = tmp_path_factory.mktemp("docker")
    fake = Docker(directory)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    yield fake
    assert not fake.containers(), "a container outlived its test"


@pytest.fixture
def image(docker: Docker) -> Path:
    """The files that a container of this test begins with: a userland, and what the test puts there."""
    if reason := no_own_files():
        pytest.skip(reason)
    return docker.make_image()


@pytest.fixture
def ask(request: pytest.FixtureRequest, bench: Any, run_async: Any) -> Ask:
    """Make calls `(tool, arguments)` one after the other: the texts of their results, failures marked."""
    if request.param != "host":  # a container that has busybox alone, or what is on this machine
        request.getfixturevalue("image" if request.param == "busybox" else "docker")

    async def on_host(calls: list[Any]) -> list[Any]:
        executor = build_executor(("file",), ExecutorOptions(cwd=str(bench.workspace), settings={}))
        try:
            return [(await bench.outcome(executor, call)).results[0] for call in calls]
        finally:
            await executor.close()

    def asking(*wanted: tuple[str, dict[str, object]]) -> list[str]:
        calls = [bench.call(name, arguments) for name, arguments in wanted]
        if request.param != "host":
            results = rounds(bench, run_async, *calls, toolsets=("file",))
        else:
            results = run_async(on_host(calls))
        return [
            result.content if result.status == "ok" else f"{result.status}: {result.content}"
            for result in results
        ]

    return asking


@pytest.fixture
def file(bench: Any) -> Path:
    path = Path(bench.workspace / "a.py")
    path.write_text("def f(x):\n    return x\n\n\ndef g(x):\n    return x + 1\n")
    return path


_SWAPPER = """
import os, sys, time
real, other, outside = sys.argv[1:]
while True:
    os.rename(real, other)
    os.symlink(outside, real)
    time.sleep(0.0002)
    os.unlink(real)
    os.rename(other, real)
    time.sleep(0.001)
"""


@contextlib.contextmanager
def _swapping(real: Path, outside: Path) -> Iterator[None]:
    aside = outside.parent / f"aside-{uuid.uuid4().hex}"
    words = (sys.executable, "-I", "-S", "-c", _SWAPPER, str(real), str(aside), str(outside))
    swapper = subprocess.Popen(words)
    try:
        yield
    finally:
        swapper.kill()
        swapper.wait()


@pytest.fixture
def swapping() -> Callable[[Path, Path], contextlib.AbstractContextManager[None]]:
    """While it is entered, a process takes a directory away and puts a link to another in its place, and
    back, again and again."""
    return _swapping


_PROGRAM = """
import asyncio, json, resource, sys
from hermes_messages import ToolCall
from hermes_messages.protocols import RoundContext
from hermes_messages.testing import InterruptFlag
from hermes_tools import Executor
from hermes_tools.builtin.memory import MemoryToolset
from hermes_tools.toolsets import load_toolsets

async def in_executor():
    async def on_result(position, message):
        pass

    async def run(name, **arguments):
        outcome = await executor.execute([ToolCall("1", name, json.dumps(arguments))], context)
        return [outcome.results[0].status, outcome.results[0].content]

    executor = Executor(toolsets())
    context = RoundContext(
        session_id="s", task_id="t", turn_id="1", cwd=sys.argv[1],
        interrupt=InterruptFlag(), on_result=on_result,
    )
    await main(run)
    await executor.close()

def toolsets():
    return load_toolsets(("file", "terminal"))
"""


@pytest.fixture
def program() -> Callable[[str], list[str]]:
    """The command line of a Python process with an executor of its own, which awaits the body's `main(run)`;
    `run(name, **arguments)` makes a call, the first argument is the working directory."""

    def command(body: str) -> list[str]:
        return [sys.executable, "-c", f"{_PROGRAM}\n{body}\nasyncio.run(in_executor())"]

    return command
