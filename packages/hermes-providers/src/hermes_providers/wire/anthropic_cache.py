"""Segments to the messages of a body, with cache markers at the joints.

"Prompt caching" (platform.claude.com/docs/en/build-with-claude/prompt-caching): a marker caches the whole
prefix (tools, then system, then messages) up to its block; a request may have four; a request finds what an
earlier one cached at most 20 blocks before one of its markers. So markers stand on the last tool, on the
system text, on the newest block, and on the end of the segment before it, where the request before had its
own. Markers are no part of the cached segments: they are put in here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hermes_providers.wire.anthropic_blocks import HEADER_LENGTH

__all__ = ["MAX_MARKERS", "join_messages", "marked", "marker_bytes", "marker_places"]

MAX_MARKERS = 4
_MARKERS_IN_MESSAGES = 2
_OPEN = {b"u": b'{"role":"user","content":[', b"a": b'{"role":"assistant","content":['}
_BEGINNING = b'{"role":"user","content":[{"type":"text","text":"(the conversation begins)"}]},'


def marker_bytes(ttl: Literal["5m", "1h"]) -> bytes:
    """The marker as it is put in front of a block's last brace."""
    return b',"cache_control":{"type":"ephemeral"%b}' % (b"" if ttl == "5m" else b',"ttl":"1h"')


def marked(block: bytes, marker: bytes) -> bytes:
    """A block, or several joined ones, with a marker on the last."""
    return block[:-1] + marker + b"}" if marker else block


def marker_places(segments: Sequence[bytes], left: int) -> frozenset[int]:
    """Which segments end in a marked block, when `left` markers may still be used."""
    places: list[int] = []
    for place in range(len(segments) - 1, -1, -1):
        if len(places) >= min(left, _MARKERS_IN_MESSAGES):
            break
        if segments[place][2:HEADER_LENGTH] == b"+":
            places.append(place)
    return frozenset(places)


def join_messages(
    segments: Sequence[bytes], places: frozenset[int], marker: bytes
) -> list[bytes | memoryview]:
    """The messages as pieces to be joined: neighbours of the same role as one message, the first a user's."""
    pieces: list[bytes | memoryview] = []
    role = b""
    for place, segment in enumerate(segments):
        begins = segment[:1]
        if begins == role:
            pieces.append(b",")
        elif role:
            pieces.append(b"]}," + _OPEN[begins])
        else:  # "first message must use the \"user\" role"
            pieces.append(_OPEN[begins] if begins == b"u" else _BEGINNING + _OPEN[begins])
        blocks = memoryview(segment)[HEADER_LENGTH:]
        pieces += [blocks[:-1], marker, b"}"] if place in places else [blocks]
        role = segment[1:2]
    pieces.append(b"]}")
    return pieces
