"""The gateway's process: connects to Ray, which blocks, and serves the driver of a run until it goes."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import BinaryIO

from hermes_batch.ray_engine.settings import QUIET
from hermes_batch.ray_engine.wire import (
    HEADER_BYTES,
    Begin,
    NotConnected,
    body_bytes,
    decode_to_gateway,
    frame,
)

__all__ = ["main"]


def main() -> int:
    """Run the gateway on standard input and output; the exit code."""
    incoming, outgoing = _own_streams()
    # The first frame is read with nothing behind it in a buffer: the event loop reads on from the same pipe.
    first = decode_to_gateway(_read_exactly(incoming, body_bytes(_read_exactly(incoming, HEADER_BYTES))))
    if not isinstance(first, Begin):
        return 2
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        connect(first)
    except Exception as error:  # noqa: BLE001 - Ray raises whatever its parts raise
        outgoing.write(frame(NotConnected(f"{type(error).__name__}: {error}")))
        outgoing.flush()
        return 1
    from hermes_batch.ray_engine.gateway import serve

    try:
        asyncio.run(serve(incoming, outgoing))
    finally:
        import ray

        ray.shutdown()
    return 0


def _own_streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipes to the driver, out of reach of whatever prints here and of Ray's processes."""
    incoming = os.fdopen(os.dup(0), "rb", buffering=0)
    outgoing = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return incoming, outgoing


def _read_exactly(incoming: BinaryIO, count: int) -> bytes:
    """So many bytes of a pipe, or fewer at its end."""
    data = b""
    while len(data) < count and (more := incoming.read(count - len(data))):
        data += more
    return data


def connect(begin: Begin) -> None:
    """Connect to the cluster. Raises whatever Ray raises."""
    import ray

    ray.init(address=begin.address, log_to_driver=False, logging_level="ERROR")


if __name__ == "__main__":
    sys.exit(main())
