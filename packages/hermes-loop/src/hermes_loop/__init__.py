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
    ModelCallEnded,
    ModelCallStarted,
    RouteChanged,
    StatusChanged,
    SteerDelivered,
    StepEnded,
    StepStarted,
    SummaryCallEnded,
    SupportsStreamReset,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    TurnStarted,
    WatchedEvent,
)
from hermes_loop.follow_ups import FollowUp
from hermes_loop.options import UnexpectedOptionError
from hermes_loop.route_specs import RouteGiven
from hermes_loop.runtime import SupportsWholeTurn, WholeTurnAnswer, WholeTurnContext
from hermes_loop.steering import SteerNote
from hermes_loop.watching import SupportsTurnEvents, WatchContext

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
    "ModelCallEnded",
    "ModelCallStarted",
    "RouteChanged",
    "RouteGiven",
    "StatusChanged",
    "SteerDelivered",
    "SteerNote",
    "StepEnded",
    "StepStarted",
    "SummaryCallEnded",
    "SummaryCompressor",
    "SupportsStreamReset",
    "SupportsTurnEvents",
    "SupportsWholeTurn",
    "ToolEnded",
    "ToolProgressed",
    "ToolStarted",
    "TurnEnded",
    "TurnEvent",
    "TurnStarted",
    "UnexpectedOptionError",
    "WatchContext",
    "WatchedEvent",
    "WholeTurnAnswer",
    "WholeTurnContext",
]
