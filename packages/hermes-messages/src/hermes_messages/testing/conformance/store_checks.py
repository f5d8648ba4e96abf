"""What every `SessionStore` must do, and what one with leases or search must do besides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hermes_messages.protocols.store import SessionStore, SupportsLeases, SupportsSearch
from hermes_messages.testing.conformance.lease_checks import LeaseChecks
from hermes_messages.testing.conformance.message_checks import DurabilityChecks, MessageChecks
from hermes_messages.testing.conformance.report import BrokenPromise, ConformanceError, made, run_checks
from hermes_messages.testing.conformance.search_checks import SearchChecks

__all__ = ["MakeStore", "check_store"]

MakeStore = Callable[[], SessionStore | Awaitable[SessionStore]]


async def check_store(
    make_store: MakeStore, *, reopen: MakeStore | None = None, limit_s: float = 20.0
) -> None:
    """Check the promises of `SessionStore`, and of `SupportsLeases` and `SupportsSearch` where the store has
    their methods. Raises `ConformanceError`, which lists the broken ones.

    `make_store` makes a store that is ready to use, each time with other data or with the same. `reopen`
    makes one on the data of the store that `make_store` made last, to see that they survive. Each check takes
    at most `limit_s` seconds.
    """
    probe = await made(make_store())
    has_leases, has_search = isinstance(probe, SupportsLeases), isinstance(probe, SupportsSearch)
    await probe.close()
    groups: list[object] = [MessageChecks(make_store, limit_s)]
    if reopen is not None:
        groups.append(DurabilityChecks(make_store, reopen))
    if has_leases:
        groups.append(LeaseChecks(make_store))
    if has_search:
        groups.append(SearchChecks(make_store))
    broken: list[BrokenPromise] = []
    for group in groups:
        try:
            await run_checks("SessionStore", group, limit_s)
        except ConformanceError as error:
            broken.extend(error.broken)
    if broken:
        raise ConformanceError("SessionStore", broken)
