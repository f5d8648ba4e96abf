"""The package sources as syntax trees, with names followed through imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from findings import Finding

Function = ast.FunctionDef | ast.AsyncFunctionDef


def source_files(root: Path) -> Iterator[Path]:
    """Every Python file that goes into a wheel, in a stable order."""
    yield from sorted((root / "packages").glob("*/src/**/*.py"))


def parse(path: Path) -> ast.Module:
    """The syntax tree of `path`; SyntaxError names the file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


class Names:
    """What the names of one module mean, from its imports."""

    def __init__(self, tree: ast.Module) -> None:
        self._meaning: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for item in node.names:
                    shown = item.name if item.asname else item.name.split(".")[0]
                    self._meaning[item.asname or shown] = shown
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for item in node.names:
                    self._meaning[item.asname or item.name] = f"{node.module}.{item.name}"

    def of(self, node: ast.AST) -> str:
        """The full dotted name that `node` stands for, or an empty string."""
        if isinstance(node, ast.Name):
            return self._meaning.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.of(node.value)
            return f"{base}.{node.attr}" if base else ""
        return ""


class Module:
    """One parsed module with the look-ups that the rules share."""

    def __init__(self, path: Path, shown: str) -> None:
        self.path, self.shown = path, shown
        self.tree = parse(path)
        self.names = Names(self.tree)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def finding(self, node: ast.AST, rule: str, message: str) -> Finding:
        """A finding at `node`."""
        return Finding(self.shown, node.lineno if isinstance(node, ast.expr | ast.stmt) else 0, rule, message)

    def above(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Each pair (parent, child) on the way from `node` up to the module."""
        while node in self.parents:
            parent = self.parents[node]
            yield parent, node
            node = parent

    def function_of(self, node: ast.AST) -> Function | None:
        """The innermost named function around `node`; a lambda belongs to the function it stands in."""
        return next((parent for parent, _ in self.above(node) if isinstance(parent, Function)), None)
