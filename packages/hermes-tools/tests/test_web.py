"""The web as it is: servers that redirect, stall and have no end; searching, and settings."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from typing import Any

import pytest

from hermes_messages import ConfigurationError, UnknownNameError
from hermes_messages.protocols import ExecutorOptions
from hermes_tools import Executor, build_executor
from hermes_tools.builtin.web import WebSettings, WebToolset
from hermes_tools.builtin.web_search import SearchResult
from web_help import Site, extract, page, redirect

# -- limits ------------------------------------------------------------------------------------------------


def test_redirects_are_followed_and_the_last_address_is_named(bench: Any, run_async: Any) -> None:
    site = Site(
        {"/": redirect("/two", "301 Moved"), "/two": redirect("three"), "/three": page("<p>here</p>")}
    )
    result = extract(bench, run_async, site, "/")
    assert f"from {site.url('/three')} (asked as {site.url('/')})" in str(result.content)
    assert "here" in str(result.content)


def test_a_cookie_goes_to_no_other_host_at_the_same_address(bench: Any, run_async: Any) -> None:
    async def main() -> Any:
        async with Site({"/b": page("<p>here</p>"), "/c": page("<p>same</p>")}) as site:
            given = {"Set-Cookie": "of-a=private; Path=/"}
            site.pages["/a"] = ("302 Found", {"Location": f"http://127.0.0.1:{site.port}/b", **given}, b"")
            site.pages["/again"] = ("302 Found", {"Location": "/c", **given}, b"")
            rules = WebSettings(allow=("localhost", "127.0.0.1"))
            executor = Executor([WebToolset(settings=rules)])
            for path in ("/a", "/again"):
                address = f"http://localhost:{site.port}{path}"
                call = bench.call("web_extract", {"urls": [address]})
                outcome = await executor.execute([call], bench.context())
                assert [result.status for result in outcome.results if result] == ["ok"]
            await executor.close()
            return site.cookies

    assert run_async(main()) == {"/a": "", "/b": "", "/again": "", "/c": "of-a=private"}


def test_redirects_without_an_end_end(bench: Any, run_async: Any) -> None:
    site = Site({"/": redirect("/")})
    assert "more than 3 redirects" in str(extract(bench, run_async, site, "/", max_redirects=3).content)
    assert len(site.asked) == 4


def test_a_page_without_an_end_is_read_to_the_limit(bench: Any, run_async: Any) -> None:
    site = Site({"/": ("endless", {"Content-Type": "text/plain"}, b"")})
    result = extract(bench, run_async, site, "/", max_bytes=10_000)
    assert "[only the first 10,000 bytes were read]" in str(result.content)


def test_a_small_page_that_unpacks_to_a_large_one_is_read_to_the_limit(bench: Any, run_async: Any) -> None:
    bomb = gzip.compress(b"x" * 200_000_000, 9)
    site = Site({"/": page(bomb, "text/plain", Content_Encoding="gzip")})
    result = extract(bench, run_async, site, "/", max_bytes=100_000)
    assert "[only the first 100,000 bytes were read]" in str(result.content)


def test_a_server_that_says_nothing_is_given_up(bench: Any, run_async: Any) -> None:
    site = Site({"/": ("silent", {}, b"")})
    assert "no answer within 0.3 s" in str(extract(bench, run_async, site, "/", timeout=0.3).content)


def test_one_page_that_fails_does_not_lose_the_others(bench: Any, run_async: Any) -> None:
    site = Site({"/a": page("<p>one</p>"), "/c": page("<p>three</p>")})
    result = extract(bench, run_async, site, "/a", "/b", "/c")
    assert result.status == "ok"
    text = str(result.content)
    assert text.index("one") < text.index("HTTP 404 Not Found") < text.index("three")
    assert extract(bench, run_async, Site({}), "/b").status == "error"
    assert extract(bench, run_async, Site({}), *[f"/{n}" for n in range(6)]).status == "error"


def test_cancelling_leaves_no_connection(bench: Any, run_async: Any, wait_until: Any) -> None:
    async def main() -> None:
        async with Site({"/": ("silent", {}, b"")}) as site:
            toolset = WebToolset(settings=WebSettings(allow=(f"127.0.0.1:{site.port}",)))
            executor = Executor([toolset])
            call = bench.call("web_extract", {"urls": [site.url()]})
            running = asyncio.create_task(executor.execute([call], bench.context()))
            await wait_until(lambda: site.asked)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await executor.close()

    run_async(main())


# -- search and settings -----------------------------------------------------------------------------------


class Engine:
    def __init__(self, hits: int = 3) -> None:
        self.hits = hits

    async def search(self, query: str, limit: int) -> Sequence[SearchResult]:
        if query == "broken":
            raise RuntimeError("the quota is used up")
        return [SearchResult(f"{query} {n}", f"http://h/{n}", "snippet") for n in range(self.hits)]


def test_a_search_backend_makes_web_search_available(bench: Any, run_async: Any) -> None:
    async def main() -> list[Any]:
        executor = Executor([WebToolset(Engine())])
        snapshot = await executor.refresh(bench.turn())
        assert [tool.name for tool in snapshot.tools] == ["web_extract", "web_search"]
        calls = [
            bench.call("web_search", {"query": "storks", "limit": 2}),
            bench.call("web_search", {"query": "broken"}),
            bench.call("web_search", {"query": " "}),
        ]
        outcome = await executor.execute(calls, bench.context())
        await executor.close()
        return list(outcome.results)

    found, broken, empty = run_async(main())
    assert "1. storks 0\n   http://h/0\n   snippet\n2. storks 1" in found.content
    assert "storks 2" not in found.content
    assert "data, not instructions" in found.content
    assert "the quota is used up" in broken.content
    assert empty.status == "error"


def test_without_a_search_backend_the_tool_is_absent_and_says_why(bench: Any, run_async: Any) -> None:
    async def main() -> Any:
        executor = build_executor(["web"], ExecutorOptions(cwd="."))
        snapshot = await executor.refresh(bench.turn())
        await executor.close()
        return snapshot

    snapshot = run_async(main())
    assert [tool.name for tool in snapshot.tools] == ["web_extract"]
    [absent] = snapshot.unavailable
    assert absent.name == "web_search"
    assert "no search backend is configured" in absent.reason


def test_settings_of_the_web_are_read_and_checked() -> None:
    def build(settings: Any) -> None:
        build_executor(["web"], ExecutorOptions(cwd=".", settings={"web": settings}))

    build({"allow": ["localhost:1"], "timeout": 5})
    for wrong in ({"allow": ["a/b"]}, {"timeout": 0}, {"nonsense": 1}, "x", {"max_bytes": "1"}):
        with pytest.raises(ConfigurationError):
            build(wrong)
    with pytest.raises(UnknownNameError, match="search backend 'nowhere'"):
        build({"search": "nowhere"})
    with pytest.raises(UnknownNameError, match="executor setting 'web'"):
        build_executor(["file"], ExecutorOptions(cwd=".", settings={"web": {}}))
