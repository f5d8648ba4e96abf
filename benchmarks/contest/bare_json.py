"""The base of the table: one shared `httpx.AsyncClient` and `json`, the whole list encoded for each call."""

from __future__ import annotations

import json
from typing import TypedDict

import httpx
from contest.work import TOOL, TOOL_ANSWER, Agent, past_texts, pooled, take_part

LOOK = {
    "type": "function",
    "function": {"name": TOOL, "description": "Look.", "parameters": {"type": "object", "properties": {}}},
}


class Function(TypedDict, total=False):
    name: str
    arguments: str


class Call(TypedDict, total=False):
    id: str
    type: str
    function: Function


class Message(TypedDict, total=False):
    role: str
    content: str | None
    tool_calls: list[Call]
    tool_call_id: str


class BareAgent:
    """A loop by hand."""

    def __init__(self, client: httpx.AsyncClient, url: str, past: int) -> None:
        self._client = client
        self._url = url
        self._messages: list[Message] = [{"role": role, "content": text} for role, text in past_texts(past)]

    async def turn(self, asked: str) -> str:
        """Begin anew."""
        self._messages = []
        return await self.more(asked)

    async def more(self, asked: str) -> str:
        """Go on until there are no calls."""
        self._messages.append({"role": "user", "content": asked})
        while True:
            text, calls = await self._call()
            if not calls:
                self._messages.append({"role": "assistant", "content": text})
                return text
            self._messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            self._messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": TOOL_ANSWER} for call in calls
            ]

    async def _call(self) -> tuple[str, list[Call]]:
        body = {"model": "bench", "stream": True, "messages": self._messages, "tools": [LOOK]}
        texts: list[str] = []
        calls: list[Call] = []
        rest = b""
        async with self._client.stream("POST", self._url, json=body) as response:
            response.raise_for_status()
            async for data in response.aiter_bytes():
                *events, rest = (rest + data).split(b"\n\n")
                for event in events:
                    if event == b"data: [DONE]":
                        continue
                    for choice in json.loads(event[6:])["choices"]:
                        if word := choice["delta"].get("content"):
                            texts.append(word)
                        calls += [
                            {"id": call["id"], "type": "function", "function": call["function"]}
                            for call in choice["delta"].get("tool_calls", ())
                        ]
        return "".join(texts), calls

    async def close(self) -> None:
        """Nothing is held."""


class BareAgents:
    """Agents over one client."""

    def __init__(self, base_url: str, connections: int) -> None:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._client = httpx.AsyncClient(limits=limits, timeout=None)
        self._url = f"{base_url}/chat/completions"

    def new(self, past: int = 0) -> Agent:
        """A loop over the shared client."""
        return BareAgent(self._client, self._url, past)

    async def batch(self, samples: int, workers: int) -> None:
        """A semaphore."""
        await pooled(samples, workers, self.new)

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()


if __name__ == "__main__":
    take_part(BareAgents)
