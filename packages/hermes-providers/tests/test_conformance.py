from __future__ import annotations

import pytest

from byte_server import ByteServer, Reset, Script, head, plain, stream
from hermes_messages.testing import check_provider
from wire_help import DONE, ask, chunk, event, provider_at, run, text_answer

TEXT = stream(text_answer("Hello", " there"))
CALLS = stream(
    event(chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x"'}}]})),
    event(chunk({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]})),
    event(chunk({}, "tool_calls")) + DONE,
)
FAILURES: dict[str, Script] = {
    "status": plain(b'{"error":{"message":"no"}}', "500 Oops"),
    "error inside a success": stream(event(chunk({"content": "a"})), event({"error": {"message": "no"}})),
    "early end": stream(event(chunk({"content": "a"}))),
    "empty answer": stream(event(chunk({}, "stop")) + DONE),
    "reset": [head(), event(chunk({"content": "a"})), Reset()],
}


@pytest.mark.parametrize("script", [TEXT, CALLS], ids=["text", "calls"])
def test_provider_keeps_the_promises_of_the_protocol(script: Script) -> None:
    async def main() -> None:
        async with ByteServer([script]) as server:
            await check_provider(
                lambda: provider_at(server.base_url, max_connections=3), request=ask(), limit_s=600
            )
            await server.wait_until_open(0)

    run(main())


@pytest.mark.parametrize("name", FAILURES)
def test_every_failure_is_a_provider_error(name: str) -> None:
    async def main() -> None:
        async with ByteServer([TEXT]) as good, ByteServer([FAILURES[name]]) as bad:
            await check_provider(
                lambda: provider_at(good.base_url),
                request=ask(),
                make_failing=lambda: provider_at(bad.base_url, max_connections=2),
                limit_s=600,
            )

    run(main())
