"""Which versions of the wheels are put together, and which of these mixtures the ranges allow; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from earlier_releases import earlier
from layers import BASE, OTHERS, WHEELS, version_of
from packaging.requirements import Requirement
from packaging.version import Version
from shared import Release

__all__ = ["Mixture", "Refusal", "mixtures", "nearest", "pairs", "refusals"]

Versions = Mapping[str, str]
Declared = Mapping[tuple[str, str], Sequence[Requirement]]
"""What each wheel, by name and version, asks for."""


@dataclass(frozen=True)
class Mixture:
    """One cell of the table of pins: the versions of all wheels, and the layer that is alone with its own."""

    layer: str
    column: str
    versions: Versions


@dataclass(frozen=True)
class Refusal:
    """A range that does not admit what a mixture puts beside it."""

    dependent: str
    requirement: Requirement

    def __str__(self) -> str:
        wanted = f"{self.requirement.name}{self.requirement.specifier}"
        return f"{self.dependent} wants {wanted}"


def generations(releases: Sequence[Release]) -> Iterator[dict[str, str]]:
    """For one release back, two releases back ...: that version of each wheel, or its oldest one."""
    history = {wheel: earlier(releases, wheel, version_of(wheel)) for wheel in WHEELS}
    for back in range(max(map(len, history.values()))):
        yield {wheel: old[min(back, len(old) - 1)].version for wheel, old in history.items() if old}


def mixtures(releases: Sequence[Release]) -> Iterator[Mixture]:
    """Each layer at each earlier release with the others of this tree, and the reverse."""
    head = {wheel: version_of(wheel) for wheel in WHEELS}
    for back, old in enumerate(generations(releases), start=1):
        ago = "the last release" if back == 1 else f"{back} releases back"
        for layer in WHEELS:
            if layer in old:
                yield Mixture(layer, f"at {ago}, the others here", head | {layer: old[layer]})
            yield Mixture(layer, f"here, the others at {ago}", head | old | {layer: head[layer]})


def pairs(releases: Sequence[Release]) -> Iterator[tuple[str, str, str]]:
    """Each layer with hermes-messages where one of the two is an earlier release: both versions."""
    base, layers = version_of(BASE), {wheel: version_of(wheel) for wheel in OTHERS}
    for old in earlier(releases, BASE, base):
        yield from ((wheel, here, old.version) for wheel, here in layers.items())
    for wheel, here in layers.items():
        yield from ((wheel, old.version, base) for old in earlier(releases, wheel, here))


def refusals(versions: Versions, declared: Declared) -> list[Refusal]:
    """The ranges that say no to these versions side by side."""
    return [
        Refusal(wheel, requirement)
        for wheel, version in versions.items()
        for requirement in declared[wheel, version]
        if requirement.name in versions
        and not requirement.specifier.contains(versions[requirement.name], prereleases=True)
    ]


def nearest(mixture: Mixture, declared: Declared) -> dict[str, str]:
    """What the ranges allow of a mixture, with the layer as it is wanted.

    A sibling that the layer does not admit is taken at the newest version that it does admit, another wheel
    that does not go with what is there at its newest version that does. What has none is left out.
    """
    versions = dict(mixture.versions)
    while found := refusals(versions, declared):
        requirement = found[0].requirement
        wheel = requirement.name if found[0].dependent == mixture.layer else found[0].dependent
        others = {name: version for name, version in versions.items() if name != wheel}
        known = sorted(
            (v for w, v in declared if w == wheel and v != versions[wheel]), key=Version, reverse=True
        )
        if wheel == requirement.name:
            fitting = [v for v in known if requirement.specifier.contains(v)]
        else:
            fitting = [
                v for v in known if all(r.dependent != wheel for r in refusals(others | {wheel: v}, declared))
            ]
        versions = others | ({wheel: fitting[0]} if fitting else {})
    return versions
