"""Work whose size a model or a file decides, in a process of its own that can be killed at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from pathlib import PurePath

from msgspec import Struct

from hermes_tools.processes import ChildProcess
from hermes_tools.shielding import finish_despite_cancel

__all__ = ["ChildAnswer", "run_standalone"]

# The package is entered without its `__init__`, so that the standard library is all that the child needs.
_BOOTSTRAP = """
import sys, types
package = types.ModuleType("hermes_tools")
package.__path__ = [sys.argv[1]]
sys.modules["hermes_tools"] = package
from importlib import import_module
import_module("hermes_tools.standalone." + sys.argv[2]).main()
"""
_END_LIMIT_S = 9.0
_PACKAGE = str(PurePath(__file__).parent)


class ChildAnswer(Struct, frozen=True):
    """What the program wrote until it ended, or until its time was over."""

    output: bytes
    in_time: bool


async def run_standalone(
    module: str,
    request: bytes,
    *,
    limit_s: float,
    output_limit: int,
    cwd: str = "/",
    with_packages: bool = False,
    more: AsyncGenerator[bytes, None] | None = None,
) -> ChildAnswer:
    """Run `main()` of `hermes_tools.standalone.<module>` on `request`, which it finds on its standard input.

    `with_packages` lets the program import what is installed besides the standard library.

    `more` is sent after the request, as far as the program reads it, and closed; what it raises is raised.

    The program is gone when this returns or raises. What it writes beyond `output_limit` bytes is not read,
    and ends it. Raises `OSError` when no process can be started.
    """
    # -B: on a disk that is nearly full a child would leave a cut module behind, for every later process.
    options = ("-I", "-B") if with_packages else ("-I", "-B", "-S")
    child = await ChildProcess.start(
        (sys.executable, *options, "-c", _BOOTSTRAP, _PACKAGE, module),
        cwd=cwd,
        environment={"PYTHONIOENCODING": "utf-8"},
        with_input=True,
    )
    pieces: list[bytes] = []
    size = 0
    in_time = True
    feeding = asyncio.create_task(_feed(child, request, more))

    async def end() -> None:
        feeding.cancel()
        await child.stop()
        await asyncio.wait({feeding})

    try:
        async with asyncio.timeout(limit_s):
            while size <= output_limit and (piece := await child.read()):
                pieces.append(piece)
                size += len(piece)
    except TimeoutError:
        in_time = False
    finally:
        try:
            await finish_despite_cancel(end, _END_LIMIT_S)
        finally:
            child.close_pipes()
    if not feeding.cancelled() and (failure := feeding.exception()) is not None:
        raise failure
    return ChildAnswer(b"".join(pieces), in_time)


async def _feed(child: ChildProcess, request: bytes, more: AsyncGenerator[bytes, None] | None) -> None:
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(child.end_input)
        stack.enter_context(contextlib.suppress(BrokenPipeError))  # it ended early; its output says why
        await child.write(request)
        if more is not None:
            await stack.enter_async_context(contextlib.aclosing(more))
            async for piece in more:
                await child.write(piece)
