"""`run_preflight_gate`: may this request be sent? It never sends anything itself."""

from __future__ import annotations

from hermes_loop.phases.compress import can_compress
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import Compress, GateVerdict, Proceed, Stop

__all__ = ["decide_gate", "run_preflight_gate"]


def decide_gate(
    *,
    interruption: Stop | None,
    estimated_tokens: int,
    last_input_tokens: int | None,
    context_window: int | None,
    threshold: float | None,
) -> GateVerdict:
    """Pure. `threshold` is the share of the window at which compression begins, None when there is none.

    The estimate starts compression; only what the host counted last stops a turn. A host that goes on
    silently past its window would answer from a history that it cut off.
    """
    if interruption is not None:
        return interruption
    if context_window is None:
        return Proceed()
    expected = max(estimated_tokens, last_input_tokens or 0)
    if threshold is not None and expected >= threshold * context_window:
        return Compress(f"the prompt takes about {expected} of {context_window} tokens")
    if last_input_tokens is None or last_input_tokens < context_window:
        return Proceed()
    return Stop(
        "context_overflow",
        f"the last prompt had {last_input_tokens} tokens and the model's window is {context_window}; "
        "start a new conversation or give a shorter conversation_history",
    )


def run_preflight_gate(turn: TurnState, deps: TurnDeps) -> GateVerdict:
    """Before every request: tool results and a new route both change what fits."""
    window = turn.route.info.context_window
    may_compress = window is not None and can_compress(turn, deps, refused=False)
    control = deps.compression if may_compress else None
    return decide_gate(
        interruption=turn.interruption(),
        estimated_tokens=turn.conversation.prompt_tokens(turn.snapshot.tools) if control else 0,
        last_input_tokens=turn.last_input_tokens,
        context_window=window,
        threshold=control.settings.threshold if control else None,
    )
