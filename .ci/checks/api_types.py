"""The breaking changes that depend on what a definition is: Protocol, record, enum, alias or function."""

from __future__ import annotations

from collections.abc import Iterator

import griffe

Broken = tuple[str, str]
"""Where below the definition (`.method`, or nothing), and what in words; what grew begins with `gained`."""

_WIRE = ("tag", "tag_field", "rename", "array_like", "omit_defaults", "forbid_unknown_fields")
"""What decides how a struct is encoded."""
_KINDS = ("async", "property", "classmethod", "staticmethod")


def breakages(old: griffe.Object, new: griffe.Object) -> Iterator[Broken]:
    """What breaks from `old` to `new`, apart from what griffe finds."""
    if isinstance(old, griffe.Class) and isinstance(new, griffe.Class):
        yield from _class(old, new)
    elif isinstance(old, griffe.Function) and isinstance(new, griffe.Function):
        yield from _function(old, new, "", exact=False)
    elif isinstance(old, griffe.Attribute) and isinstance(new, griffe.Attribute):
        yield from _alias(old, new)


def _class(old: griffe.Class, new: griffe.Class) -> Iterator[Broken]:
    if _kind(old) != _kind(new):
        yield "", f"was a {_kind(old)}, is a {_kind(new)}"
        return
    protocol = _kind(old) == "protocol"
    if {"runtime_checkable"} & (_decorators(old) - _decorators(new)):
        yield "", "is no longer runtime_checkable"
    for name in old.members.keys() & new.members.keys():
        yield from _member(old.members[name], new.members[name], f".{name}", _kind(old))
    added = new.members.keys() - old.members.keys()
    if protocol:
        yield from ((f".{name}", "was added: who implements the Protocol lacks it") for name in added)
    elif _kind(old) == "enum":
        yield from (("", f"gained {name}: a match over it is no longer complete") for name in added)
    elif _kind(old) == "record":
        yield from _record(old, new)


def _kind(member: griffe.Class) -> str:
    """Which rules hold for a class."""
    bases = {str(base).split("[")[0].rpartition(".")[2] for base in member.bases}
    if "Protocol" in bases:
        return "protocol"
    if bases & {"Struct", "NamedTuple"} or _decorators(member) & {"dataclass"}:
        return "record"
    if bases & {"Enum", "StrEnum", "IntEnum", "Flag", "IntFlag"}:
        return "enum"
    return "typed dict" if "TypedDict" in bases else "class"


def _decorators(member: griffe.Class) -> set[str]:
    return {str(decorator.value).split("(")[0].rpartition(".")[2] for decorator in member.decorators}


def _member(
    old: griffe.Object | griffe.Alias, new: griffe.Object | griffe.Alias, path: str, kind: str
) -> Iterator[Broken]:
    """Rules for one member that both have, in a class of `kind`."""
    if isinstance(old, griffe.Function) and isinstance(new, griffe.Function):
        yield from _function(old, new, path, exact=kind == "protocol")
        return
    if not isinstance(old, griffe.Attribute) or not isinstance(new, griffe.Attribute):
        return
    changed = [label for label in _KINDS if (label in old.labels) != (label in new.labels)]
    if changed:
        yield path, f"{changed[0]} {'no longer' if changed[0] in old.labels else 'now'}"
    if old.annotation is not None and str(old.annotation) != str(new.annotation):
        harmless = kind in {"class", "typed dict"} and _parts(new.annotation) < _parts(old.annotation)
        if not harmless:
            yield path, f"type changed: {old.annotation} -> {new.annotation}"
    if kind in {"record", "enum"} and old.value is not None and str(old.value) != str(new.value):
        yield path, f"value changed: {old.value} -> {new.value}"


def _function(old: griffe.Function, new: griffe.Function, path: str, *, exact: bool) -> Iterator[Broken]:
    """Types may become wider where values go in and narrower where they come out.

    `exact`: others implement it, so that neither may change, and a new parameter breaks them too.
    """
    for label in _KINDS:
        if (label in old.labels) != (label in new.labels):
            yield path, f"{label} {'no longer' if label in old.labels else 'now'}"
    if old.overloads or new.overloads:  # what callers see; the signature of the implementation is no promise
        if not all(any(_fits(one, other) for other in _overloads(new)) for one in _overloads(old)):
            yield path, "its overloads changed"
        return
    given, now = {p.name: p for p in old.parameters}, {p.name: p for p in new.parameters}
    for name in given.keys() & now.keys():
        wide, wider = given[name].annotation, now[name].annotation
        if wide is None or str(wide) == str(wider):
            continue
        if exact or not _parts(wide) <= _parts(wider):
            yield path, f"type of {name} changed: {wide} -> {wider}"
    if exact:
        yield from ((path, f"gained the parameter {name}") for name in now.keys() - given.keys())
    answers = str(old.returns), str(new.returns)
    if answers[0] != answers[1] and (exact or not _parts(new.returns) <= _parts(old.returns)):
        yield path, f"type of the result changed: {old.returns} -> {new.returns}"


def _overloads(function: griffe.Function) -> list[griffe.Function]:
    return list(function.overloads or [function])


def _fits(old: griffe.Function, new: griffe.Function) -> bool:
    """Whether every call of the signature `old` is one of `new`, with the same result."""
    given, now = {p.name: p for p in old.parameters}, {p.name: p for p in new.parameters}
    kept = [name for name in now if name in given]
    return (
        list(given) == kept
        and all(now[n].kind is p.kind and (p.required or not now[n].required) for n, p in given.items())
        and all(_parts(p.annotation) <= _parts(now[n].annotation) for n, p in given.items())
        and not any(p.required for n, p in now.items() if n not in given)
        and _parts(new.returns) <= _parts(old.returns)
    )


def _parts(annotation: str | griffe.Expr | None) -> set[str]:
    """The members of a union, or of a `Literal`; `Optional` is not used here. No annotation is `object`."""
    found: set[str] = set()
    depth, part = 0, ""
    for sign in f"{annotation or 'object'}|":
        depth += (sign in "[(") - (sign in "])")
        if sign == "|" and depth == 0:
            found |= _literals(part.strip())
            part = ""
        else:
            part += sign
    return found


def _literals(part: str) -> set[str]:
    """`Literal['a', 'b']` as two members, anything else as itself."""
    if part.startswith("Literal[") and part.endswith("]"):
        return {f"Literal[{value.strip()}]" for value in part[len("Literal[") : -1].split(",")}
    return {part}


def _record(old: griffe.Class, new: griffe.Class) -> Iterator[Broken]:
    """Fields are parameters of the constructor, and the shape of what is encoded."""
    before, after = _fields(old), _fields(new)
    for name, field in after.items():
        if name not in before and field.value is None:
            yield f".{name}", "is a new field without a default"
        elif name in before and field.value is None and before[name].value is not None:
            yield f".{name}", "lost its default"
    if old.keywords.get("kw_only") != "True":
        kept = [name for name in after if name in before]
        first = [name for name in before if name in after]
        if kept != first or list(after)[: len(first)] != first:
            yield "", f"the order of its fields changed: {', '.join(before)} -> {', '.join(after)}"
    for key in ("kw_only", "frozen"):
        if new.keywords.get(key) == "True" and str(old.keywords.get(key)) != "True":
            yield "", f"is {key} now"
    for key in _WIRE:
        if str(old.keywords.get(key)) != str(new.keywords.get(key)):
            yield "", f"is encoded in another way: {key} {old.keywords.get(key)} -> {new.keywords.get(key)}"


def _fields(member: griffe.Class) -> dict[str, griffe.Attribute]:
    return {
        name: found
        for name, found in member.members.items()
        if isinstance(found, griffe.Attribute) and "property" not in found.labels
    }


def _alias(old: griffe.Attribute, new: griffe.Attribute) -> Iterator[Broken]:
    """A union, literal or other alias of a type; the value of a constant is no promise."""
    if old.annotation is not None:
        if str(old.annotation) != str(new.annotation):
            yield "", f"type changed: {old.annotation} -> {new.annotation}"
        return
    if str(old.value) == str(new.value) or str(old.value) == "...":
        return
    before, after = _parts(old.value), _parts(new.value)
    yield from (("", f"lost {part}") for part in sorted(before - after))
    yield from (
        ("", f"gained {part}: a match over it is no longer complete") for part in sorted(after - before)
    )
