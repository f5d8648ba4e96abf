"""Messages to Gemini contents: one segment of a history to JSON bytes, and segments to one list.

"Content" and "Part" (ai.google.dev/api/caching). Nothing is changed in the messages: what the host needs to
be different is different in the request copy only.

A segment is its contents as JSON between two letters, the roles of the first and of the last one (`u`, `m`;
`U` for a user's own turn), because contents of one role that follow each other are joined into one. The byte
NO_SIGNATURE in it, which no JSON text holds, marks a first call of a step that came without a thought
signature: whether that call needs one depends on the turn that is current when the request is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Raw, Struct

from hermes_messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from hermes_messages.parts import Content, ImagePart, OpaquePart, Origin, Part, TextPart, content_text
from hermes_messages.stable_bytes import JoinedHistory
from hermes_messages.transcript_rules import is_blank
from hermes_providers.profiles import ToolNameRule
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.gemini_media import media_part
from hermes_providers.wire.gemini_replay import own_parts, sent_part
from hermes_providers.wire.result_text import result_text
from hermes_providers.wire.tool_names import wire_tool_name
from hermes_providers.wire.valid_arguments import valid_arguments

__all__ = ["ModelRules", "encode_segment", "joint", "signatures"]

_SYSTEM_SEGMENT = b"s"
"""Stands for a system message, which has a place of its own in the body."""

NO_SIGNATURE = b"\x00"
_DUMMY = b'"thoughtSignature":"skip_thought_signature_validator",'
"""The value that "Thought signatures" (FAQ, transferring history from a different model) names for calls that
no Gemini model made."""

JsonDict = dict[str, object]

_HEADS = {"user": b'{"role":"user","parts":[', "model": b'{"role":"model","parts":['}
_END = b"]}"
_LETTERS = {"user": b"u", "model": b"m"}
_OF_USER = frozenset((b"U", b"u", b"v"))
_UNSIGNED_LETTERS = (b"v", b"n")
_UNSIGNED = bytes.maketrans(b"um", b"vn")
_NO_OUTPUT = "(no output)"
_NO_TEXT = "(empty message)"


class ModelRules(Struct, frozen=True):
    """What the model wants: ids on calls, images inside of results, signatures on calls, names of tools."""

    ids: bool
    tool_images: bool
    signatures: bool
    tool_names: ToolNameRule


def encode_segment(messages: Sequence[Message], rules: ModelRules, origin: Origin) -> bytes:
    """One segment; b"" when nothing of it is to be sent. `origin` is where the request goes."""
    first = messages[0]
    match first:
        case SystemMessage():
            return _SYSTEM_SEGMENT
        case UserMessage():
            return b"U" + _user_turn([m for m in messages if isinstance(m, UserMessage)]) + b"u"
        case AssistantMessage() | ToolMessage():
            return _round(messages, rules, origin)


def joint(before: bytes, segment: bytes) -> tuple[bytes, bytes]:
    """Neighbours of one role become one content; what ends the last one is left to who sends it.

    A segment's letter is `U` for a user's own turn, else the role that it ends with: `u` and `m`, or `v` and
    `n` where it holds NO_SIGNATURE.
    """
    begins, inside, ends = segment[:1], segment[1 : -1 - len(_END)], segment[-1:]
    role = begins.lower()
    if before and (role == b"u") == (before in _OF_USER):
        inside = b"," + inside[len(_HEADS["user" if role == b"u" else "model"]) :]
    elif before:
        inside = _END + b"," + inside
    if begins == b"U":
        return inside, begins
    return inside, ends.translate(_UNSIGNED) if NO_SIGNATURE in segment else ends


def signatures(joined: JoinedHistory) -> list[tuple[int, int, bytes]]:
    """The edits that give the dummy to calls of the current turn that need a signature; earlier ones need
    none."""
    last = max(joined.find_last(letter) for letter in _UNSIGNED_LETTERS)
    if last < 0:
        return []
    turn = joined.find_last(b"U")
    begins = joined.stop(turn) if turn >= 0 else 0
    earlier, current = joined.read(0, begins), joined.read(begins, joined.size)
    return [
        (0, begins, earlier.replace(NO_SIGNATURE, b"")),
        (begins, joined.size, current.replace(NO_SIGNATURE, _DUMMY)),
    ]


def _content(role: str, parts: Iterable[bytes]) -> bytes:
    return _HEADS[role] + b",".join(parts) + b"]}"


def _user_turn(messages: Sequence[UserMessage]) -> bytes:
    parts = [part for message in messages for part in _content_parts(message.content)]
    return _content("user", map(dump, parts or [{"text": _NO_TEXT}]))


def _content_parts(content: Content) -> list[object]:
    if isinstance(content, str):
        return [{"text": content}] if content.strip() else []
    return [wired for wired in map(_part, content) if wired is not None]


def _part(part: Part) -> object | None:
    match part:
        case TextPart():
            return {"text": part.text} if part.text.strip() else None
        case OpaquePart():
            return part.raw  # a host's own kind of part, which the user wrote for that host
        case _:
            return media_part(part)


def _round(messages: Sequence[Message], rules: ModelRules, origin: Origin) -> bytes:
    """An assistant message as one content of the model, and all its results as one of the user."""
    said: list[bytes] = []
    results: list[object] = []
    behind: list[object] = []
    names: dict[str, str] = {}
    anonymous: set[str] = set()
    for message in messages:
        match message:
            case AssistantMessage() if not is_blank(message):
                names = {call.id: call.name for call in message.tool_calls}
                said, anonymous = _assistant(message, rules, origin)
            case ToolMessage():
                call_id = message.tool_call_id
                shown = rules.ids and call_id not in anonymous
                result, images = _result(message, names.get(call_id), rules, with_id=shown)
                results.append(result)
                behind += images
            case _:
                pass
    contents = [("model", said), ("user", [dump(part) for part in (*results, *behind)])]
    told = [(role, parts) for role, parts in contents if parts]
    if not told:
        return b""
    joined = b",".join(_content(role, parts) for role, parts in told)
    return _LETTERS[told[0][0]] + joined + _LETTERS[told[-1][0]]


def _assistant(message: AssistantMessage, rules: ModelRules, origin: Origin) -> tuple[list[bytes], set[str]]:
    """The parts of a message, and the ids of its calls that have none on the wire."""
    own = own_parts(message, origin, rules.tool_names)
    if own is None:
        return _rebuilt(message, rules), set()
    parts: list[bytes] = []
    calls = iter(message.tool_calls)
    anonymous: set[str] = set()
    unsigned = rules.signatures
    for part, raw in own:
        encoded = dump(sent_part(raw, with_id=rules.ids))
        if part.function_call is not None:
            call = next(calls)
            if part.function_call.id is None:
                anonymous.add(call.id)
            if unsigned and not part.thought_signature:
                encoded = _marked(encoded)
            unsigned = False
        parts.append(encoded)
    return parts, anonymous


def _rebuilt(message: AssistantMessage, rules: ModelRules) -> list[bytes]:
    """The message from its own fields, without thoughts and signatures."""
    text = content_text(message.content)
    if not text.strip():
        text = message.refusal or ""
    parts: list[bytes] = []
    if text.strip() or not message.tool_calls:
        parts.append(dump({"text": text if text.strip() else _NO_TEXT}))
    for place, call in enumerate(message.tool_calls):
        fields: JsonDict = {"id": call.id} if rules.ids else {}
        fields |= {
            "name": wire_tool_name(call.name, rules.tool_names),
            "args": Raw(valid_arguments(call.arguments)),
        }
        encoded = dump({"functionCall": fields})
        parts.append(_marked(encoded) if rules.signatures and place == 0 else encoded)
    return parts


def _marked(part: bytes) -> bytes:
    return part[:1] + NO_SIGNATURE + part[1:]


def _result(
    message: ToolMessage, name: str | None, rules: ModelRules, *, with_id: bool
) -> tuple[JsonDict, list[object]]:
    """A result, and the images that stand behind all results.

    "FunctionResponse" (ai.google.dev/api/caching): the keys "output" and "error" tell what happened.
    """
    content = message.content
    text = result_text(content)
    images = [] if isinstance(content, str) else [part for part in content if isinstance(part, ImagePart)]
    inside = [image for image in images if rules.tool_images and image.url.startswith("data:")]
    if not text.strip():
        text = "(image)" if images else _NO_OUTPUT
    fields: JsonDict = {"id": message.tool_call_id} if with_id else {}
    key = "output" if message.status == "ok" else "error"
    called = wire_tool_name(name or message.name or "unknown", rules.tool_names)
    fields |= {"name": called, "response": {key: text}}
    if inside:
        fields["parts"] = [media_part(image) for image in inside]
    return {"functionResponse": fields}, [media_part(image) for image in images if image not in inside]
