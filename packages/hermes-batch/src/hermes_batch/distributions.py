"""Which toolsets a row gets: named distributions of independent probabilities, reproducible by seed. Pure."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping

import msgspec

from hermes_messages import ConfigurationError, UnknownNameError

__all__ = [
    "DISTRIBUTIONS",
    "check_distribution",
    "distribution_named",
    "read_distribution",
    "sample_toolsets",
]

DISTRIBUTIONS: dict[str, dict[str, float]] = {
    "default": {"file": 1.0, "terminal": 1.0, "todo": 1.0},
    "balanced": {"file": 0.5, "terminal": 0.5, "todo": 0.5},
    "development": {"file": 0.9, "terminal": 0.9, "todo": 0.4},
    "file_only": {"file": 1.0},
    "terminal_only": {"terminal": 1.0},
    "none": {},
}
"""Distributions by name: for each toolset the probability, from 0 to 1, that a row has it."""


def distribution_named(name: str) -> Mapping[str, float]:
    """The distribution of this name. Raises `UnknownNameError` with the near names."""
    try:
        return DISTRIBUTIONS[name]
    except KeyError:
        raise UnknownNameError("toolset distribution", name, DISTRIBUTIONS) from None


def read_distribution(data: bytes, source: str) -> Mapping[str, float]:
    """A distribution from the text of a JSON or TOML file: toolset names with probabilities from 0 to 1.

    `source` names the file, whose ending `.toml` tells TOML. Raises `ConfigurationError`.
    """
    try:
        found: object = (
            tomllib.loads(data.decode()) if source.endswith(".toml") else msgspec.json.decode(data)
        )
        distribution = msgspec.convert(found, dict[str, float])
    except (ValueError, RecursionError) as error:  # also those of msgspec, tomllib and of the decoding
        raise ConfigurationError(
            f"{source} is no toolset distribution (names with probabilities): {error}"
        ) from error
    return check_distribution(distribution)


def check_distribution(distribution: Mapping[str, float]) -> Mapping[str, float]:
    """`distribution` itself. Raises `ConfigurationError` for a probability outside 0 to 1."""
    for name, chance in distribution.items():
        if not 0 <= chance <= 1:
            raise ConfigurationError(f"the probability of toolset {name!r} is {chance}, not between 0 and 1")
    return distribution


def sample_toolsets(distribution: Mapping[str, float], *, seed: str) -> tuple[str, ...]:
    """The toolsets for one row, in the distribution's order; at least one unless the distribution is empty.

    The same seed gives the same choice. Raises `ConfigurationError` for a probability outside 0 to 1.
    """
    check_distribution(distribution)
    choice = random.Random(seed)  # noqa: S311 - a reproducible sample, not a secret
    chosen = tuple(name for name, chance in distribution.items() if choice.random() < chance)
    if chosen or not distribution:
        return chosen
    names = list(distribution)
    weights = [max(chance, 1e-9) for chance in distribution.values()]
    return tuple(choice.choices(names, weights))
