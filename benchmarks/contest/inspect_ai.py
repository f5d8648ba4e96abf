"""The peer inspect-ai: `generate_loop` of one model; it does not stream through its public interface."""

from __future__ import annotations

from contest.work import TOOL_ANSWER, Agent, past_texts, pooled, take_part
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    GenerateConfig,
    Model,
    get_model,
)
from inspect_ai.tool import Tool, tool


@tool
def look() -> Tool:
    async def execute() -> str:
        """Look."""
        return TOOL_ANSWER

    return execute


class OneAgent:
    def __init__(self, model: Model, past: int) -> None:
        self._model = model
        self._tools = [look()]
        self._messages: list[ChatMessage] = [
            ChatMessageUser(content=text) if role == "user" else ChatMessageAssistant(content=text)
            for role, text in past_texts(past)
        ]

    async def turn(self, asked: str) -> str:
        self._messages = []
        return await self.more(asked)

    async def more(self, asked: str) -> str:
        given = [*self._messages, ChatMessageUser(content=asked)]
        messages, output = await self._model.generate_loop(given, tools=self._tools)
        self._messages = [*given, *messages]
        return str(output.completion)

    async def close(self) -> None:
        pass


class Peers:
    def __init__(self, base_url: str, connections: int) -> None:
        self._model = get_model(
            "openai-api/bench/bench",
            base_url=base_url,
            api_key="none",
            memoize=False,
            config=GenerateConfig(max_connections=connections, max_retries=0),
        )

    def new(self, past: int = 0) -> Agent:
        return OneAgent(self._model, past)

    async def batch(self, samples: int, workers: int) -> None:
        await pooled(samples, workers, self.new)

    async def close(self) -> None:
        await self._model.api.aclose()


if __name__ == "__main__":
    take_part(Peers)
