r"""JSON text that a strict decoder refuses for its characters, read all the same. Pure.

Hosts that cut text by UTF-16 units send one half of a character as an escape (`"\ud83d"`): valid by the
grammar of RFC 8259 (section 8.2), but no Unicode text.
"""

from __future__ import annotations

import json
from typing import NoReturn

import msgspec

from hermes_messages import JsonValue

__all__ = ["read_tolerantly"]


def read_tolerantly(data: bytes) -> JsonValue:
    """The value in `data`. Bytes that are no UTF-8 are U+FFFD; halves of characters stay halves, because the
    other one may be in the next event. Control characters may stand in strings unescaped. Raises
    `msgspec.DecodeError` for what is no JSON."""
    try:
        value: JsonValue = json.loads(data.decode("utf-8", "replace"), parse_constant=_refused, strict=False)
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(f"no JSON: {error}") from None
    return value


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")
