"""A program on hermes-messages alone: reads a foreign conversation, mends it, asks a model of its own."""

import asyncio
from collections.abc import AsyncGenerator
from typing import assert_never

from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    FinishReason,
    HermesError,
    History,
    Message,
    ModelInfo,
    Origin,
    PartialToolCall,
    ReasoningDelta,
    ResponseDone,
    StreamEvent,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolCallArgumentsDelta,
    ToolCallStarted,
    ToolMessage,
    Transcript,
    UserMessage,
    content_text,
    messages_from_dicts,
    repair,
    to_dicts,
    validate,
)
from hermes_messages.protocols import Provider, ProviderOptions, SupportsTokenCount
from hermes_messages.testing import MemoryStore, check_provider, check_store


class Parrot:
    """A provider that says what it was told."""

    def __init__(self, options: ProviderOptions) -> None:
        self._model = options.model or "parrot-1"

    @property
    def name(self) -> str:
        return "parrot"

    @property
    def default_model(self) -> str | None:
        return self._model

    def origin(self, model: str) -> Origin:
        return Origin(provider="parrot", host="parrot.example", model=model)

    def model_info(self, model: str) -> ModelInfo:
        return ModelInfo(context_window=8_000, supports_tools=model != "parrot-0")

    async def open(self) -> None:
        return None

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        words = content_text(request.history[-1].content or "")
        yield TextDelta(words)
        yield ResponseDone(ChatResponse(message=AssistantMessage(words), finish=FinishReason.STOP))

    async def close(self) -> None:
        return None


def shown(event: StreamEvent) -> str:
    """Every kind of event, and no other."""
    match event:
        case TextDelta(text=text) | ReasoningDelta(text=text):
            return text
        case ToolCallStarted(name=name):
            return name
        case ToolCallArgumentsDelta():
            return ""
        case ResponseDone(response=response):
            unfinished: tuple[PartialToolCall, ...] = response.unfinished_calls
            return f"{response.finish} {len(unfinished)}"
        case _:
            assert_never(event)


def role(message: Message) -> str:
    match message:
        case SystemMessage():
            return "system"
        case UserMessage():
            return "user"
        case AssistantMessage(tool_calls=calls):
            return f"assistant, {len(calls)} calls"
        case ToolMessage(tool_call_id=call_id):
            return f"result of {call_id}"
        case _:
            assert_never(message)


async def main() -> None:
    messages = messages_from_dicts(
        [
            {"role": "user", "content": "How warm is it?"},
            {"role": "tool", "tool_call_id": "nobody", "content": "21 degrees"},
        ]
    )
    assert validate(messages)
    mended = repair(messages)
    transcript = Transcript(mended.messages)
    transcript.append(AssistantMessage(tool_calls=(ToolCall("c1", "weather", '{"city": "Ulm"}'),)))
    try:
        transcript.append(UserMessage("Hurry!"))
    except HermesError as refused:
        print(refused)
    transcript.append(ToolMessage("c1", "21 degrees"))
    print([role(message) for message in transcript], to_dicts(list(transcript)))

    provider: Provider = Parrot(ProviderOptions())
    assert not isinstance(provider, SupportsTokenCount)
    request = ChatRequest(model="parrot-1", history=History.of([UserMessage("Hello")]))
    async for event in provider.stream(request):
        print(shown(event))
    await check_provider(lambda: Parrot(ProviderOptions()))
    await check_store(MemoryStore)


asyncio.run(main())
