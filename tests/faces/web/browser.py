"""A real Chromium, driven over its DevTools protocol: pages at any width, dark or light, keys and pictures.

Records every address that a page asks for, and every error, violations of the content security policy among them.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    "--remote-debugging-port=0",
)
SECONDS = 20.0


def find_chromium() -> str | None:
    """Return the program, or None where it is not installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One tab. Collects every address it asks for and every violation of the content security policy."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._last = 0
        self.asked: list[str] = []
        self.problems: list[str] = []
        self._loaded = 0
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; events that arrive meanwhile are recorded."""
        self._last += 1
        number = self._last
        self._connection.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._connection.recv(timeout=SECONDS))
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                result: dict[str, Any] = message["result"]
                return result
            self._record(message)

    def _record(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.asked.append(params["request"]["url"])
            case "Page.loadEventFired":
                self._loaded += 1
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Runtime.exceptionThrown":
                self.problems.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] == "error":
                self.problems.append(str(params["args"]))

    def show(self, width: int, height: int, theme: str = "light") -> None:
        """Set the size of the window and the theme that the reader prefers."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def open(self, address: str) -> None:
        """Open a page and wait until it is loaded."""
        before = self._loaded
        self.send("Page.navigate", url=address)
        self.until(lambda: self._loaded > before, f"{address} is loaded")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, holds: Any, what: str) -> None:
        """Wait until a condition holds: a function, or an expression in the page."""
        end = time.monotonic() + SECONDS
        while not (self.evaluate(holds) if isinstance(holds, str) else holds()):
            assert time.monotonic() < end, f"waited in vain until {what}"
            try:
                self._record(json.loads(self._connection.recv(timeout=0.05)))
            except TimeoutError:
                continue

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        named: dict[str, Any] = {"key": key, "code": key if len(key) > 1 else "", "text": text}
        named |= {"windowsVirtualKeyCode": code} if (code := {"Enter": 13, "Escape": 27}.get(key)) else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **named)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        """Type a text, key by key."""
        for letter in text:
            self.press(letter)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Save what is visible, or the whole page, as a PNG file."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def browsing(program: str) -> Iterator[Browser]:
    """Start Chromium with an empty profile, give one tab, and end it."""
    with tempfile.TemporaryDirectory(prefix="tidelore-chromium-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            port, page = _find_tab(Path(profile) / "DevToolsActivePort", process)
            with connect(f"ws://127.0.0.1:{port}{page}", max_size=None, open_timeout=SECONDS) as connection:
                yield Browser(connection)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _find_tab(file: Path, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Return the port of DevTools and the path of the first tab, once Chromium has written them."""
    import httpx2

    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, "Chromium ended at once"
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) == 2:
            tabs = httpx2.get(f"http://127.0.0.1:{lines[0]}/json/list", trust_env=False).json()
            for tab in tabs:
                if tab["type"] == "page":
                    address: str = tab["webSocketDebuggerUrl"]
                    return int(lines[0]), "/" + address.split("/", 3)[3]
        time.sleep(0.05)
    raise AssertionError("Chromium opened no tab")
