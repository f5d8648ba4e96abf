"""Identities of sessions, turns and tasks."""

from __future__ import annotations

import os

__all__ = ["new_id"]


def new_id() -> str:
    """128 random bits of the operating system's, as 32 hexadecimal digits."""
    return os.urandom(16).hex()
