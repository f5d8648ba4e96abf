"""Links of the Markdown files as they stand in the repository: files, headings, the form of addresses."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "packages/*/*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)


SOURCES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("packages/*/src/**/*.py"))
MOVED = {
    "platform.openai.com/docs": "developers.openai.com/api",
    "docs.anthropic.com": "platform.claude.com/docs",
    "api.together.xyz": "api.together.ai",
    "platform.moonshot.ai/docs": "platform.kimi.ai/docs",
    "docs.x.ai/docs": "docs.x.ai/developers",
    "openrouter.ai/docs/features": "openrouter.ai/docs/guides",
    "openrouter.ai/docs/use-cases": "openrouter.ai/docs/guides",
    "serving/openai_compatible_server.html": "serving/online_serving/openai_compatible_server/",
}
"""Addresses of documents and hosts that their owners have moved, and where to. What is at an address can
not be looked up where the tests run; that none of the old ones comes back can be seen."""


def without_blocks(text: str) -> str:
    """A page without its code blocks and code words, in which brackets mean nothing."""
    text = re.sub(r"^( *)(`{3,}).*?^\1\2`*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def links_of(text: str) -> list[str]:
    """The targets of all links and images of a page."""
    plain = without_blocks(text)
    return [
        *re.findall(r"\]\(\s*<?([^)\s>]+)", plain),
        *re.findall(r"^\[[^\]]+\]:\s*(\S+)", plain, re.MULTILINE),
        *re.findall(r"<(https?://[^>]+)>", plain),
    ]


def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, made as the usual viewers of repositories make them."""
    text = re.sub(r"^( *)(`{3,}).*?^\1\2`*$", "", text, flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found


def wrong_links(page: Path) -> list[str]:
    """The links of a page that lead nowhere, or can not be an address."""
    wrong = []
    for link in links_of(page.read_text("utf-8")):
        parts = urlsplit(link)
        if parts.scheme:
            good = parts.scheme == "mailto" or (parts.scheme in {"http", "https"} and "." in parts.netloc)
        else:
            target = (page.parent / parts.path).resolve() if parts.path else page
            good = target.exists() and (
                not parts.fragment or parts.fragment in anchors_of(target.read_text("utf-8"))
            )
        if not good:
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_no_link_of_a_page_leads_nowhere(page: str) -> None:
    assert wrong_links(ROOT / page) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("packages/")])
def test_no_link_of_a_wheels_own_page_breaks_on_the_package_index(page: str) -> None:
    for link in links_of((ROOT / page).read_text("utf-8")):
        assert urlsplit(link).scheme or link.startswith("#"), link


@pytest.mark.parametrize("old", MOVED)
def test_no_address_is_named_that_its_owner_has_moved(old: str) -> None:
    found = [page for page in (*PAGES, *SOURCES) if old in (ROOT / page).read_text("utf-8")]
    assert found == [], f"it is {MOVED[old]} now"


def test_a_wrong_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Some `Title`: it's here\n\n## A\n\n## A\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#some-title-its-here) [c](other.md#a-1) `[no](link.md)`\n"
        "[d](gone.md) [e](other.md#a-2) [f](http://nohost) [g](https://example.org/x)\n"
        "```text\n[h](gone.md)\n```\n[i]: lost.md\n"
    )
    assert wrong_links(page) == ["gone.md", "other.md#a-2", "http://nohost", "lost.md"]
