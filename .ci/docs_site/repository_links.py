"""Links that are right in the repository become right on the site, where a README is a page of layers/."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

__all__ = ["setup"]

README = re.compile(r"\]\((?:\.\./)+packages/hermes-(\w+)/README\.md")


def follow(_: Sphinx, __: str, source: list[str]) -> None:
    """Lead links to the README of a wheel to its page."""
    source[0] = README.sub(r"](/layers/\1.md", source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", follow)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
