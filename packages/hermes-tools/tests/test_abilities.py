"""An optional ability is found where a check against its Protocol finds it."""

from typing import Protocol, runtime_checkable

import pytest

from hermes_tools.abilities import supports


@runtime_checkable
class Closes(Protocol):
    async def close(self) -> None: ...


@runtime_checkable
class Limits(Protocol):
    @property
    def timeout_s(self) -> float | None: ...

    @property
    def output_limit(self) -> int | None: ...


class Plain:
    pass


class WithMethod:
    async def close(self) -> None:
        pass


class Inherits(WithMethod):
    pass


class TakenBack(WithMethod):
    close = None  # type: ignore[assignment]


class WithAttribute:
    def __init__(self) -> None:
        self.close = WithMethod().close


class WithLimits:
    timeout_s: float | None = None

    def __init__(self) -> None:
        self.output_limit: int | None = None


class Passing:
    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@pytest.mark.parametrize(
    "thing",
    [None, Plain(), WithMethod(), Inherits(), TakenBack(), WithAttribute(), WithLimits(), Passing(Plain())],
)
@pytest.mark.parametrize("protocol", [Closes, Limits])
def test_the_answer_is_that_of_isinstance(thing: object, protocol: type) -> None:
    assert supports(thing, protocol) == isinstance(thing, protocol)
    assert supports(thing, protocol) == isinstance(thing, protocol)


def test_what_one_object_of_a_class_has_is_not_said_of_the_next() -> None:
    first, second = Plain(), Plain()
    first.close = WithMethod().close  # type: ignore[attr-defined]
    assert [supports(one, Closes) for one in (first, second, first)] == [True, False, True]


def test_an_object_that_hands_on_every_name_has_the_abilities_of_the_one_behind_it() -> None:
    assert supports(Passing(WithMethod()), Closes)
    assert not supports(Passing(WithLimits()), Closes)
