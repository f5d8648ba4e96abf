"""Identities of sessions, turns and tasks."""

from __future__ import annotations

import os
from collections import deque
from typing import Final

__all__ = ["new_id"]

BYTES: Final = 16
AT_ONCE: Final = 64

_ready: deque[str] = deque()
if hasattr(os, "register_at_fork"):  # what a fork copied is its parent's
    os.register_at_fork(after_in_child=_ready.clear)


def new_id() -> str:
    """128 random bits as 32 hexadecimal digits. The operating system is asked for many at a time."""
    if not _ready:
        drawn = os.urandom(BYTES * AT_ONCE).hex()
        _ready.extend([drawn[at : at + 2 * BYTES] for at in range(0, len(drawn), 2 * BYTES)])
    try:
        return _ready.popleft()
    except IndexError:  # another thread took the last one
        return os.urandom(BYTES).hex()
