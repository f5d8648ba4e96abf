"""The gateway's process: connects to Ray, which blocks, and serves the driver of a run until it goes."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from typing import BinaryIO

from hermes_batch.ray_engine.wire import (
    HEADER_BYTES,
    Begin,
    NotConnected,
    body_bytes,
    decode_to_gateway,
    frame,
)

__all__ = ["main"]

STARTS_ITS_OWN = "local"
STARTS = 3
"""A busy machine can be too slow for Ray's patience of half a minute; the driver bounds the whole."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is told to anybody
    # Under `uv run`, Ray would send the current directory to the cluster and install it for the workers.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""What Ray does of itself and is not wanted, unless whoever runs this asks for it."""


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
    """Connect to the cluster, or start one. Raises whatever Ray raises."""
    if begin.address == STARTS_ITS_OWN:
        # Ray's services listen on the network, and what may talk to them may run anything: they want a word
        # that only this run knows. Left to itself, Ray keeps one in the home directory.
        if "RAY_AUTH_MODE" not in os.environ:
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
        os.environ.setdefault("RAY_prestart_worker_first_driver", "0")  # one for each CPU, for nothing
        for left in reversed(range(STARTS)):
            try:
                start_cluster(begin.cpus)
            except Exception:  # of whatever part of Ray; that of the last start is told
                if not left:
                    raise
            else:
                return
    else:
        import ray

        ray.init(address=begin.address, log_to_driver=False, logging_level="ERROR")


def start_cluster(cpus: int) -> None:
    """Start a cluster on this machine. Raises whatever Ray raises, with nothing left."""
    import ray

    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except BaseException:
        ray.shutdown()
        raise


if __name__ == "__main__":
    sys.exit(main())
