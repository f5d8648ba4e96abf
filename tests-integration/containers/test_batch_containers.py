"""Rows whose commands and file tools work in containers: the default agents of a batch, a host on
loopback, and a program that stands where docker would (`packages/hermes-tools/tests/fake_docker.py`)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_batch import BatchRunner
from hermes_batch.records import Record, decode_record
from hermes_messages import ConfigurationError

pytestmark = pytest.mark.needs("workspace")

FAKE = Path(__file__).parents[2] / "packages/hermes-tools/tests/fake_docker.py"


class Host:
    """Answers with a call of `terminal` with the user's words, or of `read_file` for a full path, then with a
    sentence. It counts."""

    def __init__(self) -> None:
        self.requests = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"(?i)content-length: *(\d+)", head)
                body = json.loads(await reader.readexactly(int(length[1]))) if length else {}
                self.requests += 1
                data = self.answer(body["messages"])
                head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def answer(self, messages: list[dict[str, Any]]) -> bytes:
        if messages[-1]["role"] == "tool":
            delta: dict[str, object] = {"role": "assistant", "content": "Done."}
            finish = "stop"
        else:
            words = messages[-1]["content"]
            if words.startswith("/"):
                function = {"name": "read_file", "arguments": json.dumps({"path": words})}
            else:
                arguments = json.dumps({"command": words, "timeout": 30})
                function = {"name": "terminal", "arguments": arguments}
            call = {"index": 0, "id": "call_1", "type": "function", "function": function}
            delta, finish = {"role": "assistant", "tool_calls": [call]}, "tool_calls"
        base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        chunks = [{"index": 0, "delta": delta}, {"index": 0, "delta": {}, "finish_reason": finish}]
        events = [f"data: {json.dumps(base | {'choices': [chunk]})}\n\n" for chunk in chunks]
        return "".join([*events, "data: [DONE]\n\n"]).encode()


class Docker:
    """The fake, on PATH, and what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.state.mkdir(parents=True)
        program = directory / "docker"
        program.write_text(f"#!{sys.executable} -IS\n" + FAKE.read_text())
        program.chmod(0o755)

    def asked(self, command: str) -> list[list[str]]:
        log = self.state / "log"
        # The last line may still be in writing.
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        return [words for line in lines if (words := json.loads(line)["words"])[0] == command]

    def containers(self) -> list[str]:
        place = self.state / "containers"
        return sorted(found.name for found in place.iterdir()) if place.exists() else []


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Docker]:
    fake = Docker(tmp_path / "docker")
    monkeypatch.setenv("PATH", f"{tmp_path / 'docker'}{os.pathsep}{os.environ['PATH']}")
    yield fake
    assert not fake.containers()


def run(
    tmp_path: Path,
    rows: list[dict[str, object]],
    *,
    meanwhile: Callable[[BatchRunner], Coroutine[Any, Any, None]] | None = None,
    **options: Any,
) -> tuple[Any, dict[str, Record], int]:
    """Run the rows: the statistics, the records by prompt, and how many requests the host got."""
    dataset = tmp_path / "rows.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
    host = Host()

    async def main() -> Any:
        async with await asyncio.start_server(host, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            runner = BatchRunner(
                dataset,
                run_name="run",
                output_dir=tmp_path / "data",
                toolsets=("terminal", "file"),
                provider="custom",
                base_url=f"http://127.0.0.1:{port}/v1",
                api_key="sk-not-for-containers",
                model="m",
                require_reasoning=False,
                grace_s=0.0,
                **options,
            )
            if meanwhile is None:
                return await runner.run()
            async with asyncio.TaskGroup() as group:
                group.create_task(meanwhile(runner))
                return await runner.run()

    statistics = asyncio.run(main())
    records: dict[str, Record] = {}
    for shard in sorted((tmp_path / "data/run/shards").glob("*.jsonl")):
        for line in shard.read_bytes().splitlines():
            record = decode_record(line)
            records[next(turn.value for turn in record.conversations if turn.from_ == "human")] = record
    return statistics, records, host.requests


def tool_result(record: Record) -> str:
    return next(turn.value for turn in record.conversations if turn.from_ == "tool")


def test_each_row_runs_in_a_container_of_its_own_image_or_of_the_runs_or_in_none(
    tmp_path: Path, docker: Docker
) -> None:
    rows: list[dict[str, object]] = [
        {"prompt": "echo one:$FAKE_CONTAINER", "image": "fetched"},
        {"prompt": "echo two:$FAKE_CONTAINER"},
        {"prompt": "echo three:$FAKE_CONTAINER", "image": "missing"},
    ]
    statistics, records, requests = run(
        tmp_path, rows, image="here", container_settings={"network": "bridge"}
    )
    assert (statistics.ok, statistics.error) == (2, 1)
    assert "one:hermes-run-000000-" in tool_result(records["echo one:$FAKE_CONTAINER"])
    assert "two:hermes-run-000001-" in tool_result(records["echo two:$FAKE_CONTAINER"])
    missing = records["echo three:$FAKE_CONTAINER"]
    assert (missing.reason, missing.api_calls) == ("ContainerError", 0)
    assert requests == 4, "a row whose image is not there was paid for"
    images = {words[words.index("--entrypoint") + 2] for words in docker.asked("run")}
    assert images == {"fetched", "here"}
    assert all(words[words.index("--network") + 1] == "bridge" for words in docker.asked("run"))
    assert "sk-not-for-containers" not in (docker.state / "log").read_text()


def test_file_tools_of_a_row_with_a_container_see_its_files_and_others_their_directory_alone(
    tmp_path: Path, docker: Docker
) -> None:
    """The fake runs its commands on this machine, so that what it reads is there."""
    for name in ("inside", "outside"):
        (tmp_path / f"{name}.txt").write_text(f"the text {name}\n")
    inside, outside = str(tmp_path / "inside.txt"), str(tmp_path / "outside.txt")
    _, records, _ = run(tmp_path, [{"prompt": inside, "image": "here"}, {"prompt": outside}])
    assert "the text inside" in tool_result(records[inside])
    assert "the text outside" not in tool_result(records[outside])
    assert len(docker.asked("run")) == 1


def test_nothing_is_asked_of_a_model_where_containers_can_not_be_had(tmp_path: Path, docker: Docker) -> None:
    (docker.state / "down").touch()
    with pytest.raises(ConfigurationError, match="is its daemon running"):
        run(tmp_path, [{"prompt": "echo", "image": "here"}])
    (docker.state / "down").unlink()
    with pytest.raises(ConfigurationError, match="can not be fetched"):
        run(tmp_path, [{"prompt": "echo"}], image="missing")
    with pytest.raises(ConfigurationError, match="no-such-cli can not be started"):
        run(tmp_path, [{"prompt": "echo", "image": "here"}], container_settings={"cli": "no-such-cli"})
    assert not (tmp_path / "data").exists()


def test_images_of_rows_that_are_not_there_and_may_not_be_fetched_are_told_before_the_first_row(
    tmp_path: Path, docker: Docker, caplog: pytest.LogCaptureFixture
) -> None:
    rows: list[dict[str, object]] = [
        {"prompt": f"echo {image}", "image": image}
        for image in ("here", "gone", "here", "-v", *(f"gone-{number}" for number in range(6)))
    ]
    told: list[str] = []

    async def first(runner: BatchRunner) -> None:
        async with asyncio.timeout(300):
            while not docker.asked("run"):  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.001)
        told.extend(record.getMessage() for record in caplog.records)

    statistics, records, requests = run(
        tmp_path, rows, meanwhile=first, num_workers=1, container_settings={"pull": False}
    )
    assert (statistics.ok, statistics.error) == (2, 8)
    assert requests == 4, "a row whose image is not there was paid for"
    assert any("will fail: gone, -v, gone-0, gone-1, gone-2 and 3 more" in line for line in told)
    assert "is not on this machine" in records["echo gone"].error
    assert not docker.asked("pull")


@pytest.mark.parametrize(
    ("approvals", "image", "runs"),
    [
        ("deny", "here", False),
        ("allow-in-container", "here", True),
        ("allow-in-container", None, False),
        ("allow", None, True),
    ],
)
def test_dangerous_commands_are_denied_unless_the_batch_allows_them(
    tmp_path: Path, docker: Docker, approvals: str, image: str | None, runs: bool
) -> None:
    row: dict[str, object] = {"prompt": "chmod -R u+x . && echo it ran"}
    _, records, _ = run(tmp_path, [row], approvals=approvals, image=image)
    assert ("it ran" in tool_result(records[str(row["prompt"])])) == runs


def test_a_stop_removes_the_containers_of_rows_that_run(tmp_path: Path, docker: Docker) -> None:
    async def stop(runner: BatchRunner) -> None:
        async with asyncio.timeout(300):
            while not docker.asked("exec"):  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.01)
        runner.request_stop(now=True)

    statistics, _, _ = run(tmp_path, [{"prompt": "sleep 600", "image": "here"}], meanwhile=stop)
    assert statistics.pending == 1
    assert docker.asked("run")
    assert not docker.containers()


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path, docker: Docker) -> None:
    program = """
import asyncio, sys
from hermes_messages import ToolCall
from hermes_messages.protocols import ExecutorOptions, RoundContext
from hermes_messages.testing import InterruptFlag
from hermes_tools import build_executor

async def main():
    settings = {"container": {"image": "here"}}
    executor = build_executor(("terminal",), ExecutorOptions(cwd=sys.argv[1], settings=settings))
    await executor.open()
    async def on_result(*_): pass
    context = RoundContext(session_id="s", task_id="killed", turn_id="t", cwd=sys.argv[1],
                           interrupt=InterruptFlag(), on_result=on_result)
    await executor.execute([ToolCall("a", "terminal", '{"command": "sleep 600"}')], context)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) as killed:
        deadline = time.monotonic() + 300
        while not docker.asked("exec"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
    assert [name[:13] for name in docker.containers()] == ["hermes-killed"]
    statistics, _, _ = run(tmp_path, [{"prompt": "echo well", "image": "here"}])
    assert statistics.ok == 1
    assert not docker.containers()
