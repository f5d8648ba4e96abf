"""The peer pydantic-ai: agents over one shared client."""

from __future__ import annotations

from contest.openai_client import OverOneClient
from contest.work import TOOL_ANSWER, past_texts, take_part
from openai import AsyncOpenAI
from pydantic_ai import Agent as PeerAgent
from pydantic_ai import ModelMessage, ModelRequest, ModelResponse, TextPart, UsageLimits, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def past_of(role: str, text: str) -> ModelMessage:
    if role == "user":
        return ModelRequest(parts=[UserPromptPart(content=text)])
    return ModelResponse(parts=[TextPart(content=text)])


class OneAgent:
    def __init__(self, client: AsyncOpenAI, past: int) -> None:
        model = OpenAIChatModel("bench", provider=OpenAIProvider(openai_client=client))
        self._agent = PeerAgent(model)
        self._messages = [past_of(role, text) for role, text in past_texts(past)]

        @self._agent.tool_plain
        async def look() -> str:
            """Look."""
            return TOOL_ANSWER

    async def turn(self, asked: str) -> str:
        self._messages = []
        return await self.more(asked)

    async def more(self, asked: str) -> str:
        limits = UsageLimits(request_limit=None)
        async with self._agent.run_stream(
            asked, message_history=self._messages, usage_limits=limits
        ) as result:
            text = await result.get_output()
            self._messages = result.all_messages()
        return str(text)

    async def close(self) -> None:
        pass


if __name__ == "__main__":
    take_part(lambda base_url, _connections: OverOneClient(OneAgent, base_url))
