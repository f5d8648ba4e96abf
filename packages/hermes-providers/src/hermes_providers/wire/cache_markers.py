"""Cache markers on the chat wire, for models that cache only what is marked.

A marker is `"cache_control":{"type":"ephemeral"}` in the last part of a message's content. It is put into
the joined copy of a request, never into the bytes that are kept, so these stay the same from call to call.
https://openrouter.ai/docs/guides/best-practices/prompt-caching: at most four, the host looks back from each.
"""

from __future__ import annotations

import re

from hermes_messages.stable_bytes import JoinedHistory

__all__ = ["marked", "turn_markers"]

_MARKER = b'"cache_control":{"type":"ephemeral"}'
_TURNS = 2
# A quotation mark inside a JSON string has a backslash before it, so these bytes are never part of a text.
_TEXT = b',"content":"'
_PARTS = b',"content":['
_STRING = re.compile(rb'"(?:[^"\\]+|\\.)*"')


def turn_markers(joined: JoinedHistory) -> list[tuple[int, int, bytes]]:
    """The edits that put a marker on each of the last two turns that can hold one.

    The marker before the last is where the previous request had its own, so that what it wrote is found.
    """
    edits: list[tuple[int, int, bytes]] = []
    stop = joined.size
    for place in range(len(joined) - 1, -1, -1):
        start = joined.stop(place - 1) if place else 0
        segment = joined.read(start, stop)
        with_one = marked(segment)
        if with_one is not segment:
            edits.insert(0, (start, stop, with_one))
            if len(edits) == _TURNS:
                break
        stop = start
    return edits


def marked(segment: bytes) -> bytes:
    """`segment` with a marker at the end of its last message; itself when that ends in no content."""
    if segment.endswith(b'"}'):
        start = segment.rfind(_TEXT)
        if start < 0:
            return segment
        text_start = start + len(_TEXT) - 1
        found = _STRING.match(segment, text_start)
        if found is None or found.end() != len(segment) - 1:
            return segment  # another field follows the content
        part = b'{"type":"text","text":%b,%b}' % (found.group(), _MARKER)
        return b"%b[%b]}" % (segment[:text_start], part)
    if segment.endswith(b"}]}") and segment.rfind(_PARTS) > segment.rfind(b',"tool_calls":['):
        return b"%b,%b}]}" % (segment[:-3], _MARKER)
    return segment
