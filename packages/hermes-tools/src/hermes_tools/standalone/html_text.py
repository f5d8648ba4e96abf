"""A page of HTML as Markdown, with the extra `web`: also run as a program, since a page may be of any size.

What a reader would not see goes: scripts, styles, forms' hidden parts. Addresses become whole ones.
"""

from __future__ import annotations

import json
import re
import sys
from urllib.parse import urljoin, urlsplit

__all__ = ["html_to_text", "main"]

_UNSEEN = ("script", "style", "noscript", "template", "svg", "iframe", "object", "head", "title", "canvas")
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![\d.])", re.IGNORECASE
)
_DEEPEST = 100_000


def html_to_text(html: str, url: str) -> tuple[str, str]:
    """The title and the text of a page. Raises `RecursionError` for one that is nested too deeply."""
    from bs4 import BeautifulSoup, Comment
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for comment in soup.find_all(string=lambda text: isinstance(text, Comment)):
        comment.extract()
    for element in soup.find_all(True):
        if not element.decomposed and (
            element.name in _UNSEEN
            or element.has_attr("hidden")
            or _HIDDEN_STYLE.search(str(element.get("style", "")))
        ):
            element.decompose()
    for element in soup.find_all(("a", "img")):
        name = "href" if element.name == "a" else "src"
        target = urljoin(url, str(element.get(name, "")))
        if urlsplit(target).scheme in ("http", "https"):
            element[name] = target
        else:
            del element[name]
    text = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(soup)
    lines = (line.rstrip() for line in text.splitlines())
    return title, re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def main() -> None:
    """Read `{"html": ..., "url": ...}`, write `{"title": ..., "text": ...}`."""
    request = json.loads(sys.stdin.buffer.read())
    sys.setrecursionlimit(_DEEPEST)
    title, text = html_to_text(request["html"], request["url"])
    sys.stdout.write(json.dumps({"title": title, "text": text}))
