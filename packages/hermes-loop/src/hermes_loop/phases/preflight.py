"""`run_preflight_gate`: may this request be sent? It never sends anything itself."""

from __future__ import annotations

from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import GateVerdict, Proceed, Recheck, Stop
from hermes_messages import ChatRequest

__all__ = ["decide_gate", "run_preflight_gate"]


def decide_gate(
    *,
    interruption: Stop | None,
    last_input_tokens: int | None,
    context_window: int | None,
    can_compress: bool,
) -> GateVerdict:
    """Pure. The prompt is measured by what the host counted last: an estimate alone stops no turn.

    A host that goes on silently past its window would answer from a history that it cut off.
    """
    if interruption is not None:
        return interruption
    if context_window is None or last_input_tokens is None or last_input_tokens < context_window:
        return Proceed()
    if can_compress:
        return Recheck("the context is full")
    return Stop(
        "context_overflow",
        f"the last prompt had {last_input_tokens} tokens and the model's window is {context_window}; "
        "this version does not compress: start a new conversation or give a shorter conversation_history",
    )


async def run_preflight_gate(
    turn: TurnState,
    deps: TurnDeps,  # noqa: ARG001 - a phase takes both
    request: ChatRequest,  # noqa: ARG001 - what the gate is about
) -> GateVerdict:
    """Before every request: tool results and a new route both change what fits."""
    return decide_gate(
        interruption=turn.interruption(),
        last_input_tokens=turn.last_input_tokens,
        context_window=turn.route.info.context_window,
        can_compress=False,
    )
