"""What the tests of this package share with others of the workspace, and a Ray cluster of this machine."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[3] / ".ci"))  # for `browser`, `counting_host` and `hard_times`
sys.path.insert(0, str(Path(__file__).parent))  # for the modules that several tests use

from engine_help import AGENTS, PATIENT, Engine, on_cluster
from hermes_batch import row_retries
from ray_processes import LIMIT_S, RayCluster, descendants, running, wait_until

# No test of properties fails because the machine is busy.
settings.register_profile(
    "hermes-batch", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("hermes-batch")

OPTIONS_OF_RAY = (
    "--node-ip-address=127.0.0.2",  # leads to this machine only
    "--no-monitor",
    f"--object-store-memory={100 * 1024 * 1024}",
)


@pytest.fixture(scope="session")
def ray_environment() -> Iterator[str]:
    """The directory of Ray's sockets and logs, and an environment with a word that only we know."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    # Not where TMPDIR says: paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        ours = {
            "RAY_TMPDIR": directory,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # the cluster is not to get a copy of the sources
            "PYTHONDONTWRITEBYTECODE": "",  # else each of Ray's programs compiles its modules anew
        }
        before = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)
        yield directory
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@pytest.fixture(scope="session")
def ray_cluster(ray_environment: str) -> Iterator[RayCluster]:
    """A cluster that ends with the pipe to its holder: at the end of the tests, and if they are killed."""
    command = [sys.executable, "-m", "hermes_batch.ray_engine.own_cluster", "2", *OPTIONS_OF_RAY]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "TMPDIR": ray_environment},  # what killed workers leave is removed with it
    ) as holder:  # fmt: skip
        assert holder.stdin is not None
        assert holder.stdout is not None
        told = holder.stdout.readline().decode()
        assert told.startswith("at "), told
        yield RayCluster(told.removeprefix("at ").strip(), holder.pid)
        ours = descendants(holder.pid)
        holder.stdin.close()
        holder.wait(LIMIT_S)
    wait_until(lambda: not running(ours))
    assert not list(Path(ray_environment).glob("ray-*")), "a cluster left files behind"


@pytest.fixture(scope="session")
def ray_address(ray_cluster: RayCluster) -> str:
    """Where the cluster is."""
    return ray_cluster.address


@pytest.fixture(params=["local", pytest.param("ray", marks=[pytest.mark.ray_cluster, PATIENT])])
def engine(request: pytest.FixtureRequest) -> Engine:
    """The rows run here, and on Ray."""
    if request.param == "local":
        return {"engine": "local"}
    address = request.getfixturevalue("ray_address")
    return on_cluster(address)


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a run, with agents that write there what happens to them."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(row_retries, "_FIRST_PAUSE_S", 0.0)
    (tmp_path / f"agents_{tmp_path.name}.py").write_text(AGENTS.format(where=str(tmp_path)))
    return tmp_path
