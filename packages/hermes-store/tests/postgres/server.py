"""A PostgreSQL server of the tests' own: in a temporary folder, on loopback, gone when they end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

from quiet_port import quiet_port

from hermes_store import SessionDB

PR_SET_PDEATHSIG = 1
PACKAGE = "postgresql-15"

MakeStore = Callable[..., SessionDB]


class RunAs(TypedDict, total=False):
    """Whose process it is."""

    user: int
    group: int
    extra_groups: list[int]


def find_binaries() -> Path | None:
    """The folder with `initdb` and `postgres`: the newest that Debian installed, or what PATH finds."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name), reverse=True
    )
    on_path = shutil.which("initdb")
    folders += [Path(on_path).resolve().parent] if on_path else []
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


class Server:
    """The server process, which this process owns."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries = binaries
        self.data = folder / "data"
        self.log = folder / "log"
        self.port = quiet_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._run_as = unprivileged_user()
        if self._run_as:
            os.chown(folder, self._run_as["user"], self._run_as["group"])
        password = folder / "password"
        password.write_text("s3cret w/rd")
        password.chmod(0o644)
        self._run(
            *("initdb", "-D", str(self.data), "-U", "hermes", "--auth=scram-sha-256", f"--pwfile={password}"),
            *("-E", "UTF8", "--locale=C.UTF-8", "--no-sync"),
        )

    def dsn(self, database: str = "postgres", **options: str) -> str:
        """The address of a database on it. The password needs percent codes."""
        rest = "&".join(f"{name}={value}" for name, value in options.items())
        return (
            f"postgresql://hermes:s3cret%20w%2Frd@127.0.0.1:{self.port}/{database}{'?' if rest else ''}{rest}"
        )

    async def ask(self, sql: str, *values: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        """The rows that the server answers to its owner, beside all stores."""
        import psycopg

        async with await psycopg.AsyncConnection.connect(self.dsn(database), autocommit=True) as connection:
            cursor = await connection.execute(sql, values)
            return await cursor.fetchall() if cursor.description is not None else []

    async def until(self, sql: str, *values: object) -> None:
        """Ask until the first value of the answer is true."""
        async with asyncio.timeout(300):
            while not (await self.ask(sql, *values))[0][0]:  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.01)

    def start(self) -> None:
        """Start, and wait until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "shared_buffers": "32MB",
            "max_connections": "60",
            "log_min_messages": "warning",
        }
        arguments = [argument for item in settings.items() for argument in ("-c", "=".join(item))]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self.binaries / "postgres"), "-D", str(self.data), *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment(),
                cwd="/",
                start_new_session=True,  # a Ctrl-C of the tests is not its business; `stop` is
                preexec_fn=die_with_parent,  # noqa: PLW1509 - no thread of ours runs while tests are set up
                **self._run_as,
            )
        for _ in range(3000):
            done = subprocess.run(
                [self.binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-t", "1"],
                check=False,
                env=environment(),
            )
            if done.returncode == 0 and self._process.poll() is None:
                return
            try:
                self._process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"the server did not start: {self.log.read_text()}")
        raise RuntimeError(f"the server does not answer: {self.log.read_text()}")

    def start_anywhere(self) -> None:
        """Start for the first time; where another program has taken the free port meanwhile, at another."""
        for _ in range(4):
            try:
                return self.start()
            except RuntimeError:
                self.stop()
                self.port = quiet_port()
        return self.start()

    async def crash(self) -> None:
        """Kill one of its processes, upon which it ends all others and recovers; wait until it answers."""
        import psycopg

        async with await psycopg.AsyncConnection.connect(self.dsn()) as connection:
            os.kill(connection.info.backend_pid, signal.SIGKILL)
            with contextlib.suppress(psycopg.OperationalError):
                await connection.execute("SELECT pg_sleep(600)")
        async with asyncio.timeout(300):
            while not await self._answers():  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.02)

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """None of its processes runs during the block; the system goes on taking what is sent to them."""
        assert self._process is not None
        leader = self._process.pid
        os.kill(leader, signal.SIGSTOP)  # first: it makes no more processes
        children = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        stopped = [leader, *map(int, children)]
        try:
            for process in stopped:
                os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in reversed(stopped):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    async def _answers(self) -> bool:
        import psycopg

        try:
            return await self.ask("SELECT true") == [(True,)]
        except psycopg.OperationalError:
            return False

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End it at once (SIGQUIT), or after cutting off its clients (SIGINT)."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(120)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.binaries / program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
            cwd="/",
            **self._run_as,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")


def die_with_parent() -> None:
    """In the new process: have it end when the tests are killed, on Linux. `postgres` takes SIGINT for an
    order to stop at once; its own processes see that it is gone.

    https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def unprivileged_user() -> RunAs:
    """Who runs the server: it refuses root. Empty means whoever we are."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise RuntimeError("no unprivileged user to run the PostgreSQL server as")


def environment() -> dict[str, str]:
    """Without settings of the caller's that the programs would obey."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8"}
