"""Compressed bytes into plain ones, in bounded pieces. Pure: bytes in, bytes out."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

__all__ = ["Decompressor", "GzipDecompressor", "TruncatedError", "ZstdDecompressor"]

_PIECE = 1 << 20
_GZIP_WINDOW = zlib.MAX_WBITS | 16


class TruncatedError(ValueError):
    """The compressed data ends before its end mark."""


class Decompressor(Protocol):
    """Fed with the compressed bytes in order. Raises `ValueError` for data that is damaged."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` unpacks to, in pieces of at most about a megabyte."""
        ...

    def finish(self) -> None:
        """Say that there is no more. Raises `TruncatedError`."""
        ...


class GzipDecompressor:
    """Gzip, one member or several one after the other. Source: RFC 1952."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` unpacks to."""
        while data:
            if self._member.eof:
                data = data.lstrip(b"\0")  # tapes and some writers pad with zeros
                if not data:
                    return
                self._member = zlib.decompressobj(_GZIP_WINDOW)
            self._started = True
            try:
                piece = self._member.decompress(data, _PIECE)
            except zlib.error as error:
                raise ValueError(f"damaged gzip data: {error}") from error
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if piece:
                yield piece

    def finish(self) -> None:
        """Raises `TruncatedError`."""
        if self._started and not self._member.eof:
            raise TruncatedError("the gzip data is cut off")


class ZstdDecompressor:
    """Zstandard, one frame or several; needs the extra `zstd`. Source: RFC 8878."""

    _SLICE = 1 << 10
    """Fed at a time, since the output for what is fed comes in one piece: up to 128 KiB for every 4 bytes."""

    def __init__(self) -> None:
        import zstandard

        self._error = zstandard.ZstdError
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._frame = self._new()
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` unpacks to."""
        for start in range(0, len(data), self._SLICE):
            rest = data[start : start + self._SLICE]
            while rest:
                if self._frame.eof:
                    self._frame = self._new()
                self._started = True
                try:
                    piece = self._frame.decompress(rest)
                except self._error as error:
                    raise ValueError(f"damaged zstd data: {error}") from error
                rest = self._frame.unused_data if self._frame.eof else b""
                if piece:
                    yield piece

    def finish(self) -> None:
        """Raises `TruncatedError`."""
        if self._started and not self._frame.eof:
            raise TruncatedError("the zstd data is cut off")
