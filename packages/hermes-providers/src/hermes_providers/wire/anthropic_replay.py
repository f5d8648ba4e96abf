"""An assistant message rebuilt from the blocks that its host sent, for the request copy.

The document "Preserved thinking" (platform.claude.com/docs/en/build-with-claude/preserved-thinking) and
"Thinking in tool and multi-turn workflows" demand that thinking blocks go back unchanged, all of them, in
their order among the calls. Text and arguments are the message's own, so that nothing that was edited or
refused since comes back to life. What only a response may hold is left out ("Extra inputs are not
permitted").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw

from hermes_messages import AssistantMessage, ToolCall
from hermes_messages.parts import Origin, Replay, content_text
from hermes_providers.wire.anthropic_quirks import WIRE, AnthropicQuirks
from hermes_providers.wire.joined_text import JoinedText

__all__ = ["begins_with_thinking", "own_blocks", "rebuilt", "sent_blocks", "text_of"]

Block = dict[str, Raw]

_SENT: dict[str, tuple[str, ...]] = {
    "thinking": ("type", "thinking", "signature"),
    "redacted_thinking": ("type", "data"),
    "text": ("type", "text", "citations"),
    "server_tool_use": ("type", "id", "name", "input", "caller"),
    "web_search_tool_result": ("type", "tool_use_id", "content", "caller"),
    "web_fetch_tool_result": ("type", "tool_use_id", "content", "caller"),
}
"""The fields that a request may hold, by type of block ("Create a Message", API reference). Blocks of other
types, which newer server tools make, go back as they came."""

_blocks_decoder: msgspec.json.Decoder[Block] = msgspec.json.Decoder(Block)
_string_decoder: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)


def own_blocks(replay: Replay | None, quirks: AnthropicQuirks, origin: Origin) -> list[Block] | None:
    """The blocks of a message that may go to `origin`; None when there are none or another made them."""
    if replay is None or replay.wire != WIRE or not _may_go(replay.origin, quirks, origin):
        return None
    try:
        return [_blocks_decoder.decode(raw) for raw in replay.blocks]
    except msgspec.DecodeError:  # stored by something else under our name
        return None


def begins_with_thinking(blocks: Sequence[Block] | None, quirks: AnthropicQuirks) -> bool:
    """Whether the message that these blocks make begins with a thinking block."""
    for block in blocks or ():
        kind = text_of(block, "type")
        if kind in {"thinking", "redacted_thinking"} and _is_sendable(block, kind, quirks):
            return True
        if kind != "text" or text_of(block, "text").strip():
            return False
    return False


def rebuilt(
    blocks: Sequence[Block],
    message: AssistantMessage,
    quirks: AnthropicQuirks,
    call_block: Callable[[ToolCall], object],
) -> list[object]:
    """The content of `message` in the order of `blocks`, with the text and the calls of the message."""
    text = content_text(message.content)
    keep_text = text == _whole_text(blocks)
    calls = _calls_by_place(blocks, message.tool_calls)
    wired: list[object] = []
    text_at: int | None = None
    for place, block in enumerate(blocks):
        kind = text_of(block, "type")
        if kind == "text" and not keep_text:
            text_at = len(wired) if text_at is None else text_at
        elif kind == "tool_use":
            call = calls.pop(place, None)
            if call is not None:
                wired.append(call_block(call))
        elif _is_sendable(block, kind, quirks):
            wired.append(_sent(block, kind))
    if not keep_text and text.strip():
        place = text_at if text_at is not None else _first_not_thinking(wired)
        wired.insert(place, {"type": "text", "text": text})
    wired.extend(call_block(call) for call in calls.values())
    return wired


def sent_blocks(blocks: Sequence[Raw]) -> list[Block]:
    """Blocks of a response that was paused, as the next request may hold them."""
    known = [(block, text_of(block, "type")) for block in map(_blocks_decoder.decode, blocks)]
    return [_sent(block, kind) for block, kind in known if _is_sendable(block, kind, AnthropicQuirks())]


def text_of(block: Block, field: str) -> str:
    """A field that is a string; "" for anything else."""
    raw = block.get(field)
    if raw is None:
        return ""
    try:
        return _string_decoder.decode(raw)
    except msgspec.DecodeError:
        return ""


def _may_go(made_by: Origin, quirks: AnthropicQuirks, origin: Origin) -> bool:
    match quirks.replay:
        case "any":
            return True
        case "same_host":
            return (made_by.provider, made_by.host) == (origin.provider, origin.host)
        case "same_model":
            return made_by == origin


def _is_sendable(block: Block, kind: str, quirks: AnthropicQuirks) -> bool:
    if kind == "text":
        return bool(text_of(block, "text").strip())
    if kind == "thinking":  # cut off before its signature: the host would refuse it
        return quirks.unsigned_thinking or bool(text_of(block, "signature"))
    return bool(kind)


def _sent(block: Block, kind: str) -> Block:
    names = _SENT.get(kind)
    if names is None:
        return block
    return {name: block[name] for name in names if name in block and bytes(block[name]) != b"null"}


def _whole_text(blocks: Sequence[Block]) -> str:
    joined, pieces = JoinedText(), []
    for block in blocks:
        if text_of(block, "type") == "text":
            pieces.append(joined.add(text_of(block, "text")))
        else:
            joined.interrupt()
    return "".join(pieces)


def _calls_by_place(blocks: Sequence[Block], calls: Sequence[ToolCall]) -> dict[int, ToolCall]:
    """Which call stands in which block. Calls that got another id than the host's take the free places in
    order; places of calls that were not taken into the message stay empty. Calls without a place follow."""
    places = [place for place, block in enumerate(blocks) if text_of(block, "type") == "tool_use"]
    waiting = list(calls)
    found: dict[int, ToolCall] = {}
    for place in places:
        own_id = text_of(blocks[place], "id")
        call = next((call for call in waiting if call.id == own_id), None)
        if call is not None:
            waiting.remove(call)
            found[place] = call
    for place in places:
        if place not in found and waiting:
            found[place] = waiting.pop(0)
    return found | {len(blocks) + rest: call for rest, call in enumerate(waiting)}


def _first_not_thinking(wired: Sequence[object]) -> int:
    for place, block in enumerate(wired):
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, Raw) or bytes(kind) not in {b'"thinking"', b'"redacted_thinking"'}:
            return place
    return len(wired)
