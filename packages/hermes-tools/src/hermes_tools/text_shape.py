"""How the text of a file is written: encoding, byte order mark, line ends. Decided on bytes. Pure.

It uses the standard library alone, because programs of their own import it too (`hermes_tools.standalone`).
"""

from __future__ import annotations

import codecs
from typing import Literal, NamedTuple

__all__ = ["SAMPLE_BYTES", "TextShape", "encode_like", "looks_binary", "make_visible", "shape_of"]

SAMPLE_BYTES = 1 << 13
Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]

_MARKS: tuple[tuple[bytes, Encoding], ...] = (  # that of UTF-32 begins as that of UTF-16 does
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\b\x1b")


class TextShape(NamedTuple):
    """How a text is put into bytes. `mark` is the byte order mark, `newline` the line end used most."""

    encoding: Encoding = "utf-8"
    mark: bytes = b""
    newline: Literal["\n", "\r\n"] = "\n"


def shape_of(sample: bytes) -> TextShape:
    """The shape of a text that starts with `sample`."""
    mark, encoding = next(((m, e) for m, e in _MARKS if sample.startswith(m)), (b"", "utf-8"))
    text = sample[len(mark) :].decode(encoding, errors="replace")
    windows = text.count("\r\n")
    newline: Literal["\n", "\r\n"] = "\r\n" if windows and windows * 2 >= text.count("\n") else "\n"
    return TextShape(encoding, mark, newline)


def looks_binary(sample: bytes) -> bool:
    """Whether bytes that start a file are no text: a NUL, or too many control characters.

    A sample may end inside a character; bytes that are no UTF-8 may still be text of an old encoding.
    """
    if any(sample.startswith(mark) for mark, _ in _MARKS):
        return False
    if b"\0" in sample:
        return True
    controls = sum(byte < 0x20 and byte not in _TEXT_CONTROLS for byte in sample)
    return controls * 10 > len(sample) * 3


def encode_like(text: str, shape: TextShape) -> bytes:
    """`text` as bytes of this shape. Line ends are turned only where the text has none of its own kind.

    Raises `UnicodeEncodeError` for half of a character (a lone surrogate).
    """
    if shape.newline == "\r\n" and "\r\n" not in text:
        text = text.replace("\n", "\r\n")
    return shape.mark + text.removeprefix("\ufeff").encode(shape.encoding)


def make_visible(text: str) -> str:
    """`text` with NUL shown as a visible sign, which databases and terminals take."""
    return text.replace("\0", "\u2400")
