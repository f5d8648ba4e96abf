"""Segments to the messages of a body, with cache markers at the joints.

"Prompt caching" (platform.claude.com/docs/en/build-with-claude/prompt-caching): a marker caches the whole
prefix (tools, then system, then messages) up to its block; a request may have four; a request finds what an
earlier one cached at most 20 blocks before one of its markers. So markers stand on the last tool, on the
system text, on the newest block, and on the end of the segment before it, where the request before had its
own. Markers are no part of the cached segments: they are put in here.
"""

from __future__ import annotations

from typing import Literal

from hermes_messages.stable_bytes import JoinedHistory
from hermes_providers.wire.anthropic_blocks import HEADER_LENGTH

__all__ = ["MAX_MARKERS", "joint", "marked", "marker_bytes", "marker_edits"]

MAX_MARKERS = 4
_MARKERS_IN_MESSAGES = 2
_MARKABLE = (b"U", b"A")
_OPEN = {b"u": b'{"role":"user","content":[', b"a": b'{"role":"assistant","content":['}
_BEGINNING = b'{"role":"user","content":[{"type":"text","text":"(the conversation begins)"}]},'


def marker_bytes(ttl: Literal["5m", "1h"]) -> bytes:
    """The marker as it is put in front of a block's last brace."""
    return b',"cache_control":{"type":"ephemeral"%b}' % (b"" if ttl == "5m" else b',"ttl":"1h"')


def marked(block: bytes, marker: bytes) -> bytes:
    """A block, or several joined ones, with a marker on the last."""
    return block[:-1] + marker + b"}" if marker else block


def marker_edits(joined: JoinedHistory, left: int, marker: bytes) -> list[tuple[int, int, bytes]]:
    """The edits that put `marker` on the last blocks that may have one, when `left` may still be used."""
    edits: list[tuple[int, int, bytes]] = []
    place = len(joined)
    while len(edits) < min(left, _MARKERS_IN_MESSAGES):
        place = max(joined.find_last(letter, place) for letter in _MARKABLE)
        if place < 0:
            break
        at = joined.stop(place) - len(b"}")
        edits.insert(0, (at, at, marker))
    return edits


def joint(before: bytes, segment: bytes) -> tuple[bytes, bytes]:
    """Neighbours of one role become one message, the first is a user's. What ends the last message is left to
    who sends it. A segment's letter is the role that it ends with, a capital where a marker may stand."""
    begins, ends, blocks = segment[:1], segment[1:2], segment[HEADER_LENGTH:]
    if before.lower() == begins:
        glue = b","
    elif before:
        glue = b"]}," + _OPEN[begins]
    else:  # "first message must use the \"user\" role"
        glue = _OPEN[begins] if begins == b"u" else _BEGINNING + _OPEN[begins]
    return glue + blocks, ends.upper() if segment[2:HEADER_LENGTH] == b"+" else ends
