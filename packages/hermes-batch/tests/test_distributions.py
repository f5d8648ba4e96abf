"""Toolsets drawn at random, the same way every time."""

import pytest

from hermes_batch.distributions import DISTRIBUTIONS, distribution_named, sample_toolsets
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
