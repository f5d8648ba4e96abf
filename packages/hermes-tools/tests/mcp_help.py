"""An executor over servers that misbehave, which several modules of tests use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from hermes_messages import ToolMessage
from hermes_messages.protocols import ToolSnapshot
from hermes_tools import Executor, ExecutorSettings
from hermes_tools.mcp import McpToolset, read_servers, server_secrets

__all__ = ["MARK", "SERVER", "Servers", "once"]

SERVER = str(Path(__file__).with_name("misbehaving_server.py"))
MARK = "HERMES_TEST_MARK"


class Servers:
    """An executor of misbehaving servers, named after their modes' first words."""

    def __init__(self, bench: Any, modes: Sequence[str], **options: Any) -> None:
        self.bench = bench
        self.counts = bench.workspace / "counts"
        limits = options.pop("limits", None)
        env = {MARK: bench.mark, **options.pop("env", {})}
        settings: dict[str, Any] = {"timeout": 300, "connect_timeout": 300, **options}
        configs = read_servers(
            {
                mode.replace(" ", "-"): {
                    "command": sys.executable,
                    "args": [SERVER, mode, str(self.counts)],
                    "env": env,
                    **settings,
                }
                for mode in modes
            }
        )
        self.toolset = McpToolset(configs, limits=limits)
        self.executor = Executor([self.toolset], settings=ExecutorSettings(), secrets=server_secrets(configs))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.executor.close()

    async def refresh(self) -> ToolSnapshot:
        return await self.executor.refresh(self.bench.turn())

    async def call(self, name: str, arguments: object = None, **context: Any) -> ToolMessage:
        result: ToolMessage = (await self.calls(self.bench.call(name, arguments), **context))[0]
        return result

    async def calls(self, *calls: Any, **context: Any) -> list[Any]:
        outcome = await self.executor.execute(calls, self.bench.context(**context))
        return list(outcome.results)

    @property
    def starts(self) -> int:
        """How often a connection was begun, whether or not the server came to count it."""
        return sum(server._budget.used for server in self.toolset._servers or ())

    def counted(self, what: str) -> int:
        return self.counts.read_text().split("\n").count(what) if self.counts.exists() else 0


def once(bench: Any, run_async: Any, mode: str, **options: Any) -> ToolMessage:
    """The result of one call of a server's only tool."""

    async def main() -> ToolMessage:
        async with Servers(bench, [mode], **options) as servers:
            snapshot = await servers.refresh()
            assert snapshot.tools, snapshot.unavailable
            return await servers.call(snapshot.tools[0].name, {"n": 1})

    result: ToolMessage = run_async(main())
    return result
