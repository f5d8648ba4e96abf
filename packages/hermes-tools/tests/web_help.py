"""A site that answers by hand and a tool that reads it, which several modules of tests use."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from hermes_messages import ToolMessage
from hermes_tools import Executor
from hermes_tools.builtin.web import WebSettings, WebToolset

__all__ = ["Reply", "Site", "extract", "page", "redirect"]

HTML = "text/html; charset=utf-8"
Reply = tuple[str, dict[str, str], bytes]


class Site:
    """Answers by path; `asked` are the requests that came, as `Host` and path."""

    def __init__(
        self, pages: dict[str, Reply | Callable[[str], Reply]], tls: ssl.SSLContext | None = None
    ) -> None:
        self.pages = pages
        self.tls = tls
        self.asked: list[tuple[str, str]] = []
        self.connections: set[asyncio.Task[Any]] = set()
        self.cookies: dict[str, str] = {}
        self.port = 0

    async def __aenter__(self) -> Site:  # noqa: PYI034 - not meant to be derived from
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for connection in self.connections:
            connection.cancel()
        if self.connections:
            await asyncio.wait(self.connections)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self.connections.add(connection)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split(" ")[1]
            host = next(line[5:].strip() for line in head.split("\r\n") if line.lower().startswith("host:"))
            self.asked.append((host, path))
            found = [line[7:].strip() for line in head.split("\r\n") if line.lower().startswith("cookie:")]
            self.cookies[path] = "".join(found)
            page = self.pages.get(path, ("404 Not Found", {}, b""))
            status, headers, body = page(path) if callable(page) else page
            if status == "silent":
                await asyncio.Event().wait()
            if "Content-Length" not in headers and status != "endless":
                headers = {**headers, "Content-Length": str(len(body))}
            lines = [
                f"HTTP/1.1 {'200 OK' if status == 'endless' else status}",
                *(f"{k}: {v}" for k, v in headers.items()),
            ]
            writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body)
            while status == "endless":
                writer.write(b"x" * 65_536)
                await writer.drain()
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.close()


def page(body: str | bytes, kind: str = HTML, **headers: str) -> Reply:
    data = body.encode() if isinstance(body, str) else body
    return "200 OK", {"Content-Type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}}, data


def redirect(to: str, status: str = "302 Found") -> Reply:
    return status, {"Location": to}, b""


def extract(bench: Any, run_async: Any, site: Site, *paths: str, **settings: Any) -> ToolMessage:
    """What `web_extract` says of paths of `site`, which is allowed."""

    async def main() -> Any:
        async with site:
            allowed = settings.pop("allow", (f"127.0.0.1:{site.port}",))
            executor = Executor([WebToolset(settings=WebSettings(allow=allowed, **settings))])
            urls = [path if "://" in path else site.url(path) for path in paths]
            try:
                outcome = await executor.execute([bench.call("web_extract", {"urls": urls})], bench.context())
            finally:
                await executor.close()
            return outcome.results[0]

    result: ToolMessage = run_async(main())
    return result
