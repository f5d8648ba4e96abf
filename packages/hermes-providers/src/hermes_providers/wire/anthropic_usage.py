"""The usage of the Messages wire, in one form.

"Prompt caching" (tracking cache performance): `input_tokens` counts only what stands behind the last cache
breakpoint; the whole prompt is `cache_read_input_tokens + cache_creation_input_tokens + input_tokens`.
"Streaming messages": the figures of `message_delta` are cumulative, and replace those of `message_start`.
"""

from __future__ import annotations

from hermes_messages import JsonValue, Usage
from hermes_messages.usage import add_usage

__all__ = ["UsageCounter"]

_PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class UsageCounter:
    """Takes figures as they come; a later one replaces an earlier one, a missing one does not."""

    __slots__ = ("_before", "_counts", "_thinking")

    def __init__(self) -> None:
        self._before: Usage | None = None
        self._counts: dict[str, int] = {}
        self._thinking: int | None = None

    def add(self, said: JsonValue, *, final: bool) -> None:
        """`final` False: the output is not finished, so its figure says nothing."""
        if not isinstance(said, dict):
            return
        for name in (*_PROMPT, "output_tokens") if final else _PROMPT:
            count = _count(said.get(name))
            if count is not None:
                self._counts[name] = count
        details = said.get("output_tokens_details")
        if final and isinstance(details, dict):
            self._thinking = _count(details.get("thinking_tokens"))

    def begin_anew(self) -> None:
        """What comes from now on is of another request, and is added."""
        self._before = self.usage()
        self._counts, self._thinking = {}, None

    def usage(self) -> Usage | None:
        """What is known; None when it is nothing."""
        return add_usage(self._before, self._usage_of_this())

    def _usage_of_this(self) -> Usage | None:
        prompt = [self._counts[name] for name in _PROMPT if name in self._counts]
        usage = Usage(
            input_tokens=sum(prompt) if "input_tokens" in self._counts else None,
            output_tokens=self._counts.get("output_tokens"),
            cache_read_tokens=self._counts.get("cache_read_input_tokens"),
            cache_write_tokens=self._counts.get("cache_creation_input_tokens"),
            reasoning_tokens=self._thinking,
        )
        if not usage.input_tokens and not usage.output_tokens:
            return None  # no prompt has 0 tokens: the host fills in a form that it does not know
        return usage


def _count(value: JsonValue) -> int | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return int(value)
    return None
