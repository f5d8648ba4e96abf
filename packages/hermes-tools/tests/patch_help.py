"""What a patch answers, which several modules of tests ask."""

from __future__ import annotations

from typing import Any

__all__ = ["patch", "refused"]


def patch(bench: Any, **arguments: Any) -> str:
    return str(bench.text("patch", arguments, "file"))


def refused(bench: Any, **arguments: Any) -> str:
    [result] = bench.run(bench.call("patch", arguments), toolsets=("file",))
    assert result.status == "error", result.content
    return str(result.content)
