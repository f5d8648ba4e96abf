"""What tokens cost. Pure. A price that is not known makes the cost unknown, never 0."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from hermes_messages import Usage

__all__ = ["Price", "cost_usd"]

_MILLION = 1_000_000
Dollars = Annotated[float, Meta(ge=0)]
"""US dollars, never less than none."""


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens; None is unknown. `as_of` is the day it was looked up (YYYY-MM-DD).

    Prompts of more than `long_above` tokens cost `long_prompt` instead, all of them; None there is unknown.
    """

    input: Dollars
    """Tokens of the prompt that no cache held."""
    output: Dollars
    """Generated tokens, reasoning included."""
    cache_read: Dollars | None = None
    """Tokens of the prompt that came from a cache."""
    cache_write: Dollars | None = None
    """Tokens of the prompt that were put into one."""
    as_of: str = ""
    long_above: int | None = None
    long_prompt: Price | None = None


def cost_usd(usage: Usage | None, price: Price | None) -> float | None:
    """The cost of a request in US dollars; None when a figure or a price that it needs is unknown.

    What the host itself says wins. `usage.input_tokens` holds what was read from and written to a cache.
    """
    if usage is None:
        return None
    if usage.cost_usd is not None:
        return usage.cost_usd
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    if price.long_above is not None and usage.input_tokens > price.long_above:
        return cost_usd(usage, price.long_prompt)
    cost = usage.output_tokens * price.output
    plain = usage.input_tokens
    for tokens, of_cache in (
        (usage.cache_read_tokens, price.cache_read),
        (usage.cache_write_tokens, price.cache_write),
    ):
        if not tokens:
            continue
        if of_cache is None:
            return None
        plain -= tokens
        cost += tokens * of_cache
    return (cost + max(0, plain) * price.input) / _MILLION
