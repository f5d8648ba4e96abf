"""Pages of the reference: a line `<!-- reference: MODULE ... -->` becomes every public name of these modules.

A module's names are those in its `__all__`. A name that an earlier module of any page has shown already (the
top of a wheel shows most of what its modules hold) is left out. Classes and functions are written by
autodoc; what is none (a union of types, a constant) is shown with the text that defines it and the docstring
below it, which autodoc does not find through an import.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

__all__ = ["aliases", "setup"]

MARK = re.compile(r"^<!-- reference: ([\w. ]+) -->$", re.MULTILINE)
LONGEST_VALUE = 400


def aliases(pages: Path) -> dict[str, str]:
    """The names of types that signatures show as they are written, and where the reference has them."""
    found: dict[str, str] = {}
    for page in sorted(pages.glob("*.md")):
        for mark in MARK.findall(page.read_text("utf-8")):
            for module in map(importlib.import_module, mark.split()):
                for name in module.__all__:
                    value = getattr(module, name)
                    if name[0].isupper() and not name.isupper() and not inspect.isclass(value):
                        found.setdefault(name, f"{module.__name__}.{name}")
    return found


def fill(_: Sphinx, __: str, source: list[str]) -> None:
    """Replace the marks of a page."""
    source[0] = MARK.sub(lambda mark: page_of(mark[1].split()), source[0])


def page_of(modules: list[str]) -> str:
    """Markdown with a section for each module."""
    shown: set[tuple[str, str]] = set()
    sections = [(name, section(importlib.import_module(name), shown)) for name in modules]
    first, *others = sections  # the first is the page's own, whose title names it
    return "\n\n".join([first[1], *(f"## {name}\n\n{text}" for name, text in others)])


def section(module: ModuleType, shown: set[tuple[str, str]]) -> str:
    """The docstring of a module and its names; `shown`, which grows, has those that stand elsewhere."""
    words = (module.__doc__ or "").splitlines()  # at the margin; cleandoc would move a program there
    mark_programs(None, "module", "", None, None, words)
    lines = [f".. py:currentmodule:: {module.__name__}", "", *words, ""]
    for name in module.__all__:
        place = (defining_module(module, name), name)
        if place not in shown:
            shown.add(place)
            lines += [*entry(module.__name__, name, getattr(module, name), place[0]), ""]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```\n"


def entry(module: str, name: str, value: object, home: str) -> Iterator[str]:
    """The lines that describe one name; `home` is the module that defines it."""
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        yield f".. {kind}:: {module}.{name}"
        yield "   :members:"
        yield "   :undoc-members:"
        yield "   :show-inheritance:"
    elif inspect.isroutine(value):
        yield f".. autofunction:: {module}.{name}"
    else:
        defined, doc = data_of(home).get(name, ("", ""))
        yield f".. py:data:: {name}"
        yield f"   :module: {module}"
        if module != home:
            yield f"   :canonical: {home}.{name}"
        yield ""
        yield textwrap.indent(inspect.cleandoc(doc), "   ")
        if defined:
            yield ""
            yield "   .. code-block:: python"
            yield ""
            yield textwrap.indent(defined, "      ")


def mark_programs(_: Sphinx | None, __: str, ___: str, ____: object, _____: object, lines: list[str]) -> None:
    """Say in reStructuredText that what stands indented in a docstring, after a blank line, is literal."""
    at = 1
    while at < len(lines):
        begins = lines[at].startswith("    ") and not lines[at - 1].strip()
        if begins and not lines[at].lstrip().startswith((">>>", "- ")):
            lines[at:at] = ["::", ""]
            at += 2
            while at < len(lines) and (not lines[at].strip() or lines[at].startswith(" ")):
                at += 1
        at += 1


def defining_module(module: ModuleType, name: str) -> str:
    """The module that its value tells, else the one of the package that assigns the name."""
    value = getattr(module, name)
    told = getattr(value, "__module__", None)
    if (inspect.isclass(value) or inspect.isroutine(value)) and told:
        return str(told)
    if name in data_of(module.__name__):
        return module.__name__
    return next(
        (other for other in modules_below(module.__name__.partition(".")[0]) if name in data_of(other)),
        module.__name__,
    )


@cache
def modules_below(package: str) -> list[str]:
    """A package and all its modules, by name."""
    top = importlib.import_module(package)
    return [package, *(found.name for found in pkgutil.walk_packages(top.__path__, f"{package}."))]


@cache
def data_of(module: str) -> dict[str, tuple[str, str]]:
    """The assigned names of a module, each with the text of its assignment and its docstring."""
    spec = importlib.util.find_spec(module)
    source = inspect.getsource(importlib.import_module(module)) if spec and spec.origin else ""
    found: dict[str, tuple[str, str]] = {}
    body = ast.parse(source).body
    for at, node in enumerate(body):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                text = ast.get_source_segment(source, node) or ""
                after = body[at + 1] if at + 1 < len(body) else None
                found[name] = (text if len(text) <= LONGEST_VALUE else "", docstring_of(after))
            case _:
                pass
    return found


def docstring_of(node: ast.stmt | None) -> str:
    """The text of a statement that is only a string."""
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
        case _:
            return ""


def shorten_contents(_: Sphinx, env: BuildEnvironment) -> None:
    """Leave the members of classes out of the tables of contents, which every page copies."""
    for page, contents in env.tocs.items():
        if page.startswith("reference/"):
            for entry_list in list(contents.findall(nodes.bullet_list)):
                owner = entry_list.parent
                if isinstance(owner, nodes.list_item) and is_member_list(owner):
                    owner.remove(entry_list)


def is_member_list(owner: nodes.Node) -> bool:
    """Whether the entries below `owner`, an entry itself, are those of a class."""
    link = next(iter(owner.findall(nodes.reference)))
    return bool(re.search(r"\.[A-Z]\w*$", link.get("anchorname", "")))


def name_aliases(
    _: Sphinx, __: str, ___: str, ____: object, _____: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Write an alias inside another type as its name, which Sphinx does not, and defaults readably."""
    return named(signature), named(returned)


def named(text: str | None) -> str | None:
    """The same with `~module.Alias` for what Sphinx makes of an alias, and `...` for `<factory>`."""
    return text and re.sub(r"TypeAliasForwardRef\('([\w.]+)'\)", r"~\1", text.replace("<factory>", "..."))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", mark_programs)
    app.connect("autodoc-process-signature", name_aliases)
    app.connect("env-updated", shorten_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
