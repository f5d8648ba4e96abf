"""What a turn returns: a dict whose long lists cost nothing until somebody looks at them. Pure.

The conversation in OpenAI's shape is kept message by message, so that the result of the thousandth turn need
not make a thousand dicts again. Whoever reads such a list through the result gets dicts of his own, made
then; what reads the memory of a dict directly (encoders written in C) meets the kept ones, which are equal
and must not be changed. `dict(result)` is a plain dict for whatever asks for that type exactly.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, ValuesView
from typing import Any, Final, Self

from hermes_messages import JsonValue

__all__ = ["TurnResult"]

SHARED: Final = ("messages", "tools")


class TurnResult(dict[str, Any]):
    """A `ConversationResult`. Copies and pickles are plain dicts."""

    __slots__ = ("_shared",)

    def __init__(self, values: Iterable[tuple[str, object]] | dict[str, object] = ()) -> None:
        """The lists under the names in `SHARED` hold dicts that others hold, too."""
        super().__init__(values)
        self._shared: tuple[str, ...] = SHARED

    def _own(self, names: tuple[str, ...] = SHARED) -> None:
        """From now on the lists under `names` are of nobody else."""
        for name in names:
            if name in self._shared:
                self._shared = tuple(other for other in self._shared if other != name)
                if super().__contains__(name):
                    super().__setitem__(name, fresh(super().__getitem__(name)))

    def __getitem__(self, key: str) -> Any:
        if key in self._shared:
            self._own((key,))
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self._shared:
            self._own((key,))  # what is set from now on is not to be copied
        super().__setitem__(key, value)

    def __iter__(self) -> Iterator[str]:  # where it is not dict's own, dict(result) asks item by item
        return super().__iter__()

    def get(self, key: str, default: Any = None) -> Any:
        """As of a dict."""
        if key in self._shared:
            self._own((key,))
        return super().get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        """As of a dict."""
        if key in self._shared:
            self._own((key,))
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        """As of a dict."""
        self._own()
        return super().popitem()

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As of a dict."""
        if key in self._shared:
            self._own((key,))
        return super().setdefault(key, default)

    def update(self, *others: Any, **values: Any) -> None:
        """As of a dict."""
        self._own()
        super().update(*others, **values)

    def __ior__(self, other: Any) -> Self:  # type: ignore[override]  # dict's own is overloaded
        self._own()
        return super().__ior__(other)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]  # dict's own views have no public class
        """As of a dict."""
        self._own()
        return super().values()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]  # dict's own views have no public class
        """As of a dict."""
        self._own()
        return super().items()

    def copy(self) -> dict[str, Any]:
        """As of a dict."""
        return dict(self)

    def __or__(self, other: Any) -> Any:
        return dict(self) | other if isinstance(other, dict) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return other | dict(self) if isinstance(other, dict) else NotImplemented

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)

    def __reduce_ex__(self, _protocol: Any) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return self.__reduce__()


def fresh(value: JsonValue) -> JsonValue:
    """A copy that has no list and no dict in common with `value`."""
    if type(value) is dict:
        copied = value.copy()
        for key, inner in value.items():
            if type(inner) is dict or type(inner) is list:
                copied[key] = fresh(inner)
        return copied
    if type(value) is list:
        return [fresh(inner) for inner in value]
    return value
