"""The text rules of trajectory rows: escaping of the format's own tags, reasoning in text, stubs for media.

A tag inside text gets a backslash behind its `<` (`<\\think>`), one more if it has some already, and loses
one when read. Only tags that mean something in that kind of row are touched, so that a system prompt may
speak of `<think>` as it is. Inside JSON the `<` of a tag is written `\\u003c`, as JSON allows.
"""

from __future__ import annotations

import json
import re
from typing import Final

from hermes_messages.argument_text import JsonValue
from hermes_messages.hygiene import replace_surrogates
from hermes_messages.parts import AudioPart, Content, FilePart, ImagePart, OpaquePart, Part, TextPart

__all__ = [
    "GPT_TAGS",
    "SYSTEM_TAGS",
    "TagEscape",
    "content_with_stubs",
    "split_scratchpad",
    "to_json",
    "without_scratchpad_tags",
]

_TAG_IN_JSON: Final = re.compile(r"<(?=/?(?:think|tools|tool_call|tool_response)>)")


class TagEscape:
    """Escaping of a set of tags in text; `restored(escaped(text)) == text` for every text."""

    __slots__ = ("_any", "_escaped")

    def __init__(self, *names: str) -> None:
        tag = rf"/?(?:{'|'.join(names)})>"
        self._any = re.compile(rf"<(?=\\*{tag})")
        self._escaped = re.compile(rf"<\\(?=\\*{tag})")

    def escaped(self, text: str) -> str:
        """`text` in which no such tag is left."""
        return self._any.sub(r"<\\", text) if "<" in text else text

    def restored(self, text: str) -> str:
        """The text that was escaped."""
        return self._escaped.sub("<", text) if "<\\" in text else text


SYSTEM_TAGS: Final = TagEscape("tools")
GPT_TAGS: Final = TagEscape("think", "tool_call")


_encoder: Final = json.JSONEncoder(ensure_ascii=False)


def to_json(value: JsonValue) -> str:
    """`value` as JSON with characters as they are, save the `<` of the format's own tags."""
    text = _encoder.encode(value)
    return replace_surrogates(_TAG_IN_JSON.sub(r"\\u003c", text) if "<" in text else text)


_SCRATCHPAD: Final = re.compile(
    r"(?:\A|(?<=\n))[ \t]*<REASONING_SCRATCHPAD>\n?(.*?)(?:\n?</REASONING_SCRATCHPAD>[ \t]*\n*|\Z)", re.DOTALL
)
_SCRATCHPAD_TAG: Final = re.compile(r"</?REASONING_SCRATCHPAD>\n?")


def split_scratchpad(text: str) -> tuple[str | None, str]:
    """The reasoning that `text` holds in scratchpad tags, and the rest.

    Models that are told to reason in `<REASONING_SCRATCHPAD>` open it on a line of its own; one that was
    never closed reaches to the end. The tag elsewhere, as in prose about it, is text.
    """
    if "<REASONING_SCRATCHPAD>" not in text:
        return None, text
    found = _SCRATCHPAD.findall(text)
    if not found:
        return None, text
    return "\n".join(found), _SCRATCHPAD.sub("", text)


def without_scratchpad_tags(reasoning: str) -> str:
    """Reasoning that came in scratchpad tags, without them; other reasoning as it is."""
    if not reasoning.lstrip().startswith("<REASONING_SCRATCHPAD>"):
        return reasoning
    return _SCRATCHPAD_TAG.sub("", reasoning).strip("\n")


def content_with_stubs(content: Content | None) -> str:
    """The text of `content`, with a line like `[image: https://...]` where something else stands."""
    if content is None or isinstance(content, str):
        return content or ""
    text = ""
    after_stub = False
    for part in content:
        is_stub = not isinstance(part, TextPart)
        piece = _stub(part) if is_stub else part.text  # type: ignore[union-attr]
        if text and piece and (is_stub or after_stub) and not text.endswith("\n"):
            text += "\n"
        text += piece
        after_stub = is_stub
    return text


def _stub(part: Part) -> str:
    match part:
        case TextPart():
            return part.text
        case ImagePart():
            return f"[image: {_address(part.url)}]"
        case AudioPart():
            return f"[audio: {part.format}]"
        case FilePart():
            return f"[file: {part.filename or part.file_id or _address(part.data or '')}]"
        case OpaquePart():
            return "[content of another kind]"


def _address(url: str) -> str:
    """An address as it is; of inline data only the media type."""
    if not url.startswith("data:"):
        return url
    return url[len("data:") :].partition(",")[0].partition(";")[0] or "data"
