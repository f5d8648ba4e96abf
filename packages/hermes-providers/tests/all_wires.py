"""The same answer as the hosts of all four wires stream it, and providers that read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpProvider, from_profile
from wire_help import KEY

PROFILES = {
    "openai_chat": ("custom", "m-1"),
    "openai_responses": ("openai", "gpt-5"),
    "anthropic_messages": ("anthropic", "claude-sonnet-4-5"),
    "gemini": ("google", "gemini-3-flash"),
}
WIRES = sorted(PROFILES)

Block = tuple[str, list[str]]
"""What the host says: ("text" | "reasoning" | the name of a tool, pieces). The pieces of a call are its
arguments."""


def provider_for(wire: str, base_url: str, **settings: Any) -> HttpProvider:
    """A provider of `wire` at `base_url`."""
    options = ProviderOptions(
        base_url=base_url, api_key=KEY, settings={"wire": wire, "first_event_s": 20, **settings}
    )
    return from_profile(PROFILES[wire][0], options)


def model_of(wire: str) -> str:
    """A model of the host that the provider stands for."""
    return PROFILES[wire][1]


def streamed(
    wire: str,
    blocks: Sequence[Block],
    *,
    ascii_only: bool = False,
    ids: str = "",
    finish: str | None = None,
) -> list[bytes]:
    """The events of a whole answer, usage and end included. `ids` makes the ids of calls differ; `finish` is
    the host's word for the end."""
    events = _EVENTS[wire](blocks, ids)
    if finish is not None:
        _set_finish(wire, events, finish)
    return [_framed(wire, value, ascii_only=ascii_only) for value in events] + _end_mark(wire)


def unfinished(wire: str, blocks: Sequence[Block]) -> list[bytes]:
    """The events of an answer up to where it would say how it ends."""
    whole = _EVENTS[wire](blocks, "")
    count = {"openai_chat": 2, "openai_responses": 1, "anthropic_messages": 2, "gemini": 1}[wire]
    return [_framed(wire, value, ascii_only=False) for value in whole[:-count]]


def error_event(wire: str) -> bytes:
    """An overload, as the host tells it in the middle of a stream."""
    said = {"type": "overloaded_error", "message": "Overloaded"}
    match wire:
        case "anthropic_messages":
            return _framed(wire, {"type": "error", "error": said}, ascii_only=False)
        case "openai_responses":
            said = {"code": "server_error", "message": "The server is overloaded."}
            failed = {**_response("failed", []), "error": said}
            return _framed(wire, {"type": "response.failed", "response": failed}, ascii_only=False)
        case "gemini":
            said = {"status": "UNAVAILABLE", "message": "The model is overloaded."}
            return _framed(wire, {"error": {"code": 503, **said}}, ascii_only=False)
        case _:
            return _framed(wire, {"error": {**said, "code": 503}}, ascii_only=False)


def _set_finish(wire: str, events: list[dict[str, Any]], word: str) -> None:
    match wire:
        case "openai_chat":
            events[-2]["choices"][0]["finish_reason"] = word
        case "anthropic_messages":
            events[-2]["delta"]["stop_reason"] = word
        case "gemini":
            events[-1]["candidates"][0]["finishReason"] = word
        case _:
            response = events[-1]["response"]
            response |= {"status": "incomplete", "incomplete_details": {"reason": word}}
            events[-1]["type"] = "response.incomplete"


def refused(wire: str, parameter: str) -> bytes:
    """The body of a 400 that refuses `parameter`, in the vendor's words."""
    match wire:
        case "anthropic_messages":
            message = f"`{parameter}` is deprecated for this model."
            return _error({"type": "error", "error": {"type": "invalid_request_error", "message": message}})
        case "gemini":
            message = f'Unknown name "{parameter}": Cannot find field.'
            return _error({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})
        case _:
            message = f"Unsupported parameter: '{parameter}' is not supported with this model."
            said = {"message": message, "type": "invalid_request_error", "param": parameter}
            return _error({"error": {**said, "code": "unsupported_parameter"}})


def _error(value: object) -> bytes:
    return json.dumps(value).encode()


def _framed(wire: str, value: dict[str, Any], *, ascii_only: bool) -> bytes:
    name = f"event: {value['type']}\n" if wire in {"anthropic_messages", "openai_responses"} else ""
    data = json.dumps(value, ensure_ascii=ascii_only)
    return f"{name}data: {data}\n\n".encode()


def _end_mark(wire: str) -> list[bytes]:
    return [b"data: [DONE]\n\n"] if wire == "openai_chat" else []


def _is_call(kind: str) -> bool:
    return kind not in {"text", "reasoning"}


def _chat(blocks: Sequence[Block], ids: str) -> list[dict[str, Any]]:
    def chunk(delta: object, finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "r1", "model": "m-1", "choices": [choice]}

    events, calls = [], 0
    for kind, pieces in blocks:
        if _is_call(kind):
            events.append(
                chunk(
                    {"tool_calls": [{"index": calls, "id": f"call_{ids}{calls}", "function": {"name": kind}}]}
                )
            )
            events += [
                chunk({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]})
                for piece in pieces
            ]
            calls += 1
        else:
            field = "content" if kind == "text" else "reasoning_content"
            events += [chunk({field: piece}) for piece in pieces]
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return [
        *events,
        chunk({}, "tool_calls" if calls else "stop"),
        {"id": "r1", "model": "m-1", "choices": [], "usage": usage},
    ]


def _anthropic(blocks: Sequence[Block], ids: str) -> list[dict[str, Any]]:
    message = {"id": "r1", "model": "m-1", "content": [], "usage": {"input_tokens": 11, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, (kind, pieces) in enumerate(blocks):
        match kind:
            case "text":
                start, delta = {"type": "text", "text": ""}, ("text_delta", "text")
            case "reasoning":
                start = {"type": "thinking", "thinking": "", "signature": ""}
                delta = ("thinking_delta", "thinking")
            case _:
                start = {"type": "tool_use", "id": f"toolu_{ids}{index}", "name": kind, "input": {}}  # type: ignore[dict-item]
                delta = ("input_json_delta", "partial_json")
        at = {"index": index}
        events.append({"type": "content_block_start", **at, "content_block": start})
        events += [
            {"type": "content_block_delta", **at, "delta": {"type": delta[0], delta[1]: piece}}
            for piece in pieces
        ]
        if kind == "reasoning":
            signature = {"type": "signature_delta", "signature": "c2ln"}
            events.append({"type": "content_block_delta", **at, "delta": signature})
        events.append({"type": "content_block_stop", **at})
    reason = "tool_use" if any(_is_call(kind) for kind, _ in blocks) else "end_turn"
    return [
        *events,
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]


def _responses(blocks: Sequence[Block], ids: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": _response("in_progress", [])}]
    items = []
    for place, (kind, pieces) in enumerate(blocks):
        whole = "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        at: dict[str, Any] = {"output_index": place, "item_id": f"item_{place}"}
        match kind:
            case "text":
                event = "response.output_text"
                at["content_index"] = 0
                content = [{"type": "output_text", "text": whole, "annotations": []}]
                item: dict[str, Any] = {"type": "message", "role": "assistant", "content": content}
                empty = {**item, "content": []}
            case "reasoning":
                event = "response.reasoning_summary_text"
                at["summary_index"] = 0
                summary = [{"type": "summary_text", "text": whole}]
                item = {"type": "reasoning", "summary": summary, "encrypted_content": "gAAA="}
                empty = {**item, "summary": []}
            case _:
                event = "response.function_call_arguments"
                item = {
                    "type": "function_call",
                    "call_id": f"call_{ids}{place}",
                    "name": kind,
                    "arguments": whole,
                }
                empty = {**item, "arguments": ""}
        named = {"id": f"item_{place}", "status": "completed"}
        events.append(
            {"type": "response.output_item.added", "output_index": place, "item": {**named, **empty}}
        )
        events += [{"type": f"{event}.delta", **at, "delta": piece} for piece in pieces]
        said = "arguments" if _is_call(kind) else "text"
        events.append({"type": f"{event}.done", **at, said: whole})
        events.append({"type": "response.output_item.done", "output_index": place, "item": {**named, **item}})
        items.append({**named, **item})
    return [*events, {"type": "response.completed", "response": _response("completed", items)}]


def _response(status: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18} if items else None
    return {
        "id": "r1",
        "object": "response",
        "model": "m-1",
        "status": status,
        "output": items,
        "usage": usage,
    }


def _gemini(blocks: Sequence[Block], ids: str) -> list[dict[str, Any]]:
    def chunk(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
        content = {"role": "model", "parts": list(parts)}
        return {
            "candidates": [{"content": content, "index": 0, **more}],
            "modelVersion": "m-1",
            "responseId": "r1",
        }

    events = []
    for place, (kind, pieces) in enumerate(blocks):
        match kind:
            case "text":
                events += [chunk({"text": piece}) for piece in pieces]
            case "reasoning":
                events += [chunk({"text": piece, "thought": True}) for piece in pieces]
            case _:  # calls come whole
                call = {"id": f"call_{ids}{place}", "name": kind, "args": json.loads("".join(pieces))}
                events.append(chunk({"functionCall": call, "thoughtSignature": "c2ln"}))
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
    return [*events, {**chunk({"text": ""}, finishReason="STOP"), "usageMetadata": usage}]


_EVENTS = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic_messages": _anthropic,
    "gemini": _gemini,
}
