"""An optional ability is found where an object has it, and nowhere else."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_messages import protocols
from hermes_messages.abilities import supports

Held = TypeVar("Held", contravariant=True)


@runtime_checkable
class Closes(Protocol):
    def close(self) -> str: ...


@runtime_checkable
class Limits(Protocol):
    @property
    def timeout_s(self) -> float | None: ...

    output_limit: int | None


class Holds(Protocol[Held]):
    def hold(self, held: Held) -> None: ...


class ClosesAndHolds(Closes, Holds[Held], Protocol[Held]):
    def again(self) -> None: ...


def close() -> str:
    return "closed"


class Plain:
    pass


class WithMethod:
    def close(self) -> str:
        return "closed"


class Inherits(WithMethod):
    pass


class TakenBack(WithMethod):
    close = None  # type: ignore[assignment]


class TakesBackForItself(WithMethod):
    def __init__(self) -> None:
        self.close = None  # type: ignore[assignment, method-assign]


class GivesItselfAgain(TakenBack):
    def __init__(self) -> None:
        self.close = close  # type: ignore[assignment]


class ForItself:
    def __init__(self, closing: object = close) -> None:
        self.close = closing


class Slot:
    __slots__ = ("close",)

    def __init__(self, *closing: object) -> None:
        if closing:
            (self.close,) = closing


class Slotted:
    __slots__ = ()

    def close(self) -> str:
        return "closed"


class Flag:
    close = True


class FlagOverMethod(WithMethod):
    close = True  # type: ignore[assignment]


class BoundLate:
    @property
    def close(self) -> Callable[[], str]:
        return close


class BoundNever:
    @property
    def close(self) -> Callable[[], str]:
        raise AttributeError("no such thing")


class OtherMethods:
    close = functools.partialmethod(WithMethod.close)


class Static:
    close = staticmethod(close)


class OfTheClass:
    @classmethod
    def close(cls) -> str:
        return "closed"


class Hides(WithMethod):
    def __getattribute__(self, name: str) -> object:
        raise AttributeError(name)


class Passing:
    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class PassingAllButClose(Passing):
    close = None


class WithLimits:
    timeout_s = None

    def __init__(self) -> None:
        self.output_limit = 5


class LimitsThatAreDear:
    output_limit = None

    @property
    def timeout_s(self) -> float:
        raise AssertionError("was read")


@pytest.mark.parametrize(
    "thing",
    [
        WithMethod(),
        Inherits(),
        GivesItselfAgain(),
        ForItself(),
        ForItself(WithMethod().close),
        ForItself(functools.partial(close)),
        Slot(close),
        Slotted(),
        BoundLate(),
        OtherMethods(),
        Static(),
        OfTheClass(),
        Passing(WithMethod()),
        Passing(Passing(ForItself())),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_a_method_is_found_wherever_a_call_finds_it(thing: object) -> None:
    for _ in range(2):
        if not supports(thing, Closes):
            pytest.fail("not found")
        assert thing.close() == "closed"


@pytest.mark.parametrize(
    "thing",
    [
        None,
        Plain(),
        TakenBack(),
        TakesBackForItself(),
        ForItself(None),
        ForItself(5),
        Slot(),
        Slot(None),
        Flag(),
        FlagOverMethod(),
        BoundNever(),
        Hides(),
        WithLimits(),
        Passing(Plain()),
        Passing(TakenBack()),
        Passing(TakesBackForItself()),
        PassingAllButClose(WithMethod()),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_can_not_be_called_is_no_method(thing: object) -> None:
    assert not supports(thing, Closes)
    assert not supports(thing, Closes)


def test_what_one_object_of_a_class_has_is_not_said_of_the_next() -> None:
    first, second = Plain(), Plain()
    first.close = close  # type: ignore[attr-defined]
    assert [supports(one, Closes) for one in (first, second, first)] == [True, False, True]
    given, taken = WithMethod(), WithMethod()
    taken.close = None  # type: ignore[assignment, method-assign]
    assert [supports(one, Closes) for one in (given, taken, given)] == [True, False, True]


def test_an_attribute_may_be_none_and_is_not_read_from_a_class() -> None:
    assert supports(WithLimits(), Limits)
    assert supports(LimitsThatAreDear(), Limits)
    assert supports(Passing(WithLimits()), Limits)
    assert not supports(Flag(), Limits)
    assert not supports(Passing(Flag()), Limits)


def test_what_a_protocol_inherits_is_asked_for_too() -> None:
    class Again(WithMethod):
        def again(self) -> None: ...

    class Whole(Again):
        def hold(self, held: int) -> None: ...

    assert supports(Whole(), ClosesAndHolds)
    assert not supports(Again(), ClosesAndHolds)
    assert supports(Passing(Whole()), ClosesAndHolds)
    assert supports(Passing(Whole()), Holds)
    assert not supports(Passing(Again()), Holds)


def test_what_no_object_could_lack_is_refused() -> None:
    class Nothing(Protocol): ...

    for wrong in (Nothing, Protocol, WithMethod, Whole, None):
        with pytest.raises(TypeError):
            supports(WithMethod(), wrong)  # type: ignore[arg-type]


class Whole(ClosesAndHolds[int]):
    def hold(self, held: int) -> None: ...


@pytest.mark.parametrize(
    "protocol",
    [
        one
        for one in vars(protocols).values()
        if isinstance(one, type) and one.__name__.startswith("Supports")
    ],
)
@pytest.mark.parametrize("thing", [Plain(), WithMethod(), Flag(), None, Passing(Plain())])
def test_nobody_has_an_ability_without_its_members(thing: object, protocol: type) -> None:
    assert not supports(thing, protocol)
    members = {name: close for name in vars(protocol) if not name.startswith("_")}
    made = type("Made", (), members)()
    assert supports(made, protocol)
    assert supports(Passing(made), protocol)


PLACES = st.sampled_from(["absent", "method", "none", "value"])
VALUES = {"method": close, "none": None, "value": 5}
TWO = st.fixed_dictionaries({"close": PLACES, "again": PLACES})


@runtime_checkable
class ClosesTwice(Protocol):
    def close(self) -> str: ...
    def again(self) -> str: ...


def present(names: dict[str, str]) -> dict[str, object]:
    return {name: VALUES[place] for name, place in names.items() if place != "absent"}


@given(st.lists(TWO, min_size=1, max_size=3), st.lists(TWO, min_size=1, max_size=3), st.none() | TWO)
def test_the_answer_is_what_an_attempt_to_call_would_say(
    classes: list[dict[str, str]], objects: list[dict[str, str]], behind: dict[str, str] | None
) -> None:
    kind: type = Plain
    if behind is not None:
        inner = Plain()
        vars(inner).update(present(behind))
        kind = type("Proxy", (Plain,), {"__getattr__": lambda _, name: getattr(inner, name)})
    for names in classes:
        kind = type(
            "Below", (kind,), {n: staticmethod(v) if callable(v) else v for n, v in present(names).items()}
        )
    things = [kind() for _ in objects]
    for thing, names in zip(things, objects, strict=True):
        vars(thing).update(present(names))
    for thing in (*things, *things):
        can = all(callable(getattr(thing, name, None)) for name in ("close", "again"))
        assert supports(thing, ClosesTwice) == can


def calls_to_ask(thing: object) -> int:
    """The second time: how many calls it takes, also of functions written in C."""
    calls = 0

    def noted(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    supports(thing, ClosesTwice)
    gc.disable()
    sys.setprofile(noted)
    supports(thing, ClosesTwice)
    sys.setprofile(None)
    gc.enable()
    return calls - 1  # the one that ends it


def test_of_an_object_whose_class_is_known_only_what_is_its_own_is_asked() -> None:
    """Each turn asks, several times."""

    class Both(WithMethod):
        def again(self) -> str:
            return "again"

    class Fixed(Slotted):
        __slots__ = ()

        def again(self) -> str:
            return "again"

    assert calls_to_ask(Fixed()) <= 2  # the function itself, and what is known of the class
    assert calls_to_ask(Both()) <= 2 + 2 * 2  # each method: got, and whether it can be called
    assert calls_to_ask(Plain()) <= 2 + 1
