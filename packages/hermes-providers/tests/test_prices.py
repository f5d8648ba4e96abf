"""Cost: a price that is not known is unknown, never 0."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest

from byte_server import ByteServer, stream
from hermes_messages import Usage
from hermes_messages.protocols import ProviderOptions
from hermes_providers import KNOWN_MODELS, Price, cost_usd, find_model, from_profile
from hermes_providers.route import Route
from hermes_providers.timeouts import REASONING_S, Timeouts
from wire_help import KEY, answer, ask, run, text_answer

PRICE = Price(input=2, output=10, cache_read=0.2, cache_write=2.5)


@pytest.mark.parametrize(
    ("usage", "price", "cost"),
    [
        (Usage(input_tokens=1_000_000, output_tokens=0), PRICE, 2.0),
        (Usage(input_tokens=0, output_tokens=1_000_000), PRICE, 10.0),
        # The prompt's figure holds what came from the cache and what went into it.
        (
            Usage(
                input_tokens=1_000_000, output_tokens=0, cache_read_tokens=500_000, cache_write_tokens=100_000
            ),
            PRICE,
            0.4 * 2 + 0.5 * 0.2 + 0.1 * 2.5,
        ),
        (Usage(input_tokens=10, output_tokens=10, cost_usd=0.5), PRICE, 0.5),
        (Usage(input_tokens=10, output_tokens=10, cost_usd=0.0), PRICE, 0.0),
        (Usage(input_tokens=10, output_tokens=10), None, None),
        (Usage(input_tokens=10), PRICE, None),
        (Usage(output_tokens=10), PRICE, None),
        (None, PRICE, None),
        (Usage(input_tokens=10, output_tokens=1, cache_read_tokens=5), Price(input=1, output=1), None),
        (Usage(input_tokens=10, output_tokens=0, cache_read_tokens=0), Price(input=1, output=1), 1e-5),
    ],
)
def test_cost(usage: Usage | None, price: Price | None, cost: float | None) -> None:
    assert cost_usd(usage, price) == (cost if cost is None else pytest.approx(cost))


def test_long_prompts_cost_what_they_cost() -> None:
    usage = Usage(input_tokens=300_000, output_tokens=0)
    unknown = Price(input=1, output=1, long_above=200_000)
    known = Price(input=1, output=1, long_above=200_000, long_prompt=Price(input=4, output=1))
    assert cost_usd(usage, unknown) is None
    assert cost_usd(usage, known) == pytest.approx(1.2)
    assert cost_usd(Usage(input_tokens=200_000, output_tokens=0), unknown) == pytest.approx(0.2)


@pytest.mark.parametrize("row", KNOWN_MODELS, ids=lambda row: row.model)
def test_every_row_has_a_date_and_makes_sense(row: Any) -> None:
    if row.price is not None:
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", row.price.as_of)
        assert date.fromisoformat(row.price.as_of) > date(2025, 1, 1)
        assert 0 < row.price.input < row.price.output
        assert row.price.cache_read is None or 0 < row.price.cache_read < row.price.input
    assert find_model(row.vendor, row.model) is row


@pytest.mark.parametrize(
    ("provider", "model", "found"),
    [
        ("openai", "gpt-4.1-mini", "gpt-4.1-mini"),
        ("openai", "gpt-4.1-mini-2025-04-14", "gpt-4.1-mini"),
        ("anthropic", "claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("google", "gemini-3-flash-preview", "gemini-3-flash"),
        ("openai", "gpt-4.1-minimal", None),
        ("openai", "gpt-99", None),
        ("xai", "grok-4.7", "grok-4.7"),
        ("mistral", "mistral-medium-3-5", "mistral-medium-3-5"),
        ("mistral", "mistral-medium-latest", None),  # it moves on, and its price with it
        ("fireworks", "accounts/fireworks/models/kimi-k2p6", None),
        ("custom", "gpt-4.1-mini", None),
        ("openrouter", "gpt-4.1-mini", None),
        ("openrouter", "anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("openrouter", "openai/gpt-5:nitro", "gpt-5"),
        ("openrouter", "x-ai/grok-4.7", "grok-4.7"),
        ("openrouter", "moonshotai/kimi-k3", "kimi-k3"),
        ("openrouter", "anthropic/claude-fable-5.2", "claude-fable-5-2"),
        ("openrouter", "a/b/c", None),
        ("openrouter", "/", None),
    ],
)
def test_models_are_found_by_their_name_alone(provider: str, model: str, found: str | None) -> None:
    row = find_model(provider, model)
    assert (row.model if row else None) == found
    if row is not None and provider == "openrouter":
        assert row.price is None  # what a router asks is another matter


def test_prompt_that_reaches_the_line_costs_double_from_there_on() -> None:
    grok = find_model("xai", "grok-4.7")
    assert grok is not None
    short = Usage(input_tokens=199_999, output_tokens=0)
    long = Usage(input_tokens=200_000, output_tokens=1_000_000, cache_read_tokens=100_000)
    assert cost_usd(short, grok.price) == pytest.approx(0.399998)
    assert cost_usd(long, grok.price) == pytest.approx(0.1 * 4 + 0.1 * 1 + 12)


@pytest.mark.parametrize(
    ("provider", "model", "prompt", "cost"),
    [
        # What is read from a cache costs less than a tenth with the newest models.
        ("anthropic", "claude-fable-5-1", 1_000_000, 0.25),
        ("anthropic", "claude-opus-5-5", 1_000_000, 0.2),
        ("anthropic", "claude-sonnet-5-5", 1_000_000, 0.1),
        ("anthropic", "claude-opus-5", 1_000_000, 0.5),
        ("anthropic", "claude-haiku-5-5", 100_000, 0.001),
        ("anthropic", "claude-haiku-5-5", 200_000, 0.01),
        ("openai", "gpt-6.2-sol", 272_000, 0.0272),
        ("openai", "gpt-6.2-sol", 1_000_000, 0.2),
        ("google", "gemini-2.5-pro", 1_000_000, 0.25),
    ],
)
def test_prompt_from_a_cache_costs_what_the_vendor_says(
    provider: str, model: str, prompt: int, cost: float
) -> None:
    row = find_model(provider, model)
    assert row is not None
    usage = Usage(input_tokens=prompt, output_tokens=0, cache_read_tokens=prompt)
    assert cost_usd(usage, row.price) == pytest.approx(cost)


def test_long_prompt_raises_the_price_of_the_answer_and_of_what_is_cached() -> None:
    row = find_model("openai", "gpt-6-sol")
    assert row is not None
    usage = Usage(input_tokens=500_000, output_tokens=100_000, cache_write_tokens=400_000)
    assert cost_usd(usage, row.price) == pytest.approx(0.1 * 4 + 0.4 * 5 + 0.1 * 15)


def test_price_of_the_cache_that_is_not_known_makes_the_cost_unknown() -> None:
    medium = find_model("mistral", "mistral-medium-3.5")
    assert medium is not None
    usage = Usage(input_tokens=10, output_tokens=1)
    assert cost_usd(usage, medium.price) is not None
    assert cost_usd(Usage(input_tokens=10, output_tokens=1, cache_read_tokens=5), medium.price) is None


def test_cost_comes_with_the_answer() -> None:
    async def main() -> None:
        usage = {
            "prompt_tokens": 1000,
            "completion_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 400},
        }
        async with ByteServer([stream(text_answer("ok", usage=usage))]) as server:
            made = from_profile("openai", ProviderOptions(api_key=KEY, base_url=server.base_url))
            for model, cost in (
                ("gpt-4.1-mini", (600 * 0.4 + 400 * 0.1 + 100 * 1.6) / 1e6),
                ("my-finetune", None),
            ):
                said = (await answer(made, ask(model=model))).usage
                assert said is not None
                assert said.cost_usd == (cost if cost is None else pytest.approx(cost))
            await made.close()
            prices: Any = {"my-finetune": {"input": 1, "output": 2, "cache_read": 0.5}}
            own = from_profile(
                "openai",
                ProviderOptions(api_key=KEY, base_url=server.base_url, settings={"prices": prices}),
            )
            said = (await answer(own, ask(model="my-finetune"))).usage
            assert said is not None
            assert said.cost_usd == pytest.approx((600 + 400 * 0.5 + 200) / 1e6)
            await own.close()

    run(main())


def test_no_usage_stays_unknown() -> None:
    async def main() -> None:
        async with ByteServer([stream(text_answer("ok"))]) as server:
            made = from_profile("openai", ProviderOptions(api_key=KEY, base_url=server.base_url))
            assert (await answer(made, ask(model="gpt-4.1-mini"))).usage is None
            await made.close()

    run(main())


def test_what_the_caller_says_of_a_model_wins() -> None:
    made = from_profile("openai", ProviderOptions(api_key=KEY, settings={"context_window": 9}))
    info = made.model_info("gpt-4.1-mini")
    assert (info.context_window, info.max_output_tokens, info.supports_images) == (9, 32_768, True)
    assert made.model_info("unheard-of").max_output_tokens is None


@pytest.mark.parametrize("model", ["gpt-4.1-mini", "unheard-of"])
def test_every_effort_may_be_asked_for_since_the_wires_know_what_models_have(model: str) -> None:
    assert from_profile("openai", ProviderOptions(api_key=KEY)).model_info(model).strong_efforts


# Time for models that think


def limits(provider: Any, **more: Any) -> tuple[float | None, float | None]:
    found = provider._route.timeouts_for(ask(**more))
    return found.first_event_s, found.between_events_s


def test_limits_are_wider_for_models_that_reason() -> None:
    made = from_profile("openai", ProviderOptions(api_key=KEY))
    wide = (REASONING_S["first_event_s"], REASONING_S["between_events_s"])
    usual = (Timeouts().first_event_s, Timeouts().between_events_s)
    assert limits(made, model="gpt-4.1-mini") == usual
    assert limits(made, model="gpt-4.1-mini", reasoning_effort="high") == wide
    assert limits(made, model="gpt-5") == wide
    assert limits(made, model="gpt-5", reasoning_effort="minimal") == usual
    assert limits(made, model="unheard-of", reasoning_effort="none") == usual


def test_limits_that_the_user_said_are_never_widened() -> None:
    made = from_profile(
        "openai", ProviderOptions(api_key=KEY, settings={"first_event_s": 30, "between_events_s": None})
    )
    assert limits(made, model="gpt-5", reasoning_effort="high") == (30, None)
    only_one = from_profile("openai", ProviderOptions(api_key=KEY, settings={"first_event_s": 300.0}))
    assert limits(only_one, model="gpt-5") == (300.0, REASONING_S["between_events_s"])


def test_a_route_widens_by_itself() -> None:
    route = Route(provider="x", base_url="http://h.example")
    assert route.reasoning_timeouts == Timeouts().for_reasoning()
