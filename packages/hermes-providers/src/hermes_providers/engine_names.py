"""The name of the engine that is used where nobody asks for another. Importing this loads no engine."""

from __future__ import annotations

from typing import Final

__all__ = ["DEFAULT_ENGINE"]

DEFAULT_ENGINE: Final = "httpx"
