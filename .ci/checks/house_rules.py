"""House rules that a machine can check.

    python .ci/checks/house_rules.py [ROOT]

broad     `except Exception` or `BaseException` has its reason in a comment on its line, or raises again
getattr   no three-argument getattr in the packages: it stands for an object whose fields nobody knows
length    a module has at most 450 lines, a function at most 80 below its signature
logging   loggers are named after their module or package; handlers, levels and the root logger are the host's
          (that nothing is printed is ruff's T20)
exports   every public `__init__.py` says what it exports in `__all__`
words     no text file names a package registry's host (uv.lock alone may) or a path of one person's machine
"""

from __future__ import annotations

import ast
import fnmatch
import os
import re
from collections.abc import Iterator
from pathlib import Path

from findings import Finding, run_check
from syntax import Function, Names, parse, source_files

BROAD = {"Exception", "BaseException"}
MODULE_LINES = 450
FUNCTION_LINES = 80

# One letter of each stands in brackets, so that this file does not break the rule itself.
REGISTRY_HOSTS = re.compile(r"pypi[.]or[g]|pythonhosted[.]or[g]|npmjs[.]or[g]|deb[.]debian[.]or[g]")
MACHINE_PATHS = re.compile(r"(?<![\w.~-])(?:/wor[k]/|/roo[t]/|/home/\w+[/])|[.][.]/share[d]\b")


HOSTS_OWN = frozenset(
    f"logging.{name}"
    for name in (
        *("basicConfig", "captureWarnings", "config", "disable", "handlers", "root"),
        *("FileHandler", "NullHandler", "StreamHandler"),
        *("debug", "info", "warning", "error", "exception", "critical", "log"),
    )
)


def check_logging(tree: ast.Module, shown: str) -> Iterator[Finding]:
    """Rule `logging` for one module."""
    names = Names(tree)
    package = shown.partition("/src/")[2].partition("/")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and names.of(node) in HOSTS_OWN:
            yield Finding(shown, node.lineno, "logging", f"{names.of(node)} is the host's")
        if not isinstance(node, ast.Call):
            continue
        called = names.of(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("addHandler", "setLevel"):
            yield Finding(shown, node.lineno, "logging", f"{node.func.attr} is the host's")
        elif called == "logging.getLogger" and not is_own_logger(node, package):
            yield Finding(shown, node.lineno, "logging", f'getLogger takes __name__ or a name in "{package}"')


def check_broad(tree: ast.Module, lines: list[str], shown: str) -> Iterator[Finding]:
    """Rule `broad` for one module."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ExceptHandler) or node.type is None:
            continue
        caught = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} & BROAD
        last = node.body[-1]
        raises_again = isinstance(last, ast.Raise) and last.exc is None
        head = lines[node.lineno - 1 : node.body[0].lineno]
        if caught and not raises_again and not any("#" in line for line in head):
            yield Finding(shown, node.lineno, "broad", f"except {caught.pop()} without its reason")


def is_own_logger(call: ast.Call, package: str) -> bool:
    """Whether the logger is named after the module, or in the package's family."""
    match call.args:
        case [ast.Name(id="__name__")]:
            return True
        case [ast.Constant(value=str(name))]:
            return name == package or name.startswith(f"{package}.")
        case _:
            return False


def check_source(path: Path, shown: str) -> Iterator[Finding]:
    """Rules `broad`, `getattr`, `length`, `logging` and `exports` for one module."""
    tree = parse(path)
    yield from check_logging(tree, shown)
    lines = path.read_text("utf-8").splitlines()
    yield from check_broad(tree, lines, shown)
    if len(lines) > MODULE_LINES:
        yield Finding(shown, 0, "length", f"{len(lines)} lines, at most {MODULE_LINES}: split the module")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "getattr" and len(node.args) == 3:
                yield Finding(shown, node.lineno, "getattr", "three-argument getattr: declare the field")
        elif isinstance(node, Function):
            length = (node.end_lineno or node.lineno) - node.body[0].lineno + 1
            if length > FUNCTION_LINES:
                yield Finding(
                    shown, node.lineno, "length", f"{node.name} has {length} lines, at most {FUNCTION_LINES}"
                )
    public = not any(part.startswith("_") for part in Path(shown).parent.parts)
    if path.name == "__init__.py" and public and "__all__" not in assigned_names(tree):
        yield Finding(shown, 0, "exports", "no __all__")


def assigned_names(tree: ast.Module) -> set[str]:
    """The names that a module assigns at its top level."""
    plain = {
        t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)
    }
    annotated = {
        n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }
    return plain | annotated


def ignored_names(root: Path) -> list[str]:
    """The patterns of .gitignore, all of which are plain names here (no git is asked: there may be none)."""
    file = root / ".gitignore"
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    return [
        ".git",
        *(line.strip().rstrip("/") for line in lines if line.strip() and not line.startswith("#")),
    ]


def text_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Every file that is not ignored and holds text, with its content."""
    ignored = ignored_names(root)

    def kept(names: list[str]) -> list[str]:
        return sorted(n for n in names if not any(fnmatch.fnmatch(n, pattern) for pattern in ignored))

    for folder, folders, files in os.walk(root):
        folders[:] = kept(folders)
        for name in kept(files):
            path = Path(folder, name)
            content = path.read_bytes() if path.is_file() else b""
            if b"\0" not in content:
                yield path, content.decode("utf-8", "replace")


def check_words(shown: str, text: str) -> Iterator[Finding]:
    """Rule `words` for one file."""
    for number, line in enumerate(text.splitlines(), 1):
        host = REGISTRY_HOSTS.search(line)
        if host and shown != "uv.lock":
            yield Finding(shown, number, "words", f"{host[0]} is a registry's host: only uv.lock may name it")
        place = MACHINE_PATHS.search(line)
        if place:
            yield Finding(shown, number, "words", f"{place[0]} exists on one machine only")


def check(root: Path) -> Iterator[Finding]:
    """All rules below `root`."""
    for path in source_files(root):
        yield from check_source(path, path.relative_to(root).as_posix())
    for path, text in text_files(root):
        yield from check_words(path.relative_to(root).as_posix(), text)


if __name__ == "__main__":
    run_check("house rules", check)
