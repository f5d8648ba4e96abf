"""What was said, as the conventions want it on a span: JSON text. Pure; every text goes through `mask`.

Source: semantic-conventions-genai, model/gen-ai/gen-ai-input-messages.json, -output-messages.json and
-system-instructions.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import assert_never

from hermes_messages import (
    ArgumentsError,
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    content_text,
)
from hermes_messages.argument_text import JsonObject, JsonValue, parse_arguments

__all__ = ["request_content", "response_content"]

Mask = Callable[[str], str]


def request_content(request: ChatRequest, mask: Mask) -> dict[str, str]:
    """The system text and the messages of a request, as attributes."""
    system = [message for message in request.history if isinstance(message, SystemMessage)]
    others = [message for message in request.history if not isinstance(message, SystemMessage)]
    attributes = {"gen_ai.input.messages": _json([_message(message, mask) for message in others])}
    if system:
        attributes["gen_ai.system_instructions"] = _json([_text(message, mask) for message in system])
    return attributes


def response_content(response: ChatResponse, mask: Mask) -> dict[str, str]:
    """The answer of a model, as attributes."""
    return {"gen_ai.output.messages": _json([_message(response.message, mask)])}


def _json(items: Iterable[JsonValue]) -> str:
    return json.dumps(list(items), ensure_ascii=False)


def _message(message: Message, mask: Mask) -> JsonObject:
    parts: list[JsonValue] = []
    match message:
        case SystemMessage():
            return {"role": "system", "parts": [_text(message, mask)]}
        case UserMessage():
            return {"role": "user", "parts": [_text(message, mask)]}
        case ToolMessage():
            answer = mask(content_text(message.content))
            part: JsonObject = {
                "type": "tool_call_response",
                "id": message.tool_call_id,
                "response": answer,
            }
            return {"role": "tool", "parts": [part]}
        case AssistantMessage():
            if message.reasoning:
                parts.append({"type": "reasoning", "content": mask(message.reasoning)})
            if content_text(message.content):
                parts.append(_text(message, mask))
            parts += [
                {"type": "tool_call", "id": call.id, "name": call.name, "arguments": _arguments(call, mask)}
                for call in message.tool_calls
            ]
            return {"role": "assistant", "parts": parts}
        case unreachable:
            assert_never(unreachable)


def _text(message: Message, mask: Mask) -> JsonObject:
    return {"type": "text", "content": mask(content_text(message.content))}


def _arguments(call: ToolCall, mask: Mask) -> JsonValue:
    """An object; where the model wrote none, its text."""
    text = mask(call.arguments)
    try:
        return parse_arguments(text)
    except ArgumentsError:
        return text
