"""Text hygiene: what no store, terminal or reader should have to cope with.

Fine text comes back as the same object.

>>> from hermes_messages.hygiene import clean_text
>>> clean_text("a\\x00b")
'a␀b'
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["clean_text", "replace_surrogates"]

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TAG: Final = re.compile("[\U000e0000-\U000e007f]")

# A flag of a part of a country (Unicode TR51, emoji tag sequence): a black flag, a country's two letters and
# one to four letters or digits as tag characters, and the closing tag. Everything else made of tag
# characters is invisible text.
_FLAG_OR_TAG: Final = re.compile(
    "(\U0001f3f4[\U000e0061-\U000e007a]{2}[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,4}\U000e007f)"
    "|[\U000e0000-\U000e007f]"
)
_VISIBLE_NUL: Final = "\N{SYMBOL FOR NULL}"


def clean_text(text: str) -> str:
    """`text` without what breaks or deceives its readers; the same object when there is nothing of the kind.

    Lone surrogates become U+FFFD (two halves that belong together become their character), NUL becomes the
    visible U+2400, and the invisible tag characters U+E0000 to U+E007F go, save in flag emoji.
    """
    if "\x00" in text:
        text = text.replace("\x00", _VISIBLE_NUL)
    if text.isascii():
        return text
    text = replace_surrogates(text)
    if _TAG.search(text):
        cleaned = _FLAG_OR_TAG.sub(lambda match: match.group(1) or "", text)
        return text if len(cleaned) == len(text) else cleaned
    return text


def replace_surrogates(text: str) -> str:
    """`text` with every lone surrogate as U+FFFD, so that it can be encoded; the same object without any."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
