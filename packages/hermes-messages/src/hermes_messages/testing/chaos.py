"""A provider that fails at random, the same way each time for one seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from enum import StrEnum

from msgspec import Struct

from hermes_messages.errors import ErrorKind, ProviderError
from hermes_messages.exchange import ChatRequest, ModelInfo, ResponseDone, StreamEvent
from hermes_messages.parts import Origin
from hermes_messages.protocols.provider import Provider

__all__ = ["ChaosProvider", "Fault", "FaultKind"]

_LATEST_CUT = 6
_MOST_YIELDS = 20


class FaultKind(StrEnum):
    """What a chaotic provider does to a request."""

    NONE = "none"
    """Nothing: it is answered."""
    REFUSED = "refused"
    """It fails before the first event."""
    CUT = "cut"
    """Its stream fails in the middle."""
    SLOW = "slow"
    """Its events come with pauses between them."""


class Fault(Struct, frozen=True, kw_only=True):
    """What is done to one request. `after` counts the events before a cut, `yields` the turns that the event
    loop takes before each event."""

    request_number: int
    """Counts the requests to this provider from 1."""
    kind: FaultKind
    """What was done."""
    error: ErrorKind | None = None
    """What a request that was refused or cut fails with; None for the others."""
    after: int = 0
    yields: int = 0


class ChaosProvider:
    """Satisfies `Provider` over another one, which it disturbs.

    Each request is refused (a `ProviderError` before the first event), cut (one after some events, and always
    before `ResponseDone`), slowed (it gives way to other tasks before each event), or left alone. The choice
    depends on `seed` and the number of the request alone, so a failure can be played again. From request
    `healthy_after + 1` on nothing is disturbed. `faults` lists what was done.
    """

    def __init__(
        self,
        inner: Provider,
        seed: int,
        *,
        refused: float = 0.2,
        cut: float = 0.2,
        slow: float = 0.2,
        kinds: Sequence[ErrorKind] = tuple(ErrorKind),
        healthy_after: int | None = None,
    ) -> None:
        """`refused`, `cut` and `slow` are probabilities; together at most 1."""
        self._inner = inner
        self._seed = seed
        self._weights = (refused, cut, slow, max(0.0, 1.0 - refused - cut - slow))
        self._kinds = tuple(kinds)
        self._healthy_after = healthy_after
        self.faults: list[Fault] = []

    @property
    def name(self) -> str:
        """The name of the provider inside."""
        return self._inner.name

    @property
    def default_model(self) -> str | None:
        """That of the provider inside."""
        return self._inner.default_model

    def origin(self, model: str) -> Origin:
        """That of the provider inside."""
        return self._inner.origin(model)

    def model_info(self, model: str) -> ModelInfo:
        """That of the provider inside."""
        return self._inner.model_info(model)

    async def open(self) -> None:
        """Open the provider inside."""
        await self._inner.open()

    async def close(self) -> None:
        """Close the provider inside."""
        await self._inner.close()

    def planned(self, request_number: int) -> Fault:
        """What is done to that request, counted from 1."""
        if self._healthy_after is not None and request_number > self._healthy_after:
            return Fault(request_number=request_number, kind=FaultKind.NONE)
        dice = random.Random(f"{self._seed}/{request_number}")  # noqa: S311 - not for secrets
        kinds = (FaultKind.REFUSED, FaultKind.CUT, FaultKind.SLOW, FaultKind.NONE)
        [kind] = dice.choices(kinds, self._weights)
        disturbed = kind in (FaultKind.REFUSED, FaultKind.CUT)
        return Fault(
            request_number=request_number,
            kind=kind,
            error=dice.choice(self._kinds) if disturbed else None,
            after=dice.randint(1, _LATEST_CUT) if kind is FaultKind.CUT else 0,
            yields=dice.randint(1, _MOST_YIELDS) if kind is FaultKind.SLOW else 0,
        )

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream from the provider inside, disturbed. A refused request never reaches it."""
        fault = self.planned(len(self.faults) + 1)
        self.faults.append(fault)
        if fault.kind is FaultKind.REFUSED:
            await asyncio.sleep(0)
            raise _error(fault)
        sent = 0
        async with aclosing(self._inner.stream(request)) as events:
            async for event in events:
                if fault.kind is FaultKind.CUT and (sent >= fault.after or isinstance(event, ResponseDone)):
                    raise _error(fault)
                for _ in range(fault.yields):
                    await asyncio.sleep(0)
                yield event
                sent += 1


def _error(fault: Fault) -> ProviderError:
    kind = fault.error or ErrorKind.UNKNOWN
    return ProviderError(f"chaos: request {fault.request_number} was {fault.kind} ({kind})", kind=kind)
