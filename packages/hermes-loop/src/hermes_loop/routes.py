"""Where a turn sends its requests: one provider and model at a time, from the agent's list of routes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from hermes_loop.route_rests import RouteRests
from hermes_messages import ModelInfo
from hermes_messages.abilities import supports
from hermes_messages.protocols import Provider, SupportsSecrets

__all__ = ["Route", "Routes"]


class Route(Struct, frozen=True, eq=False):
    """One model on one host, at its `place` in the list. Its provider says with each answer what it cost."""

    provider: Provider
    model: str
    place: int = 0

    @property
    def label(self) -> str:
        """Provider and model, for logs and results."""
        return f"{self.provider.name}/{self.model}"

    @property
    def info(self) -> ModelInfo:
        """What is known of the model: its window, what it supports."""
        return self.provider.model_info(self.model)


class Routes:
    """The routes of one agent in the order in which they are tried; the first is the primary one.

    A route is opened when it is first needed. One that failed for a reason of its own rests for a while, for
    all turns of the agent; the turn that begins when the rest is over goes to it again.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple(routes)
        self.primary: Route = self._routes[0]
        """The one that the agent was made with."""
        self.several: bool = len(self._routes) > 1
        """Whether there is anything to fall back to."""
        self._rests = RouteRests(len(self._routes))
        self._opened: set[int] = set()
        providers = {id(route.provider): route.provider for route in self._routes}.values()
        self._secret_holders = [one for one in providers if supports(one, SupportsSecrets)]

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def is_open(self, route: Route) -> bool:
        """Whether `open` has nothing to do."""
        return route.place in self._opened

    async def open(self, route: Route) -> None:
        """Make `route` ready, once. Raises as `Provider.open`."""
        if not self.is_open(route):
            await route.provider.open()
            self._opened.add(route.place)

    def secrets(self) -> tuple[str, ...]:
        """The credentials that the providers hold now; they change where a key is fetched anew."""
        return tuple([secret for holder in self._secret_holders for secret in holder.secret_values()])

    def forget_opened(self) -> None:
        """The event loop in which routes were opened is gone."""
        self._opened.clear()

    def first(self, now: float) -> Route | None:
        """Where a turn begins: the first route that does not rest; None when all do."""
        return next((route for route in self._routes if self._rests.ready(route.place, now)), None)

    def next(self, tried: Collection[int], now: float) -> Route | None:
        """Where to go on after the routes at the places `tried` failed: the first that does not rest, else
        the one that rests for the shortest time; None when all were tried."""
        left = [route for route in self._routes if route.place not in tried]
        return min(left, key=lambda route: self._rests.left_s(route.place, now), default=None)

    def rest(self, place: int, until: float) -> None:
        """Begin no turn with the route at `place` before `until`. The only route never rests."""
        if self.several:
            self._rests.rest(place, until)

    def ready_in_s(self, now: float) -> float:
        """How long it is until the first route is ready, in seconds."""
        return min(self._rests.left_s(route.place, now) for route in self._routes)
