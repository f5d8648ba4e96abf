"""What is known of single models: context window, output limit, price, whether they reason. Data with a date.

The rows are from dated copies of the vendors' pages; where a copy left something out, it is None here. Prices
are those of plain requests: not of a batch, a faster tier, a region or a cache that is kept longer. Hosts of
open models (Together, Fireworks, Groq, NVIDIA, Hugging Face) change their lists often and have no rows. A
model that is not here is unknown in every respect; the settings `context_window`, `max_output_tokens` and
`prices` say what the caller knows better.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec
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


def _claude_price(input_price: float, output_price: float, *, read: float = 0.1, as_of: str) -> Price:
    # https://platform.claude.com/docs/en/about-claude/pricing: a cache of five minutes costs 1.25 times the
    # input to write; to read, a tenth of it, and less for the newest models.
    return Price(
        input=input_price,
        output=output_price,
        cache_read=round(input_price * read, 6),
        cache_write=round(input_price * 1.25, 6),
        as_of=as_of,
    )


def _haiku_price() -> Price:
    as_of = "2026-10-10"
    long = _claude_price(0.5, 2.5, as_of=as_of)
    return msgspec.structs.replace(_claude_price(0.1, 0.5, as_of=as_of), long_above=100_000, long_prompt=long)


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


def _gpt_price(input_price: float, cached: float, output: float, as_of: str) -> Price:
    return Price(input=input_price, output=output, cache_read=cached, as_of=as_of)


def _large_gpt(
    model: str, input_price: float, cached: float, output: float, as_of: str, *, writes: bool = True
) -> KnownModel:
    """Those with a window of a million: "For requests with more than 272K input tokens, input and cache rates
    double and output costs 1.5 times"; from 5.6 on, what is put into a cache costs 1.25 times the input."""
    write = round(input_price * 1.25, 6) if writes else None
    price = Price(
        input=input_price,
        output=output,
        cache_read=cached,
        cache_write=write,
        as_of=as_of,
        long_above=272_000,
        long_prompt=Price(
            input=2 * input_price,
            output=1.5 * output,
            cache_read=2 * cached,
            cache_write=None if write is None else 2 * write,
            as_of=as_of,
        ),
    )
    return _gpt(model, price, 1_050_000, 128_000)


def _gemini(model: str, price: Price, output: int | None = 65_536) -> KnownModel:
    return KnownModel(
        vendor="google",
        model=model,
        context_window=1_048_576,
        max_output_tokens=output,
        price=price,
        supports_images=True,
        reasons=True,
    )


def _gemini_pro_price(input_price: float, output: float, as_of: str) -> Price:
    """Prompts of more than 200,000 tokens cost double, their answers half as much again."""
    return Price(
        input=input_price,
        output=output,
        cache_read=input_price / 10,
        as_of=as_of,
        long_above=200_000,
        long_prompt=Price(
            input=2 * input_price, output=1.5 * output, cache_read=input_price / 5, as_of=as_of
        ),
    )


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
    _claude("claude-fable-5-2", _claude_price(8, 40, read=0.025, as_of="2026-11-10"), _MILLION, 128_000),
    _claude("claude-fable-5-1", _claude_price(10, 50, read=0.025, as_of="2026-10-10"), _MILLION, 128_000),
    _claude("claude-fable-5", _claude_price(10, 50, as_of="2026-10-10"), _MILLION, 128_000),
    _claude("claude-opus-5-5", _claude_price(4, 20, read=0.05, as_of="2026-10-10"), _MILLION, 128_000),
    _claude("claude-opus-5", _claude_price(5, 25, as_of="2026-11-29"), _MILLION, 128_000),
    _claude("claude-sonnet-5-5", _claude_price(2, 10, read=0.05, as_of="2026-10-10"), _MILLION, 128_000),
    _claude("claude-sonnet-5", _claude_price(2, 10, as_of="2026-11-29"), _MILLION, 128_000),
    _claude("claude-haiku-5-5", _haiku_price(), _MILLION, 128_000),
    _claude("claude-opus-4-8", _claude_price(5, 25, as_of="2026-10-10"), _MILLION, 128_000),
    _claude("claude-opus-4-7", _claude_price(5, 25, as_of="2026-10-10"), _MILLION, 128_000),
    _claude("claude-opus-4-6", _claude_price(5, 25, as_of="2026-11-29"), _MILLION, 128_000),
    _claude("claude-opus-4-5", _claude_price(5, 25, as_of="2026-11-29"), 200_000, 64_000),
    _claude("claude-sonnet-4-6", _claude_price(3, 15, as_of="2026-10-10"), _MILLION, 128_000),
    _claude("claude-sonnet-4-5", _claude_price(3, 15, as_of="2026-11-29"), 200_000, 64_000),
    _claude("claude-haiku-4-5", _claude_price(1, 5, as_of="2026-11-29"), 200_000, 64_000),
    # https://developers.openai.com/api/docs/pricing and /api/docs/models
    _large_gpt("gpt-6.2-astra", 8, 0.4, 40, "2026-11-19"),
    _large_gpt("gpt-6.2-sol", 2, 0.1, 10, "2026-11-19"),
    _large_gpt("gpt-6.1-sol", 2, 0.1, 10, "2026-11-06"),
    _large_gpt("gpt-6.1-terra", 1, 0.05, 5, "2026-11-06"),
    _large_gpt("gpt-6-astra", 10, 1, 50, "2026-11-06"),
    _large_gpt("gpt-6-sol", 2, 0.2, 10, "2026-11-06"),
    _large_gpt("gpt-6-luna", 0.1, 0.01, 0.5, "2026-11-06"),
    _large_gpt("gpt-5.6-sol", 4, 0.4, 20, "2026-11-06"),
    _large_gpt("gpt-5.6-terra", 2, 0.2, 12, "2026-11-06"),
    _large_gpt("gpt-5.6-luna", 0.2, 0.02, 1.2, "2026-11-06"),
    _large_gpt("gpt-5.5", 5, 0.5, 30, "2026-11-06", writes=False),
    _large_gpt("gpt-5.4", 2.5, 0.25, 15, "2026-11-06", writes=False),
    _gpt("gpt-5.4-mini", _gpt_price(0.75, 0.075, 4.5, "2026-06-30"), 400_000, 128_000),
    _gpt("gpt-5.2", _gpt_price(1.75, 0.175, 14, "2026-06-30"), 400_000, 128_000),
    _gpt("gpt-5.1", _gpt_price(1.25, 0.125, 10, "2025-11-13"), 400_000, 128_000),
    _gpt("gpt-5", _gpt_price(1.25, 0.125, 10, "2025-11-13"), 400_000, 128_000),
    _gpt("gpt-5-mini", _gpt_price(0.25, 0.025, 2, "2025-11-13"), 400_000, 128_000),
    _gpt("gpt-5-nano", _gpt_price(0.05, 0.005, 0.4, "2025-11-13"), 400_000, 128_000),
    _gpt("gpt-4.1", _gpt_price(2, 0.5, 8, "2025-07-04"), 1_047_576, 32_768, reasons=False),
    _gpt("gpt-4.1-mini", _gpt_price(0.4, 0.1, 1.6, "2025-07-04"), 1_047_576, 32_768, reasons=False),
    _gpt("gpt-4o", _gpt_price(2.5, 1.25, 10, "2025-07-04"), 128_000, 16_384, reasons=False),
    _gpt("gpt-4o-mini", _gpt_price(0.15, 0.075, 0.6, "2025-07-04"), 128_000, 16_384, reasons=False),
    # https://ai.google.dev/gemini-api/docs/pricing and /docs/models
    # "$2.00 through November 30, 2026"; a window for prompt and answer together, whose limits are not told.
    _gemini("gemini-4-argon", Price(input=4, output=20, cache_read=0.2, as_of="2026-12-01"), None),
    _gemini("gemini-4-neon", Price(input=3, output=15, cache_read=0.15, as_of="2026-11-19"), None),
    _gemini("gemini-4-hydrogen", Price(input=1.5, output=7.5, cache_read=0.075, as_of="2026-11-19"), None),
    # "$0.75 through December 31, 2026"
    _gemini("gemini-3.8-flash", Price(input=0.75, output=3.75, cache_read=0.075, as_of="2026-10-07")),
    _gemini("gemini-3.1-pro", _gemini_pro_price(2, 12, "2026-10-07")),
    _gemini("gemini-3-flash", Price(input=0.5, output=3, cache_read=0.05, as_of="2026-07-04")),
    _gemini("gemini-2.5-pro", _gemini_pro_price(1.25, 10, "2026-06-30")),
    _gemini("gemini-2.5-flash", Price(input=0.3, output=2.5, cache_read=0.03, as_of="2026-06-30")),
    # https://api-docs.deepseek.com/quick_start/pricing: the prices of the peak hours, the most that a request
    # costs (01:00 to 04:00 and 06:00 to 10:00 UTC on workdays); at other times it is half. The name
    # `deepseek-v4-flash` is served by the same model as `deepseek-flash`.
    *(
        KnownModel(
            vendor="deepseek",
            model=name,
            context_window=_MILLION,
            max_output_tokens=384_000,
            price=Price(input=0.3, output=1.2, cache_read=0.006, as_of="2026-10-27"),
            supports_images=True,
            reasons=True,
        )
        for name in ("deepseek-flash", "deepseek-v4-flash")
    ),
    KnownModel(
        vendor="deepseek",
        model="deepseek-v4-pro",
        context_window=_MILLION,
        max_output_tokens=384_000,
        price=Price(input=1.32, output=3.96, cache_read=0.044, as_of="2026-10-27"),
        supports_images=False,
        reasons=True,
    ),
    # https://docs.x.ai/developers/grok-4-7, https://docs.x.ai/developers/models/grok-4.20-0309-reasoning
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
    # https://docs.z.ai/guides/overview/pricing
    *(
        KnownModel(
            vendor="zai",
            model=name,
            context_window=1_048_576,
            max_output_tokens=131_072,
            price=Price(input=price, output=answer, cache_read=read, as_of="2026-10-07"),
            supports_images=images,
            reasons=True,
        )
        for name, price, answer, read, images in (
            ("glm-5.3", 1.4, 4.4, 0.26, False),
            ("glm-5.3-flash", 0.15, 0.5, 0.03, None),
        )
    ),
    # https://platform.kimi.ai/docs/pricing/chat-k3 and /docs/guide/kimi-k2-6-quickstart
    *(
        KnownModel(
            vendor="moonshot",
            model=name,
            context_window=1_048_576,
            price=Price(
                input=price, output=5 * price, cache_read=read, cache_write=price, as_of="2026-10-07"
            ),
            supports_images=True,
            reasons=True,
        )
        for name, price, read in (("kimi-k3", 3, 0.3), ("kimi-k3.1-pro", 2, 0.2))
    ),
    KnownModel(
        vendor="moonshot", model="kimi-k2.6", context_window=262_144, supports_images=True, reasons=True
    ),
)
"""What is known of models: windows, limits, prices and their days. `find_model` looks a model up."""

_BY_NAME = {(row.vendor, row.model): row for row in KNOWN_MODELS}
_VERSION = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest|preview|0\d\d)$")
_VENDORS = {"moonshotai": "moonshot", "x-ai": "xai", "z-ai": "zai"}


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
