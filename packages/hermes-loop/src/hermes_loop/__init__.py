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
    SteerDelivered,
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
from hermes_loop.follow_ups import FollowUp
from hermes_loop.options import UnexpectedOptionError
from hermes_loop.runtime import SupportsWholeTurn, WholeTurnAnswer, WholeTurnContext
from hermes_loop.steering import SteerNote

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
    "FollowUp",
    "HookFailed",
    "IterationBudget",
    "RouteChanged",
    "StatusChanged",
    "SteerDelivered",
    "SteerNote",
    "StepEnded",
    "StepStarted",
    "SummaryCompressor",
    "SupportsStreamReset",
    "SupportsWholeTurn",
    "ToolEnded",
    "ToolProgressed",
    "ToolStarted",
    "TurnEnded",
    "TurnEvent",
    "TurnStarted",
    "UnexpectedOptionError",
    "WholeTurnAnswer",
    "WholeTurnContext",
]
