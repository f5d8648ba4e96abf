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

sys.path.insert(0, str(Path(__file__).parents[3] / ".ci"))  # for the module `browser`

# No test of properties fails because the machine is busy.
settings.register_profile(
    "hermes-batch", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("hermes-batch")

# Its machine has an address that leads to this machine only.
PROGRAM = """
import sys
import ray

context = ray.init(
    address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
    _node_ip_address="127.0.0.2", object_store_memory=100 * 1024 * 1024,
)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
ray.shutdown()
"""


@pytest.fixture(scope="session")
def ray_environment() -> Iterator[str]:
    """The directory of Ray's sockets and logs, and an environment with a word that only we know."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as directory:
        ours = {
            "RAY_TMPDIR": directory,  # short: paths of sockets have a limit
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # the cluster is not to get a copy of the sources
            "RAY_prestart_worker_first_driver": "0",  # idle workers would only take this machine's time
            "PYTHONDONTWRITEBYTECODE": "",  # a machine whose agents take 15 s to start, compiling, gives up
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
def ray_address(ray_environment: str) -> Iterator[str]:
    """The address of a cluster that is held by a process of its own."""
    command = [sys.executable, "-c", PROGRAM]
    for _attempt in range(3):  # on a machine that is busy, Ray itself gives up after half a minute
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdout is not None
            address = process.stdout.readline().decode().strip()
            if address:
                yield address
                process.communicate(timeout=60)
                return
    raise AssertionError("Ray did not start")
