"""A turn that goes on with another route: what is sent where, what the host sees, what rests."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_loop import (
    AIAgent,
    AttemptDiscarded,
    RouteChanged,
    TurnEvent,
    route_making,
)
from hermes_loop.route_rests import RouteRests
from hermes_loop.route_specs import RouteSpec, read_fallbacks
from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ErrorKind,
    ModelInfo,
    ProviderError,
    TextDelta,
    Usage,
    UserMessage,
)
from hermes_messages.protocols import ProviderOptions
from hermes_messages.testing import (
    ChaosProvider,
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    broken,
    call,
    calls,
    error,
    failure,
    text,
)
from loop_help import look, run


class FakeClock:
    """Time that a test moves; waits are noted and take none."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake = FakeClock()
    monkeypatch.setattr("hermes_loop.wiring.SystemClock", lambda: fake)
    return fake


def provider(name: str, *script: ScriptStep, window: int | None = None) -> ScriptedProvider:
    steps = itertools.chain(script, itertools.repeat(text(f"from {name}")))
    return ScriptedProvider(
        steps, name=name, model=f"{name}-model", model_info=ModelInfo(context_window=window)
    )


def dead(name: str, kind: ErrorKind, **options: Any) -> ScriptedProvider:
    return ScriptedProvider(
        itertools.repeat(error(failure(kind, **options))), name=name, model=f"{name}-model"
    )


def make(first: ScriptedProvider, *others: ScriptedProvider, **options: Any) -> AIAgent:
    return AIAgent(
        provider=first,
        fallback_models=list(others),
        tools=SimpleExecutor({"look": look}),
        session_id="s",
        **options,
    )


class TestOneTurn:
    @pytest.mark.parametrize("kind", list(ErrorKind))
    def test_a_healthy_fallback_answers_whatever_the_failure(self, clock: FakeClock, kind: ErrorKind) -> None:
        first, second = dead("a", kind), provider("b")
        [result] = run(make(first, second), "hi")
        assert (result["final_response"], result["turn_exit_reason"]) == ("from b", "text_response")
        assert (result["provider"], result["model"]) == ("b", "b-model")
        assert second.requests[0].model == "b-model"
        assert len(first.requests) <= 6

    def test_the_fallback_is_opened_only_when_it_is_needed(self, clock: FakeClock) -> None:
        first, second = provider("a", text("1"), error(ErrorKind.AUTH)), provider("b")
        agent = make(first, second)

        async def main() -> None:
            async with agent:
                await agent.chat("hi")
                assert (first.open_count, second.open_count) == (1, 0)
                await agent.chat("hi")
                await agent.chat("hi")
                assert second.open_count == 1

        asyncio.run(main())

    def test_text_of_the_route_that_broke_is_discarded_and_not_mixed(self, clock: FakeClock) -> None:
        shown: list[str] = []
        events: list[TurnEvent] = []
        first = provider("a", *[broken(text("Hello wor", chunk_size=3), after=2, error=ErrorKind.AUTH)])
        second = provider("b", text("Hello world", chunk_size=4))
        store = MemoryStore()
        agent = make(first, second, session_db=store, event_callback=events.append)
        [result] = run(agent, "hi", stream_callback=shown.append)
        assert result["final_response"] == "Hello world"
        assert "".join(shown) == "Hello world"
        assert store.messages("s")[1:] == [result["transcript"][-1]]
        discarded = next(i for i, event in enumerate(events) if isinstance(event, AttemptDiscarded))
        assert RouteChanged("b", "b-model", "auth") in events[discarded:]
        after = [event.text for event in events[discarded:] if isinstance(event, TextDelta)]
        assert "".join(after) == "Hello world"

    def test_the_rest_of_the_turn_stays_on_the_route_that_answers(self, clock: FakeClock) -> None:
        first = dead("a", ErrorKind.BILLING)
        second = provider("b", calls(call("look", {"at": "x"})), text("seen"))
        [result] = run(make(first, second), "hi")
        assert (len(first.requests), len(second.requests)) == (1, 2)
        assert result["final_response"] == "seen"

    @pytest.mark.parametrize("effort", ["xhigh", "max"])
    def test_a_provider_is_asked_for_no_effort_that_is_younger_than_it(
        self, clock: FakeClock, effort: str
    ) -> None:
        first = ScriptedProvider([calls(call("look")), error(ErrorKind.AUTH)])
        second = ScriptedProvider([text("ok")], model_info=ModelInfo())
        run(make(first, second, reasoning_effort=effort), "hi")
        assert [request.reasoning_effort for request in first.requests] == [effort, effort]
        assert [request.reasoning_effort for request in second.requests] == ["high"]

    def test_usage_and_cost_are_told_for_each_route(self, clock: FakeClock) -> None:
        use = Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)
        first = provider("a", calls(call("look"), usage=use), error(ErrorKind.AUTH))
        second = provider("b", text("ok", usage=Usage(input_tokens=20, output_tokens=3)))
        [result] = run(make(first, second), "hi")
        rows = [
            (row["provider"], row["model"], row["api_calls"], row["input_tokens"], row["cost_usd"])
            for row in result["usage_by_route"]
        ]
        assert rows == [("a", "a-model", 2, 10, 0.5), ("b", "b-model", 1, 20, None)]
        assert (result["api_calls"], result["input_tokens"], result["output_tokens"]) == (3, 30, 5)

    def test_a_route_whose_window_is_too_small_is_passed_over(self, clock: FakeClock) -> None:
        use = Usage(input_tokens=5000, output_tokens=1)
        first = provider("a", calls(call("look"), usage=use), error(ErrorKind.AUTH), window=10_000)
        second, third = provider("b", window=4000), provider("c", window=8000)
        [result] = run(make(first, second, third), "hi")
        assert (result["final_response"], second.requests) == ("from c", [])

    def test_an_answer_that_the_filter_held_back_is_asked_of_another_host_once(
        self, clock: FakeClock
    ) -> None:
        first = provider("a", text("I can", finish="content_filter"))
        [result] = run(make(first, provider("b")), "hi")
        assert (result["final_response"], len(first.requests)) == ("from b", 1)

    def test_a_refusal_of_every_host_is_typed(self, clock: FakeClock) -> None:
        first, second = dead("a", ErrorKind.CONTENT_POLICY), dead("b", ErrorKind.CONTENT_POLICY)
        agent = make(first, second)
        results = run(agent, "hi", "and this?")
        assert [result["turn_exit_reason"] for result in results] == ["refused", "refused"]
        assert (len(first.requests), len(second.requests)) == (2, 2)  # it was the request that was refused

    def test_a_failure_of_all_says_what_each_said(self, clock: FakeClock) -> None:
        first = dead("a", ErrorKind.AUTH, message="no such key")
        second = dead("b", ErrorKind.BILLING, message="no credit")
        [result] = run(make(first, second), "hi")
        assert result["error"] is not None
        assert "no credit" in result["error"]
        assert "a/a-model: no such key" in result["error"]
        assert (result["error_kind"], result["failed"]) == (ErrorKind.BILLING, True)
        assert [type(message) for message in result["transcript"]] == [UserMessage]

    def test_an_interrupt_in_the_wait_of_a_fallback_ends_the_turn(
        self, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = dead("a", ErrorKind.AUTH), provider("b", error(ErrorKind.SERVER))

        async def sleep(seconds: float) -> None:
            agent.interrupt()
            await asyncio.sleep(3600 + seconds)

        agent = make(first, second)
        monkeypatch.setattr(clock, "sleep", sleep)
        [result] = run(agent, "hi")
        assert result["turn_exit_reason"] == "interrupted"

    def test_a_fallback_that_can_not_be_opened_is_one_that_failed(self, clock: FakeClock) -> None:
        class Closed(ScriptedProvider):
            async def open(self) -> None:
                raise ConfigurationError("no such proxy")

        [result] = run(make(dead("a", ErrorKind.AUTH), Closed([], name="b"), provider("c")), "hi")
        assert (result["final_response"], result["provider"]) == ("from c", "c")
        assert [row["provider"] for row in result["usage_by_route"]] == ["a", "c"]

    def test_a_primary_that_can_not_be_opened_does_not_keep_the_agent_shut(self, clock: FakeClock) -> None:
        class Down(ScriptedProvider):
            async def open(self) -> None:
                raise ProviderError("no server", kind=ErrorKind.TRANSPORT)

        [result] = run(make(Down([], name="a"), provider("b")), "hi")
        assert result["final_response"] == "from b"


class TestCooldown:
    def test_the_next_turn_begins_where_the_last_one_got_its_answer_and_goes_back_after_the_rest(
        self, clock: FakeClock
    ) -> None:
        first, second = provider("a", error(ErrorKind.AUTH)), provider("b")
        agent = make(first, second)

        async def main() -> None:
            async with agent:
                assert await agent.chat("1") == "from b"
                clock.now += 29
                assert await agent.chat("2") == "from b"
                assert len(first.requests) == 1
                clock.now += 2
                assert await agent.chat("3") == "from a"

        asyncio.run(main())

    def test_an_exhausted_chain_is_left_alone_for_a_while(self, clock: FakeClock) -> None:
        chain = [
            dead("a", ErrorKind.FORMAT),
            dead("b", ErrorKind.BILLING),
            dead("c", ErrorKind.RATE_LIMIT, retry_after_s=20),
        ]
        store = MemoryStore()
        agent = make(*chain, session_db=store)

        async def main() -> None:
            async with agent:
                await agent.run_conversation("1")
                sent = [len(one.requests) for one in chain]
                stored = store.messages("s")
                for _ in range(3):
                    again = await agent.run_conversation("1")
                    assert (again["turn_exit_reason"], again["api_calls"]) == ("provider_error", 0)
                    assert again["error"] is not None
                    assert "tried again in 20 s" in again["error"]
                assert [len(one.requests) for one in chain] == sent
                assert store.messages("s") == stored
                clock.now += 31
                await agent.run_conversation("2")
                assert len(chain[0].requests) == sent[0] + 1

        asyncio.run(main())

    def test_the_only_route_never_rests(self, clock: FakeClock) -> None:
        only = provider("a", error(ErrorKind.AUTH))
        results = run(make(only), "1", "2")
        assert [result["final_response"] for result in results] == [None, "from a"]

    def test_a_resting_route_is_the_last_resort_and_not_no_resort(self, clock: FakeClock) -> None:
        first = provider("a", error(ErrorKind.AUTH))
        second = provider("b", text("b1"), error(ErrorKind.AUTH))
        results = run(make(first, second), "1", "2")
        assert [result["final_response"] for result in results] == ["b1", "from a"]

    def test_rests_are_kept_and_end(self) -> None:
        rests = RouteRests(2)
        rests.rest(0, 10)
        rests.rest(0, 5)
        assert (rests.ready(0, 9.9), rests.ready(0, 10), rests.ready(1, 0)) == (False, True, True)
        assert (rests.left_s(0, 4), rests.left_s(1, 4), rests.left_s(0, 11)) == (6, 0, 0)


class TestSameRoute:
    """What is changed in a request before another route is asked."""

    def test_a_refused_parameter_is_left_out_for_the_rest_of_the_turn(self, clock: FakeClock) -> None:
        no = ProviderError("no", kind=ErrorKind.UNSUPPORTED_PARAMETER, parameter="temperature")
        only = provider("a", error(no), calls(call("look")), text("ok"))
        [result] = run(make(only, temperature=0.5), "hi")
        assert [request.temperature for request in only.requests] == [0.5, None, None]
        assert (result["final_response"], result["api_calls"]) == ("ok", 3)

    def test_an_output_limit_that_is_too_large_becomes_the_hosts(self, clock: FakeClock) -> None:
        no = ProviderError("no", kind=ErrorKind.OUTPUT_CAP, status=400, output_limit=4096)
        only = provider("a", error(no))
        [result] = run(make(only, max_tokens=100_000), "hi")
        assert [request.max_tokens for request in only.requests] == [100_000, 4096]
        assert result["completed"]

    def test_a_malformed_request_is_mended_once_then_the_turn_fails_at_once(self, clock: FakeClock) -> None:
        only = provider("a", calls(call("look", "{bad")), *[error(ErrorKind.FORMAT)] * 9)
        store = MemoryStore()
        [result] = run(make(only, session_db=store), "hi")
        assert (len(only.requests), result["turn_exit_reason"]) == (3, "provider_error")
        mended = only.requests[2].history[2]
        assert isinstance(mended, AssistantMessage)
        assert mended.tool_calls[0].arguments == "{}"
        stored = store.messages("s")[1]
        assert isinstance(stored, AssistantMessage)
        assert stored.tool_calls[0].arguments == "{bad"

    def test_nothing_is_made_up_for_a_turn_that_never_reached_the_model(self, clock: FakeClock) -> None:
        store = MemoryStore()
        results = run(make(dead("a", ErrorKind.FORMAT), session_db=store), "1", "2", "3")
        assert [result["api_calls"] for result in results] == [1, 1, 1]
        assert store.messages("s") == [UserMessage("1"), UserMessage("2"), UserMessage("3")]

    def test_a_new_route_gets_the_request_as_it_was(self, clock: FakeClock) -> None:
        no = ProviderError("no", kind=ErrorKind.UNSUPPORTED_PARAMETER, parameter="seed")
        first, second = provider("a", error(no), error(ErrorKind.AUTH)), provider("b")
        run(make(first, second, seed=7), "hi")
        assert [request.seed for request in (*first.requests, *second.requests)] == [7, None, 7]

    def test_a_wait_of_a_day_ends_the_turn_with_the_time_in_the_error(self, clock: FakeClock) -> None:
        [result] = run(make(dead("a", ErrorKind.RATE_LIMIT, retry_after_s=86_400)), "hi")
        assert result["error"] is not None
        assert "86400 s" in result["error"]
        assert clock.slept == []


@settings(max_examples=150, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=3),
    steps=st.lists(st.sampled_from(["call", "text"]), max_size=3),
    parameter=st.sampled_from([None, "temperature", "tools"]),
)
def test_with_a_healthy_route_no_turn_ends_in_error_and_every_loop_is_bounded(
    seeds: list[int], steps: list[str], parameter: str | None
) -> None:
    """Every route but the last fails at random, in all ways, also in the middle of its text."""
    fake = FakeClock()

    def answers() -> Any:
        wanted = [calls(call("look"), chunk_size=2) if step == "call" else text("fine") for step in steps]
        return itertools.chain(wanted, itertools.repeat(text("fine", chunk_size=2)))

    class Chaos(ChaosProvider):
        async def stream(self, request: Any) -> Any:
            try:
                async for event in super().stream(request):
                    yield event
            except ProviderError as problem:
                problem.parameter = parameter
                problem.left_out = parameter == "tools"
                raise

    troubled = [
        Chaos(ScriptedProvider(answers(), name=f"p{i}"), seed, refused=0.5, cut=0.4)
        for i, seed in enumerate(seeds)
    ]
    healthy = ScriptedProvider(answers(), name="healthy")

    async def main() -> None:
        agent = AIAgent(
            provider=troubled[0],
            fallback_models=[*troubled[1:], healthy],
            tools=SimpleExecutor({"look": look}),
            temperature=0.3,
            max_tokens=50,
        )
        async with agent:
            for message in ("one", "two", "three"):
                result = await agent.run_conversation(message)
                assert result["turn_exit_reason"] == "text_response", result["error"]
                assert result["final_response"] == "fine"
                bound = (len(steps) + 1) * len([*troubled, healthy]) * 20
                assert result["api_calls"] <= bound
                fake.now += 10

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hermes_loop.wiring.SystemClock", lambda: fake)
        asyncio.run(main())


class TestWhatAHostGives:
    def test_every_form_is_read(self) -> None:
        other = provider("b")
        assert read_fallbacks("openrouter/anthropic/claude", ["gpt-5-mini", {"model": "a/b"}, other]) == (
            RouteSpec(provider="openrouter", model="anthropic/claude"),
            RouteSpec(model="gpt-5-mini"),
            RouteSpec(model="a/b"),
            RouteSpec(provider=other),
        )
        whole = {"provider": "custom", "model": "m", "base_url": "http://h/v1", "api_key": "sk-secret"}
        [spec] = read_fallbacks(whole, None)
        assert (spec.provider, spec.base_url, spec.api_key) == ("custom", "http://h/v1", "sk-secret")
        assert "sk-secret" not in repr(spec)

    @pytest.mark.parametrize(
        "given",
        [
            "",
            "/model",
            "openrouter/",
            5,
            [None],
            {"modle": "x"},
            {},
            {"model": ""},
            {"model": "m", "settings": 3},
            {"provider": ScriptedProvider([]), "api_key": "k"},
        ],
    )
    def test_what_can_not_work_is_refused_when_the_agent_is_made(self, given: object) -> None:
        with pytest.raises(ConfigurationError, match="fallback_model"):
            AIAgent(provider=ScriptedProvider([]), fallback_model=given)  # type: ignore[arg-type]

    def test_names_are_made_at_opening_and_a_wrong_one_is_found_then(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[tuple[str | None, str | None]] = []

        def factory(name: str | None, options: ProviderOptions) -> ScriptedProvider:
            made.append((name, options.model))
            return ScriptedProvider([text("x")], name=name or "default")

        monkeypatch.setattr(route_making, "make_provider", factory)
        monkeypatch.setattr(route_making, "names_in", lambda _: {"openrouter": None, "openai": None})
        agent = AIAgent(
            provider="openrouter", model="m1", fallback_models=["m2", "openai/m3", {"provider": "openrouter"}]
        )
        run(agent, "hi")
        assert made == [("openrouter", "m1"), ("openai", "m3")]
        wrong = AIAgent(provider="openrouter", model="m1", fallback_model="opnai/m3")
        with pytest.raises(ConfigurationError, match="did you mean 'openai'"):
            run(wrong, "hi")
