"""What a tool result says on a wire whose results hold text, and images at most."""

from __future__ import annotations

from itertools import groupby

import msgspec

from hermes_messages.parts import (
    AudioPart,
    Content,
    FilePart,
    ImagePart,
    OpaquePart,
    Part,
    TextPart,
    content_text,
)

__all__ = ["foreign_kind", "result_text"]

_LONGEST = 2_000
_NOT_SHOWN = "(a part of another form: it can not be sent to this host)"


class _Foreign(msgspec.Struct, frozen=True):
    type: str | None = None
    text: str | None = None


_decoder = msgspec.json.Decoder(_Foreign)


def result_text(content: Content) -> str:
    """The text of `content`, and in its place a line for each part that is neither text nor an image: a
    result that holds nothing else must not look like one without output."""
    if isinstance(content, str):
        return content
    told: list[str] = []
    for is_text, together in groupby(content, lambda part: isinstance(part, TextPart | ImagePart)):
        parts = tuple(together)
        told += [content_text(parts)] if is_text else map(_line, parts)
    return "\n".join(text for text in told if text.strip())


def _line(part: Part) -> str:
    match part:
        case AudioPart(format=kind):
            return f"(a sound, {kind}: it can not be sent to this host)"
        case FilePart(filename=name, file_id=file_id):
            return f"(file {name or file_id or 'without a name'}: it can not be sent to this host)"
        case OpaquePart(raw=raw):
            return _foreign_text(bytes(raw))
        case _:
            return content_text((part,))


def _foreign_text(raw: bytes) -> str:
    """A part in a form of another host as text: its own, or itself where it is short (a long one is data)."""
    text = _read(raw).text
    if text is not None:
        return text
    return raw.decode("utf-8", "replace") if len(raw) <= _LONGEST else _NOT_SHOWN


def foreign_kind(raw: bytes) -> str:
    """What such a part says it is; "" where it does not."""
    return _read(raw).type or ""


def _read(raw: bytes) -> _Foreign:
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        return _Foreign()
