"""Which route a turn takes: where it begins, and where it goes on when a route fails."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from hermes_loop.events import RouteChanged, StatusChanged
from hermes_loop.phases.recovery import discard_attempt
from hermes_loop.recovery_policy import rest_s
from hermes_loop.request_changes import NOTHING_CHANGED
from hermes_loop.routes import Route, Routes
from hermes_loop.turn_log import log_phase
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import Stop
from hermes_messages import ProviderError

__all__ = ["choose_route", "explain_failures", "fall_back", "note_exhausted"]


def choose_route(turn: TurnState, deps: TurnDeps) -> Stop | None:
    """The first route that does not rest. While all rest nothing is sent and nothing stored."""
    if not deps.routes.several:
        return None  # it never rests
    now = deps.clock.monotonic()
    route = deps.routes.first(now)
    if route is None:
        wait = deps.routes.ready_in_s(now)
        return Stop(
            "provider_error",
            "every route of this agent failed a moment ago; nothing was sent and nothing stored. "
            f"The first is tried again in {wait:.0f} s",
        )
    turn.route = route
    return None


async def fall_back(turn: TurnState, deps: TurnDeps, error: ProviderError) -> bool:
    """Leave the route that failed with `error` for the next one; False when there is none."""
    now = deps.clock.monotonic()
    left = turn.route
    turn.route_failures[left.place] = error
    route = deps.routes.next(turn.route_failures, now)
    if route is None:
        return False
    pause = rest_s(error, deps.policy, exhausted=False)
    if pause is not None:
        deps.routes.rest(left.place, now + pause)
    turn.route = route
    turn.change = NOTHING_CHANGED
    log_phase(turn, "fall_back", "Fallback", logging.WARNING, f"{left.label}: {error}; now {route.label}")
    await discard_attempt(turn, f"fallback to {route.label}")
    await turn.events.emit(RouteChanged(route.provider.name, route.model, str(error.kind)))
    await turn.events.emit(StatusChanged("fallback", f"{error}; going on with {route.label}"))
    return True


def note_exhausted(turn: TurnState, deps: TurnDeps, error: ProviderError) -> None:
    """Every route failed: let them rest, so that the next turn does not send its whole context to each."""
    turn.route_failures[turn.route.place] = error
    now = deps.clock.monotonic()
    for place, failure in turn.route_failures.items():
        pause = rest_s(failure, deps.policy, exhausted=True)
        if pause is not None:
            deps.routes.rest(place, now + pause)


def explain_failures(failures: Mapping[int, ProviderError], routes: Routes) -> str:
    """What each route that was tried before the last one failed with."""
    labels: dict[int, Route] = {route.place: route for route in routes}
    return "; ".join(f"{labels[place].label}: {failure}" for place, failure in failures.items())
