"""The chunk of which a long answer is nearly made, typed: a piece of text, and nothing else that counts.

Whatever is not exactly this does not decode, and is read by the tolerant reader.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, Protocol, cast

import msgspec

__all__ = ["TextChunkRead", "text_decoder"]


class _Delta(Protocol):
    content: str


class _Choice(Protocol):
    delta: _Delta


class TextChunkRead(Protocol):
    """What is read: one piece of text in each choice."""

    id: str | None
    model: str | None
    choices: list[_Choice]


@lru_cache(maxsize=32)
def text_decoder(absent: tuple[str, ...]) -> Callable[[bytes], TextChunkRead]:
    """Decodes chunks whose deltas have no fields `absent`. Raises `msgspec.MsgspecError` for others."""
    names = dict.fromkeys(("refusal", "tool_calls", *filter(None, absent)))
    delta = msgspec.defstruct("TextDelta", [("content", str), *((name, None, None) for name in names)])
    nothing: list[tuple[str, object, object]] = [
        ("message", None, None),
        ("usage", None, None),
        ("error", None, None),
    ]
    choice = msgspec.defstruct(
        "TextChoice",
        [("delta", delta), ("index", Literal[0], 0), ("finish_reason", Literal[""] | None, None), *nothing],
    )
    chunk = msgspec.defstruct(
        "TextChunk",
        [
            ("choices", list[choice]),  # type: ignore[valid-type]
            ("id", str | None, None),
            ("model", str | None, None),
            ("object", Literal["chat.completion.chunk", ""] | None, None),
            ("usage", None, None),
            ("error", None, None),
            ("detail", None, None),
            ("x_groq", None, None),
        ],
    )
    return cast("Callable[[bytes], TextChunkRead]", msgspec.json.Decoder(chunk).decode)
