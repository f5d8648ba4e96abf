r"""JSON text that a strict decoder refuses for its characters, made readable. Pure.

Hosts that cut text by UTF-16 units send one half of a character as an escape (`"\ud83d"`): valid by the
grammar of RFC 8259 (section 8.2), but no Unicode text. Such a half becomes U+FFFD and costs no answer.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["readable_json"]

# A backslash that is escaped itself, a whole pair, or a half; in this order, so that only halves are left.
_ESCAPES: Final = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def readable_json(data: bytes) -> str:
    """`data` as text: bytes that are no UTF-8 and escaped halves of characters are U+FFFD."""
    text = data.decode("utf-8", "replace")
    return _ESCAPES.sub(lambda match: r"\ufffd" if match.group(1) else match.group(), text)
