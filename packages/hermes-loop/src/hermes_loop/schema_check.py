"""Whether a JSON value fits a JSON schema, as far as models get schemas wrong. Pure.

Checked: `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`, `prefixItems`,
`anyOf`, `oneOf` (read as anyOf), `allOf` and a `$ref` inside the schema. All else (`pattern`, `format`,
bounds of numbers and lengths, `not`, `if`) is not checked: it is a host's to enforce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hermes_messages import JsonObject, JsonValue

__all__ = ["find_misfit"]

DEPTH: Final = 64


def find_misfit(value: JsonValue, schema: JsonObject) -> str | None:
    """Where `value` does not fit `schema`, the first place found; None when it fits."""
    return _Check(schema).misfit(value, schema, "the answer", 0)


class _Check:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._known: dict[tuple[int, int], str | None] = {}

    def misfit(self, value: JsonValue, schema: JsonValue, where: str, depth: int) -> str | None:
        """What is known of a place is not looked at again: forms that differ late would double the work
        with every level of the answer."""
        if not isinstance(value, dict | list) or not isinstance(schema, dict):
            return self._look(value, schema, where, depth)
        place = (id(value), id(schema))  # both live as long as this does
        if place not in self._known:
            self._known[place] = self._look(value, schema, where, depth)
        return self._known[place]

    def _look(self, value: JsonValue, schema: JsonValue, where: str, depth: int) -> str | None:
        if depth > DEPTH:
            return f"{where} is nested too deep"
        if schema is False:
            return f"{where} must not be there"
        if not isinstance(schema, dict):
            return None
        if isinstance(reference := schema.get("$ref"), str):
            found = self.misfit(value, self._target(reference), where, depth + 1)
            if found is not None:
                return found
        for check in (_misfit_kind, _misfit_choice):
            found = check(value, schema, where)
            if found is not None:
                return found
        return self._misfit_branches(value, schema, where, depth) or self._misfit_inside(
            value, schema, where, depth
        )

    def _misfit_branches(self, value: JsonValue, schema: JsonObject, where: str, depth: int) -> str | None:
        for part in _listed(schema.get("allOf")):
            found = self.misfit(value, part, where, depth + 1)
            if found is not None:
                return found
        branches = _listed(schema.get("anyOf")) or _listed(schema.get("oneOf"))
        found_in = [self.misfit(value, branch, where, depth + 1) for branch in branches]
        if not found_in or None in found_in:
            return None
        return f"{where} fits none of its {len(found_in)} forms (of the first: {found_in[0]})"

    def _misfit_inside(self, value: JsonValue, schema: JsonObject, where: str, depth: int) -> str | None:
        if isinstance(value, dict):
            return self._misfit_object(value, schema, where, depth)
        if isinstance(value, list):
            first = _listed(schema.get("prefixItems"))
            for index, item in enumerate(value):
                wanted = first[index] if index < len(first) else schema.get("items", True)
                found = self.misfit(item, wanted, f"{where}[{index}]", depth + 1)
                if found is not None:
                    return found
        return None

    def _misfit_object(self, value: JsonObject, schema: JsonObject, where: str, depth: int) -> str | None:
        for name in _listed(schema.get("required")):
            if name not in value:
                return f"{where} lacks {name!r}"
        properties = schema.get("properties")
        known: Mapping[str, JsonValue] = properties if isinstance(properties, dict) else {}
        others = schema.get("additionalProperties", True)
        for name, item in value.items():
            if name not in known and others is False:
                return f"{where} has {name!r}, which is not one of {sorted(known)}"
            found = self.misfit(item, known.get(name, others), f"{where}.{name}", depth + 1)
            if found is not None:
                return found
        return None

    def _target(self, reference: str) -> JsonValue:
        node: JsonValue = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if name:
                node = node.get(name, True) if isinstance(node, dict) else True
        return node


_KINDS: Final[dict[str, Callable[[JsonValue], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
}


def _misfit_kind(value: JsonValue, schema: JsonObject, where: str) -> str | None:
    wanted = schema.get("type")
    kinds = [wanted] if isinstance(wanted, str) else _listed(wanted)
    known = [kind for kind in kinds if isinstance(kind, str) and kind in _KINDS]
    if not known or any(_KINDS[kind](value) for kind in known):
        return None
    return f"{where} must be of type {' or '.join(known)}, not {_kind_of(value)}"


def _misfit_choice(value: JsonValue, schema: JsonObject, where: str) -> str | None:
    if "const" in schema and not _same(value, schema["const"]):
        return f"{where} must be {schema['const']!r}"
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(_same(value, choice) for choice in choices):
        return f"{where} must be one of {choices!r}"
    return None


def _same(left: JsonValue, right: JsonValue) -> bool:
    """JSON's equality: True is not 1."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _kind_of(value: JsonValue) -> str:
    return next(name for name, fits in _KINDS.items() if fits(value))


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
