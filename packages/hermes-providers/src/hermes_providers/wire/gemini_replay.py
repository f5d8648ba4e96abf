"""The parts of an earlier response, kept for the next request and sent back as they came.

"Thought signatures" (ai.google.dev/gemini-api/docs/thought-signatures): a signature goes back in exactly the
part in which it came; parts with a signature are not joined with others, nor two of them with each other;
the parts of one response stay one content.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from hermes_messages import AssistantMessage
from hermes_messages.parts import Origin, content_text
from hermes_providers.profiles import ToolNameRule
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.streaming.json_text import read_tolerantly
from hermes_providers.wire.gemini_quirks import WIRE
from hermes_providers.wire.tool_names import wire_tool_name

__all__ = [
    "KeptParts",
    "ResponseCall",
    "ResponsePart",
    "arguments_text",
    "own_parts",
    "read_part",
    "sent_part",
]

_SENT = (
    "thought",
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "thoughtSignature",
)
"""The fields of a part that a request may hold ("Part", ai.google.dev/api/caching#Part)."""

_SENT_OF_CALL = ("id", "name", "args")


class ResponseCall(msgspec.Struct, frozen=True):
    """A call in a part. `args` are the bytes that came."""

    name: str | None = None
    id: str | None = None
    args: Raw = Raw()


class ResponsePart(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a part that matter here; all may be missing."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: ResponseCall | None = None


_part_decoder = msgspec.json.Decoder(ResponsePart)
_fields_decoder: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


def arguments_text(call: ResponseCall) -> str:
    """The arguments as they came; a call without any has an empty object."""
    text = bytes(call.args).decode("utf-8", "replace")
    return "{}" if text in {"", "null"} else text


class KeptParts:
    """Collects the parts of a response. Pieces of unsigned text become one part; unsigned thoughts are
    summaries for people, from which the model reads nothing, and are not kept."""

    __slots__ = ("_blocks", "_text")

    def __init__(self) -> None:
        self._blocks: list[Raw] = []
        self._text: list[str] = []

    def add(self, part: ResponsePart, raw: Raw) -> None:
        """One more part."""
        if not part.thought_signature and part.function_call is None and part.text is not None:
            if not part.thought:
                self._text.append(part.text)
            return
        self._close_text()
        self._blocks.append(Raw(bytes(raw)))  # a copy: the chunk around it need not be kept

    def blocks(self) -> list[Raw]:
        """All parts, in their order."""
        self._close_text()
        return self._blocks

    def _close_text(self) -> None:
        text = "".join(self._text)
        if text:
            self._blocks.append(Raw(dump({"text": text})))
        self._text = []


def read_part(raw: Raw) -> tuple[ResponsePart, Raw] | None:
    """A part and its bytes, which have whole characters alone; None for something of another shape."""
    try:
        return _part_decoder.decode(raw), raw
    except (msgspec.DecodeError, UnicodeError):
        pass
    try:
        value = read_tolerantly(bytes(raw))
        whole = Raw(dump(value))
        match value:
            case {"functionCall": {"args": arguments, **call}, **rest}:
                raw_call = {**call, "args": Raw(dump(arguments))}
                return msgspec.convert({**rest, "functionCall": raw_call}, ResponsePart), whole
            case _:
                return msgspec.convert(value, ResponsePart), whole
    except (msgspec.MsgspecError, UnicodeError):
        return None


def own_parts(
    message: AssistantMessage, origin: Origin, names: ToolNameRule
) -> list[tuple[ResponsePart, Raw]] | None:
    """The parts of `message` that `origin` made; None when another made them, or when they no longer say what
    the message says: text or calls that were edited, cut or refused since do not come back to life."""
    replay = message.replay
    if replay is None or replay.wire != WIRE or replay.origin != origin or not replay.blocks:
        return None
    try:
        parts = [(_part_decoder.decode(block), block) for block in replay.blocks]
    except (msgspec.DecodeError, UnicodeError):
        return None
    return parts if _says_the_same([part for part, _ in parts], message, names) else None


def _says_the_same(parts: Sequence[ResponsePart], message: AssistantMessage, names: ToolNameRule) -> bool:
    calls = [part.function_call for part in parts if part.function_call is not None]
    if [(call.name, arguments_text(call)) for call in calls] != [
        (wire_tool_name(call.name, names), call.arguments) for call in message.tool_calls
    ]:
        return False
    if any(own.id not in (None, call.id) for own, call in zip(calls, message.tool_calls, strict=True)):
        return False
    text = "".join(part.text for part in parts if part.text and not part.thought)
    return text.strip() == content_text(message.content).strip()


def sent_part(raw: Raw, *, with_id: bool) -> dict[str, object]:
    """A part as a request may hold it."""
    fields: dict[str, object] = {}
    known = _fields_decoder.decode(raw)
    for name in _SENT:
        value = known.get(name)
        if value is None or bytes(value) == b"null":
            continue
        fields[name] = _sent_call(value, with_id=with_id) if name == "functionCall" else value
    return fields


def _sent_call(raw: Raw, *, with_id: bool) -> dict[str, Raw]:
    known = _fields_decoder.decode(raw)
    names = _SENT_OF_CALL if with_id else _SENT_OF_CALL[1:]
    return {name: known[name] for name in names if name in known and bytes(known[name]) != b"null"}
