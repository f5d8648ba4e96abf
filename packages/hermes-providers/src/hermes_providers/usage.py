"""What hosts say that a request cost, in one form. A figure that is not there is unknown, never 0."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from hermes_messages import JsonValue, Usage

__all__ = ["TypedUsage", "read_chat_usage"]

MOST_TOKENS: Final = 1 << 40
"""A count above this is a host's mistake; sums of counts still fit the integers of every database."""

_Tokens = Annotated[int, Meta(ge=0, le=MOST_TOKENS)] | None


class _PromptDetails(Struct, frozen=True, gc=False):
    cached_tokens: _Tokens | UnsetType = UNSET
    cache_write_tokens: _Tokens = None


class _OutputDetails(Struct, frozen=True, gc=False):
    reasoning_tokens: _Tokens = None


class TypedUsage(Struct, frozen=True, gc=False):
    """Usage as nearly all hosts say it. What does not decode as this is for `read_chat_usage`, which reads
    the same from it."""

    prompt_tokens: _Tokens = None
    completion_tokens: _Tokens = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    prompt_cache_hit_tokens: _Tokens = None
    cached_tokens: _Tokens = None
    cost: Annotated[float, Meta(ge=0)] | None = None
    input_tokens: None = None
    output_tokens: None = None
    input_tokens_details: None = None
    output_tokens_details: None = None

    def read(self) -> Usage | None:
        """As `read_chat_usage`."""
        if not self.prompt_tokens and not self.completion_tokens:
            return None
        prompt, output = self.prompt_tokens_details, self.completion_tokens_details
        cached: int | UnsetType | None = UNSET if prompt is None else prompt.cached_tokens
        if cached is UNSET:
            hit = self.prompt_cache_hit_tokens
            cached = self.cached_tokens if hit is None else hit
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            cached,
            None if prompt is None else prompt.cache_write_tokens,
            None if output is None else output.reasoning_tokens,
            self.cost,
        )


def read_chat_usage(said: JsonValue) -> Usage | None:
    """Usage in the chat-completions form; None when nothing usable is in it.

    Read are `prompt_tokens`, `completion_tokens` (or `input_tokens`, `output_tokens`), their `*_details`,
    DeepSeek's `prompt_cache_hit_tokens`, Moonshot's `cached_tokens`, and OpenRouter's `cost` in US dollars.
    """
    if not isinstance(said, dict):
        return None
    prompt_details = said.get("prompt_tokens_details", said.get("input_tokens_details"))
    output_details = said.get("completion_tokens_details", said.get("output_tokens_details"))
    usage = Usage(
        input_tokens=_first_count(said, "prompt_tokens", "input_tokens"),
        output_tokens=_first_count(said, "completion_tokens", "output_tokens"),
        cache_read_tokens=_first_count(prompt_details, "cached_tokens")
        if isinstance(prompt_details, dict) and "cached_tokens" in prompt_details
        else _first_count(said, "prompt_cache_hit_tokens", "cached_tokens"),
        cache_write_tokens=_first_count(prompt_details, "cache_write_tokens"),
        reasoning_tokens=_first_count(output_details, "reasoning_tokens"),
        cost_usd=_cost(said.get("cost")),
    )
    if not usage.input_tokens and not usage.output_tokens:
        return None  # no prompt has 0 tokens: the host fills in a form that it does not know
    return usage


def _first_count(said: JsonValue, *names: str) -> int | None:
    if not isinstance(said, dict):
        return None
    for name in names:
        value = said.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS:
            return int(value)
    return None


def _cost(value: JsonValue) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    return None
