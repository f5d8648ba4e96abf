"""The page of `hermes-batch view`, put together from its parts. Pure.

    head with styles, the page's frame, <the blocks of data>, the program

A policy in its head allows this style, this program and nothing else: no request, no other script.
"""

from __future__ import annotations

import base64
import hashlib
import html
from typing import Final

from msgspec import Struct

__all__ = ["PAGE_FILES", "PageParts", "page_end", "page_start"]

PAGE_FILES: Final = ("style.css", "frame.html", "data.js", "plots.js", "list.js", "detail.js", "main.js")
"""What the page is made of: its style, its frame, and its program in the order in which it is joined."""


class PageParts(Struct, frozen=True):
    """The texts of `PAGE_FILES`, the program joined to one."""

    style: str
    frame: str
    program: str

    @classmethod
    def of(cls, texts: dict[str, str]) -> PageParts:
        """From the files' texts by name."""
        scripts = [texts[name] for name in PAGE_FILES if name.endswith(".js")]
        program = '"use strict";\n(() => {\n' + "\n".join(scripts) + "\n})();\n"
        return cls(texts["style.css"], texts["frame.html"], program)


def page_start(parts: PageParts, title: str) -> bytes:
    """Everything before the data."""
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(parts.style)}'; script-src '{_digest(parts.program)}'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(title)}</title>\n<style>{parts.style}</style>\n</head>\n{parts.frame}"
    ).encode()


def page_end(parts: PageParts) -> bytes:
    """Everything after the data."""
    return f"<script>{parts.program}</script>\n</body>\n</html>\n".encode()


def _digest(text: str) -> str:
    """How a policy names an inline text that it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
