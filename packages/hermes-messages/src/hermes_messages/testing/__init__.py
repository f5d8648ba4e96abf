"""Doubles and conformance checks for everyone who implements or uses the Protocols.

Nothing in `hermes_messages` imports this package; it needs nothing but the standard library.

Doubles: `ScriptedProvider` (with `text`, `calls`, `call`, `error`, `broken`, `hang`), `MemoryStore`,
`SimpleExecutor`, `FunctionTool`, `ToolDouble`, `InterruptFlag`, `StepGate`, and the seeded `ChaosProvider`.

Checks: `check_provider`, `check_store`, `check_executor`, `check_approvals` raise a `ConformanceError` which
lists every promise of the Protocol that an implementation breaks.

>>> import asyncio
>>> from hermes_messages import ChatRequest, History, ResponseDone, UserMessage
>>> async def main() -> None:
...     provider = ScriptedProvider([text("Hello!")])
...     request = ChatRequest(model="m", history=History.of([UserMessage("hi")]))
...     async for event in provider.stream(request):
...         if isinstance(event, ResponseDone):
...             print(event.response.message.content)
>>> asyncio.run(main())
Hello!
"""

from hermes_messages.testing.chaos import ChaosProvider, Fault, FaultKind
from hermes_messages.testing.conformance import (
    AskingExecutor,
    BrokenPromise,
    ConformanceError,
    MakeAskingExecutor,
    MakeExecutor,
    MakeProvider,
    MakeStore,
    check_approvals,
    check_executor,
    check_provider,
    check_store,
)
from hermes_messages.testing.executor import SimpleExecutor
from hermes_messages.testing.interrupt import InterruptFlag, StepGate
from hermes_messages.testing.memory_store import MemoryStore, StoreHook
from hermes_messages.testing.script import (
    Answer,
    Broken,
    Gate,
    Hang,
    ScriptStep,
    StepMaker,
    broken,
    call,
    calls,
    error,
    failure,
    hang,
    text,
)
from hermes_messages.testing.scripted import ScriptedProvider, ScriptExhaustedError
from hermes_messages.testing.tools import FunctionTool, ToolDouble, ToolFunction

__all__ = [
    "Answer",
    "AskingExecutor",
    "Broken",
    "BrokenPromise",
    "ChaosProvider",
    "ConformanceError",
    "Fault",
    "FaultKind",
    "FunctionTool",
    "Gate",
    "Hang",
    "InterruptFlag",
    "MakeAskingExecutor",
    "MakeExecutor",
    "MakeProvider",
    "MakeStore",
    "MemoryStore",
    "ScriptExhaustedError",
    "ScriptStep",
    "ScriptedProvider",
    "SimpleExecutor",
    "StepGate",
    "StepMaker",
    "StoreHook",
    "ToolDouble",
    "ToolFunction",
    "broken",
    "call",
    "calls",
    "check_approvals",
    "check_executor",
    "check_provider",
    "check_store",
    "error",
    "failure",
    "hang",
    "text",
]
