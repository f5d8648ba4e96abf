"""The chunks of which nearly all answers are made, typed: text, calls, the finish, the usage.

Whatever is not exactly this does not decode, and is read by the tolerant reader.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, Protocol, cast

import msgspec
from msgspec import Struct

from hermes_providers.usage import TypedUsage

__all__ = ["TypedCall", "TypedChunk", "chunk_decoder"]


class _Function(Struct, frozen=True, gc=False):
    name: str | None = None
    arguments: str | None = None


class TypedCall(Struct, frozen=True, gc=False):
    """A fragment of a call."""

    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Delta(Protocol):
    content: str | None
    tool_calls: list[TypedCall] | None


class _Choice(Protocol):
    delta: _Delta
    finish_reason: str | None


class TypedChunk(Protocol):
    """What is read."""

    id: str | None
    model: str | None
    usage: TypedUsage | None
    choices: list[_Choice]


@lru_cache(maxsize=32)
def chunk_decoder(absent: tuple[str, ...]) -> Callable[[bytes], TypedChunk]:
    """Decodes chunks whose deltas have no fields `absent`. Raises `msgspec.MsgspecError` for others."""
    names = dict.fromkeys(("refusal", *filter(None, absent)))
    delta = msgspec.defstruct(
        "TypedDelta",
        [
            ("content", str | None, None),
            ("tool_calls", list[TypedCall] | None, None),
            *((name, None, None) for name in names),
        ],
    )
    nothing: list[tuple[str, object, object]] = [
        ("message", None, None),
        ("usage", None, None),
        ("error", None, None),
    ]
    choice = msgspec.defstruct(
        "TypedChoice",
        [("delta", delta), ("index", Literal[0], 0), ("finish_reason", str | None, None), *nothing],
    )
    chunk = msgspec.defstruct(
        "TypedChunk",
        [
            ("choices", list[choice]),  # type: ignore[valid-type]
            ("id", str | None, None),
            ("model", str | None, None),
            ("object", Literal["chat.completion.chunk", ""] | None, None),
            ("usage", TypedUsage | None, None),
            ("error", None, None),
            ("detail", None, None),
            ("x_groq", None, None),
        ],
    )
    return cast("Callable[[bytes], TypedChunk]", msgspec.json.Decoder(chunk).decode)
