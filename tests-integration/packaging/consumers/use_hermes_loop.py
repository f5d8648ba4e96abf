"""A program on hermes-loop and hermes-messages: an agent with a model, tools and a store of its own."""

import asyncio
from collections.abc import Sequence

from hermes_loop import (
    AIAgent,
    Budget,
    CompressionSettings,
    StepStarted,
    ToolEnded,
    TurnEnded,
    TurnEvent,
)
from hermes_messages import JsonObject, ToolCall, UserMessage
from hermes_messages.protocols import (
    ApprovalAnswer,
    Approve,
    ConversationResult,
    HookContext,
    SessionStore,
    SupportsPreModel,
)
from hermes_messages.testing import (
    FunctionTool,
    MemoryStore,
    ScriptedProvider,
    SimpleExecutor,
    call,
    calls,
    text,
)


class Reminder:
    """A hook that adds a note before the model is asked."""

    async def pre_model(self, context: HookContext, message: UserMessage) -> str | None:
        return f"This is the session {context.session_id}, with {type(message).__name__}."


HOOK: SupportsPreModel = Reminder()


async def weather(arguments: JsonObject) -> str:
    return f"21 degrees in {arguments['city']}"


async def decide(asked: ToolCall, reason: str) -> ApprovalAnswer:
    print(asked.name, reason)
    return Approve()


def note(event: TurnEvent) -> None:
    match event:
        case StepStarted(number=number):
            print("step", number)
        case ToolEnded(call=ended, result=result):
            print(ended.name, result.status)
        case TurnEnded(result=result_of_turn):
            print(result_of_turn is not None)
        case _:
            pass


async def ask(store: SessionStore, questions: Sequence[str]) -> list[ConversationResult]:
    model = ScriptedProvider(
        [calls(call("weather", {"city": "Ulm"})), text("It is 21 degrees."), text("Yes.")]
    )
    tools = SimpleExecutor([FunctionTool("weather", weather)], needs_approval=["weather"])
    async with AIAgent(
        provider=model,
        tools=tools,
        session_db=store,
        session_id="weather",
        budget=Budget(tokens=100_000, seconds=60),
        compression=CompressionSettings(keep_recent=0.5),
        approval_callback=decide,
        event_callback=note,
        hooks=[HOOK],
    ) as agent:
        return [await agent.run_conversation(question) for question in questions]


async def main() -> None:
    results = await ask(MemoryStore(), ["How warm is it in Ulm?", "Sure?"])
    assert [result["turn_exit_reason"] for result in results] == ["text_response", "text_response"]
    answer: str | None = results[-1]["final_response"]
    print(answer, results[-1]["api_calls"], results[-1]["cost_usd"])


asyncio.run(main())
