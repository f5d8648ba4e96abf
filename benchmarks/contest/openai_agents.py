"""The peer openai-agents: agents over one shared client, tracing off."""

from __future__ import annotations

from agents import Agent as PeerAgent
from agents import OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from contest.openai_client import OverOneClient
from contest.work import TOOL_ANSWER, past_texts, take_part
from openai import AsyncOpenAI


@function_tool
async def look() -> str:
    """Look."""
    return TOOL_ANSWER


class OneAgent:
    def __init__(self, client: AsyncOpenAI, past: int) -> None:
        model = OpenAIChatCompletionsModel(model="bench", openai_client=client)
        self._agent = PeerAgent(name="bench", model=model, tools=[look])
        self._messages = [{"role": role, "content": text} for role, text in past_texts(past)]

    async def turn(self, asked: str) -> str:
        self._messages = []
        return await self.more(asked)

    async def more(self, asked: str) -> str:
        given = [*self._messages, {"role": "user", "content": asked}]
        result = Runner.run_streamed(
            self._agent, given, max_turns=30, run_config=RunConfig(tracing_disabled=True)
        )
        async for _event in result.stream_events():
            pass
        self._messages = result.to_input_list()
        return str(result.final_output)

    async def close(self) -> None:
        pass


if __name__ == "__main__":
    take_part(lambda base_url, _connections: OverOneClient(OneAgent, base_url))
