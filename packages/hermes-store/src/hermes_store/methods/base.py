"""What all groups of methods share."""

from __future__ import annotations

from hermes_store.backend import Backend

__all__ = ["StoreMethods"]


class StoreMethods:
    """Methods over a back end, which whoever constructs the store sets."""

    _backend: Backend
