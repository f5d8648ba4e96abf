"""The floor: the least that a loop written by hand for these requests can do, over httpx or over aiohttp.

Each message is encoded once, request bodies are joined bytes, stream chunks are decoded by msgspec into one
typed struct, and nothing else is done. Run by `bench_contest.py`; alone, with
the server of `contest/server.py`:

    python -m floor httpx|aiohttp WORK http://127.0.0.1:PORT        in the folder benchmarks
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from typing import Protocol

import msgspec
from contest.work import TOOL, TOOL_ANSWER, Agent, Agents, past_texts, pooled, take_part

HEAD = b'{"model":"bench","stream":true,"stream_options":{"include_usage":true},"tools":[%b],"messages":['
TOOLS = msgspec.json.encode(
    {
        "type": "function",
        "function": {
            "name": TOOL,
            "description": "Look.",
            "parameters": {"type": "object", "properties": {}},
        },
    }
)
HEADERS = {"content-type": "application/json", "authorization": "Bearer none"}


class Function(msgspec.Struct):
    name: str
    arguments: str


class Call(msgspec.Struct):
    id: str
    function: Function
    type: str = "function"


class Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[Call] = []


class Choice(msgspec.Struct):
    delta: Delta


class Chunk(msgspec.Struct):
    choices: list[Choice]


decode = msgspec.json.Decoder(Chunk).decode
encode = msgspec.json.Encoder().encode


class Sender(Protocol):
    """An HTTP client."""

    def post(self, body: bytes) -> AsyncIterator[bytes]:
        """The bytes of the answer as they come."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class OverHttpx:
    """One shared `httpx.AsyncClient`."""

    def __init__(self, base_url: str, connections: int) -> None:
        import httpx

        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._client = httpx.AsyncClient(limits=limits, timeout=None, headers=HEADERS)
        self._url = f"{base_url}/chat/completions"

    async def post(self, body: bytes) -> AsyncIterator[bytes]:
        """Stream it."""
        async with self._client.stream("POST", self._url, content=body) as response:
            response.raise_for_status()
            async for data in response.aiter_bytes():
                yield data

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


class OverAiohttp:
    """One shared `aiohttp.ClientSession`."""

    def __init__(self, base_url: str, connections: int) -> None:
        import aiohttp

        connector = aiohttp.TCPConnector(limit=connections)
        self._session = aiohttp.ClientSession(connector=connector, headers=HEADERS)
        self._url = f"{base_url}/chat/completions"

    async def post(self, body: bytes) -> AsyncIterator[bytes]:
        """Stream it."""
        async with self._session.post(self._url, data=body) as response:
            response.raise_for_status()
            async for data in response.content.iter_any():
                yield data

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


class FloorAgent:
    """The loop."""

    def __init__(self, sender: Sender, past: int) -> None:
        self._sender = sender
        self._messages = [encode({"role": role, "content": text}) for role, text in past_texts(past)]

    async def turn(self, asked: str) -> str:
        """Begin anew."""
        self._messages = []
        return await self.more(asked)

    async def more(self, asked: str) -> str:
        """Go on until there are no calls."""
        messages = self._messages
        messages.append(encode({"role": "user", "content": asked}))
        while True:
            text, calls = await self._call(b"".join((HEAD % TOOLS, b",".join(messages), b"]}")))
            if not calls:
                messages.append(encode({"role": "assistant", "content": text}))
                return text
            messages.append(encode({"role": "assistant", "content": None, "tool_calls": calls}))
            for call in calls:
                messages.append(encode({"role": "tool", "tool_call_id": call.id, "content": TOOL_ANSWER}))

    async def _call(self, body: bytes) -> tuple[str, list[Call]]:
        texts: list[str] = []
        calls: list[Call] = []
        rest = b""
        async for data in self._sender.post(body):
            *events, rest = (rest + data).split(b"\n\n")
            for event in events:
                if event == b"data: [DONE]":
                    continue
                for choice in decode(event[6:]).choices:
                    delta = choice.delta
                    if delta.content:
                        texts.append(delta.content)
                    calls += delta.tool_calls
        return "".join(texts), calls

    async def close(self) -> None:
        """Nothing is held."""


class Floor:
    """Agents over one client."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def new(self, past: int = 0) -> Agent:
        """A loop over the shared client."""
        return FloorAgent(self._sender, past)

    async def batch(self, samples: int, workers: int) -> None:
        """A semaphore."""
        await pooled(samples, workers, self.new)

    async def close(self) -> None:
        """Close the client."""
        await self._sender.close()


def open_agents(base_url: str, connections: int) -> Agents:
    """Over the client that the command line names."""
    return Floor(SENDERS[engine](base_url, connections))


SENDERS: dict[str, Callable[[str, int], Sender]] = {"httpx": OverHttpx, "aiohttp": OverAiohttp}

if __name__ == "__main__":
    engine = sys.argv.pop(1)
    take_part(open_agents)
