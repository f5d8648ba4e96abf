"""Rounds of tool calls for the Gemini wire, which several modules of tests send."""

from __future__ import annotations

from typing import Any

from gemini_help import NEW, SIGNATURE, call_part, replayed
from hermes_messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from hermes_messages.parts import ImagePart, Replay

__all__ = ["CALL", "DUMMY", "OTHER", "PICTURE", "own_round", "rounds"]

DUMMY = "skip_thought_signature_validator"
PICTURE = ImagePart("data:image/jpeg;base64,AAAA")
CALL = ToolCall("call_1", "read_file", '{"path": "x"}')
OTHER = ToolCall("call_2", "now", "{}")


def rounds(
    *calls: ToolCall, content: str | None = None, replay: Replay | None = None, ask_first: bool = True
) -> list[Message]:
    calls = calls or (CALL,)
    asked: list[Message] = [UserMessage("hi")] if ask_first else []
    said = AssistantMessage(content, tool_calls=calls, replay=replay)
    return [*asked, said, *[ToolMessage(call.id, f"result of {call.id}") for call in calls]]


def own_round(*, with_ids: bool = True, model: str = NEW) -> list[Message]:
    parts: list[dict[str, Any]] = [
        {"text": "Looking."},
        call_part("read_file", SIGNATURE, id="call_1", args={"path": "x"}),
        call_part("now", id="call_2", args={}),
    ]
    if not with_ids:
        for part in parts[1:]:
            del part["functionCall"]["id"]
    calls = (ToolCall("call_1", "read_file", '{"path":"x"}'), OTHER)
    return rounds(*calls, content="Looking.", replay=replayed(*parts, model=model))
