"""The async audit finds each thing that it bans, and leaves what is right alone."""
# ruff: noqa: E501 - one program per line

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BAD = {
    "to_thread": ("threads", "import asyncio\nasync def f(): await asyncio.to_thread(print)"),
    "to_thread_renamed": ("threads", "from asyncio import to_thread as t\nasync def f(): await t(print)"),
    "to_thread_by_module_alias": ("threads", "import asyncio as a\nasync def f(): await a.to_thread(print)"),
    "to_thread_by_name": ("threads", "import asyncio\nf = getattr(asyncio, 'to_thread')"),
    "run_in_executor": ("threads", "async def f(loop): await loop.run_in_executor(None, print)"),
    "run_in_executor_by_name": ("threads", "def f(loop): return getattr(loop, 'run_in_executor')"),
    "run_until_complete": ("threads", "def f(loop, c): loop.run_until_complete(c)"),
    "anyio_to_thread": (
        "threads",
        "import anyio.to_thread\nasync def f(): await anyio.to_thread.run_sync(print)",
    ),
    "anyio_to_thread_from": ("threads", "from anyio import to_thread"),
    "anyio_from_thread": ("threads", "from anyio.from_thread import start_blocking_portal"),
    "futures": ("threads", "import concurrent.futures"),
    "futures_pool": ("threads", "from concurrent.futures import ThreadPoolExecutor as Pool\np = Pool()"),
    "futures_by_string": ("threads", "import importlib\nm = importlib.import_module('concurrent.futures')"),
    "thread": ("threads", "import threading\nthreading.Thread(target=print).start()"),
    "thread_from": ("threads", "from threading import Thread as T"),
    "anyio_path": ("threads", "import anyio\nasync def f(): await anyio.Path('x').read_text()"),
    "anyio_open_file": ("threads", "from anyio import open_file as o\nasync def f(): await o('x')"),
    "sleep": ("threads", "import time\ndef f(): time.sleep(1)"),
    "subprocess_run": ("threads", "import subprocess\nasync def f(): subprocess.run(['ls'])"),
    "popen": ("threads", "from subprocess import Popen\nasync def f(): Popen(['ls'])"),
    "requests": ("threads", "import requests\nasync def f(): requests.get('http://localhost')"),
    "asyncio_run": ("event-loop", "import asyncio\ndef f(c): asyncio.run(c)"),
    "asyncio_run_renamed": ("event-loop", "from asyncio import run as go\ndef f(c): go(c)"),
    "open": ("blocking", "async def f():\n    with open('x') as file: return file"),
    "path_open": (
        "blocking",
        "from pathlib import Path\nasync def f():\n    with Path('x').open() as g: return g",
    ),
    "path_argument_open": ("blocking", "from pathlib import Path\nasync def f(p: Path | None): p.open()"),
    "path_joined_exists": (
        "blocking",
        "from pathlib import Path\nasync def f(p: Path): return (p / 'x').exists()",
    ),
    "path_assigned_stat": (
        "blocking",
        "import pathlib as pl\nasync def f():\n    p = pl.Path('x')\n    p.stat()",
    ),
    "read_text": ("blocking", "async def f(anything): return anything.read_text()"),
    "write_text_as_argument": ("blocking", "async def f(g, p): await g(p.write_text('x'))"),
    "mkdir": ("blocking", "async def f(self): self.folder.mkdir()"),
    "unlink_in_lambda": ("blocking", "async def f(p): return lambda: p.unlink()"),
    "os_stat": ("blocking", "import os\nasync def f(): os.stat('x')"),
    "os_remove_renamed": ("blocking", "from os import remove as rm\nasync def f(): rm('x')"),
    "os_path_exists": ("blocking", "import os.path\nasync def f(): os.path.exists('x')"),
    "shutil": ("blocking", "import shutil\nasync def f(): shutil.rmtree('x')"),
    "tempfile": ("blocking", "import tempfile\nasync def f(): tempfile.mkdtemp()"),
    "flock": ("blocking", "import fcntl\nasync def f(n): fcntl.flock(n, fcntl.LOCK_EX)"),
    "getaddrinfo": ("blocking", "import socket\nasync def f(): socket.getaddrinfo('x', 1)"),
    "helper": ("blocking", "def g(): return open('x')\nasync def f(): return g()"),
    "helper_of_helper": ("blocking", "def h(): open('x')\ndef g(): h()\nasync def f(): g()"),
    "method": ("blocking", "class A:\n    def g(self): open('x')\n    async def f(self): self.g()"),
    "nested_function": ("blocking", "async def f():\n    def g(): open('x')\n    return g"),
    "result": ("result", "async def f(task): return task.result()"),
    "result_of_another": ("result", "async def f(a, b):\n    if a.done(): return b.result()"),
    "result_in_else": ("result", "async def f(a):\n    if a.done(): return 1\n    else: return a.result()"),
    "result_if_or": ("result", "async def f(a, b):\n    if a.done() or b: return a.result()"),
    "result_beside_the_loop": (
        "result",
        "from asyncio import wait\nasync def f(t, x):\n    d, _ = await wait(t)\n    for y in d: y()\n    x.result()",
    ),
    "result_of_pending": (
        "result",
        "from asyncio import wait\nasync def f(t):\n    d, p = await wait(t)\n    [x.result() for x in p]",
    ),
    "result_after_limited_wait": (
        "result",
        "import asyncio\nasync def f(t):\n    await asyncio.wait({t}, timeout=1)\n    return t.result()",
    ),
    "result_after_weak_guard": (
        "result",
        "async def f(t):\n    if not t.done(): print()\n    return t.result()",
    ),
    "result_after_exception_of_another": (
        "result",
        "async def f(t, u):\n    u.exception()\n    return t.result()",
    ),
    "result_in_no_callback": ("result", "def g(t): t.result()\nasync def f(t): t.add_done_callback(print)"),
    "dropped": ("dropped-task", "import asyncio\nasync def f(c): asyncio.create_task(c)"),
    "dropped_renamed": ("dropped-task", "from asyncio import ensure_future as e\nasync def f(c): e(c)"),
    "dropped_to_underscore": ("dropped-task", "import asyncio\nasync def f(c): _ = asyncio.create_task(c)"),
    "dropped_on_loop": ("dropped-task", "async def f(loop, c): loop.create_task(c)"),
}

GOOD = {
    "aiofiles": "import aiofiles\nasync def f():\n    async with aiofiles.open('x') as g: await g.read()",
    "aiofiles_os": "import aiofiles.os as ao\nasync def f(): await ao.stat('x'); await ao.unlink('x')",
    "awaited_method": "async def f(store): await store.open(); await store.unlink('x')",
    "limited_method": "import asyncio\nasync def f(store): await asyncio.wait_for(store.open(), 5)",
    "string_replace": "async def f(text: str): return text.replace('a', 'b')",
    "sync_only": "from pathlib import Path\ndef f(p: Path): return p.read_text()",
    "os_pure": "import os\nasync def f(): return os.path.join('a', os.environ.get('B', '')), os.getpid()",
    "flock_without_wait": "import fcntl\nasync def f(n): fcntl.flock(n, fcntl.LOCK_EX | fcntl.LOCK_NB)",
    "subprocess_constants": "import subprocess\nasync def f(): return subprocess.PIPE",
    "anyio_process": "import anyio\nasync def f(): await anyio.run_process(['ls'])",
    "done_checked": "async def f(t):\n    if t.done() and not t.cancelled(): return t.result()",
    "done_expression": "async def f(t): return t.result() if t.done() else None",
    "done_loop": "from asyncio import wait\nasync def f(t):\n    d, _ = await wait(t)\n    for t in d: t.result()",
    "done_list": "from asyncio import wait\nasync def f(t):\n    d, _ = await wait(t)\n    [t.result() for t in d]",
    "waited": "import asyncio\nasync def f(t):\n    await asyncio.wait({t})\n    return t.result()",
    "left_if_not_done": "async def f(t):\n    if not t.done(): raise ValueError\n    try: return t.result()\n    finally: pass",
    "exception_first": "async def f(t):\n    if t.cancelled() or t.exception(): return None\n    return t.result()",
    "done_callback": "def g(t): t.result()\nasync def f(t): t.add_done_callback(g)",
    "done_method": "class A:\n    def g(self, t): t.result()\n    async def f(self, t): t.add_done_callback(self.g)",
    "task_kept": "import asyncio\nasync def f(c):\n    task = asyncio.create_task(c)\n    await task",
    "task_group": "import asyncio as a\nasync def f(c):\n    async with a.TaskGroup() as g: g.create_task(c)",
    "start_soon": "from anyio import create_task_group as new\nasync def f(c):\n    async with new() as g: g.start_soon(c)",
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """One run over all cases: the rules that each module was found to break."""
    root = tmp_path_factory.mktemp("tree")
    source = root / "packages" / "example" / "src" / "example"
    source.mkdir(parents=True)
    for name, text in GOOD.items() | {(name, text) for name, (_, text) in BAD.items()}:
        (source / f"{name}.py").write_text(text + "\n", encoding="utf-8")
    (source / "cli.py").write_text("import asyncio\ndef main(c): asyncio.run(c)\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, ROOT / ".ci/checks/async_audit.py", root],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines()[:-1]:
        place, rule, _ = line.split(": ", 2)
        found.setdefault(Path(place.split(":")[0]).stem, set()).add(rule)
    return found


@pytest.mark.parametrize("name", sorted(BAD))
def test_what_is_banned_is_found(name: str, findings: dict[str, set[str]]) -> None:
    assert findings.get(name) == {BAD[name][0]}


@pytest.mark.parametrize("name", [*sorted(GOOD), "cli"])
def test_what_is_right_is_left_alone(name: str, findings: dict[str, set[str]]) -> None:
    assert name not in findings
