"""A chat completions host that answers as it is told."""

from __future__ import annotations

import json
from typing import Any

from socket_host import SocketHost

__all__ = ["DeltaHost"]


class DeltaHost(SocketHost):
    """A chat completions host that answers from a list of deltas, and fails once before the first."""

    headers = "\r\nretry-after: 0"

    def __init__(self, *answers: dict[str, Any]) -> None:
        self._answers = list(answers)
        self._asked = 0

    async def respond(self, asked: dict[str, Any]) -> tuple[str, str]:
        self._asked += 1
        if self._asked == 1:
            return "503 Busy", '{"error": {"message": "busy"}}'
        return "200 OK", _events(self._answers.pop(0))


def _events(delta: dict[str, Any]) -> str:
    finish = "tool_calls" if "tool_calls" in delta else "stop"
    usage = {"prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60}
    chunks = [
        {"id": "r", "model": "small-1", "choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage},
    ]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
