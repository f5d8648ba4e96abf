"""Whatever is wrong is said in one line: exit code 2 for usage, 1 for failure, nothing half-written."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import job_environment, run_batch


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Say hello."}\n{"prompt": "Say goodbye."}\n')
    return tmp_path


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, bound so that nobody will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


BASE = ("run", "--dataset-file", "prompts.jsonl", "--run-name", "r")
HOST = ("--base-url", "http://127.0.0.1:9/v1", "--model", "m")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--dataset-file", "none.jsonl", "--run-name", "r"), "no dataset file at none.jsonl"),
        (("run", "--dataset-file", ".", "--run-name", "r"), "is not a file"),
        (("run", "--dataset-file", "prompts.jsonl", "--run-name", "../r"), "run name '../r'"),
        ((*BASE, "--toolsets", "fil"), r"unknown toolset 'fil'; did you mean 'file'\?"),
        ((*BASE, "--provider", "openroter"), r"unknown provider 'openroter'; did you mean 'openrouter'\?"),
        (
            (*BASE, "--distribution", "defalt"),
            r"unknown toolset distribution 'defalt'; did you mean",
        ),
        ((*BASE, "--provider", "openai"), "OPENAI_API_KEY"),
        ((*BASE, "--base-url", "127.0.0.1:80", "--model", "m"), "127.0.0.1:80"),
        ((*BASE, "--base-url", "http://127.0.0.1:80/v1"), "--model"),
        ((*BASE, "--num-workers", "0"), "--num-workers is 0"),
        ((*BASE, "--model-path", "none.gguf"), "none.gguf"),
        ((*BASE, "--provider-setting", "thread=2"), r"thread.*threads"),
        ((*BASE, *HOST, "--max-tokens", "-5"), "--max-tokens must be .* not -5"),
        ((*BASE, *HOST, "--fallback-model", "openroter/m"), "unknown provider 'openroter'"),
        ((*BASE, *HOST, "--toolsets", "file,memory"), "the toolset 'memory' is not for a batch"),
        ((*BASE, *HOST, "--output-dir", "prompts.jsonl"), "prompts.jsonl/r/shards can not be read"),
    ],
)
def test_a_call_that_can_not_work_starts_nothing(
    directory: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = run_batch(directory, *arguments)
    assert done.returncode == 2, done.stderr
    assert re.search(message, done.stderr)
    assert done.stderr.startswith("hermes-batch: ")
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in directory.iterdir()) == ["prompts.jsonl"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no rows"),
        ("{oops\n", "no usable row; line 1: invalid JSON"),
        ('\n{"prompt": 12}\n', "no usable row; line 2: .*str.*prompt"),
        ('{"text": "x"}\n', 'no usable row; line 1: no "prompt" key'),
    ],
)
def test_a_dataset_without_a_row_names_the_line(directory: Path, content: str, message: str) -> None:
    (directory / "prompts.jsonl").write_text(content)
    done = run_batch(directory, *BASE)
    assert done.returncode == 2
    assert re.search(message, done.stderr)
    assert done.stderr.count("\n") == 1
    assert not (directory / "data").exists()


def test_no_network_is_one_clear_line_and_the_rows_wait_for_a_resume(
    directory: Path, closed_port: int
) -> None:
    many = "".join(f'{{"prompt": "Say {number}."}}\n' for number in range(20))
    (directory / "prompts.jsonl").write_text(many)
    address = f"http://127.0.0.1:{closed_port}/v1"
    done = run_batch(
        directory, *BASE, "--base-url", address, "--model", "m", "--num-workers", "20", "--quiet"
    )
    assert done.returncode == 1, done.stderr
    assert re.search(r"^hermes-batch: the model could not be reached for \d+ rows in a row", done.stderr)
    assert done.stderr.count("\n") == 1
    assert (directory / "data/r/trajectories.jsonl").read_bytes() == b""


def test_a_key_never_shows(directory: Path, closed_port: int) -> None:
    secret = "sk-very-secret-123456"
    done = run_batch(
        directory,
        *BASE,
        "--base-url",
        f"http://127.0.0.1:{closed_port}/v1",
        "--model",
        "m",
        "--api-key-env",
        "MY_KEY",
        env=job_environment(directory, MY_KEY=secret),
    )
    assert done.returncode == 1
    assert secret not in done.stdout + done.stderr
    written = [path for path in directory.rglob("*") if path.is_file()]
    assert len(written) > 3
    assert not any(secret.encode() in path.read_bytes() for path in written)


@pytest.mark.local_model
def test_a_port_in_use_is_named_and_nothing_is_written(directory: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_batch(directory, *BASE, "--provider", "local", "--provider-setting", f"port={port}")
    assert done.returncode == 1
    assert str(port) in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (directory / "data").exists()
