"""What every `SessionStore` must do, and what one must do besides that has more methods."""

from __future__ import annotations

from hermes_messages.abilities import supports
from hermes_messages.protocols.store import (
    SupportsCompression,
    SupportsLeaseQueue,
    SupportsLeases,
    SupportsSearch,
    SupportsSessionState,
    SupportsSuspension,
)
from hermes_messages.testing.conformance.compression_checks import CompressionChecks
from hermes_messages.testing.conformance.lease_checks import LeaseChecks
from hermes_messages.testing.conformance.message_checks import DurabilityChecks, MessageChecks
from hermes_messages.testing.conformance.queue_checks import QueueChecks
from hermes_messages.testing.conformance.report import BrokenPromise, ConformanceError, made, run_checks
from hermes_messages.testing.conformance.search_checks import SearchChecks
from hermes_messages.testing.conformance.session_checks import StateChecks, SuspensionChecks
from hermes_messages.testing.conformance.store_samples import MakeStore

__all__ = ["check_store"]


async def check_store(
    make_store: MakeStore, *, reopen: MakeStore | None = None, limit_s: float = 20.0
) -> None:
    """Check the promises of `SessionStore`, and of each `Supports...` Protocol whose methods the store has.
    Raises `ConformanceError`, which lists the broken ones.

    `make_store` makes a store that is ready to use, each time with other data or with the same. `reopen`
    makes one on the data of the store that `make_store` made last, to see that they survive. Each check takes
    at most `limit_s` seconds.
    """
    probe = await made(make_store())
    more: list[tuple[bool, object]] = [
        (reopen is not None, DurabilityChecks(make_store, reopen or make_store)),
        (supports(probe, SupportsLeases), LeaseChecks(make_store)),
        (supports(probe, SupportsLeaseQueue), QueueChecks(make_store, limit_s)),
        (supports(probe, SupportsSuspension), SuspensionChecks(make_store)),
        (supports(probe, SupportsSessionState), StateChecks(make_store)),
        (supports(probe, SupportsCompression), CompressionChecks(make_store, limit_s)),
        (supports(probe, SupportsSearch), SearchChecks(make_store)),
    ]
    await probe.close()
    groups = [MessageChecks(make_store, limit_s), *(group for applies, group in more if applies)]
    broken: list[BrokenPromise] = []
    for group in groups:
        try:
            await run_checks("SessionStore", group, limit_s)
        except ConformanceError as error:
            broken.extend(error.broken)
    if broken:
        raise ConformanceError("SessionStore", broken)
