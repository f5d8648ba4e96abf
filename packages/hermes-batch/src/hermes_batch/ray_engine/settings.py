"""The settings of the engine `ray`. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from hermes_messages import ConfigurationError
from hermes_messages.argument_text import JsonValue

__all__ = ["OWN", "QUIET", "RaySettings", "address_of", "cpus_of_own_cluster", "read_settings"]

OWN: Final = "local"
"""The address that stands for a cluster of our own on this machine."""
QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is told to anybody
    # Under `uv run`, Ray would send the current directory to the cluster and install it for the workers.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""What Ray does of itself and is not wanted, unless whoever runs this asks for it."""


class RaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`address`: `host:port` of a cluster, `auto` for one that runs on this machine, or `local`, which starts
    one and ends it with the run; None: the environment's `RAY_ADDRESS`, else `local`. `actors`: how many
    workers (None: one for each machine), never more than rows at once. `cpus_per_actor` is what Ray keeps
    free for each. `start_timeout_s` bounds the wait for the cluster and the first worker, in seconds."""

    address: str | None = None
    actors: int | None = None
    cpus_per_actor: float = 1.0
    start_timeout_s: float = 120.0


def read_settings(given: Mapping[str, JsonValue]) -> RaySettings:
    """Raises `ConfigurationError` that names the setting."""
    try:
        settings = msgspec.convert(dict(given), RaySettings)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"engine_settings of the engine 'ray': {error}") from None
    if settings.actors is not None and settings.actors < 1:
        raise ConfigurationError(f"actors is {settings.actors}; it must be at least 1")
    if not 0 <= settings.cpus_per_actor < math.inf:
        raise ConfigurationError(f"cpus_per_actor is {settings.cpus_per_actor}; it must be a number of CPUs")
    if not 0 < settings.start_timeout_s < math.inf:
        raise ConfigurationError(f"start_timeout_s is {settings.start_timeout_s}; it must be above 0")
    if settings.address is not None and "://" in settings.address:
        raise ConfigurationError(
            f"{settings.address!r} is an address of Ray Client, which is not used here; start the run on a"
            " machine of the cluster (address 'auto'), for example with ray job submit"
        )
    return settings


def address_of(settings: RaySettings, environ: Mapping[str, str]) -> str:
    """Which cluster is meant."""
    return settings.address or environ.get("RAY_ADDRESS", "").strip() or OWN


def cpus_of_own_cluster(settings: RaySettings, machine: int) -> int:
    """How many CPUs a cluster of our own is told that it has, so that every worker finds room."""
    return max(machine, math.ceil((settings.actors or 1) * settings.cpus_per_actor))
