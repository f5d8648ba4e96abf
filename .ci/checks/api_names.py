"""Every name of ours in a public signature is public itself, and every public field has a text.

    python .ci/checks/api_names.py [ROOT]

hidden     a parameter, a result, a field or an alias that is public is written with a name that no module of
           .ci/api.toml has in its `__all__`: who uses it has no name for what they hold
untold     a public value or alias has no text; a field of a public class has neither a text of its own nor
           its name, in backticks, in that of the class
opaque     what the table `opaque` of .ci/api.toml lets through, with the reason, is still hidden and in use
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import griffe
from api_surface import exported, inherited, is_public, load_packages, target
from findings import Finding, run_check

SETTINGS = ".ci/api.toml"


def check(root: Path) -> Iterator[Finding]:
    """All rules over all listed modules below `root`."""
    settings = tomllib.loads((root / SETTINGS).read_text("utf-8"))
    opaque = set(settings.get("opaque", {}))
    packages = load_packages(root)
    modules = [found for names in settings["modules"].values() for found in listed(packages, names)]
    public = {
        member.path: member
        for module in modules
        for name in module.exports or ()
        for member in [exported(module, str(name))]
    }
    yield from untold(public.values())
    uses = {
        (user, used)
        for member in public.values()
        for user, name in names_in(member)
        if (used := definition(packages, name)) is not None and used not in public
    }
    for user, used in sorted(uses):
        if used not in opaque:
            yield Finding(user, 0, "hidden", f"is written with {used}, which is not public")
    for name in sorted(opaque - {used for _, used in uses}):
        yield Finding(SETTINGS, 0, "opaque", f"no public signature is written with {name}, or it is public")


def untold(members: Iterable[griffe.Object]) -> Iterator[Finding]:
    """Values, aliases, and fields of classes and of their bases, that nothing is said of."""
    silent: set[str] = set()
    for member in members:
        if isinstance(member, griffe.Attribute) and not member.docstring:
            silent.add(member.path)
        elif isinstance(member, griffe.Class):
            silent.update(silent_fields(member))
    for path in sorted(silent):
        yield Finding(path, 0, "untold", "says nothing of what it holds")


def silent_fields(found: griffe.Class) -> Iterator[str]:
    """The fields of a class that neither they themselves nor a class that has them tells of."""
    for name, member in {**inherited(found), **found.members}.items():
        field = target(member)
        told = field.docstring or any(mentions(home, name) for home in (found, field.parent))
        if is_field(field) and not name.startswith("_") and not told:
            yield field.path


def is_field(member: griffe.Object) -> bool:
    """Whether this is a value of a class or of its objects, and no property."""
    return isinstance(member, griffe.Attribute) and "property" not in member.labels


def mentions(home: griffe.Object | None, field: str) -> bool:
    """Whether the docstring of a class has this name between backticks."""
    text = home.docstring.value if home is not None and home.docstring else ""
    return bool(re.search(rf"`[^`]*\b{field}\b[^`]*`", text))


def listed(packages: dict[str, griffe.Module], names: list[str]) -> Iterator[griffe.Module]:
    """Those of the modules that are there."""
    for name in names:
        top, *rest = name.split(".")
        found: griffe.Object | griffe.Alias | None = packages.get(top)
        for part in rest:
            found = None if found is None else found.members.get(part)
        if isinstance(found, griffe.Module):
            yield found


def names_in(member: griffe.Object) -> Iterator[tuple[str, str]]:
    """Who is written with a name, and that name with the module that it is looked up in."""
    if isinstance(member, griffe.Class):
        for name, found in {**inherited(member), **member.members}.items():
            if is_public(name) and not isinstance(found, griffe.Class):
                yield from names_in(target(found))
    elif isinstance(member, griffe.Function):
        for form in member.overloads or [member]:
            for written in [form.returns, *(parameter.annotation for parameter in form.parameters)]:
                yield from ((member.path, name) for name in names_of(written))
    elif isinstance(member, griffe.Attribute):
        written = member.value if is_alias(member) else member.annotation
        yield from ((member.path, name) for name in names_of(written))


def is_alias(member: griffe.Attribute) -> bool:
    """Whether a value of a module is a type under another name."""
    combined = isinstance(member.value, griffe.ExprBinOp | griffe.ExprSubscript)
    unsaid = member.annotation is None and isinstance(member.parent, griffe.Module) and combined
    return unsaid or str(member.annotation) == "TypeAlias"


def names_of(written: str | griffe.Expr | None) -> Iterator[str]:
    """The names in an annotation."""
    if isinstance(written, griffe.Expr):
        for part in written.iterate(flat=True):
            if isinstance(part, griffe.ExprName):
                yield part.canonical_path


def definition(packages: dict[str, griffe.Module], name: str) -> str | None:
    """Where a name of ours is defined; None for one of others, for a module and for a parameter of a type."""
    top, *rest = name.split(".")
    found: griffe.Object | griffe.Alias | None = packages.get(top)
    for part in rest:
        found = None if found is None else target(found).members.get(part)
    if found is None:
        return None
    home = target(found)
    return None if isinstance(home, griffe.Module) or is_type_variable(home) else home.path


def is_type_variable(found: griffe.Object) -> bool:
    """Whether this is a TypeVar, which has no meaning outside of its signature."""
    if isinstance(found, griffe.Attribute) and isinstance(found.value, griffe.ExprCall):
        return str(found.value.function) in {"TypeVar", "ParamSpec"}
    return False


if __name__ == "__main__":
    run_check("api names", check)
