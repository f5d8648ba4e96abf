"""The script that brings uv to a machine without it: a real HTTP server stands for the registry."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TAGS = (
    "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "musllinux_1_1_x86_64",
    "macosx_10_12_x86_64",
    "macosx_11_0_arm64",
)
FAKE_UV = "#!/bin/sh\necho uv 9.9.9\n"


def wheel_bytes() -> bytes:
    """A wheel as uv's are laid out."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("uv-9.9.9.data/scripts/uv", FAKE_UV)
        archive.writestr("uv-9.9.9.data/scripts/uvx", "other")
    return buffer.getvalue()


class Registry(http.server.ThreadingHTTPServer):
    """Serves one wheel under every name; `answers` holds status codes to give first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = wheel_bytes()
        self.answers: list[int] = []
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.asked.append(self.path.rsplit("/", 1)[-1])
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.send_response(status)
        self.end_headers()
        if status == 200:
            self.wfile.write(self.server.content)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def workspace(tmp_path: Path, registry: Registry) -> Path:
    """A root whose lock file points at the registry."""
    return lay_out(tmp_path, registry.url, registry.content, TAGS)


def lay_out(root: Path, url: str, content: bytes, tags: tuple[str, ...]) -> Path:
    digest = hashlib.sha256(content).hexdigest()
    wheels = "".join(
        f'{{ url = "{url}/uv-9.9.9-py3-none-{tag}.whl", hash = "sha256:{digest}", size = {len(content)} }},\n'
        for tag in tags
    )
    (root / "uv.lock").write_text(f'[[package]]\nname = "uv"\nversion = "9.9.9"\nwheels = [\n{wheels}]\n')
    (root / "pyproject.toml").write_text('[dependency-groups]\ndev = ["uv>=9.9,<10"]\n')
    return root


def command(root: Path) -> list[str]:
    return [sys.executable, str(ROOT / ".ci/get-uv.py"), str(root)]


def environment(**more: str) -> dict[str, str]:
    """No uv on the PATH, no proxy in the way."""
    return {"PATH": "/nowhere", "HOME": "/nowhere", "NO_PROXY": "*"} | more


def get_uv(root: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(root), capture_output=True, text=True, env=environment(**env), timeout=60, check=False
    )


def test_it_is_fetched_once_and_runs(workspace: Path, registry: Registry) -> None:
    first, second = get_uv(workspace), get_uv(workspace)
    assert first.stdout == second.stdout == f"{workspace}/.cache/uv-9.9.9/uv\n"
    assert first.stderr.startswith("get-uv: downloading uv-9.9.9-py3-none-")
    assert second.stderr == ""
    assert len(registry.asked) == 1
    assert subprocess.check_output([first.stdout.strip()], text=True) == "uv 9.9.9\n"


def test_two_at_once_both_end_with_a_whole_binary(workspace: Path) -> None:
    running = [
        subprocess.Popen(
            command(workspace),
            env=environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    paths = {process.communicate(timeout=60)[0] for process in running}
    assert paths == {f"{workspace}/.cache/uv-9.9.9/uv\n"}
    assert [p.name for p in (workspace / ".cache/uv-9.9.9").iterdir()] == ["uv"]


def fake_uv(folder: Path, version: str) -> str:
    folder.mkdir()
    (folder / "uv").write_text(f"#!/bin/sh\necho 'uv {version} (x86_64-unknown-linux-gnu)'\n")
    (folder / "uv").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(("version", "fits"), [("9.9.1", True), ("9.8.7", False), ("10.0.0", False)])
def test_one_on_the_path_is_used_if_its_version_fits(
    version: str, fits: bool, workspace: Path, registry: Registry, tmp_path: Path
) -> None:
    folder = fake_uv(tmp_path / "bin", version)
    found = get_uv(workspace, PATH=folder).stdout.strip()
    assert found == (f"{folder}/uv" if fits else f"{workspace}/.cache/uv-9.9.9/uv")
    assert len(registry.asked) == (0 if fits else 1)


def test_another_file_than_the_locked_one_is_refused(workspace: Path, registry: Registry) -> None:
    registry.content = registry.content[:-1] + b"x"
    done = get_uv(workspace)
    assert done.returncode == 1
    assert "is not the file that uv.lock names" in done.stderr.splitlines()[-1]
    assert not (workspace / ".cache").exists()


def test_a_busy_registry_is_asked_again(workspace: Path, registry: Registry) -> None:
    registry.answers = [503]
    assert get_uv(workspace).returncode == 0
    assert len(registry.asked) == 2


def test_a_missing_file_is_not_asked_for_again(workspace: Path, registry: Registry) -> None:
    registry.answers = [404]
    done = get_uv(workspace)
    assert done.returncode == 1
    assert "the registry answered 404" in done.stderr
    assert len(registry.asked) == 1


def test_no_network_is_one_clear_line(tmp_path: Path) -> None:
    lay_out(tmp_path, "http://127.0.0.1:9", b"x", TAGS)
    done = get_uv(tmp_path)
    assert done.returncode == 1
    assert "refused; check the network" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_platform_without_a_wheel_is_one_clear_line(tmp_path: Path) -> None:
    lay_out(tmp_path, "http://127.0.0.1:9", b"x", ("win_amd64",))
    done = get_uv(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("get-uv: uv.lock has no uv wheel for ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("system", "machine", "libc", "tag"),
    [
        ("Linux", "x86_64", "glibc", TAGS[1]),
        ("Linux", "x86_64", "musl", TAGS[2]),
        ("Linux", "aarch64", "glibc", TAGS[0]),
        ("Linux", "arm64", "musl", TAGS[0]),
        ("Darwin", "x86_64", "", TAGS[3]),
        ("Darwin", "arm64", "", TAGS[4]),
    ],
)
def test_each_platform_gets_its_wheel(system: str, machine: str, libc: str, tag: str) -> None:
    program = (
        f"import runpy; m = runpy.run_path({str(ROOT / '.ci/get-uv.py')!r});"
        f"w = [dict(url='u-' + t) for t in {TAGS!r}];"
        f"print(m['choose'](w, {system!r}, {machine!r}, {libc!r})['url'])"
    )
    answer = subprocess.check_output([sys.executable, "-c", program], text=True, env=dict(os.environ))
    assert answer == f"u-{tag}\n"


def test_the_real_lock_file_has_a_wheel_for_this_machine() -> None:
    program = (
        f"import runpy, pathlib; m = runpy.run_path({str(ROOT / '.ci/get-uv.py')!r});"
        f"v, w = m['locked_uv'](pathlib.Path({str(ROOT)!r}));"
        "print(m['choose'](w, 'Linux', 'x86_64', 'glibc')['url'])"
    )
    assert "manylinux" in subprocess.check_output([sys.executable, "-c", program], text=True)
