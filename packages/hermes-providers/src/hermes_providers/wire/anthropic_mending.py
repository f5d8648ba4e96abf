"""JSON that a strict decoder refuses but whose text can still be read."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hermes_messages import JsonObject

__all__ = ["decode_tolerantly"]

# Escapes are taken one after the other, so that a backslash that is itself escaped begins none.
_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


def decode_tolerantly(data: bytes) -> JsonObject:
    """The object in `data`; bytes that are no UTF-8 and halves of surrogate pairs become U+FFFD.

    Hosts make such halves when they cut text between two deltas. Raises `msgspec.MsgspecError` for what is
    no JSON object.
    """
    text = data.decode("utf-8", "replace")
    mended = _ESCAPES.sub(lambda found: "\\ufffd" if found.group(1) else found.group(), text)
    value: JsonObject = msgspec.json.decode(mended, type=dict[str, Any])
    return value
