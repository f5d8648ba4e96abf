"""The typed parts of a message's content, and the opaque data that a provider wants back.

`extra` on any struct holds the keys that this version does not know: the bytes of one JSON object, or None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Raw, Struct

__all__ = [
    "AudioPart",
    "Content",
    "Extra",
    "FilePart",
    "ImagePart",
    "OpaquePart",
    "Origin",
    "Part",
    "Replay",
    "TextPart",
    "content_text",
]

if TYPE_CHECKING:
    Extra: TypeAlias = Raw | None
    """The keys of a message or part that have no field, as the bytes of one JSON object; None: none."""
else:
    # msgspec decodes `Raw | None` as None alone and refuses everything else; None stays the default.
    Extra = Raw


class TextPart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="text"):
    """A run of text."""

    text: str
    """May be empty, which some hosts refuse."""
    extra: Extra = None
    """Keys that have no field here, as JSON bytes, kept for the way back; None: there were none."""


class ImagePart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="image"):
    """An image by address: `https://...`, or `data:<media type>;base64,...` for the bytes themselves."""

    url: str
    """As the caller gave it: nothing is fetched here."""
    detail: str | None = None
    """How closely to look (`low`, `high`, `auto`), where the host takes it."""
    extra: Extra = None
    """Keys that have no field here, as JSON bytes, kept for the way back; None: there were none."""


class AudioPart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="audio"):
    """Sound, base64 encoded, in `format` (`wav`, `mp3`, ...)."""

    data: str
    """The bytes as base64, without a `data:` head."""
    format: str
    extra: Extra = None
    """Keys that have no field here, as JSON bytes, kept for the way back; None: there were none."""


class FilePart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="file"):
    """A file: by the host's id, or with its bytes as a `data:` address in `data`."""

    file_id: str | None = None
    """Of a file that was given to the host before; it means nothing to another host."""
    filename: str | None = None
    """The name that the model is told."""
    data: str | None = None
    extra: Extra = None
    """Keys that have no field here, as JSON bytes, kept for the way back; None: there were none."""


class OpaquePart(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="opaque"):
    """A part of a kind that this version does not know, kept as the JSON bytes that came."""

    raw: Raw
    """The whole part, its `type` included."""


Part = TextPart | ImagePart | AudioPart | FilePart | OpaquePart
"""One piece of content. `OpaquePart` holds a kind that this version does not know, as it came."""
Content = str | tuple[Part, ...]
"""What a message says: a text, or parts in order."""


class Origin(Struct, frozen=True, gc=False):
    """Where a response came from. Replay data is only sent back to the origin that made it."""

    provider: str
    """Its name here, such as `openrouter`."""
    host: str
    """The machine that answered, as in its address."""
    model: str
    """The model that was asked."""


class Replay(Struct, frozen=True, gc=False):
    """What a provider wants back with the next request: its own blocks, in its order, byte for byte.

    `wire` names the format of the blocks (`openai_chat`, `anthropic_messages`, ...). Interleaved thinking
    is rebuilt from here, never from the text fields.
    """

    origin: Origin
    """To another one the blocks are not sent."""
    wire: str
    blocks: tuple[Raw, ...]


def content_text(content: Content | None) -> str:
    """The text of a message's content, its text parts joined; "" when there is none."""
    match content:
        case None:
            return ""
        case str():
            return content
        case _:
            return "".join(part.text for part in content if isinstance(part, TextPart))
