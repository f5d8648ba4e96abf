"""The turn loop of an LLM agent: `AIAgent` on the Protocols of `hermes_messages`, native async."""

from hermes_loop.agent import AIAgent
from hermes_loop.budget import Budget, IterationBudget
from hermes_loop.compression import (
    Compressed,
    CompressionContext,
    CompressionPlan,
    CompressionSettings,
    Compressor,
    SummaryCompressor,
)
from hermes_loop.events import (
    AttemptDiscarded,
    ContextCompressed,
    HookFailed,
    RouteChanged,
    StatusChanged,
    StepEnded,
    StepStarted,
    SupportsStreamReset,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from hermes_loop.options import UnexpectedOptionError

__all__ = [
    "AIAgent",
    "AttemptDiscarded",
    "Budget",
    "Compressed",
    "CompressionContext",
    "CompressionPlan",
    "CompressionSettings",
    "Compressor",
    "ContextCompressed",
    "HookFailed",
    "IterationBudget",
    "RouteChanged",
    "StatusChanged",
    "StepEnded",
    "StepStarted",
    "SummaryCompressor",
    "SupportsStreamReset",
    "ToolEnded",
    "ToolProgressed",
    "ToolStarted",
    "TurnEnded",
    "TurnEvent",
    "TurnStarted",
    "UnexpectedOptionError",
]
