"""`normalise_response`: what a response means to the turn. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hermes_loop.verdicts import Answer, Discard, ResponseVerdict, RunTools
from hermes_messages import AssistantMessage, ChatResponse, FinishReason, ToolCall, content_text
from hermes_messages.transcript_rules import is_blank

__all__ = ["answer_text", "normalise_response", "usable_calls"]

EMPTY: Final = "the model gave neither text nor a tool call"


def usable_calls(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The calls that may enter the conversation: named, and each with an id of its own.

    Ids are changed only where two calls would share one, or a call has none; the first keeps its own.
    """
    taken: set[str] = set()
    kept: list[ToolCall] = []
    for position, call in enumerate(calls):
        if not call.name.strip():
            continue
        base = call.id or f"call_{position + 1}"
        new_id = base
        number = 1
        while new_id in taken:
            number += 1
            new_id = f"{base}_{number}"
        taken.add(new_id)
        kept.append(call if new_id == call.id else replace(call, id=new_id))
    return tuple(kept)


def normalise_response(response: ChatResponse, *, summary_call: bool) -> ResponseVerdict:
    """Tools to run, an answer, or nothing that can be kept.

    Calls that the response did not finish are never run. Whole calls beside them are.
    """
    message = response.message
    calls = () if summary_call else usable_calls(message.tool_calls)
    if calls != message.tool_calls:
        message = replace(message, tool_calls=calls)
    if message.usage is None and response.usage is not None:
        message = replace(message, usage=response.usage)
    if calls:
        return RunTools(message)
    match response.finish:
        case FinishReason.CONTENT_FILTER:
            return _refused(message)
        case FinishReason.LENGTH:
            if is_blank(message):
                return Discard("output_truncated", "the output limit cut the response off", ask_again=False)
            return Answer(message, "output_truncated")
        case FinishReason.MALFORMED_CALL:
            return Discard("empty_response", "the model's tool call could not be read", ask_again=True)
        case FinishReason.STOP | FinishReason.TOOL_CALLS:
            pass
    if message.refusal:
        return _refused(message)
    if is_blank(message):
        broken = ", ".join(call.reason for call in response.unfinished_calls)
        text = f"the model's tool calls could not be run: {broken}" if broken else EMPTY
        return Discard("empty_response", text, ask_again=True)
    return Answer(message, "text_response")


def _refused(message: AssistantMessage) -> ResponseVerdict:
    if is_blank(message):
        return Discard("refused", message.refusal or "the model's host withheld the answer", ask_again=False)
    return Answer(message, "refused")


def answer_text(message: AssistantMessage) -> str:
    """What the host is told: the visible text, or the refusal."""
    return content_text(message.content) or message.refusal or ""
