"""LocalServer against a real child process that behaves badly. No model is needed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from hermes_messages.errors import ConfigurationError, ErrorKind, MissingDependencyError, ProviderError
from hermes_providers.local import LocalServer, LocalServerError, LocalServerOptions, process
from hermes_providers.local.options import child_environment

from .conftest import FakeServers, until

IsAlive = Callable[[int], bool]


async def ask_health(server: LocalServer) -> bytes:
    host, port = server.base_url.removeprefix("http://").removesuffix("/v1").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /health HTTP/1.0\r\n\r\n")
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return answer


def test_server_answers_inside_the_block_and_is_gone_after_it(fakes: FakeServers, is_alive: IsAlive) -> None:
    async def main() -> None:
        async with fakes.server("good") as server:
            assert b"200" in await ask_health(server)
            assert server.pid == fakes.pids()[0]
            assert not server.dead()
            # A session of its own: the terminal's Ctrl-C must not reach the child.
            assert os.getsid(fakes.pids()[0]) == fakes.pids()[0]
        assert not is_alive(fakes.pids()[0])
        await server.close()

    asyncio.run(main())


def test_exception_in_the_block_stops_the_server(fakes: FakeServers, is_alive: IsAlive) -> None:
    async def main() -> None:
        async with fakes.server("good"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())
    assert not is_alive(fakes.pids()[0])


def test_child_that_ignores_sigterm_is_killed_after_the_grace(fakes: FakeServers, is_alive: IsAlive) -> None:
    async def main() -> float:
        server = fakes.server("ignores-term-and-stdin", stop_grace_s=0.3)
        await server.start()
        before = time.monotonic()
        await server.close()
        return time.monotonic() - before

    took = asyncio.run(main())
    assert not is_alive(fakes.pids()[0])
    assert took >= 0.3


def test_cancelled_close_kills_at_once_and_stays_cancelled(fakes: FakeServers, is_alive: IsAlive) -> None:
    async def main() -> None:
        server = fakes.server("ignores-term-and-stdin", stop_grace_s=60)
        await server.start()
        task = asyncio.create_task(server.close())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not is_alive(fakes.pids()[0])

    asyncio.run(main())


def test_never_ready_ends_with_a_timeout_that_shows_the_log(fakes: FakeServers, is_alive: IsAlive) -> None:
    async def main(limit_s: float) -> None:
        await fakes.server("never-ready", start_timeout_s=limit_s).start()

    for limit_s in (1.0, 10.0, 60.0):  # it must have come so far as to write
        with pytest.raises(LocalServerError, match=f"not ready within {limit_s:g} s") as caught:
            asyncio.run(main(limit_s))
        if "still loading" in str(caught.value):
            break
    assert "still loading" in str(caught.value)
    assert caught.value.kind is ErrorKind.TIMEOUT
    assert not any(map(is_alive, fakes.pids()))


def test_listening_but_never_healthy_ends_with_a_timeout(fakes: FakeServers, is_alive: IsAlive) -> None:
    async def main() -> None:
        await fakes.server("never-healthy", start_timeout_s=1.5).start()

    with pytest.raises(LocalServerError, match=r"not ready within 1\.5 s"):
        asyncio.run(main())
    assert not any(map(is_alive, fakes.pids()))


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("dies-at-once", r"ended with exit code 7\n(.|\n)*illegal instruction"),
        ("prints-garbage", "reported b'Welcome to the llama!'"),
        ("prints-without-end", "reported b'xxx"),
        ("reports-error", r"did not start: bad weights\n(.|\n)*the reason is here"),
        ("forever-elsewhere", "which is no report"),
    ],
)
def test_bad_child_gives_an_error_with_the_reason_and_leaves_no_process(
    fakes: FakeServers, is_alive: IsAlive, behaviour: str, message: str
) -> None:
    async def main() -> None:
        await fakes.server(behaviour).start()

    with pytest.raises(LocalServerError, match=message) as caught:
        asyncio.run(main())
    assert isinstance(caught.value, ProviderError)
    assert caught.value.kind is ErrorKind.SERVER  # another try starts another server
    assert "\x1b" not in str(caught.value)
    assert not is_alive(fakes.pids()[0])


def test_endless_log_is_read_and_only_its_end_is_kept(fakes: FakeServers) -> None:
    async def main() -> None:
        async with fakes.server("logs-without-end") as server:
            assert b"200" in await ask_health(server)
            os.kill(fakes.pids()[0], signal.SIGKILL)
            error = await server.explain_failure()
            assert error is not None
            assert 0 < len(error.log_tail) <= 16_384
            assert len(str(error).splitlines()) <= 14

    asyncio.run(main())


def test_death_in_the_middle_is_explained_with_signal_and_log(fakes: FakeServers) -> None:
    async def main() -> None:
        async with fakes.server("good") as server:
            assert await server.explain_failure() is None
            server.raise_if_dead()
            os.kill(fakes.pids()[0], signal.SIGKILL)
            error = await server.explain_failure()
            assert error is not None
            assert error.kind is ErrorKind.SERVER
            assert "ended by signal 9" in str(error)
            assert "fake model loaded" in str(error)
            assert server.dead()
            with pytest.raises(LocalServerError, match="signal 9"):
                server.raise_if_dead()

    asyncio.run(main())


@pytest.mark.parametrize("how", ["task", "timeout", "scope"])
def test_cancellation_during_start_leaves_no_process(fakes: FakeServers, is_alive: IsAlive, how: str) -> None:
    async def once_begun(end: Callable[[], None]) -> None:
        await until(lambda: len(fakes.pids()) == 1)
        end()

    async def main() -> None:
        server = fakes.server("never-ready")
        match how:
            case "task":
                task = asyncio.create_task(server.start())
                await until(lambda: len(fakes.pids()) == 1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            case "timeout":
                limit = asyncio.timeout(None)
                ending = asyncio.create_task(
                    once_begun(lambda: limit.reschedule(asyncio.get_running_loop().time()))
                )
                with pytest.raises(TimeoutError):
                    async with limit:
                        await server.start()
                await ending
            case _:
                with anyio.CancelScope() as scope:
                    ending = asyncio.create_task(once_begun(scope.cancel))
                    await server.start()
                assert scope.cancelled_caught
                await ending
        assert not is_alive(fakes.pids()[0])

    asyncio.run(main())


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are wanted, and this list has its own


@pytest.mark.parametrize("resumptions", range(12))
def test_cancellation_at_any_early_step_of_start_leaves_nothing(
    fakes: FakeServers, is_alive: IsAlive, resumptions: int
) -> None:
    async def main() -> None:
        descriptors = open_descriptors()
        task = asyncio.create_task(fakes.server("never-ready").start())
        for _ in range(resumptions):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(not is_alive(pid) for pid in fakes.pids())
        await asyncio.sleep(0)
        assert len(open_descriptors()) <= len(descriptors)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


PARENT = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores SIGINT
from hermes_providers.local import LocalServer, LocalServerOptions
async def main():
    async with LocalServer(LocalServerOptions(model={model!r}), program={program!r}) as server:
        print(server.pid, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_end_of_the_parent_ends_the_child(fakes: FakeServers, is_alive: IsAlive, number: int) -> None:
    script = PARENT.format(model=str(fakes.model), program=fakes.program("good"))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.send_signal(number)
        parent.wait(20)
    asyncio.run(until(lambda: not is_alive(child)))


FORGETFUL = """
import asyncio, gc, sys
from hermes_providers.local import LocalServer, LocalServerOptions
async def main():
    server = LocalServer(LocalServerOptions(model={model!r}), program={program!r})
    await server.start()
    print(server.pid, flush=True)
asyncio.run(main())
gc.collect()
sys.stdin.read()
"""


def test_forgotten_server_ends_while_its_process_goes_on(fakes: FakeServers, has_ended: IsAlive) -> None:
    """Nobody may be there to reap it: from Python 3.12 on asyncio does so in the loop, which is gone."""
    script = FORGETFUL.format(model=str(fakes.model), program=fakes.program("good"))
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        asyncio.run(until(lambda: has_ended(child)))
        assert parent.poll() is None
        parent.communicate("")


def test_child_gets_no_secret_from_the_environment(
    fakes: FakeServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-very-secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:very-secret@host/db")

    async def main() -> None:
        await fakes.server("shows-environment").start()

    with pytest.raises(LocalServerError) as caught:
        asyncio.run(main())
    assert '"PATH"' in caught.value.log_tail
    assert "very-secret" not in caught.value.log_tail


def test_environment_is_an_allow_list() -> None:
    given = {"PATH": "/bin", "LC_ALL": "C", "OMP_NUM_THREADS": "1", "HF_TOKEN": "x", "LLAMA_API_KEY": "y"}
    assert child_environment(given) == {"PATH": "/bin", "LC_ALL": "C", "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("wrong", [{"port": 70000}, {"port": -1}, {"threads": 0}, {"slots": -2}])
def test_option_out_of_range_fails_before_anything_starts(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=str(next(iter(wrong.values())))):
        LocalServerOptions(**wrong)  # type: ignore[arg-type]


REAL = Path(process.__file__).with_name("server.py")


def real_program() -> list[str]:
    return [sys.executable, "-P", str(REAL)]


def test_port_in_use_is_named(fakes: FakeServers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = LocalServerOptions(model=str(fakes.model), port=port)

        async def main() -> None:
            await LocalServer(options, program=real_program()).start()

        with pytest.raises(LocalServerError, match=f"port {port} on 127.0.0.1 is in use"):
            asyncio.run(main())


@pytest.mark.parametrize(
    ("content", "message"), [(None, "no model file at"), (b"PK\x03\x04zip", "is not a GGUF file")]
)
def test_file_that_is_no_model_is_a_configuration_error(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    model = tmp_path / "model.gguf"
    if content is not None:
        model.write_bytes(content)

    async def main() -> None:
        await LocalServer(LocalServerOptions(model=str(model)), program=real_program()).start()

    with pytest.raises(ConfigurationError, match=message):
        asyncio.run(main())


def test_program_that_does_not_exist_is_a_clear_error(fakes: FakeServers) -> None:
    async def main() -> None:
        await LocalServer(fakes.options(), program=["/no/such/python"]).start()

    with pytest.raises(LocalServerError, match="can not be run") as caught:
        asyncio.run(main())
    assert caught.value.kind is ErrorKind.NOT_FOUND  # no try mends that


def test_missing_server_wheel_names_the_line_that_installs_it(
    fakes: FakeServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    async def main() -> None:
        await LocalServer(fakes.options()).start()

    with pytest.raises(MissingDependencyError, match=r"pip install 'hermes-providers\[local\]'"):
        asyncio.run(main())
