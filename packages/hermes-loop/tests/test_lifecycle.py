"""Opening, closing, waiting in line, and event loops that come and go."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest

from hermes_loop import AIAgent, route_making, wiring
from hermes_loop.no_tools import NoTools
from hermes_loop.shielding import Bounds
from hermes_messages import (
    ConfigurationError,
    ErrorKind,
    HermesError,
    ProviderError,
    validate,
)
from hermes_messages.protocols import Agent, ProviderOptions, ToolExecutor
from hermes_messages.testing import (
    FunctionTool,
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    StepGate,
    ToolDouble,
    call,
    calls,
    hang,
    text,
)


def test_making_an_agent_opens_nothing_and_needs_no_loop() -> None:
    provider, executor, store = ScriptedProvider([]), SimpleExecutor(), MemoryStore()
    AIAgent(provider=provider, tools=executor, session_db=store)
    assert (provider.open_count, executor.open_count, store.calls) == (0, 0, [])


def test_both_ways_in_open_once() -> None:
    async def main() -> None:
        provider = ScriptedProvider([text("a"), text("b"), text("c")])
        async with AIAgent(provider=provider) as agent:
            await asyncio.gather(*(agent.chat("hi") for _ in range(2)))
        assert provider.open_count == 1
        direct = AIAgent(provider=provider)
        await direct.chat("hi")
        assert provider.open_count == 2
        await direct.close()

    asyncio.run(main())


def test_objects_of_the_host_are_left_open() -> None:
    async def main() -> None:
        provider, executor, store = ScriptedProvider([text("a")]), SimpleExecutor(), MemoryStore()
        async with AIAgent(provider=provider, tools=executor, session_db=store) as agent:
            await agent.chat("hi")
        assert (provider.close_count, executor.close_count, store.closed) == (0, 0, False)

    asyncio.run(main())


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedProvider]:
    """Providers that the name `scripted` makes."""
    made: list[ScriptedProvider] = []

    def make(name: str | None, options: ProviderOptions) -> ScriptedProvider:
        assert name == "scripted"
        assert options.api_key == "secret"
        made.append(ScriptedProvider([text("a"), text("b")]))
        return made[-1]

    monkeypatch.setattr(route_making, "make_provider", make)
    return made


def test_what_is_made_from_a_name_is_closed_with_the_agent(named: list[ScriptedProvider]) -> None:
    async def main() -> None:
        agent = AIAgent(provider="scripted", api_key="secret")
        assert named == []
        await agent.chat("hi")
        await agent.close()
        await agent.close()
        assert [provider.close_count for provider in named] == [1]
        assert await agent.chat("still there?") == "a"
        await agent.close()
        assert [provider.close_count for provider in named] == [1, 1]

    asyncio.run(main())


def test_a_failed_opening_leaves_nothing_open_and_can_be_tried_again(
    named: list[ScriptedProvider],
) -> None:
    class BadExecutor(SimpleExecutor):
        bad = True

        async def open(self) -> None:
            if self.bad:
                raise ConfigurationError("no tools today")

    async def main() -> None:
        executor = BadExecutor()
        agent = AIAgent(provider="scripted", api_key="secret", tools=executor)
        with pytest.raises(ConfigurationError, match="no tools today"):
            await agent.chat("hi")
        assert [provider.close_count for provider in named] == [1]
        executor.bad = False
        assert await agent.chat("hi") == "a"
        await agent.close()

    asyncio.run(main())


def test_a_provider_that_can_not_be_opened_is_an_error_of_the_caller() -> None:
    class Down(ScriptedProvider):
        async def open(self) -> None:
            raise ProviderError("no server", kind=ErrorKind.TRANSPORT)

    async def main() -> None:
        with pytest.raises(HermesError, match="no server"):
            async with AIAgent(provider=Down([])):
                pass

    asyncio.run(main())


def test_one_agent_in_two_event_loops_one_after_the_other() -> None:
    provider = ScriptedProvider([text("a"), text("b")])
    agent = AIAgent(provider=provider, session_db=MemoryStore())
    assert asyncio.run(agent.chat("one")) == "a"
    assert provider.open_count == 1
    assert asyncio.run(agent.chat("two")) == "b"
    assert provider.open_count == 2
    asyncio.run(agent.close())


def test_a_turn_that_the_shutdown_of_its_loop_cut_off_is_saved_and_the_next_loop_goes_on() -> None:
    store = MemoryStore()
    gate = StepGate()
    provider = ScriptedProvider([hang(text("Hel", chunk_size=1, gate=gate), after=2), text("b")])
    agent = AIAgent(provider=provider, session_db=store, session_id="s")

    async def cut_off() -> None:
        gate.let_pass(2)
        asyncio.get_running_loop().create_task(agent.chat("one"))
        while provider.live_streams == 0 or gate.waiting:  # noqa: ASYNC110 - the double has no event for it
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(cut_off())
    assert [m.content for m in store.messages("s")] == ["one", "He"]
    assert store.held_lease("s") is None

    async def go_on() -> None:
        assert await agent.chat("two") == "b"
        await agent.close()

    asyncio.run(go_on())


def test_turns_of_one_agent_wait_in_the_order_of_their_arrival() -> None:
    async def main() -> None:
        provider = ScriptedProvider(lambda request: text(f"re: {request.history[-1].content}"))
        async with AIAgent(provider=provider) as agent:
            results = await asyncio.gather(*(agent.run_conversation(f"{n}") for n in range(5)))
        assert [r["final_response"] for r in results] == [f"re: {n}" for n in range(5)]
        assert [len(r["messages"]) for r in results] == [2, 4, 6, 8, 10]
        assert provider.most_live_streams == 1

    asyncio.run(main())


def test_close_interrupts_a_running_turn_and_waits_for_it() -> None:
    async def main() -> None:
        store = MemoryStore()
        tool = ToolDouble("t", [None])
        agent = AIAgent(
            provider=ScriptedProvider([calls(call("t"))]), tools=SimpleExecutor([tool]), session_db=store
        )
        running = asyncio.create_task(agent.run_conversation("go"))
        waiting = asyncio.create_task(agent.run_conversation("and then"))
        await tool.started()
        await asyncio.gather(agent.close(), agent.close())
        result = await running
        assert (result["turn_exit_reason"], result["saved"]) == ("interrupted", True)
        with pytest.raises(ConfigurationError, match="closed while this turn waited"):
            await waiting

    asyncio.run(main())


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_close_that_is_cancelled_leaves_the_running_turn_what_it_needs(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is made from a name, so it is closed with the agent; the turn must be saved before."""

    async def main() -> None:
        gate = StepGate()

        async def before(method: str) -> None:
            if method == "set_tool_result":
                await gate()

        store = MemoryStore(before=before)
        monkeypatch.setattr(wiring, "make_store", lambda _: store)
        tool = ToolDouble("t", [None])
        agent = AIAgent(
            provider=ScriptedProvider([calls(call("t"))]), tools=SimpleExecutor([tool]), session_db="named"
        )
        running = asyncio.create_task(agent.run_conversation("go"))
        await tool.started()
        closing = asyncio.create_task(agent.close())
        await gate.reached()
        for _ in range(steps):
            closing.cancel()
            await asyncio.sleep(0)
        assert not store.closed
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await closing
        result = await running
        assert (result["turn_exit_reason"], result["saved"]) == ("interrupted", True)
        assert result["cleanup_errors"] == []
        assert store.closed

    asyncio.run(main())


@pytest.mark.parametrize(
    "place", ["tool", "stream_delta_callback", "tool_complete_callback", "step_callback"]
)
def test_an_agent_closed_from_inside_its_turn_is_closed_after_it(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store = MemoryStore()
        monkeypatch.setattr(wiring, "make_store", lambda _: store)

        async def close(*_: object) -> None:
            await agent.close()
            assert not store.closed

        async def tool(_: object) -> str:
            await close()
            return "closed"

        agent = AIAgent(
            provider=ScriptedProvider([calls(call("t"), text="Now."), text("Done.")]),
            tools=SimpleExecutor([FunctionTool("t", tool) if place == "tool" else ToolDouble("t")]),
            session_db="named",
            **{} if place == "tool" else {place: close},  # type: ignore[arg-type]
        )
        async with asyncio.timeout(120):
            running = asyncio.create_task(agent.run_conversation("go"))
            waiting = asyncio.create_task(agent.run_conversation("and then"))
            result = await running
            assert (result["turn_exit_reason"], result["saved"]) == ("interrupted", True)
            assert result["cleanup_errors"] == []
            with pytest.raises(ConfigurationError, match="closed while this turn waited"):
                await waiting
        assert store.closed
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


@pytest.mark.parametrize("place", ["stream_delta_callback", "step_callback", "tool_complete_callback"])
def test_a_callback_that_awaits_what_was_cancelled_cancels_no_turn(place: str) -> None:
    async def callback(*_: object) -> None:
        other = asyncio.get_running_loop().create_future()
        other.cancel()
        await other

    async def main() -> None:
        agent = AIAgent(
            provider=ScriptedProvider([calls(call("t"), text="Now."), text("Done.")]),
            tools=SimpleExecutor([ToolDouble("t")]),
            **{place: callback},  # type: ignore[arg-type]
        )
        async with agent:
            result = await agent.run_conversation("go")
        assert result["final_response"] == "Done."
        [told] = result["cleanup_errors"]
        assert "CancelledError" in told

    asyncio.run(main())


def test_a_provider_that_leaks_a_cancellation_fails_the_turn_and_cancels_nobody() -> None:
    async def leak(_: object) -> ScriptStep:
        raise asyncio.CancelledError

    async def main() -> None:
        async with AIAgent(provider=ScriptedProvider([leak, text("ok")])) as agent:
            result = await agent.run_conversation("go")
            assert (result["turn_exit_reason"], result["failed"]) == ("internal_error", True)
            assert "cancelled" in (result["error"] or "")
            assert await agent.chat("again") == "ok"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (KeyboardInterrupt, "stream_delta_callback"),
        (SystemExit, "stream_delta_callback"),
        (GeneratorExit, "tool_start_callback"),  # it leaves the round open: nothing can be awaited then
    ],
)
def test_a_turn_that_ends_with_the_program_leaves_a_conversation_that_goes_on(
    error: type[BaseException], place: str
) -> None:
    """The host's own loop may survive a Ctrl-C in a callback; a round that was open is closed then."""

    raised: list[type[BaseException]] = []

    def callback(*_: object) -> None:
        if not raised:
            raised.append(error)
            raise error

    store = MemoryStore()
    agent = AIAgent(
        provider=ScriptedProvider([calls(call("t"), text="Now."), text("Done.")]),
        tools=SimpleExecutor([ToolDouble("t")]),
        session_db=store,
        **{place: callback},  # type: ignore[arg-type]
    )
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(error):
            loop.run_until_complete(agent.run_conversation("go"))
        result = loop.run_until_complete(agent.run_conversation("again"))
        assert result["final_response"] == "Done."
        assert validate(result["transcript"]) == []
        assert tuple(store.messages(agent.session_id)) == result["transcript"]
        loop.run_until_complete(agent.close())
        assert asyncio.all_tasks(loop) == set()
    finally:
        loop.close()


def test_an_agent_that_is_not_closed_warns() -> None:
    async def main() -> None:
        await AIAgent(provider=ScriptedProvider([text("a")])).chat("hi")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert any("unclosed agent" in str(warning.message) for warning in caught)


def test_background_work_gives_way_to_the_next_turn() -> None:
    async def main() -> None:
        ended: list[str] = []
        begun = asyncio.Event()

        async def review() -> None:
            begun.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append("review")

        def answer(_: object) -> ScriptStep:
            ended.append("request")
            return text("ok")

        async with AIAgent(provider=ScriptedProvider(answer)) as agent:
            task = agent.spawn_background(review())
            await begun.wait()
            gc.collect()
            await agent.chat("hi")
            assert ended == ["review", "request"]
            assert task.cancelled()
            agent.spawn_background(review())
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_tool_that_starts_a_turn_of_its_own_agent_is_told_so_instead_of_waiting_for_ever() -> None:
    async def main() -> None:
        async def ask(_: object) -> str:
            return str(await agent.chat("and you?"))

        agent = AIAgent(
            provider=ScriptedProvider([calls(call("ask")), text("ok")]), tools=SimpleExecutor({"ask": ask})
        )
        async with agent:
            result = await agent.run_conversation("go")
        assert result["final_response"] == "ok"
        assert "wait for itself" in str(result["messages"][2]["content"])

    asyncio.run(main())


def test_a_store_that_hangs_can_not_hold_a_cancelled_turn_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_loop.turn_runner.DEFAULT_BOUNDS", Bounds(after_cancel_s=0.05, grace_s=0.05))

    async def main() -> None:
        gate = StepGate()

        async def before(method: str) -> None:
            if method == "set_tool_result":
                await gate()

        store = MemoryStore(before=before)
        tool = ToolDouble("t", [None])
        provider = ScriptedProvider([calls(call("t")), text("ok")])
        agent = AIAgent(provider=provider, tools=SimpleExecutor([tool]), session_db=store, session_id="s")
        turn = asyncio.create_task(agent.run_conversation("go"))
        await tool.started()
        turn.cancel()
        await asyncio.wait({turn}, timeout=120)
        assert turn.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        gate.open()
        result = await agent.run_conversation("again")
        assert (result["final_response"], result["saved"]) == ("ok", True)
        assert tuple(store.messages("s")) == result["transcript"]
        assert validate(store.messages("s")) == []
        await agent.close()

    asyncio.run(main())


def test_a_finalizer_that_hangs_is_told_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_loop.turn_runner.DEFAULT_BOUNDS", Bounds(limit_s=0.05, grace_s=0.05))

    async def main() -> None:
        async def before(method: str) -> None:
            if method == "update_token_counts":
                await asyncio.get_running_loop().create_future()

        store = MemoryStore(before=before)
        async with AIAgent(provider=ScriptedProvider([text("a")]), session_db=store) as agent:
            result = await agent.run_conversation("hi")
        assert (result["final_response"], result["completed"]) == ("a", True)
        assert result["cleanup_errors"] == [
            "finalization did not finish in time; unsaved messages are in the result"
        ]

    asyncio.run(main())


def fits_the_protocols(agent: AIAgent, executor: NoTools) -> tuple[Agent, ToolExecutor]:
    """For the type checker."""
    return agent, executor
