"""Where the toolsets that outlive a conversation keep their files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

__all__ = ["missing_home", "user_directory"]


def user_directory(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """`$HERMES_HOME/<name>`, else `$HOME/.hermes/<name>`; None when neither is set to a full path."""
    known = os.environ if environment is None else environment
    home = known.get("HERMES_HOME", "")
    if not home and known.get("HOME"):
        home = f"{known['HOME']}/.hermes"
    return f"{home.rstrip('/')}/{name}" if home.startswith("/") else None


def missing_home() -> str:
    """Why there is no such directory."""
    if sys.platform == "win32":
        return "it needs a POSIX system"
    return "it has no directory: set HERMES_HOME to a full path"
