"""A local model server that answers by what its address says; it runs in a process of its own.

    python server.py            prints the port that it listens at

`http://127.0.0.1:PORT/PAUSE/ROUNDS/DELTAS/TOOL/v1/chat/completions` waits PAUSE milliseconds, then asks for
TOOL until the last user message has ROUNDS answers of tools behind it, then says a text of DELTAS words: as
one JSON object, or as server-sent events if the request says `"stream": true`. All answers are made once, so
that the server takes little of a machine that it shares with the contestants.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import resource
from typing import NamedTuple

WORDS_IN_A_WRITE = 10
USER = re.compile(rb'"role":\s*"user"')
TOOL_ANSWER = re.compile(rb'"role":\s*"tool"')
STREAMED = re.compile(rb'"stream":\s*true')
IDENTITY = {"id": "chatcmpl-1", "created": 1764400000, "model": "bench"}
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


class Script(NamedTuple):
    """What an address asks for."""

    pause_s: float
    rounds: int
    deltas: int
    tool: str

    @classmethod
    def of(cls, path: str) -> Script | None:
        """From the path of a request; None for another endpoint than chat completions."""
        match path.strip("/").split("/"):
            case [pause, rounds, deltas, tool, "v1", "chat", "completions"]:
                return cls(int(pause) / 1e3, int(rounds), int(deltas), tool)
            case _:
                return None


def text_of(deltas: int) -> list[str]:
    """The words of the last answer."""
    return [f"word{number % 97} " for number in range(deltas - 1)] + ["done."]


def _event(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {**IDENTITY, "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def events(script: Script, calling: bool, number: int) -> list[bytes]:
    """One streamed answer; `number` counts the rounds, since each call has an id of its own."""
    if calling:
        call = {"index": 0, **_call(script.tool, number)}
        said = [_event({"role": "assistant", "tool_calls": [call]}), _event({}, "tool_calls")]
    else:
        said = [*(_event({"content": word}) for word in text_of(script.deltas)), _event({}, "stop")]
    usage = {**IDENTITY, "object": "chat.completion.chunk", "choices": [], "usage": USAGE}
    return [*said, b"data: " + json.dumps(usage).encode() + b"\n\n", b"data: [DONE]\n\n"]


def _call(name: str, number: int) -> dict[str, object]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}


def _streamed(events: list[bytes]) -> list[bytes]:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    pieces = [
        b"".join(events[start : start + WORDS_IN_A_WRITE])
        for start in range(0, len(events), WORDS_IN_A_WRITE)
    ]
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    chunks[0] = head + chunks[0]
    chunks[-1] += b"0\r\n\r\n"
    return chunks


def _whole(message: dict[str, object], finish: str) -> list[bytes]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    body = json.dumps({**IDENTITY, "object": "chat.completion", "choices": [choice], "usage": USAGE}).encode()
    return [
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    ]


@functools.cache
def answer(script: Script, stream: bool, calling: bool, number: int) -> list[bytes]:
    """The writes of one answer."""
    if stream:
        return _streamed(events(script, calling, number))
    if calling:
        return _whole({"content": None, "tool_calls": [_call(script.tool, number)]}, "tool_calls")
    return _whole({"content": "".join(text_of(script.deltas))}, "stop")


def rounds_done(body: bytes) -> int:
    """How many tool answers stand behind the last user message."""
    last = 0
    for found in USER.finditer(body):
        last = found.start()
    return len(TOOL_ANSWER.findall(body, last))


NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            size = re.search(rb"(?i)content-length:\s*(\d+)", head)
            body = await reader.readexactly(int(size[1])) if size else b""
            script = Script.of(head.split(b" ", 2)[1].decode())
            if script is None:
                writer.write(NOT_FOUND)
                continue
            if script.pause_s:
                await asyncio.sleep(script.pause_s)
            done = rounds_done(body)
            for piece in answer(script, STREAMED.search(body) is not None, done < script.rounds, done):
                writer.write(piece)
                await writer.drain()
            if b"connection: close" in head.lower():
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def main() -> None:
    """Listen on loopback until killed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
