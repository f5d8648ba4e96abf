"""Counting tokens where a host offers it."""

from __future__ import annotations

import pytest

from byte_server import ByteServer, plain
from hermes_messages import ErrorKind, ProviderError, SystemMessage, UserMessage
from hermes_messages.protocols import ProviderOptions, SupportsTokenCount
from hermes_providers import from_profile
from wire_help import SPEC, answer, ask, run


def test_llama_cpp_writes_the_prompt_out_and_splits_it() -> None:
    async def main() -> None:
        scripts = [plain(b'{"prompt":"<|user|>hi"}'), plain(b'{"tokens":[1,2,3,4]}')]
        async with ByteServer(scripts) as server:
            provider = from_profile("llamacpp", ProviderOptions(base_url=server.base_url))
            assert isinstance(provider, SupportsTokenCount)
            assert await provider.count_tokens(ask(SystemMessage("s"), UserMessage("hi"), tools=(SPEC,))) == 4
            first, second = server.requests
            assert first.line == "POST /apply-template HTTP/1.1"
            assert [m["role"] for m in first.json()["messages"]] == ["system", "user"]  # type: ignore[attr-defined]
            assert first.json()["tools"]
            assert second.line == "POST /tokenize HTTP/1.1"
            assert second.json()["content"] == "<|user|>hi"
            await provider.close()
            await server.wait_until_open(0)

    run(main())


@pytest.mark.parametrize("answer", [b"{}", b"not json", b'{"prompt":null}', b'{"tokens":5}'])
def test_an_answer_that_says_nothing_is_unknown(answer: bytes) -> None:
    async def main() -> None:
        async with ByteServer([plain(answer)]) as server:
            provider = from_profile("llamacpp", ProviderOptions(base_url=server.base_url))
            assert await provider.count_tokens(ask()) is None
            await provider.close()

    run(main())


def test_a_host_that_does_not_count_is_not_asked() -> None:
    async def main() -> None:
        async with ByteServer([plain(b"{}")]) as server:
            provider = from_profile("custom", ProviderOptions(base_url=server.base_url))
            assert await provider.count_tokens(ask()) is None
            assert not server.requests
            await provider.close()

    run(main())


def test_failures_are_typed() -> None:
    async def main() -> None:
        async with ByteServer([plain(b'{"error":{"message":"no"}}', "404 Not Found")]) as server:
            provider = from_profile("llamacpp", ProviderOptions(base_url=server.base_url))
            with pytest.raises(ProviderError) as caught:
                await provider.count_tokens(ask())
            assert caught.value.kind is ErrorKind.NOT_FOUND
            await provider.close()

    run(main())


@pytest.mark.local_model
def test_count_of_a_real_server_is_what_it_bills() -> None:
    from hermes_providers import LocalProvider

    async def main() -> None:
        provider = LocalProvider(ProviderOptions(settings={"threads": 1}))
        request = ask(
            SystemMessage("You help."), UserMessage("Say hi."), model=provider.default_model, max_tokens=4
        )
        try:
            counted = await provider.count_tokens(request)
            usage = (await answer(provider, request)).usage
        finally:
            await provider.close()
        assert usage is not None
        assert counted == usage.input_tokens

    run(main())
