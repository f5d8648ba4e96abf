"""Headless Chromium, driven over its DevTools protocol, for the tests that look at pages of ours.

With HERMES_SCREENSHOTS set to a directory, what the pages look like is kept there. Needs websockets.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Page", "running_browser"]

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
    "--remote-debugging-port=0",
)
PATIENCE_S = 300.0


class Page:
    """One page in the browser. Everything that it logs as an error, and every request, is kept.

    `ready` is what holds in JavaScript when a page may be looked at.
    """

    def __init__(self, socket: Any, ready: str) -> None:
        self._socket = socket
        self._ready = ready
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
            case _:
                pass

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a file anew and wait until it is ready."""
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=path.as_uri() + fragment)
        self.wait(f"location.href !== 'about:blank' && {self._ready}")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to, awaited."""
        done = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def text(self, selector: str) -> str:
        """The text of the first element that fits, as it is seen."""
        return str(self.value(f"document.querySelector({json.dumps(selector)}).innerText"))

    def wait(self, condition: str) -> None:
        """Until `condition` holds; it is asked at every frame of the page."""
        deadline = time.monotonic() + PATIENCE_S
        asked = f"new Promise((done) => requestAnimationFrame(() => done(Boolean({condition}))))"
        while not self.value(asked):
            assert time.monotonic() < deadline, f"never: {condition}; {self.complaints}"

    def choose(self, control: str, value: str) -> None:
        """Take an option of a list of options."""
        take = f"(node) => {{ node.value = '{value}'; node.dispatchEvent(new Event('change')); }}"
        self.value(f"({take})(document.getElementById('{control}'))")

    def press(self, *keys: str) -> None:
        """Press and release keys, one after the other."""
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            common = {"key": key, "windowsVirtualKeyCode": {"Enter": 13, "Escape": 27}.get(key, 0)}
            down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
            self.send("Input.dispatchKeyEvent", **down, **common)
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def look(self, *, width: int = 1360, height: int = 860, dark: bool = False, still: bool = False) -> None:
        """The size of the window, and what the system asks for: colours, and no motion."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        wishes = {
            "prefers-color-scheme": "dark" if dark else "light",
            "prefers-reduced-motion": "reduce" if still else "no-preference",
        }
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        self.send("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, name: str) -> bytes:
        """What a person would see, as PNG."""
        image = base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
        if directory := os.environ.get("HERMES_SCREENSHOTS"):
            (Path(directory) / f"{name}.png").write_bytes(image)
        return image


def wait_for_address(process: subprocess.Popen[str]) -> str:
    """The line in which the browser says where it listens."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        if line.startswith("DevTools listening on "):
            return line
        said.append(line)
    pytest.fail(f"Chromium ended; it wrote:\n{''.join(said)}")


@contextmanager
def running_browser(profile: Path, ready: str = "document.readyState === 'complete'") -> Iterator[Page]:
    """A new Chromium with nothing in its profile; it is gone afterwards."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install --no-install-recommends chromium)")
    from websockets.sync.client import connect

    command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with (
        # Not where TMPDIR says: the path of its socket must be short.
        tempfile.TemporaryDirectory(prefix="chromium-", dir="/tmp", ignore_cleanup_errors=True) as sockets,
        subprocess.Popen(
            command,
            env={**os.environ, "TMPDIR": sockets},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            told = wait_for_address(process)
            with connect(told.split()[-1], max_size=None, open_timeout=PATIENCE_S) as whole:
                whole.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
                targets = json.loads(whole.recv(timeout=PATIENCE_S))["result"]["targetInfos"]
                target = next(info["targetId"] for info in targets if info["type"] == "page")
            address = told.split()[-1].partition("/devtools/")[0]
            with connect(f"{address}/devtools/page/{target}", max_size=None, open_timeout=PATIENCE_S) as one:
                yield Page(one, ready)
        finally:
            process.kill()
