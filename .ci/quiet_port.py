"""Ports for servers of others that can not choose one by themselves."""

from __future__ import annotations

import random
import socket

__all__ = ["quiet_port"]

ASKED_FOR_ONLY = range(20_000, 32_000)
"""No system gives these to a program that asks for any port, so that one that is free remains so."""


def quiet_port() -> int:
    """A port of 127.0.0.1 that is free. Who starts a server there tries another one if that ends at once: two
    that choose at the same moment may choose the same."""
    for port in random.sample(ASKED_FOR_ONLY, len(ASKED_FOR_ONLY)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no port is free")
