"""Fitting the arguments of a call to the tool's schema. Pure.

Values are changed only where the schema leaves one meaning: `"42"` where an integer is wanted, `"true"` for a
boolean, the JSON text of a list for a list, a number where text is wanted. A string stays a string wherever
the schema takes one, whatever it looks like. Keywords of JSON Schema that are not named below are left to the
tool: type, enum, const, properties, required, additionalProperties, items, prefixItems, anyOf, oneOf, allOf,
local $ref.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping

from hermes_messages import JsonObject, JsonValue
from hermes_tools.errors import ArgumentsMismatchError

__all__ = ["check_names", "fit_arguments"]

_INTEGER = re.compile(r"[+-]?\d{1,30}")
_DEEPEST = 60
_COMBINING = frozenset(("$ref", "anyOf", "oneOf", "allOf", "enum", "const"))
_BOOLEANS = {"true": True, "false": False}


def fit_arguments(arguments: JsonObject, schema: JsonObject) -> JsonObject:
    """`arguments` as the schema wants them. Raises `ArgumentsMismatchError` with the path of the first value
    that does not fit (`$.limit: expected integer, got string 'many'`)."""
    if not arguments and _asks_for_nothing(schema):
        return {}
    fitted = _Fitter(schema).fit(arguments, schema, "$", 0)
    if not isinstance(fitted, dict):
        raise ArgumentsMismatchError("$: the schema asks for something that is no object")
    return fitted


def _asks_for_nothing(schema: JsonObject) -> bool:
    return schema.get("type") == "object" and not schema.get("required") and _COMBINING.isdisjoint(schema)


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Raise `ArgumentsMismatchError` when an argument is given that does not exist, with the nearest one."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ArgumentsMismatchError(f"$: there is no argument {name!r}; {hint}({_listed(known)})")


class _Fitter:
    """Walks value and schema together."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root

    def fit(self, value: JsonValue, schema: JsonValue, path: str, depth: int) -> JsonValue:
        if depth > _DEEPEST:
            raise ArgumentsMismatchError(f"{path}: nested too deeply")
        if schema is False:
            raise ArgumentsMismatchError(f"{path}: nothing may be given here")
        if not isinstance(schema, dict):
            return value
        if _COMBINING.isdisjoint(schema):
            return self._fit_kinds(value, schema, path, depth)
        if "$ref" in schema:
            return self.fit(value, self._resolve(schema["$ref"]), path, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            if isinstance(branches, list):
                return self._fit_one_of(value, branches, path, depth)
        parts = schema.get("allOf")
        if isinstance(parts, list):
            for part in parts:
                value = self.fit(value, part, path, depth + 1)
        if "enum" in schema or "const" in schema:
            return _fit_choice(value, schema, path)
        return self._fit_kinds(value, schema, path, depth)

    def _fit_kinds(self, value: JsonValue, schema: JsonObject, path: str, depth: int) -> JsonValue:
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return self._fit_one_of(value, [{**schema, "type": kind} for kind in kinds], path, depth)
        return self._fit_kind(value, kinds, schema, path, depth)

    def _resolve(self, reference: JsonValue) -> JsonValue:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        node: JsonValue = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            if step:
                node = (
                    node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
                )
        return True if node is None else node

    def _fit_one_of(self, value: JsonValue, branches: list[JsonValue], path: str, depth: int) -> JsonValue:
        fitted: list[JsonValue] = []
        problems: list[str] = []
        for branch in branches:
            try:
                candidate = self.fit(value, branch, path, depth + 1)
            except ArgumentsMismatchError as error:
                problems.append(str(error))
                continue
            if _same(candidate, value):
                return value  # it fits as it is: nothing is to be changed
            fitted.append(candidate)
        if fitted:
            return fitted[0]
        raise ArgumentsMismatchError(problems[-1] if len(problems) == 1 else _no_branch(path, problems))

    def _fit_kind(
        self, value: JsonValue, kind: JsonValue, schema: JsonObject, path: str, depth: int
    ) -> JsonValue:
        match kind:
            case "object":
                return self._fit_object(_parsed(value, dict, kind, path), schema, path, depth)
            case "array":
                return self._fit_array(_parsed(value, list, kind, path), schema, path, depth)
            case str() if kind in _SCALARS:
                return _SCALARS[kind](value, path)
            case None if isinstance(value, dict) and "properties" in schema:
                return self._fit_object(value, schema, path, depth)
            case _:
                return value

    def _fit_array(self, value: JsonValue, schema: JsonObject, path: str, depth: int) -> JsonValue:
        items = schema.get("items", True)
        places = schema.get("prefixItems")
        first = places if isinstance(places, list) else []
        if not isinstance(value, list) or (items is True and not first):
            return value
        return [
            self.fit(item, first[index] if index < len(first) else items, f"{path}[{index}]", depth + 1)
            for index, item in enumerate(value)
        ]

    def _fit_object(self, value: JsonValue, schema: JsonObject, path: str, depth: int) -> JsonValue:
        if not isinstance(value, dict):
            return value
        properties = schema.get("properties")
        known: Mapping[str, JsonValue] = properties if isinstance(properties, dict) else {}
        wanted = schema.get("required")
        required = wanted if isinstance(wanted, list) else []
        extra = schema.get("additionalProperties", True)
        fitted: JsonObject = {}
        for name, item in value.items():
            if name in known:
                if item is None and name not in required and not self._takes_null(known[name], depth):
                    continue  # null for an optional argument means: not given
                fitted[name] = self.fit(item, known[name], f"{path}.{name}", depth + 1)
            elif extra is False:
                check_names((name,), known)
            else:
                fitted[name] = self.fit(item, extra, f"{path}.{name}", depth + 1)
        for missing in required:
            if isinstance(missing, str) and missing not in fitted:
                given = f", given: {', '.join(value)}" if value else ""
                raise ArgumentsMismatchError(f"{path}: {missing!r} is missing ({_listed(known)}{given})")
        return fitted

    def _takes_null(self, schema: JsonValue, depth: int) -> bool:
        try:
            return self.fit(None, schema, "$", depth + 1) is None
        except ArgumentsMismatchError:
            return False


def _listed(names: Iterable[str]) -> str:
    return f"arguments: {', '.join(names) or 'none'}"


def _no_branch(path: str, problems: list[str]) -> str:
    reasons = "; or ".join(dict.fromkeys(problem.removeprefix(f"{path}: ") for problem in problems))
    return f"{path}: {reasons}"


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Equal, and of the same type all through (Python takes 1, 1.0 and True for equal)."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    return left == right


def _wrong(value: JsonValue, wanted: str, path: str) -> ArgumentsMismatchError:
    shown = json.dumps(value, ensure_ascii=False)
    if len(shown) > 60:
        shown = shown[:57] + "..."
    return ArgumentsMismatchError(f"{path}: expected {wanted}, got {_kind(value)} {shown}".rstrip())


def _kind(value: JsonValue) -> str:
    match value:
        case None:
            return "null:"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"


def _fit_choice(value: JsonValue, schema: JsonObject, path: str) -> JsonValue:
    choices = schema["enum"] if "enum" in schema else [schema["const"]]
    if not isinstance(choices, list):
        return value
    for choice in choices:
        if _same(value, choice):
            return value
    for choice in choices:
        if isinstance(value, str) and not isinstance(choice, str) and json.dumps(choice) == value.strip():
            return choice
    listed = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    raise _wrong(value, f"one of {listed}", path)


def _parsed(value: JsonValue, wanted: type[list[JsonValue] | JsonObject], kind: str, path: str) -> JsonValue:
    """A list or object, also when it is given as the text of one."""
    if isinstance(value, wanted):
        return value
    if isinstance(value, str):
        try:
            parsed: JsonValue = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, wanted):
            return parsed
    raise _wrong(value, kind, path)


def _fit_integer(value: JsonValue, path: str) -> JsonValue:
    match value:
        case bool():
            pass
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if _INTEGER.fullmatch(value.strip()):
            return int(value)
        case _:
            pass
    raise _wrong(value, "integer", path)


def _fit_number(value: JsonValue, path: str) -> JsonValue:
    match value:
        case bool():
            pass
        case int() | float():
            return value
        case str() if _INTEGER.fullmatch(value.strip()):
            return int(value)
        case str():
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if math.isfinite(number) and "_" not in value:
                return number
        case _:
            pass
    raise _wrong(value, "number", path)


def _fit_boolean(value: JsonValue, path: str) -> JsonValue:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _BOOLEANS:
        return _BOOLEANS[value.strip().lower()]
    raise _wrong(value, "boolean", path)


def _fit_string(value: JsonValue, path: str) -> JsonValue:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    raise _wrong(value, "string", path)


def _fit_null(value: JsonValue, path: str) -> JsonValue:
    if value is None or (isinstance(value, str) and value.strip() == "null"):
        return None
    raise _wrong(value, "null", path)


_SCALARS: Mapping[str, Callable[[JsonValue, str], JsonValue]] = {
    "integer": _fit_integer,
    "number": _fit_number,
    "boolean": _fit_boolean,
    "string": _fit_string,
    "null": _fit_null,
}
