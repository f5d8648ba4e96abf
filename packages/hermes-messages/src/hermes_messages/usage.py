"""What a request cost, as far as the host says."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import astuple

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


def add_usage(left: Usage | None, right: Usage | None) -> Usage | None:
    """The sum of two usages; a figure known on one side only is kept as it is."""
    if left is None or right is None:
        return left if right is None else right
    pairs = zip(astuple(left), astuple(right), strict=True)
    return Usage(*[b if a is None else a if b is None else a + b for a, b in pairs])
