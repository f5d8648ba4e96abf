"""How OpenRouter chooses among the hosts of a model."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["MaxPrice", "Routing"]


class MaxPrice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The most that a request may cost: US dollars for a million tokens, or for one request or image."""

    prompt: float | None = None
    """A million tokens of the prompt."""
    completion: float | None = None
    """A million tokens of the answer."""
    request: float | None = None
    """One request, whatever its size."""
    image: float | None = None
    """One image in the prompt."""


class Routing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The field `provider` of a request: https://openrouter.ai/docs/guides/routing/provider-selection.

    `order` are the hosts to try first, `only` and `ignore` limit them; `allow_fallbacks` lets others answer
    when these can not. `require_parameters` takes hosts only that know every parameter. `data_collection`,
    `zdr` and `enforce_distillable_text` say what a host may do with the data. What is left out is left to
    OpenRouter.
    """

    order: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    allow_fallbacks: bool | None = None
    require_parameters: bool | None = None
    data_collection: Literal["allow", "deny"] | None = None
    zdr: bool | None = None
    enforce_distillable_text: bool | None = None
    quantizations: tuple[str, ...] = ()
    """Weights that are taken (`fp8`, `bf16`, ...); empty: any."""
    sort: Literal["price", "throughput", "latency"] | None = None
    """What the hosts are ordered by, instead of OpenRouter's balance."""
    max_price: MaxPrice | None = None
    """Dearer hosts are left out."""
