"""Keys from a function or a pool: rotation, refresh, and that they never show."""

from __future__ import annotations

import asyncio
import itertools
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byte_server import ByteServer, Script, plain, stream
from hermes_messages import ConfigurationError, ErrorKind, ProviderError
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpProvider, KeyFunction, KeyPool, KeySource, RateLimiter, Route, from_profile
from hermes_providers.chat_provider import wire_provider
from hermes_providers.credentials import Secret
from hermes_providers.keys import FixedKey, key_source
from hermes_providers.rotation import COOLDOWN_S, AllResting, Rotation
from no_network import Came, Scripted, run_skipping
from wire_help import answer, ask, run, text_answer

OK = stream(text_answer("ok"))
REFUSED = plain(b'{"error":{"message":"Incorrect API key provided"}}', "401 Unauthorized")
LIMITED = plain(b'{"error":{"message":"slow down"}}', "429 Too Many Requests", retry_after="7")
BROKE = plain(b'{"error":{"message":"Insufficient Balance"}}', "402 Payment Required")
BUSY = plain(b'{"error":{"message":"Overloaded"}}', "529 Overloaded")


def keyed(server: ByteServer, key: Any, **more: Any) -> HttpProvider:
    return from_profile("custom", ProviderOptions(base_url=server.base_url), key=key, **more)


def keys_sent(server: ByteServer) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]


# The rotation, without a clock


def test_ready_keys_take_turns() -> None:
    rotation = Rotation(3)
    assert [rotation.pick(0.0) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_limited_key_rests_as_long_as_the_host_asks() -> None:
    rotation = Rotation(2)
    assert rotation.rest(0, ErrorKind.RATE_LIMIT, 7.0, 100.0)
    assert [rotation.pick(106.9) for _ in range(3)] == [1, 1, 1]
    assert 0 in [rotation.pick(107.0) for _ in range(2)]


@pytest.mark.parametrize("kind", [kind for kind in ErrorKind if kind not in COOLDOWN_S])
def test_what_is_no_fault_of_the_key_rests_nothing(kind: ErrorKind) -> None:
    rotation = Rotation(1)
    assert not rotation.rest(0, kind, 60.0, 0.0)
    assert rotation.pick(0.0) == 0


def test_when_all_rest_the_first_to_be_ready_is_named() -> None:
    rotation = Rotation(2)
    rotation.rest(0, ErrorKind.BILLING, None, 0.0)
    rotation.rest(1, ErrorKind.RATE_LIMIT, 5.0, 0.0)
    assert rotation.pick(1.0) == AllResting(5.0, ErrorKind.RATE_LIMIT)
    assert not rotation.any_ready(4.9)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(list(ErrorKind)),
            st.none() | st.floats(0, 100),
            st.floats(0, 50),
        ),
        max_size=30,
    )
)
def test_a_resting_key_is_never_picked_and_a_ready_one_always_found(
    story: list[tuple[int, ErrorKind, float | None, float]],
) -> None:
    rotation, now = Rotation(4), 0.0
    ready_at = [0.0] * 4
    for place, kind, wait, pause in story:
        if rotation.rest(place, kind, wait, now):
            asked = wait if wait is not None and kind is ErrorKind.RATE_LIMIT else COOLDOWN_S[kind]
            ready_at[place] = max(ready_at[place], now + asked)
        now += pause
        picked = rotation.pick(now)
        if isinstance(picked, AllResting):
            assert min(ready_at) > now
            assert picked.ready_at == min(ready_at)
        else:
            assert ready_at[picked] <= now


# What users give


def test_forms_of_a_key() -> None:
    async def fetch() -> str:
        return "k"

    assert isinstance(key_source("k"), FixedKey)
    assert isinstance(key_source(fetch), KeyFunction)
    assert isinstance(key_source(lambda: "k"), KeyFunction)
    assert isinstance(key_source(["a", "b"]), KeyPool)
    pool = KeyPool(["a"])
    assert key_source(pool) is pool
    assert isinstance(pool, KeySource)


@pytest.mark.parametrize("bad", [[], ["good-key", "bad key"], "", "with space"])
def test_bad_keys_are_refused_at_construction(bad: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        key_source(bad)
    assert "good-key" not in str(caught.value)


def test_two_keys_at_once_are_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="not both"):
        from_profile("openai", ProviderOptions(api_key="a"), key="b")


def test_no_source_shows_its_keys() -> None:
    pool = KeyPool(["pool-key-one", "pool-key-two"])
    function = KeyFunction(lambda: "function-key")

    async def use() -> Secret | None:
        return await function.get()

    key = run(use())
    shown = f"{pool!r} {function!r} {FixedKey(key)!r} {key!r} {vars(FixedKey(key))!r}"
    assert "one" not in shown.replace("FixedKey(none)", "")
    assert "function-key" not in shown
    assert function.secrets() == ("function-key",)
    assert pool.secrets() == ("pool-key-one", "pool-key-two")


# A function


async def _asynchronous() -> str:
    await asyncio.sleep(0)
    return "from-function"


def _quotes_its_key() -> str:
    raise ValueError("hunter2 is no JSON")


def test_a_function_that_fails_is_told_by_its_place_and_without_its_text() -> None:
    with pytest.raises(
        ProviderError, match=r"ValueError \(.*test_keys.py:\d+ in _quotes_its_key\)"
    ) as caught:
        run(KeyFunction(_quotes_its_key).get())
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("function", [lambda: "from-function", _asynchronous])
def test_key_of_a_function_is_sent(function: Callable[[], str] | Callable[[], Awaitable[str]]) -> None:
    async def main() -> None:
        async with ByteServer([OK]) as server:
            provider = keyed(server, function)
            await answer(provider)
            assert keys_sent(server) == ["from-function"]
            assert "from-function" in provider.secret_values()
            await provider.close()

    run(main())


def test_refused_key_is_renewed_once_within_the_call() -> None:
    async def main() -> None:
        given = iter(["old", "new"])
        async with ByteServer([REFUSED, OK]) as server:
            provider = keyed(server, lambda: next(given))
            assert (await answer(provider)).message.content == "ok"
            assert keys_sent(server) == ["old", "new"]
            await provider.close()

    run(main())


def test_renewal_happens_once_only() -> None:
    async def main() -> None:
        number = iter(range(100))
        async with ByteServer([REFUSED]) as server:
            provider = keyed(server, KeyFunction(lambda: f"key-number-{next(number)}", keep_s=60))
            with pytest.raises(ProviderError) as caught:
                await answer(provider)
            assert caught.value.kind is ErrorKind.AUTH
            assert keys_sent(server) == ["key-number-0", "key-number-1"]
            await provider.close()

    run(main())


@pytest.mark.parametrize("key", ["fixed", lambda: "fixed"])
def test_the_same_key_is_not_sent_again(key: Any) -> None:
    async def main() -> None:
        async with ByteServer([REFUSED]) as server:
            provider = keyed(server, key)
            with pytest.raises(ProviderError):
                await answer(provider)
            assert keys_sent(server) == ["fixed"]
            await provider.close()

    run(main())


def test_key_that_is_kept_is_asked_for_once_by_many() -> None:
    calls: list[int] = []

    async def fetch() -> str:
        calls.append(1)
        await asyncio.sleep(0)
        return f"key-{len(calls)}"

    async def main() -> None:
        source = KeyFunction(fetch, keep_s=60)
        keys = await asyncio.gather(*(source.get() for _ in range(10)))
        assert len(calls) == 1
        refused = keys[0]
        await asyncio.gather(*(source.renew(refused) for _ in range(10)))
        assert len(calls) == 2  # all ten had the same refused key: one renewal serves them

    run(main())


def _raises() -> str:
    raise RuntimeError("token was hunter2hunter2")


@pytest.mark.parametrize("function", [_raises, lambda: 5, lambda: "two words", lambda: ""])
def test_function_that_gives_no_key_ends_in_a_typed_error_before_sending(function: Any) -> None:
    async def main() -> None:
        async with ByteServer([OK]) as server:
            provider = keyed(server, function)
            with pytest.raises(ProviderError, match="nothing was sent") as caught:
                await answer(provider)
            assert caught.value.kind is ErrorKind.AUTH
            assert "hunter2" not in str(caught.value)
            assert not server.requests
            await provider.close()

    run(main())


def test_cancelled_wait_for_a_key_sends_nothing_and_leaves_the_source_usable() -> None:
    async def main() -> None:
        asked, gate = asyncio.Event(), asyncio.Event()

        async def fetch() -> str:
            asked.set()
            await gate.wait()
            return "late"

        async with ByteServer([OK]) as server:
            provider = keyed(server, KeyFunction(fetch, keep_s=60))
            task = asyncio.create_task(answer(provider))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not server.requests
            gate.set()
            assert (await answer(provider)).message.content == "ok"
            await provider.close()

    run(main())


# A pool


def test_keys_of_a_pool_take_turns_on_the_wire() -> None:
    async def main() -> None:
        async with ByteServer([OK]) as server:
            provider = keyed(server, ["a-key", "b-key"])
            for _ in range(4):
                await answer(provider)
            assert keys_sent(server) == ["a-key", "b-key", "a-key", "b-key"]
            await provider.close()

    run(main())


async def _failure(provider: HttpProvider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await answer(provider)
    return caught.value


def test_limited_key_rests_and_the_caller_need_not_wait() -> None:
    async def main() -> None:
        async with ByteServer([LIMITED, OK]) as server:
            provider = keyed(server, ["a-key", "b-key"])
            error = await _failure(provider)
            assert (error.kind, error.retry_after_s) == (ErrorKind.RATE_LIMIT, 0.0)
            await answer(provider)
            await answer(provider)
            assert keys_sent(server) == ["a-key", "b-key", "b-key"]
            await provider.close()

    run(main())


def test_overload_rests_no_key() -> None:
    async def main() -> None:
        async with ByteServer([BUSY, OK]) as server:
            provider = keyed(server, ["a-key"])
            assert (await _failure(provider)).kind is ErrorKind.OVERLOADED
            assert (await answer(provider)).message.content == "ok"
            await provider.close()

    run(main())


@pytest.mark.parametrize("script", [REFUSED, BROKE])
def test_dead_key_is_replaced_within_the_call(script: Script) -> None:
    async def main() -> None:
        async with ByteServer([script, OK]) as server:
            provider = keyed(server, ["a-key", "b-key", "c-key"])
            assert (await answer(provider)).message.content == "ok"
            await answer(provider)
            await answer(provider)
            assert keys_sent(server) == ["a-key", "b-key", "c-key", "b-key"]
            await provider.close()

    run(main())


def test_while_all_keys_rest_nothing_is_sent() -> None:
    async def main() -> None:
        async with ByteServer([LIMITED]) as server:
            clock = [0.0]
            provider = keyed(server, KeyPool(["a-key"], clock=lambda: clock[0]))
            assert (await _failure(provider)).retry_after_s == 7.0
            clock[0] = 2.0
            error = await _failure(provider)
            assert (error.kind, error.retry_after_s) == (ErrorKind.RATE_LIMIT, 5.0)
            assert "a-key" not in str(error)
            assert len(server.requests) == 1
            clock[0] = 7.0
            await _failure(provider)
            assert len(server.requests) == 2
            await provider.close()

    run(main())


def test_headers_that_a_route_changes_are_not_sent_as_they_were() -> None:
    async def main() -> None:
        headers = {"x-gateway": "old"}
        async with ByteServer([OK]) as server:
            route = Route(provider="gateway", base_url=server.base_url, headers=headers)
            provider = wire_provider(route, "openai_chat")
            await answer(provider)
            headers["x-gateway"] = "new"
            await answer(provider)
            assert [request.headers["x-gateway"] for request in server.requests] == ["old", "new"]
            await provider.close()

    run(main())


def test_wait_of_a_limited_route_holds_all_who_share_its_limiter() -> None:
    async def main() -> None:
        soon = Came(b'{"error":{"message":"slow"}}', status=429, headers={"retry-after-ms": "40"})
        transport = Scripted(soon, Came(text_answer("ok")))
        options = ProviderOptions(base_url="http://h.example/v1")
        limiter = RateLimiter(max_concurrent=5)
        one, two = (
            from_profile("custom", options, key=key, limiter=limiter, transport=transport) for key in "ab"
        )
        await _failure(one)
        await answer(two)
        assert transport.started == pytest.approx([0, 0.04])

    run_skipping(main())


def test_key_that_many_calls_find_refused_is_renewed_once_for_all() -> None:
    async def main() -> None:
        number = itertools.count()
        async with ByteServer([*[REFUSED] * 8, OK]) as server:
            source = KeyFunction(lambda: f"key-number-{next(number)}", keep_s=60)
            providers = [keyed(server, source) for _ in range(8)]
            answers = await asyncio.gather(*(answer(one) for one in providers))
            assert {one.message.content for one in answers} == {"ok"}
            assert Counter(keys_sent(server)) == {"key-number-0": 8, "key-number-1": 8}
            for one in providers:
                await one.close()

    run(main())


@pytest.mark.parametrize("key", [lambda: iter(["old-key-1", "new-key-2"]), None])
def test_refused_key_is_renewed_also_where_tokens_are_counted(key: Any) -> None:
    async def main() -> None:
        counted = plain(b'{"input_tokens": 7}')
        async with ByteServer([REFUSED, counted]) as server:
            given = key() if key else None
            provider = from_profile(
                "anthropic",
                ProviderOptions(base_url=server.base_url),
                key=(lambda: next(given)) if given else ["old-key-1", "new-key-2"],
            )
            assert await provider.count_tokens(ask()) == 7
            assert [request.headers["x-api-key"] for request in server.requests] == ["old-key-1", "new-key-2"]
            await provider.close()

    run(main())


@pytest.mark.parametrize("given", [b"sk-hunter2-0123456", 5, {"sk-hunter2-0123456": 1}])
def test_what_is_no_key_is_refused_without_showing_it(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=type(given).__name__) as refused:
        key_source(given)
    assert "hunter2" not in str(refused.value)
