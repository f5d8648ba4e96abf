"""Usage that must type-check, and usage that must not: there the expected error is named on its line.

The type checker reports an expected error that does not come as an unused ignore.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    FinishReason,
    JsonObject,
    Message,
    ModelInfo,
    Origin,
    ResponseDone,
    StreamEvent,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    Transcript,
    UserMessage,
    clean_text,
    estimate_tokens,
    from_trajectory,
    messages_from_dicts,
    read_dicts,
    repair,
    to_dicts,
    to_trajectory,
    validate,
)
from hermes_messages.protocols import Provider


def role_of(message: Message) -> str:
    match message:
        case SystemMessage():
            return "system"
        case UserMessage():
            return "user"
        case AssistantMessage():
            return "assistant"
        case ToolMessage():
            return "tool"


def one_case_missing(message: Message) -> str:  # type: ignore[return]
    match message:  # type: ignore[exhaustive-match]
        case SystemMessage() | UserMessage():
            return "in"
        case AssistantMessage():
            return "out"


def conversation() -> list[JsonObject]:
    transcript = Transcript([SystemMessage("Be brief."), UserMessage("hi")])
    transcript.append(AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"),)))
    transcript.append(ToolMessage("a", "ok", status="ok"))
    dicts = to_dicts(transcript, full=True)
    read: list[Message] = messages_from_dicts(dicts)
    repaired = repair(read)
    assert validate(repaired.messages) == []
    rows = to_trajectory(repaired.messages, [])
    again: list[Message] = from_trajectory(rows)
    assert estimate_tokens(again) > 0
    assert [quirk.kind for quirk in read_dicts(dicts).quirks] == []
    return dicts


class Echo:
    """The smallest provider: no base class, only the members of the Protocol."""

    name = "echo"
    default_model = None

    def origin(self, model: str) -> Origin:
        return Origin("echo", "localhost", model)

    def model_info(self, model: str) -> ModelInfo:
        return ModelInfo()

    async def open(self) -> None:
        return None

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        answer = AssistantMessage(clean_text("hello"))
        yield TextDelta("hello")
        yield ResponseDone(ChatResponse(message=answer, finish=FinishReason.STOP))

    async def close(self) -> None:
        return None


provider: Provider = Echo()
