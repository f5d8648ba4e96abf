"""Whether an object has an optional ability, which is a Protocol (`SupportsSearch`, ...).

`isinstance` with a Protocol looks through all of both each time, and from Python 3.12 on it does not see what
a proxy hands on by `__getattr__`.

>>> from hermes_messages.abilities import supports
>>> from hermes_messages.protocols import SupportsIdempotence
>>> class Clock:
...     idempotent = True
>>> supports(Clock(), SupportsIdempotence)
True
>>> supports(None, SupportsIdempotence)
False
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["supports"]

P = TypeVar("P")


@runtime_checkable
class _Nothing(Protocol):
    pass


_MACHINERY: Final = {
    *vars(_Nothing),
    *("__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__"),
    *("__orig_bases__", "__static_attributes__", "__slots__", "__type_params__"),
}
"""What stands in the class of a Protocol although nobody has to offer it."""


class _Asked(NamedTuple):
    """What has to be asked of each object of a class: `present`, whether it is there at all, and `called`,
    whether it can be called."""

    present: tuple[str, ...]
    called: tuple[str, ...]


def supports(thing: object, protocol: Callable[..., P]) -> TypeIs[P]:
    """Whether `thing` has every method and attribute of `protocol`, by its class, by itself or by the
    `__getattr__` of a proxy.

    What can not be called is no method, so None takes back what a class inherits, in the class or in one
    object. An attribute may have any value, also None; a property of the class is not read.

    Raises `TypeError` for a Protocol without members, and for a class that is no Protocol.

    The class is looked through once. `protocol` need not be `runtime_checkable`.
    """
    asked = _asked(type(thing), protocol)  # type: ignore[arg-type]
    for name in asked.present:
        if not hasattr(thing, name):
            return False
    try:
        for name in asked.called:  # not by all(): turns ask this
            if not callable(getattr(thing, name)):
                return False
    except AttributeError:  # it hides what its class has
        return False
    return True


@lru_cache(maxsize=1024)
def _asked(kind: type, protocol: Hashable) -> _Asked:
    methods, attributes = _members(protocol)
    present = [name for name in attributes if _in_class(kind, name) is None]
    called = []
    for name in methods:
        found = _in_class(kind, name)
        if found is None or not callable(found[0]):
            present.append(name)
            called.append(name)
        elif kind.__dictoffset__:  # else no object of this class has another one of its own
            called.append(name)
    return _Asked(tuple(present), tuple(called))


def _in_class(kind: type, name: str) -> tuple[object] | None:
    for base in kind.__mro__:
        if name in vars(base):
            return (vars(base)[name],)
    return None


@lru_cache(maxsize=256)
def _members(protocol: Hashable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of its methods and of its attributes, those that it inherits among them."""
    if not _is_protocol(protocol):
        raise TypeError(f"a Protocol is needed here, not {protocol!r}")
    found: dict[str, bool] = {}
    for base in reversed(protocol.__mro__):
        if _is_protocol(base):
            for name in {**base.__annotations__, **vars(base)}:
                if name not in _MACHINERY and (name.startswith("__") or not name.startswith("_")):
                    found[name] = callable(vars(base).get(name))
    if not found:
        raise TypeError(f"{protocol.__name__} has no members: everything would support it")
    methods = tuple(name for name, is_method in found.items() if is_method)
    return methods, tuple(name for name in found if name not in methods)


def _is_protocol(kind: object) -> TypeIs[type]:
    if not isinstance(kind, type) or kind is Protocol:
        return False
    return vars(kind).get("_is_protocol") is True
