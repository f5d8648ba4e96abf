"""What a request cost, as far as the host says."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Usage", "add_usage"]


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens and cost. None means unknown, which is not 0.

    `input_tokens` counts the whole prompt, what was read from and written to a prompt cache included;
    `cache_read_tokens` and `cache_write_tokens` are these two parts. `output_tokens` counts everything
    generated, `reasoning_tokens` included. `cost_usd` is in US dollars.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


def _add(left: int | None, right: int | None) -> int | None:
    if left is None:
        return right
    return left if right is None else left + right


def add_usage(left: Usage | None, right: Usage | None) -> Usage | None:
    """The sum of two usages; a figure known on one side only is kept as it is."""
    if left is None or right is None:
        return left if right is None else right
    if left.cost_usd is None or right.cost_usd is None:
        cost = left.cost_usd if right.cost_usd is None else right.cost_usd
    else:
        cost = left.cost_usd + right.cost_usd
    return Usage(
        input_tokens=_add(left.input_tokens, right.input_tokens),
        output_tokens=_add(left.output_tokens, right.output_tokens),
        cache_read_tokens=_add(left.cache_read_tokens, right.cache_read_tokens),
        cache_write_tokens=_add(left.cache_write_tokens, right.cache_write_tokens),
        reasoning_tokens=_add(left.reasoning_tokens, right.reasoning_tokens),
        cost_usd=cost,
    )
