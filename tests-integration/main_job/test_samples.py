"""What the machine knows reaches no model that makes samples, and stands in none."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from hermes_batch import BatchRunner

pytestmark = pytest.mark.needs("workspace")

KNOWN = "the user is called Ferdinand"


class Host:
    """Says one sentence to whoever asks, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"(?i)content-length: *(\d+)", head)
        self.asked.append((await reader.readexactly(int(length[1]) if length else 0)).decode())
        chunk = {"choices": [{"index": 0, "delta": {"content": "Done."}, "finish_reason": "stop"}]}
        base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        data = f"data: {json.dumps(base | chunk)}\n\ndata: [DONE]\n\n".encode()
        kind = b"content-type: text/event-stream\r\nconnection: close"
        writer.write(b"HTTP/1.1 200 OK\r\n%b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(data), data))
        await writer.drain()
        writer.close()


def test_rows_with_all_toolsets_have_no_memory_and_no_other_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory").mkdir()
    for file in ("memory/NOTES.md", "memory/USER.md", "AGENTS.md"):
        (tmp_path / file).write_text(KNOWN + "\n")
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b", "toolsets": ["memory"]}\n')
    host = Host()

    async def main() -> BatchRunner:
        async with await asyncio.start_server(host, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            runner = BatchRunner(
                "rows.jsonl", run_name="r", toolsets=("all",), provider="custom", model="m", api_key="k",
                base_url=f"http://127.0.0.1:{port}/v1", require_reasoning=False, num_workers=1,
            )  # fmt: skip
            statistics = await runner.run()
            assert (statistics.ok, statistics.errors_by_kind) == (1, {"ConfigurationError": 1})
            return runner

    runner = asyncio.run(main())
    [asked] = host.asked
    tools = {tool["function"]["name"] for tool in json.loads(asked)["tools"]}
    assert {"terminal", "read_file", "todo"} <= tools
    assert tools.isdisjoint({"memory", "session_search"})
    assert "Ferdinand" not in asked
    assert "Ferdinand" not in runner.files.trajectories.read_text()
    assert (tmp_path / "memory/NOTES.md").read_text() == KNOWN + "\n"
