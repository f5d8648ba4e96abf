"""A headless Chromium for the tests of the page, driven over its DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
PATIENCE_S = 60.0


class Page:
    """One page in the browser. Everything that it logs as an error, and every request, is kept."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: object) -> dict[str, Any]:
        """Ask the browser; what comes in between is noted."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE_S))
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        match message:
            case {"method": "Log.entryAdded", "params": {"entry": {"level": "error", "text": str(text)}}}:
                self.complaints.append(text)
            case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                self.complaints.append(json.dumps(details))
            case {"method": "Network.requestWillBeSent", "params": {"request": {"url": str(url)}}}:
                self.requests.append(url)

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a file and wait until the page says that it is ready."""
        self.send("Page.navigate", url=path.as_uri() + fragment)
        self.wait("document.documentElement.dataset.ready === 'yes'")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to, awaited."""
        done = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until `condition` holds; it is asked at every frame of the page."""
        deadline = time.monotonic() + PATIENCE_S
        asked = f"new Promise((done) => requestAnimationFrame(() => done(Boolean({condition}))))"
        while not self.value(asked):
            assert time.monotonic() < deadline, f"never: {condition}; {self.complaints}"

    def key(self, key: str) -> None:
        """Press and release a key."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "Tab": 9}.get(key, 0)
        common = {"key": key, "windowsVirtualKeyCode": code}
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.send("Input.dispatchKeyEvent", **down, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def look(self, *, width: int = 1360, height: int = 860, dark: bool = False) -> None:
        """The size of the window, and the colours that the system asks for."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> None:
        """What a person would see, as a PNG file."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def running_browser(profile: Path) -> Iterator[Page]:
    """A new Chromium with nothing in its profile; it is gone afterwards."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install --no-install-recommends chromium)")
    command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            told = next(line for line in process.stderr if line.startswith("DevTools listening on "))
            with connect(told.split()[-1], max_size=None, open_timeout=PATIENCE_S) as browser:
                browser.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
                targets = json.loads(browser.recv(timeout=PATIENCE_S))["result"]["targetInfos"]
                target = next(info["targetId"] for info in targets if info["type"] == "page")
            address = told.split()[-1].partition("/devtools/")[0]
            with connect(f"{address}/devtools/page/{target}", max_size=None, open_timeout=PATIENCE_S) as socket:
                yield Page(socket)
        finally:
            process.kill()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One browser for all tests of the page."""
    with running_browser(tmp_path_factory.mktemp("chromium")) as page:
        yield page
