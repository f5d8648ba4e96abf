"""Toolsets drawn at random, the same way every time."""

import pytest

from hermes_batch.distributions import DISTRIBUTIONS, distribution_named, read_distribution, sample_toolsets
from hermes_messages import ConfigurationError, UnknownNameError


def test_the_default_gives_every_toolset() -> None:
    assert sample_toolsets(DISTRIBUTIONS["default"], seed="1") == ("file", "terminal", "todo")


def test_the_same_seed_gives_the_same_choice_and_another_seed_another() -> None:
    half = DISTRIBUTIONS["balanced"]
    choices = [sample_toolsets(half, seed=str(seed)) for seed in range(50)]
    assert choices == [sample_toolsets(half, seed=str(seed)) for seed in range(50)]
    assert len(set(choices)) > 1


def test_at_least_one_toolset_unless_none_is_wanted() -> None:
    assert len(sample_toolsets({"file": 0.0, "todo": 0.0}, seed="1")) == 1
    assert sample_toolsets(DISTRIBUTIONS["none"], seed="1") == ()


def test_unknown_name_and_impossible_probability() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'balanced'"):
        distribution_named("balancd")
    with pytest.raises(ConfigurationError, match="not between 0 and 1"):
        sample_toolsets({"file": 1.5}, seed="1")


def test_a_distribution_of_ones_own_comes_from_json_or_toml() -> None:
    expected = {"file": 0.5, "my tools": 1.0}
    assert read_distribution(b'{"file": 0.5, "my tools": 1}', "d.json") == expected
    assert read_distribution(b'file = 0.5\n"my tools" = 1\n', "d.toml") == expected


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"[", "d.json"),
        (b"[1]", "d.json"),
        (b'{"file": "x"}', "d.json"),
        (b"file =", "d.toml"),
        (b"\xff", "d.toml"),
    ],
)
def test_a_file_that_is_no_distribution_says_so(data: bytes, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is no toolset distribution"):
        read_distribution(data, name)


def test_an_impossible_probability_in_a_file_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not between 0 and 1"):
        read_distribution(b'{"file": 2}', "d.json")
