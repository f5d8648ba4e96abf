"""One reversible rule for text that a database column can not hold.

NUL ends a text for PostgreSQL, and lone surrogates have no UTF-8 form, so neither can be bound as text. Both
are written as a marker character and four hex digits; the marker itself is written in the same way, so every
text comes back exactly. Text without any of them, which is nearly all, is stored as it is.
"""

from __future__ import annotations

import re

__all__ = ["MARKER", "escape", "unescape"]

MARKER = "\uf8ff"
"""The last code point of the private use area: no assigned character, valid in every database."""

_UNSAFE = re.compile("[\x00\ud800-\udfff\uf8ff]")
_ESCAPED = re.compile(MARKER + "([0-9a-f]{4})")


def escape(text: str) -> str:
    """`text` in a form that any database holds."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSAFE.sub(lambda match: f"{MARKER}{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    """The inverse of `escape`."""
    if MARKER not in text:
        return text
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
