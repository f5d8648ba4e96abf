"""What a response of the web is: text, in which encoding, or nothing that can be read. Pure."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from hermes_tools.text_shape import looks_binary

__all__ = ["BoundedBody", "ContentKind", "Page", "decoded_text", "kind_of"]

ContentKind = Literal["html", "text"]

_TEXT_TYPES = re.compile(
    r"text/.+|application/(?:.+\+)?(?:json|xml|yaml)|application/(?:javascript|ecmascript|x-yaml|toml|sql|x-sh)"
    r"|application/(?:x-)?ndjson|image/svg\+xml|message/.+"
)
_META_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.IGNORECASE)
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
_NOT_OF_THE_WEB = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
)
_SNIFFED_BYTES = 4_096


class Page(Struct, frozen=True):
    """What came back: the address after redirects, the `Content-Type` header, and the body so far read."""

    url: str
    content_type: str
    body: bytes
    cut: bool = False


class BoundedBody:
    """Takes a body in, undoing its compression, up to `limit` bytes; a small bomb does not become large."""

    def __init__(self, encoding: str, limit: int) -> None:
        """Raises `ValueError` for a compression that was not asked for."""
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self.cut: bool = False
        match encoding.strip().lower():
            case "" | "identity":
                self._undo: Callable[[bytes, int], bytes] = lambda data, _: data
            case "gzip" | "x-gzip":
                self._undo = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress
            case "deflate":
                self._undo = zlib.decompressobj().decompress
            case other:
                raise ValueError(f"it is compressed in a way that was not asked for ({other[:40]})")

    def feed(self, data: bytes) -> bool:
        """Take a piece; False once there is enough. Raises `ValueError` for damaged data."""
        left = self._limit - self._size
        try:
            piece = self._undo(data, left + 1)
        except zlib.error as error:
            raise ValueError(f"its compression is damaged ({error})") from None
        self.cut = len(piece) > left
        self._parts.append(piece[:left])
        self._size += len(self._parts[-1])
        return not self.cut

    def bytes(self) -> bytes:
        """All that was taken."""
        return b"".join(self._parts)


def kind_of(page: Page) -> ContentKind:
    """How to read a page. Raises `ValueError` for what is no text."""
    kind = page.content_type.partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        return "html"
    if _TEXT_TYPES.fullmatch(kind):
        return "text"
    sample = page.body[:_SNIFFED_BYTES]
    if not kind and not looks_binary(sample):
        return "html" if re.match(rb"\s*(?:<!doctype html|<html)", sample, re.IGNORECASE) else "text"
    raise ValueError(f"it is no text ({kind or 'of an unknown type'}, {len(page.body):,} bytes)")


def decoded_text(page: Page, kind: ContentKind) -> str:
    """The body as text: by its byte order mark, its header, its own word in HTML, else as UTF-8.

    https://encoding.spec.whatwg.org/#decode, https://html.spec.whatwg.org/#determining-the-character-encoding
    """
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if page.body.startswith(mark):
            return page.body.decode(name, errors="replace").removeprefix("\ufeff")
    said = _HEADER_CHARSET.search(page.content_type)
    name = said[1] if said else ""
    if not name and kind == "html":
        meta = _META_CHARSET.search(page.body[:_SNIFFED_BYTES])
        name = meta[1].decode("ascii") if meta else ""
    return page.body.decode(_codec(name), errors="replace")


def _codec(name: str) -> str:
    """The codec of a page's own word, as browsers understand it; UTF-8 for one that they do not know."""
    try:
        found = codecs.lookup(name or "utf-8").name
        b" ".decode(found, errors="replace")  # refuses what is no text encoding
    except (LookupError, ValueError):
        return "utf-8"
    if found.replace("_", "-") in _NOT_OF_THE_WEB:
        return "utf-8"
    return "cp1252" if found in ("iso8859-1", "ascii") else found
