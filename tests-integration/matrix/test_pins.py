"""Mixtures of releases: what is tried, what the ranges refuse, and what is tried in its place."""

from __future__ import annotations

import pins
import pytest
from earlier_releases import earlier
from layers import OTHERS, WHEELS
from packaging.requirements import Requirement
from pins import Mixture, mixtures, nearest, pairs, refusals
from shared import Release

COMMIT = "0" * 40
LOOP, BASE, STORE = "hermes-loop", "hermes-messages", "hermes-store"
HEAD = dict.fromkeys(WHEELS, "0.1.3")


@pytest.fixture(autouse=True)
def this_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """All wheels stand at 0.1.3."""
    monkeypatch.setattr(pins, "version_of", HEAD.__getitem__)


def released(*versions: str, wheels: tuple[str, ...] = WHEELS) -> list[Release]:
    return [Release(wheel, version, COMMIT) for wheel in wheels for version in versions]


def declared(**loop: str) -> pins.Declared:
    """What the wheels want of hermes-messages: 0.1.x, and the loop at a version what is said for it."""
    versions = ("0.1.0", "0.1.2", "0.1.3")
    ranges = {(wheel, version): ["hermes-messages>=0.1,<0.2"] for wheel in OTHERS for version in versions}
    ranges |= {(BASE, version): [] for version in versions}
    ranges |= {(LOOP, version.replace("_", ".")[1:]): [wanted] for version, wanted in loop.items()}
    return {key: [Requirement(line) for line in lines] for key, lines in ranges.items()}


def test_every_layer_is_tried_at_every_release_and_the_other_way_round() -> None:
    found = list(mixtures(released("0.1.0", "0.1.2")))
    assert len(found) == 2 * 2 * 6
    seen = {
        (m.layer, m.versions[m.layer], frozenset(v for w, v in m.versions.items() if w != m.layer))
        for m in found
    }
    for wheel in WHEELS:
        for old in ("0.1.0", "0.1.2"):
            assert (wheel, old, frozenset({"0.1.3"})) in seen
            assert (wheel, "0.1.3", frozenset({old})) in seen


def test_the_version_of_the_tree_is_no_earlier_release() -> None:
    assert earlier(released("0.1.0", "0.1.3", "0.1.10"), LOOP, "0.1.3") == [Release(LOOP, "0.1.0", COMMIT)]


def test_a_wheel_with_fewer_releases_keeps_its_oldest() -> None:
    table = released("0.1.0", "0.1.2")[:-1]
    assert table[-1].wheel == "hermes-batch"
    two_back = [m for m in mixtures(table) if "2 releases" in m.column]
    assert {m.versions["hermes-batch"] for m in two_back} == {"0.1.0", "0.1.3"}


def test_each_layer_meets_messages_of_another_age_both_ways() -> None:
    found = set(pairs(released("0.1.0")))
    assert found == {(w, "0.1.3", "0.1.0") for w in OTHERS} | {(w, "0.1.0", "0.1.3") for w in OTHERS}


def test_a_mixture_that_the_ranges_allow_is_tried_as_it_is() -> None:
    mixture = Mixture(STORE, "", HEAD | {STORE: "0.1.0"})
    assert refusals(mixture.versions, declared()) == []
    assert nearest(mixture, declared()) == dict(mixture.versions)


def test_who_does_not_go_with_an_old_layer_is_taken_at_an_older_release() -> None:
    mixture = Mixture(BASE, "", HEAD | {BASE: "0.1.0"})
    ranges = declared(_0_1_3="hermes-messages>=0.1.1,<0.2", _0_1_2="hermes-messages>=0.1.1,<0.2")
    assert nearest(mixture, ranges) == dict(mixture.versions) | {LOOP: "0.1.0"}


def test_who_goes_with_an_old_layer_at_no_release_is_left_out() -> None:
    mixture = Mixture(BASE, "", HEAD | {BASE: "0.1.0"})
    newer = "hermes-messages>=0.1.1,<0.2"
    ranges = declared(_0_1_3=newer, _0_1_2=newer, _0_1_0=newer)
    assert [str(refusal) for refusal in refusals(mixture.versions, ranges)] == [
        f"{LOOP} wants {BASE}<0.2,>=0.1.1"
    ]
    assert nearest(mixture, ranges) == {w: v for w, v in mixture.versions.items() if w != LOOP}


def test_an_old_layer_that_wants_an_older_sibling_gets_it() -> None:
    mixture = Mixture(LOOP, "", HEAD | {LOOP: "0.1.0"})
    found = nearest(mixture, declared(_0_1_0="hermes-messages>=0.1,<0.1.3"))
    assert found == HEAD | {LOOP: "0.1.0", BASE: "0.1.2"}


def test_a_layer_that_wants_a_newer_sibling_gets_the_one_of_this_tree() -> None:
    mixture = Mixture(LOOP, "", dict.fromkeys(HEAD, "0.1.0") | {LOOP: "0.1.3"})
    ranges = declared(_0_1_3="hermes-messages>=0.1.1,<0.2")
    assert nearest(mixture, ranges) == dict(mixture.versions) | {BASE: "0.1.3"}
