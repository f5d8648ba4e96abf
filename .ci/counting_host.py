"""A chat completions host on loopback that takes its time and remembers who asked, in a process of its own.

Asked with tools it answers with one call of `todo`, then with a sentence. Each request appends a line to the
log before it is answered: the row's prompt and whether the tool's result was in it already. Where the log has
more lines than the number in the file `limit` beside it, nobody is answered before that number is larger.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["CountingHost", "running_host"]

LATENCY_S = 0.02
LIMIT_S = 300.0


class CountingHost:
    """The host whose process keeps its files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._log, self._port, self._limit = folder / "requests.log", folder / "port", folder / "limit"

    @property
    def url(self) -> str:
        """What a client is given."""
        return f"http://127.0.0.1:{self._port.read_text()}/v1"

    def answer_up_to(self, requests: int) -> None:
        """Answer no more than so many: what is to be killed has not ended before, however late we are."""
        unfinished = self._limit.with_suffix(".part")
        unfinished.write_text(str(requests))
        unfinished.rename(self._limit)

    def hear_out(self) -> None:
        """Wait until all that clients sent before they died is in the log. No client may be alive."""
        with urllib.request.urlopen(f"{self.url}/heard-out", timeout=LIMIT_S) as reply:
            reply.read()

    def requests(self) -> list[str]:
        """The lines of the log that are whole."""
        return self._log.read_text().split("\n")[:-1] if self._log.exists() else []

    def rows(self) -> list[str]:
        """The row of each request so far, which its prompt begins with."""
        return [line.split()[0] for line in self.requests()]


@contextmanager
def running_host(folder: Path) -> Iterator[CountingHost]:
    """The host, which ends with the block."""
    port, log = folder / "port", folder / "requests.log"
    with subprocess.Popen([sys.executable, __file__, port, log]) as process:
        try:
            deadline = time.monotonic() + LIMIT_S
            while not port.exists():
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield CountingHost(folder)
        finally:
            process.kill()


def first_word(text: str) -> str:
    return text.split(maxsplit=1)[0]


def answer(asked: str) -> bytes:
    """The body of one streamed answer."""
    if asked.endswith(" again"):
        delta: dict[str, object] = {"role": "assistant", "content": f"Row {first_word(asked)} is done."}
        finish = "stop"
    else:
        function = {"name": "todo", "arguments": "{}"}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        delta = {"role": "assistant", "reasoning_content": "I look at the list.", "tool_calls": [call]}
        finish = "tool_calls"
    usage = {"prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60}
    chunks: list[dict[str, object]] = [
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {"choices": [], "usage": usage},
    ]
    base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = [f"data: {json.dumps(base | chunk)}\n\n" for chunk in chunks]
    return "".join([*events, "data: [DONE]\n\n"]).encode()


class Log:
    """The requests so far, on the disk, and how many may be answered."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._limit = path.with_name("limit")
        self._lines = 0
        self._listening = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A connection of which the next request is awaited."""
        self._listening += 1
        try:
            yield
        finally:
            self._listening -= 1

    async def heard_out(self) -> None:
        """Until no connection is listened to: each has sent a request that is in the log, or has ended."""
        while self._listening:  # noqa: ASYNC110 - the other connections see to it
            await asyncio.sleep(0.001)

    def add(self, line: str) -> None:
        os.write(self._file, (line + "\n").encode())
        self._lines += 1

    def _is_reached(self) -> bool:
        return self._limit.exists() and self._lines > int(self._limit.read_text())

    async def may_answer(self) -> None:
        while self._is_reached():  # noqa: ASYNC110 - another process sets it
            await asyncio.sleep(0.01)


async def one_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: Log) -> None:
    try:
        while True:
            with log.listening():
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"(?i)content-length: *(\d+)", head)
                body = json.loads(await reader.readexactly(int(length[1]))) if length else {}
            if " /v1/heard-out " in head:
                await log.heard_out()
                writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
                await writer.drain()
                return
            roles = [message["role"] for message in body.get("messages", [])]
            prompt = next(m["content"] for m in body["messages"] if m["role"] == "user")
            last = max(place for place, role in enumerate(roles) if role == "user")
            answered = "tool" in roles[last:] or not body.get("tools")
            asked = f"{prompt} {'again' if answered else 'first'}"
            log.add(asked)
            await asyncio.sleep(LATENCY_S)
            await log.may_answer()
            data = answer(asked)
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                + f"content-length: {len(data)}\r\n\r\n".encode()
                + data
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def serve(port_file: Path, log_file: Path) -> None:
    log = Log(log_file)
    server = await asyncio.start_server(lambda r, w: one_connection(r, w, log), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    unfinished = port_file.with_suffix(".part")
    unfinished.write_text(str(port))
    unfinished.rename(port_file)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
