"""Reading frames from a stream."""

from __future__ import annotations

from asyncio import IncompleteReadError, StreamReader

from hermes_batch.ray_engine.wire import HEADER_BYTES, body_bytes

__all__ = ["read_frame"]


async def read_frame(reader: StreamReader) -> bytes | None:
    """The body of the next frame; None at the end of the stream, wherever that is."""
    try:
        header = await reader.readexactly(HEADER_BYTES)
        return await reader.readexactly(body_bytes(header))
    except (IncompleteReadError, ConnectionError):
        return None
