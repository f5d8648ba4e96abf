"""What the answers of models cost a turn. Pure."""

from __future__ import annotations

from hermes_loop.routes import Route
from hermes_loop.turn_state import RouteUsage, TurnState
from hermes_messages import ChatRequest, ChatResponse, add_usage, estimate_tokens
from hermes_messages.protocols import Provider

__all__ = ["account_for", "account_for_summary"]

_ELSEWHERE = -1


def account_for(turn: TurnState, used: RouteUsage, request: ChatRequest, response: ChatResponse) -> None:
    """Add an answer to the turn, to the route that gave it, and to the budget."""
    used.usage = add_usage(used.usage, response.usage)
    is_limited = turn.budget.limits.tokens is not None
    turn.budget.add(response.usage, _estimate(request, response) if is_limited else 0)


def account_for_summary(
    turn: TurnState, provider: Provider, request: ChatRequest, response: ChatResponse
) -> None:
    """The same for an answer that a compressor got, perhaps where the turn itself does not go."""
    turn.api_calls += 1
    used = _account_of(turn, provider, request.model)
    used.api_calls += 1
    account_for(turn, used, request, response)


def _account_of(turn: TurnState, provider: Provider, model: str) -> RouteUsage:
    if turn.route.provider is provider and turn.route.model == model:
        return turn.used
    for used in turn.route_usage.values():
        if used.route.provider is provider and used.route.model == model:
            return used
    place = min(turn.route_usage, default=0)
    elsewhere = RouteUsage(Route(provider, model, _ELSEWHERE))
    return turn.route_usage.setdefault(min(place, 0) - 1, elsewhere)


def _estimate(request: ChatRequest, response: ChatResponse) -> int:
    """Tokens of a call whose host did not tell, else 0."""
    usage = response.usage
    if usage is not None and usage.input_tokens is not None and usage.output_tokens is not None:
        return 0
    return estimate_tokens(request.history, request.tools) + estimate_tokens([response.message])
