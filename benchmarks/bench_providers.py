"""CPU of hermes-providers against the bare thing in the same run, and the cost of one more call.

Run with `uv run benchmarks/bench_providers.py`. A server in a process of its own streams 10,000 text deltas
over HTTP/1.1 on loopback. One side is our provider, from request to assembled message; the other is the
least that can be done: httpx's byte loop, a split at blank lines, and msgspec into one typed struct. Rounds
alternate and the median of the ratios counts, so that a busy machine slows both.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import httpx
import msgspec

from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    History,
    MessageLog,
    ResponseDone,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_messages.protocols import ProviderOptions
from hermes_providers import from_profile, get_profile
from hermes_providers.wire.openai_chat_request import ChatRequestBuilder

DELTAS = 10_000
ROUNDS = 9
ENCODED_MESSAGES = 4_000

SERVER = """
import asyncio, json, sys
deltas, per_write = int(sys.argv[1]), int(sys.argv[2])
def event(delta, finish=None):
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {"id": "chatcmpl-9x8y7z", "object": "chat.completion.chunk", "created": 1764400000,
             "model": "bench", "system_fingerprint": "fp_1", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\\n\\n"
events = [event({"content": " word%d" % (i % 97)}) for i in range(deltas)]
events += [event({}, "stop"), b"data: [DONE]\\n\\n"]
pieces = [b"".join(events[i:i + per_write]) for i in range(0, len(events), per_write)]
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            size = [l for l in head.lower().split(b"\\r\\n") if l.startswith(b"content-length:")]
            await reader.readexactly(int(size[0].split(b":")[1]))
            writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\n"
                         b"transfer-encoding: chunked\\r\\n\\r\\n")
            for piece in pieces:
                writer.write(b"%x\\r\\n%b\\r\\n" % (len(piece), piece))
                await writer.drain()
            writer.write(b"0\\r\\n\\r\\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


class Delta(msgspec.Struct):
    content: str | None = None


class Choice(msgspec.Struct):
    delta: Delta
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    choices: list[Choice]


async def ours(base_url: str) -> int:
    """The length of the streamed text, read by our provider."""
    provider = from_profile("custom", ProviderOptions(base_url=base_url))
    length = 0
    request = ChatRequest(model="bench", history=History.of([UserMessage("go")]))
    async for event in provider.stream(request):
        match event:
            case TextDelta(text=text):
                length += len(text)
            case ResponseDone(response=response):
                content = response.message.content
                assert isinstance(content, str)
                assert len(content) == length
            case _:
                pass
    await provider.close()
    return length


async def bare(base_url: str) -> int:
    """The same by hand."""
    decode = msgspec.json.Decoder(Chunk).decode
    length, rest, finished = 0, b"", False
    body = b'{"model":"bench","stream":true,"messages":[{"role":"user","content":"go"}]}'
    async with (
        httpx.AsyncClient() as client,
        client.stream("POST", f"{base_url}/chat/completions", content=body) as response,
    ):
        async for data in response.aiter_bytes():
            *events, rest = (rest + data).split(b"\n\n")
            for event in events:
                payload = event[6:]
                if payload == b"[DONE]":
                    finished = True
                    continue
                choice = decode(payload).choices[0]
                length += len(choice.delta.content or "")
    assert finished
    return length


def cpu(work: Callable[[str], Awaitable[int]], base_url: str) -> float:
    """CPU seconds of this process for one stream, event loop and all."""

    async def main() -> int:
        return await work(base_url)

    started = time.process_time()
    asyncio.run(main())
    return time.process_time() - started


def stream_ratio(per_write: int) -> None:
    """Print the CPU of both sides and their ratio, with so many deltas in one write of the server."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(DELTAS), str(per_write)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            base_url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
            cpu(ours, base_url), cpu(bare, base_url)  # imports and caches of both
            pairs = [(cpu(ours, base_url), cpu(bare, base_url)) for _ in range(ROUNDS)]
        finally:
            server.kill()
    ratio = statistics.median(mine / other for mine, other in pairs)
    mine = statistics.median(mine for mine, _ in pairs) * 1e3
    other = statistics.median(other for _, other in pairs) * 1e3
    print(
        f"{DELTAS:,} deltas, {per_write:>3} in a write: {mine:6.0f} ms CPU, bare {other:6.0f} ms, "
        f"ratio {ratio:.2f} (bar: 2)"
    )


def long_history(count: int) -> MessageLog:
    """A conversation of about `count` messages with tool rounds."""
    log = MessageLog([SystemMessage("You are careful.")])
    number = 0
    while len(log) < count:
        call = ToolCall(f"call_{number}", "read_file", '{"path": "src/main.py", "limit": 200}')
        log.extend(
            [
                UserMessage(f"Question {number}: " + "why is that so? " * 8),
                AssistantMessage(None, (call,)),
                ToolMessage(call.id, "def main() -> None: ...\n" * 30, "read_file"),
                AssistantMessage("Because of this. " * 10),
            ]
        )
        number += 1
    return log


def one_more_call() -> None:
    """Print what one more call on a long history encodes, and its time against encoding everything anew."""
    quirks = get_profile("custom").quirks
    spec = ToolSpec.from_schema("read_file", "Read a file.", {"type": "object"})

    def builder() -> ChatRequestBuilder:
        return ChatRequestBuilder(base_url="http://h.example/v1", provider="p", host="h", quirks=quirks)

    log = long_history(ENCODED_MESSAGES)
    kept = builder()
    tools = (spec,)
    kept.build(ChatRequest(model="m", history=log.view(), tools=tools))
    again, anew = [], []
    calls = kept.encode_calls
    for number in range(ROUNDS):
        log.append(UserMessage(f"And then, {number}?"))
        request = ChatRequest(model="m", history=log.view(), tools=tools)
        started = time.perf_counter()
        body = kept.build(request)
        again.append(time.perf_counter() - started)
        log.append(AssistantMessage(f"Then {number}."))
        fresh = builder()
        started = time.perf_counter()
        assert len(fresh.build(request)) == len(body)
        anew.append(time.perf_counter() - started)
    per_call = (kept.encode_calls - calls) / ROUNDS
    ratio = statistics.median(anew) / statistics.median(again)
    print(
        f"one more call on {len(log):,} messages: {per_call:.1f} segments encoded, "
        f"{statistics.median(again) * 1e3:.2f} ms; everything anew {statistics.median(anew) * 1e3:.2f} ms, "
        f"{ratio:.0f} times as long"
    )


if __name__ == "__main__":
    for deltas_per_write in (1, 20):
        stream_ratio(deltas_per_write)
    one_more_call()
