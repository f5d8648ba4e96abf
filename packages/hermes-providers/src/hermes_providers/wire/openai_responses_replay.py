"""The output items of an earlier response, for sending them back to the host that made them.

"Reasoning models: keeping reasoning items in context" and "Conversation state: manually manage"
(developers.openai.com/api/docs/guides): the items of a response go back as they came and in their order, all
or none. A reasoning item without the item that followed it, or an item without the reasoning in front of it,
is refused ("... was provided without its required following item"). Nothing is stored at the host, so a
reasoning item without encrypted content could not be found there.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from hermes_messages import AssistantMessage
from hermes_messages.parts import Origin, content_text
from hermes_providers.wire.joined_text import JoinedText
from hermes_providers.wire.openai_responses_quirks import WIRE, ResponsesQuirks
from hermes_providers.wire.tool_names import wire_tool_name

__all__ = ["OutputItem", "OutputPart", "own_items", "read_item"]

_SENT: dict[str, tuple[str, ...]] = {
    "reasoning": ("type", "id", "summary", "content", "encrypted_content", "status"),
    "message": ("type", "id", "role", "content", "status", "phase"),
    "function_call": ("type", "id", "call_id", "name", "namespace", "arguments", "caller", "status"),
}
"""The fields that an input item may hold ("Create a response", API reference: `input`), by its type. Items of
other types, which hosted tools make, go back as they came."""

_EMPTY_LIST = Raw(b"[]")


class OutputPart(msgspec.Struct, frozen=True):
    """A part of the content of a message item, or of a reasoning item's content or summary."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class OutputItem(msgspec.Struct, frozen=True):
    """The fields of an output item that matter here; all may be missing."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[OutputPart] | None = None
    summary: list[OutputPart] | None = None
    encrypted_content: str | None = None


_item_decoder = msgspec.json.Decoder(OutputItem)
_fields_decoder: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


def read_item(raw: Raw | bytes) -> OutputItem | None:
    """The item, or None for something of another shape."""
    try:
        return _item_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def own_items(message: AssistantMessage, quirks: ResponsesQuirks, origin: Origin) -> list[object] | None:
    """The items of `message` as input items; None when they may not, or need not, go to `origin`.

    They may when `origin` made them, the host can read them again, and they still say what the message says:
    text or calls that were edited, cut or refused since do not come back to life.
    """
    replay = message.replay
    if replay is None or replay.wire != WIRE or replay.origin != origin or quirks.replay == "never":
        return None
    items = [read_item(block) for block in replay.blocks]
    known = [item for item in items if item is not None]
    if not known or len(known) != len(items) or not _says_the_same(known, message, quirks):
        return None
    if quirks.replay == "encrypted" and not _can_be_read_again(known):
        return None
    return [_sent(block, item.type) for block, item in zip(replay.blocks, known, strict=True)]


def _says_the_same(items: Sequence[OutputItem], message: AssistantMessage, quirks: ResponsesQuirks) -> bool:
    calls = [(item.call_id, item.name, item.arguments) for item in items if item.type == "function_call"]
    named = [(call, wire_tool_name(call.name, quirks.tool_names)) for call in message.tool_calls]
    if calls != [(call.id, name, call.arguments) for call, name in named]:
        return False
    return _text_of(items).strip() == content_text(message.content).strip()


def _text_of(items: Sequence[OutputItem]) -> str:
    joined, pieces = JoinedText(), []
    for item in items:
        joined.interrupt()
        if item.type == "message":
            pieces += [joined.add(part.text) for part in item.content or () if part.text]
    return "".join(pieces)


def _can_be_read_again(items: Sequence[OutputItem]) -> bool:
    if items[-1].type == "reasoning":  # cut off behind it: its required following item never came
        return False
    return all(item.encrypted_content for item in items if item.type == "reasoning")


def _sent(block: Raw, kind: str) -> object:
    names = _SENT.get(kind)
    if names is None:
        return block
    fields = _fields_decoder.decode(block)
    sent = {name: fields[name] for name in names if name in fields and bytes(fields[name]) != b"null"}
    if kind == "reasoning":  # required, also when it is empty
        sent.setdefault("summary", _EMPTY_LIST)
    return sent
