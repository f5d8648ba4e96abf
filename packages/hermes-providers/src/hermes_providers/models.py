"""What is known of single models: context window, output limit, price, whether they reason. Data with a date.

The rows of Anthropic and DeepSeek are from the vendors' pages; those of OpenAI, Google, xAI and Mistral from
dated copies of theirs, and where a copy left something out it is None here. Hosts of open models (Together,
Fireworks, Groq, NVIDIA, Hugging Face) change their lists often and have no rows. A model that is not here is
unknown in every respect; the settings `context_window`, `max_output_tokens` and `prices` say what the caller
knows better.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from hermes_providers.prices import Price

__all__ = ["KNOWN_MODELS", "KnownModel", "find_model"]


class KnownModel(Struct, frozen=True, kw_only=True):
    """One model of one vendor. Sizes are in tokens. `reasons` says that it may think before it answers."""

    vendor: str
    """Who makes it: `openai`, `anthropic`, ..."""
    model: str
    """The vendor's name for it, without the date that versions end with."""
    context_window: int | None = None
    """The most that prompt and answer may come to together; None: unknown."""
    max_output_tokens: int | None = None
    """The most that one answer may hold; None: unknown."""
    price: Price | None = None
    """None: unknown, and so is what requests cost."""
    supports_images: bool | None = None
    """None: unknown."""
    reasons: bool = False


def _claude(model: str, price: Price | None, window: int, output: int) -> KnownModel:
    return KnownModel(
        vendor="anthropic",
        model=model,
        context_window=window,
        max_output_tokens=output,
        price=price,
        supports_images=True,
        reasons=True,
    )


def _claude_price(input_price: float, output_price: float) -> Price:
    # https://platform.claude.com/docs/en/about-claude/pricing: a cache of five minutes costs 1.25 times the
    # input to write and a tenth of it to read.
    return Price(
        input=input_price,
        output=output_price,
        cache_read=input_price / 10,
        cache_write=input_price * 1.25,
        as_of="2026-11-29",
    )


def _gpt(
    model: str, price: Price, window: int | None, output: int | None, *, reasons: bool = True
) -> KnownModel:
    return KnownModel(
        vendor="openai",
        model=model,
        context_window=window,
        max_output_tokens=output,
        price=price,
        supports_images=True,
        reasons=reasons,
    )


def _gpt_price(
    input_price: float, cached: float, output: float, as_of: str, above: int | None = None
) -> Price:
    return Price(input=input_price, output=output, cache_read=cached, as_of=as_of, long_above=above)


_MILLION = 1_000_000


def _grok(
    model: str, window: int, input_price: float, cached: float, output: float, as_of: str
) -> KnownModel:
    # https://docs.x.ai/developers/models: a prompt that reaches 200,000 tokens costs double, all of it.
    return KnownModel(
        vendor="xai",
        model=model,
        context_window=window,
        price=Price(
            input=input_price,
            output=output,
            cache_read=cached,
            as_of=as_of,
            long_above=199_999,
            long_prompt=Price(input=2 * input_price, output=2 * output, cache_read=2 * cached, as_of=as_of),
        ),
        supports_images=True,
        reasons=True,
    )


KNOWN_MODELS: tuple[KnownModel, ...] = (
    # https://platform.claude.com/docs/en/about-claude/models/overview
    _claude("claude-fable-5-1", _claude_price(10, 50), _MILLION, 128_000),
    _claude("claude-opus-5-5", _claude_price(4, 20), _MILLION, 128_000),
    _claude("claude-opus-5", _claude_price(5, 25), _MILLION, 128_000),
    _claude("claude-sonnet-5-5", _claude_price(2, 10), _MILLION, 128_000),
    _claude("claude-sonnet-5", _claude_price(2, 10), _MILLION, 128_000),
    _claude("claude-haiku-5-5", None, _MILLION, 128_000),  # the page says "from": the rest is not known here
    _claude("claude-opus-4-6", _claude_price(5, 25), _MILLION, 128_000),
    _claude("claude-opus-4-5", _claude_price(5, 25), 200_000, 64_000),
    _claude("claude-sonnet-4-5", _claude_price(3, 15), 200_000, 64_000),
    _claude("claude-haiku-4-5", _claude_price(1, 5), 200_000, 64_000),
    # https://platform.openai.com/docs/pricing and /docs/models
    _gpt("gpt-5.5", _gpt_price(5, 0.5, 30, "2026-06-30", 272_000), None, 128_000),
    _gpt("gpt-5.4", _gpt_price(2.5, 0.25, 15, "2026-06-30", 272_000), None, 128_000),
    _gpt("gpt-5.4-mini", _gpt_price(0.75, 0.075, 4.5, "2026-06-30"), None, 128_000),
    _gpt("gpt-5.2", _gpt_price(1.75, 0.175, 14, "2026-06-30"), 400_000, 128_000),
    _gpt("gpt-5.1", _gpt_price(1.25, 0.125, 10, "2025-11-13"), 400_000, 128_000),
    _gpt("gpt-5", _gpt_price(1.25, 0.125, 10, "2025-11-13"), 400_000, 128_000),
    _gpt("gpt-5-mini", _gpt_price(0.25, 0.025, 2, "2025-11-13"), 400_000, 128_000),
    _gpt("gpt-5-nano", _gpt_price(0.05, 0.005, 0.4, "2025-11-13"), 400_000, 128_000),
    _gpt("gpt-4.1", _gpt_price(2, 0.5, 8, "2025-07-04"), 1_047_576, 32_768, reasons=False),
    _gpt("gpt-4.1-mini", _gpt_price(0.4, 0.1, 1.6, "2025-07-04"), 1_047_576, 32_768, reasons=False),
    _gpt("gpt-4.1-nano", _gpt_price(0.1, 0.025, 0.4, "2025-07-04"), 1_047_576, 32_768, reasons=False),
    _gpt("gpt-4o", _gpt_price(2.5, 1.25, 10, "2025-07-04"), 128_000, 16_384, reasons=False),
    _gpt("gpt-4o-mini", _gpt_price(0.15, 0.075, 0.6, "2025-07-04"), 128_000, 16_384, reasons=False),
    # https://ai.google.dev/gemini-api/docs/pricing and /docs/models
    KnownModel(
        vendor="google",
        model="gemini-3-flash",
        context_window=1_048_576,
        max_output_tokens=65_536,
        price=Price(input=0.5, output=3, cache_read=0.05, as_of="2026-07-04", long_above=200_000),
        supports_images=True,
        reasons=True,
    ),
    KnownModel(
        vendor="google",
        model="gemini-2.5-pro",
        context_window=1_048_576,
        max_output_tokens=65_536,
        price=Price(input=1.25, output=10, as_of="2026-06-30", long_above=200_000),
        supports_images=True,
        reasons=True,
    ),
    KnownModel(
        vendor="google",
        model="gemini-2.5-flash",
        context_window=1_048_576,
        max_output_tokens=65_536,
        price=Price(input=0.3, output=2.5, as_of="2026-06-30"),
        supports_images=True,
        reasons=True,
    ),
    # https://api-docs.deepseek.com/quick_start/pricing
    KnownModel(
        vendor="deepseek",
        model="deepseek-v4-flash",
        context_window=_MILLION,
        max_output_tokens=384_000,
        price=Price(input=0.14, output=0.28, cache_read=0.0028, as_of="2026-05-22"),
        supports_images=False,
        reasons=True,
    ),
    KnownModel(
        vendor="deepseek",
        model="deepseek-v4-pro",
        context_window=_MILLION,
        max_output_tokens=384_000,
        price=Price(input=0.435, output=0.87, cache_read=0.003625, as_of="2026-05-22"),
        supports_images=False,
        reasons=True,
    ),
    # https://docs.x.ai/developers/grok-4-7, https://docs.x.ai/developers/models/grok-4.20-0309
    _grok("grok-4.7", 500_000, 2, 0.5, 6, "2026-09-29"),
    _grok("grok-4.20", _MILLION, 1.25, 0.2, 2.5, "2026-07-13"),
    # https://docs.mistral.ai/models/model-cards/mistral-medium-3-5-26-04: two spellings of one model; what is
    # read from a cache has no price there.
    *(
        KnownModel(
            vendor="mistral",
            model=name,
            context_window=256_000,
            price=Price(input=1.5, output=7.5, as_of="2026-04-30"),
            supports_images=True,
            reasons=True,
        )
        for name in ("mistral-medium-3.5", "mistral-medium-3-5")
    ),
    # https://platform.kimi.ai/docs/guide/kimi-k2-6-quickstart
    KnownModel(
        vendor="moonshot", model="kimi-k2.6", context_window=262_144, supports_images=True, reasons=True
    ),
)
"""What is known of models: windows, limits, prices and their days. `find_model` looks a model up."""

_BY_NAME = {(row.vendor, row.model): row for row in KNOWN_MODELS}
_VERSION = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest|preview|0\d\d)$")
_VENDORS = {"moonshotai": "moonshot", "openai": "openai", "anthropic": "anthropic", "google": "google"}


@lru_cache(maxsize=1024)
def find_model(provider: str, model: str) -> KnownModel | None:
    """What is known of `model` at `provider`; a date or `-latest` at its end does not matter.

    Of a model that a router names `vendor/model`, the vendor's row is given without its price: what the
    router asks for it is another matter.
    """
    vendor, separator, name = model.partition("/")
    if separator:
        row = find_model(_VENDORS.get(vendor, vendor), _dashed(vendor, name.partition(":")[0]))
        return None if row is None else _without_price(row)
    return _BY_NAME.get((provider, model)) or _BY_NAME.get((provider, _VERSION.sub("", model)))


def _dashed(vendor: str, name: str) -> str:
    """Routers write Anthropic's versions with a point, Anthropic itself with a dash."""
    return name.replace(".", "-") if vendor == "anthropic" else name


def _without_price(row: KnownModel) -> KnownModel:
    return KnownModel(
        vendor=row.vendor,
        model=row.model,
        context_window=row.context_window,
        max_output_tokens=row.max_output_tokens,
        supports_images=row.supports_images,
        reasons=row.reasons,
    )
