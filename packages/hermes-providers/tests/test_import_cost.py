from __future__ import annotations

import subprocess
import sys

import pytest

PURE = [
    "hermes_providers",
    "hermes_providers.classify",
    "hermes_providers.credentials",
    "hermes_providers.error_patterns",
    "hermes_providers.profiles",
    "hermes_providers.proxies",
    "hermes_providers.retry_after",
    "hermes_providers.settings",
    "hermes_providers.streaming.sse",
    "hermes_providers.timeouts",
    "hermes_providers.usage",
    "hermes_providers.wire.openai_chat_messages",
    "hermes_providers.wire.openai_chat_request",
    "hermes_providers.wire.openai_chat_stream",
    "hermes_providers.wire.reasoning_details",
]


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_import_nothing_that_does_io(module: str) -> None:
    banned = {"httpx", "anyio", "ssl", "asyncio", "socket", "subprocess"}
    code = f"import sys, {module}; print(sorted({banned} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
