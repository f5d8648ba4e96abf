import asyncio
import itertools

import pytest

from hermes_messages import (
    ChatRequest,
    ErrorKind,
    History,
    ProviderError,
    ResponseDone,
    StreamEvent,
    UserMessage,
)
from hermes_messages.protocols import Provider
from hermes_messages.testing import ChaosProvider, Fault, FaultKind, ScriptedProvider, text

REQUEST = ChatRequest(model="m", history=History.of([UserMessage("hi")]))


def _fits(provider: ChaosProvider) -> Provider:
    return provider


def scripted() -> ScriptedProvider:
    return ScriptedProvider(itertools.repeat(text("hello", chunk_size=1)))


async def outcomes(provider: ChaosProvider, requests: int) -> list[str]:
    found = []
    for _ in range(requests):
        events: list[StreamEvent] = []
        try:
            async for event in provider.stream(REQUEST):
                events.append(event)  # noqa: PERF401 - what came before a failure counts
        except ProviderError as error:
            assert not any(isinstance(event, ResponseDone) for event in events)
            found.append(f"{error.kind} after {len(events)}")
        else:
            assert isinstance(events[-1], ResponseDone)
            found.append("ok")
    return found


def test_one_seed_plays_the_same_again() -> None:
    first, second, other = (asyncio.run(outcomes(ChaosProvider(scripted(), seed), 60)) for seed in (7, 7, 8))
    assert first == second
    assert first != other


def test_the_plan_is_what_happens() -> None:
    async def main() -> None:
        inner = scripted()
        provider = ChaosProvider(inner, 3)
        found = await outcomes(provider, 80)
        assert provider.faults == [provider.planned(number) for number in range(1, 81)]
        for fault, outcome in zip(provider.faults, found, strict=True):
            assert outcome == expected(fault)
        assert {fault.kind for fault in provider.faults} == set(FaultKind)
        refused = sum(fault.kind is FaultKind.REFUSED for fault in provider.faults)
        assert len(inner.requests) == 80 - refused
        assert inner.live_streams == 0

    asyncio.run(main())


def expected(fault: Fault) -> str:
    match fault.kind:
        case FaultKind.REFUSED:
            return f"{fault.error} after 0"
        case FaultKind.CUT:
            return f"{fault.error} after {min(fault.after, 5)}"
        case _:
            return "ok"


def test_only_the_kinds_asked_for() -> None:
    provider = ChaosProvider(scripted(), 1, refused=0.5, cut=0.5, slow=0, kinds=[ErrorKind.OVERLOADED])
    found = asyncio.run(outcomes(provider, 20))
    assert all(outcome.startswith("overloaded") for outcome in found)


def test_every_kind_of_error_comes() -> None:
    provider = ChaosProvider(scripted(), 1, refused=1, cut=0, slow=0)
    found = {provider.planned(number).error for number in range(400)}
    assert found == set(ErrorKind)


def test_healthy_in_the_end() -> None:
    provider = ChaosProvider(scripted(), 1, refused=1, cut=0, slow=0, healthy_after=3)
    assert asyncio.run(outcomes(provider, 5))[3:] == ["ok", "ok"]


def test_a_slow_stream_gives_way_to_others() -> None:
    async def main() -> None:
        provider = ChaosProvider(scripted(), 1, refused=0, cut=0, slow=1)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counter = asyncio.create_task(count())
        await outcomes(provider, 1)
        counter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await counter
        assert turns >= 6 * provider.faults[0].yields

    asyncio.run(main())


def test_open_and_close_reach_the_provider_inside() -> None:
    async def main() -> None:
        inner = scripted()
        provider = ChaosProvider(inner, 1)
        await provider.open()
        await provider.close()
        assert (inner.open_count, inner.close_count) == (1, 1)
        assert (provider.name, provider.default_model) == (inner.name, inner.default_model)
        assert provider.origin("m") == inner.origin("m")
        assert provider.model_info("m") == inner.model_info("m")

    asyncio.run(main())
