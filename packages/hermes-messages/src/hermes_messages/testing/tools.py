"""Tools for tests: a function as a tool, and a tool that does what it is told."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping

from hermes_messages.argument_text import JsonObject, JsonValue
from hermes_messages.errors import ToolDeclarationError
from hermes_messages.exchange import ToolSpec
from hermes_messages.protocols.tools import Scheduling, ToolCallContext

__all__ = ["FunctionTool", "ToolDouble", "ToolFunction"]

ToolFunction = Callable[[JsonObject], Awaitable[str]]
"""What stands for a tool in a test: it is awaited with the arguments and gives the text of the result."""

_ANY_OBJECT: Mapping[str, JsonValue] = {"type": "object"}


class FunctionTool:
    """Satisfies `Tool`: an `async def f(arguments: dict) -> str` under a name."""

    def __init__(
        self,
        name: str,
        function: ToolFunction,
        *,
        description: str = "",
        schema: Mapping[str, JsonValue] = _ANY_OBJECT,
        scheduling: Scheduling = "parallel",
        idempotent: bool = False,
    ) -> None:
        """Raises `ToolDeclarationError` when `function` is not an async function."""
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            type(function).__call__
        )
        if not is_async:
            raise ToolDeclarationError(f"the tool {name!r} is no async function; write it with `async def`")
        self._function = function
        self._spec = ToolSpec.from_schema(name, description, schema)
        self._scheduling: Scheduling = scheduling
        self.idempotent: bool = idempotent
        """Whether a call may run twice."""

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        return self._spec

    @property
    def scheduling(self) -> Scheduling:
        """Whether calls of it may overlap with others."""
        return self._scheduling

    async def run(self, arguments: JsonObject, context: ToolCallContext) -> str:  # noqa: ARG002 - the Protocol's
        """Call the function."""
        return await self._function(arguments)


class ToolDouble:
    """Satisfies `Tool`, and does what the test says.

    Each call takes the next of `results`, the last one again when they run out: text to return, an exception
    to raise, or None to hang until cancelled. `gate` is awaited in each call before its result.
    A test can look at `arguments` (of every call begun, in order), `running`, `most_running`, `finished` and
    `cancelled`, and can await `started(n)`.
    """

    def __init__(
        self,
        name: str,
        results: Iterable[str | Exception | None] = ("done",),
        *,
        description: str = "",
        schema: Mapping[str, JsonValue] = _ANY_OBJECT,
        scheduling: Scheduling = "parallel",
        gate: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._results = list(results)
        self._spec = ToolSpec.from_schema(name, description, schema)
        self._scheduling: Scheduling = scheduling
        self._gate = gate
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []
        self.arguments: list[JsonObject] = []
        self.running: int = 0
        self.most_running: int = 0
        self.finished: int = 0
        self.cancelled: int = 0

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        return self._spec

    @property
    def scheduling(self) -> Scheduling:
        """Whether calls of it may overlap with others."""
        return self._scheduling

    async def started(self, calls: int = 1) -> None:
        """Return once `calls` calls have begun, counted from the first."""
        if len(self.arguments) >= calls:
            return
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append((calls, watcher))
        await watcher

    async def run(self, arguments: JsonObject, context: ToolCallContext) -> str:  # noqa: ARG002 - the Protocol's
        """Play the next result."""
        number = len(self.arguments)
        self.arguments.append(arguments)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        for calls, watcher in self._watchers:
            if number + 1 >= calls and not watcher.done():
                watcher.set_result(None)
        try:
            if self._gate is not None:
                await self._gate()
            return await self._result(number)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def _result(self, number: int) -> str:
        result = self._results[min(number, len(self._results) - 1)] if self._results else "done"
        await asyncio.sleep(0)
        if result is None:
            await asyncio.get_running_loop().create_future()
        self.finished += 1
        if isinstance(result, Exception):
            raise result
        return str(result)
