"""The public surface of a wheel as text that reads like a stub file, from its sources.

The text is the snapshot that is kept in git (`packages/*/api/`), and what the comparison of two
versions reads: each section is the code of one public module, so griffe understands it without the sources.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import griffe

SECTION = "# module "
FACT = "#: "
_HEAD = "# Written by `make api`, not by hand: what these modules name in `__all__` is public.\n"
_WRAP_AT = 110


def load_packages(root: Path) -> dict[str, griffe.Module]:
    """All import packages below `root/packages/*/src`, by name, without importing anything."""
    sources = sorted((root / "packages").glob("*/src"))
    loader = griffe.GriffeLoader(search_paths=sources)
    tops = sorted(path.parent.name for source in sources for path in source.glob("*/__init__.py"))
    loaded = {top: loader.load(top) for top in tops}
    loader.resolve_aliases(external=False)
    return {top: module for top, module in loaded.items() if isinstance(module, griffe.Module)}


def surface_text(packages: dict[str, griffe.Module], folder: Path, modules: Sequence[str]) -> str:
    """The surface of the wheel at `folder` (`pyproject.toml`, `src/`): those of `modules` that are there.

    A name that several of them export is written out in the first; the others import it from there.
    """
    own = tuple(path.parent.name for path in (folder / "src").glob("*/__init__.py"))
    places = {name: folder / "src" / name.replace(".", "/") for name in modules}
    present = [name for name, place in places.items() if place.is_dir() or place.with_suffix(".py").is_file()]
    surface = _Surface(packages, own, present)
    sections = [SECTION + name + "\n\n" + "\n".join(surface.section(name)) for name in present]
    facts = "".join(f"{FACT}{fact}\n" for fact in packaging_facts(folder))
    return _HEAD + facts + "\n" + "\n\n".join(sections) + "\n"


def packaging_facts(folder: Path) -> list[str]:
    """What else users name: extras, scripts, entry points and the oldest Python."""
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    found = [f"python {project.get('requires-python', '')}"]
    found += [f"extra {name}" for name in sorted(project.get("optional-dependencies", {}))]
    found += [f"script {name}" for name in sorted(project.get("scripts", {}))]
    for group, names in sorted(project.get("entry-points", {}).items()):
        found += [f"entry point {group}: {name}" for name in sorted(names)]
    return found


class _Surface:
    """The loaded sources, and where each public name is at home."""

    def __init__(
        self, packages: dict[str, griffe.Module], own: tuple[str, ...], modules: Sequence[str]
    ) -> None:
        self.own = own
        self.members: dict[str, dict[str, griffe.Object]] = {}
        for name in modules:
            top, _, rest = name.partition(".")
            module = packages[top][rest] if rest else packages[top]
            exports = sorted(str(export) for export in module.exports or ())
            self.members[name] = {public: exported(module, public) for public in exports}
        self.homes: dict[str, str] = {}
        for name, members in self.members.items():
            for public, member in members.items():
                self.homes.setdefault(member.path, f"{name}.{public}")

    def section(self, name: str) -> Iterator[str]:
        """The lines of one module: what it takes from those before it, then its own, by name."""
        taken: dict[str, list[str]] = {}
        written = []
        for public, member in self.members[name].items():
            source, _, original = self.homes[member.path].rpartition(".")
            if (source, original) == (name, public):
                written.append("\n".join(_definition(member, public, "", self)))
            else:
                taken.setdefault(source, []).append(
                    original if original == public else f"{original} as {public}"
                )
        for source in sorted(taken):
            yield from _wrapped(f"from {source} import (", taken[source], ")", "")
        yield from written

    def is_promised(self, base: str | griffe.Expr) -> bool:
        """Whether a base is named in the snapshot: a public one, or one that is not ours."""
        path = base if isinstance(base, str) else base.canonical_path
        return path in self.homes or path.split(".")[0] not in self.own


def exported(module: griffe.Object | griffe.Alias, name: str) -> griffe.Object:
    """What `module` exports as `name`; a submodule of that name stands for what it defines under it."""
    found = target(module.members[name])
    return (
        target(found.members[name]) if isinstance(found, griffe.Module) and name in found.members else found
    )


def target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    """What an import leads to in the end."""
    return member.final_target if isinstance(member, griffe.Alias) else member


def _definition(member: griffe.Object, name: str, indent: str, surface: _Surface) -> Iterator[str]:
    """The lines of one class, function or value."""
    if isinstance(member, griffe.Class):
        yield from _class(member, name, indent, surface)
    elif isinstance(member, griffe.Function):
        for overload in member.overloads or []:
            yield f"{indent}@overload"
            yield from _function(overload, name, indent)
        yield from _function(member, name, indent)
    elif isinstance(member, griffe.Attribute):
        yield indent + _value(member, name)


def _class(member: griffe.Class, name: str, indent: str, surface: _Surface) -> Iterator[str]:
    given = [str(base) for base in member.bases if surface.is_promised(base)]
    given += [f"{key}={value}" for key, value in sorted(member.keywords.items())]
    for decorator in member.decorators:
        yield f"{indent}@{decorator.value}"
    if given:
        yield from _wrapped(f"{indent}class {name}(", given, "):", indent)
    else:
        yield f"{indent}class {name}:"
    body = list(_class_body(member, indent + "    ", surface))
    yield from body or [f"{indent}    ..."]


def _class_body(member: griffe.Class, indent: str, surface: _Surface) -> Iterator[str]:
    """Fields in their order, that of positional arguments; then methods by name, inherited ones too."""
    members = {**inherited(member), **member.members}
    public = {name: target(found) for name, found in members.items() if is_public(name)}
    for name, found in public.items():
        if isinstance(found, griffe.Attribute) and "property" not in found.labels:
            yield indent + _value(found, name)
    for name, found in sorted(public.items()):
        if isinstance(found, griffe.Attribute) and "property" in found.labels:
            yield f"{indent}@property"
            yield f"{indent}def {name}(self) -> {found.annotation or 'object'}: ..."
        elif not isinstance(found, griffe.Attribute):
            yield from _definition(found, name, indent, surface)


def inherited(member: griffe.Class) -> dict[str, griffe.Object | griffe.Alias]:
    """The members of bases whose sources are here; fields of the base come first, as structs have them."""
    found: dict[str, griffe.Object | griffe.Alias] = {}
    for base in reversed(member.mro()):
        found.update(base.members)
    return found


def is_public(name: str) -> bool:
    """Whether a member of a class is a promise, by its name."""
    return not name.startswith("_") or (name.startswith("__") and name not in _SILENT)


_SILENT = frozenset({
    "__slots__", "__all__", "__repr__", "__str__", "__rich_repr__", "__match_args__", "__post_init__",
    "__struct_config__", "__doc__", "__del__", "__reduce__",
})  # fmt: skip
"""Not a promise by its signature."""


def _function(member: griffe.Function, name: str, indent: str) -> Iterator[str]:
    for label in ("classmethod", "staticmethod"):
        if label in member.labels:
            yield f"{indent}@{label}"
    start = "async def" if "async" in member.labels else "def"
    parts = list(_parameters(member.parameters))
    yield from _wrapped(f"{indent}{start} {name}(", parts, f") -> {member.returns or 'None'}: ...", indent)


_STARS = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}


def _parameters(parameters: griffe.Parameters) -> Iterator[str]:
    """Parameters as they are written, with the marks `/` and `*` where they stand."""
    kinds = [parameter.kind for parameter in parameters]
    starred = False
    for place, parameter in enumerate(parameters):
        kind = parameter.kind
        star = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(
            kind, ""
        )
        if kind is griffe.ParameterKind.keyword_only and not starred:
            yield "*"
        starred = starred or kind in {griffe.ParameterKind.keyword_only, griffe.ParameterKind.var_positional}
        text = star + parameter.name
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and not star:
            text += f" = {parameter.default}" if parameter.annotation is not None else f"={parameter.default}"
        yield text
        if kind is griffe.ParameterKind.positional_only and kinds[place + 1 : place + 2] != [kind]:
            yield "/"


def _value(member: griffe.Attribute, name: str) -> str:
    """A field, constant or alias. The value of a constant is no promise; that of an alias is all of it."""
    annotation = member.annotation or _annotation_of_parameter(member)
    if str(annotation) == "TypeAlias":
        return f"{name} = {member.value}"
    in_class = isinstance(member.parent, griffe.Class)
    if annotation is None:
        return f"{name} = {member.value if in_class or _is_alias(member) else '...'}"
    has_default = member.value is not None and in_class and "class-attribute" in member.labels
    return f"{name}: {annotation}" + (f" = {member.value}" if has_default else "")


def _annotation_of_parameter(member: griffe.Attribute) -> str | griffe.Expr | None:
    """`self.x = x` in `__init__` takes the type of the parameter."""
    maker = member.parent.members.get("__init__") if member.parent else None
    if isinstance(maker, griffe.Function) and str(member.value) in maker.parameters:
        return maker.parameters[str(member.value)].annotation
    return None


def _is_alias(member: griffe.Attribute) -> bool:
    return isinstance(member.value, griffe.ExprBinOp | griffe.ExprSubscript | griffe.ExprName)


def _wrapped(start: str, parts: list[str], end: str, indent: str) -> Iterator[str]:
    """On one line where it fits, else one part on each."""
    line = start + ", ".join(parts) + end
    if len(line) <= _WRAP_AT:
        yield line.replace("import (", "import ").removesuffix(")") if "import (" in start else line
        return
    yield start
    yield from (f"{indent}    {part}," for part in parts)
    yield indent + end
