"""The site that `make docs` builds: whole, without links into nowhere, and needing no other host."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from all_checks import SITE
from browser import Page, running_browser

ROOT = Path(__file__).parents[2]
WHEELS = ("messages", "loop", "providers", "tools", "store", "batch")
pytestmark = pytest.mark.timeout(1500)  # the first test builds the site where `make docs` has not
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
LOOKED_AT = {
    "landing": "index.html",
    "layer": "layers/loop.html",
    "turn": "turn.html",
    "limits": "limits.html",
    "reference": "reference/messages.html",
    "search": "search.html",
}


class Html(HTMLParser):
    """What a page offers and asks for: its anchors, its links, and the files that it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one element is about."""
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") in {"stylesheet", "icon", "preload", "preconnect"}:
            self.loads.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loads.append(given[LOADED[tag]])


@pytest.fixture(scope="session")
def site() -> Path:
    """The site, built as `make docs` builds it; where that was done already only what is new is read."""
    place = ROOT / ".cache" / "site"
    command = [str(Path(sys.executable).parent / SITE[0]), *SITE[1:], "docs", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, Html]:
    """Every page of the site."""
    return {path: Html(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One browser for all pages."""
    with running_browser(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.mark.parametrize("wheel", WHEELS)
def test_no_public_name_is_missing_in_the_reference(wheel: str, pages: dict[Path, Html], site: Path) -> None:
    source = (ROOT / f"docs/reference/{wheel}.md").read_text("utf-8")
    marked = re.search(r"<!-- reference: ([\w. ]+) -->", source)
    assert marked is not None
    modules = marked[1].split()
    anchors = pages[site / f"reference/{wheel}.html"].anchors
    shown = {anchor.rpartition(".")[2] for anchor in anchors if anchor.startswith("hermes_")}
    assert modules[0] == f"hermes_{wheel}"
    assert (
        f"hermes_{wheel}.testing" in modules
        or not (ROOT / f"packages/hermes-{wheel}/src/hermes_{wheel}/testing").with_suffix(".py").is_file()
    )
    for name in importlib.import_module(modules[0]).__all__:
        assert f"{modules[0]}.{name}" in anchors or name == "__version__"
    for module in modules[1:]:
        assert set(importlib.import_module(module).__all__) <= shown, module


def test_no_name_is_written_as_the_generator_keeps_it(site: Path) -> None:
    for page in (site / "reference").glob("*.html"):
        text = page.read_text("utf-8")
        assert "TypeAliasForwardRef" not in text, page.name
        assert "<object object at" not in text, page.name
        assert " at 0x" not in text, page.name


def test_no_link_on_the_site_leads_nowhere(pages: dict[Path, Html], site: Path) -> None:
    nowhere = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                assert parts.scheme in {"https", "mailto"}, (path, link)
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file() or (
                parts.fragment and unquote(parts.fragment) not in pages[target].anchors | {""}
            ):
                nowhere.append((path.relative_to(site).as_posix(), link))
    assert nowhere == []


def test_no_page_loads_anything_from_another_host(pages: dict[Path, Html], site: Path) -> None:
    loads = [(path, load) for path, page in pages.items() for load in page.loads]
    assert len(loads) > len(pages)
    for path, load in loads:
        assert not urlsplit(load).scheme, (path, load)
        assert (path.parent / urlsplit(load).path).is_file(), (path, load)
    for style in site.rglob("*.css"):
        asked = re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", style.read_text("utf-8"))
        assert all(
            url.startswith("data:") or not urlsplit(url).scheme for pair in asked for url in pair if url
        )


@pytest.mark.parametrize("width", [1360, 400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_open_in_a_browser_without_a_complaint(
    dark: bool, width: int, site: Path, browser: Page
) -> None:
    for name, page in LOOKED_AT.items():
        browser.complaints.clear()
        browser.requests.clear()
        browser.look(width=width, dark=dark)
        browser.open(site / page)
        browser.screenshot(f"site-{name}-{'dark' if dark else 'light'}-{width}")
        assert browser.complaints == [], page
        assert browser.requests
        assert all(url.startswith(("file://", "data:", "about:")) for url in browser.requests), page
        wide = browser.value("document.documentElement.scrollWidth")
        assert wide <= width, f"{page} is {wide} wide"


def test_diagrams_are_drawn_with_their_words(site: Path, browser: Page) -> None:
    browser.look()
    browser.open(site / "turn.html")
    assert browser.value("document.querySelectorAll('.diagram svg').length") == 1
    words = browser.value("document.querySelector('.diagram svg').textContent")
    assert "run_preflight_gate" in words
    fill = "getComputedStyle(document.querySelector('.diagram .node rect')).fill"
    light = browser.value(fill)
    browser.look(dark=True)
    assert browser.value(fill) != light


def test_what_is_looked_for_is_found(site: Path, browser: Page) -> None:
    browser.look()
    browser.send("Page.navigate", url=(site / "search.html").as_uri() + "?q=lease")
    browser.wait("document.querySelectorAll('#search-results li a').length > 3")
