"""A headless Chromium, driven by the W3C WebDriver protocol that chromedriver speaks over HTTP."""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.listening import free_port

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key under which the protocol names an element."""
_ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 180.0
WAIT_SECONDS = 180.0


def missing_tools() -> list[str]:
    """What a browser test needs and this machine lacks."""
    found = {
        "chromium": any(shutil.which(name) for name in _BROWSERS),
        "chromedriver": shutil.which("chromedriver"),
    }
    return [tool for tool, there in found.items() if not there]


class Browser:
    """One window of a browser with a profile of its own."""

    def __init__(self, http: httpx2.Client, session: str) -> None:
        self._http = http
        self._session = f"/session/{session}"

    def _do(self, method: str, path: str, **body: Any) -> Any:
        content = body if method == "POST" else None
        reply = self._http.request(method, f"{self._session}{path}", json=content)
        value = reply.json()["value"]
        assert reply.status_code == 200, value
        return value

    def open(self, url: str) -> None:
        """Go to an address and wait until the page is loaded."""
        self._do("POST", "/url", url=url)

    @property
    def url(self) -> str:
        return str(self._do("GET", "/url"))

    def script(self, code: str, *arguments: Any) -> Any:
        """What a function body returns in the page."""
        return self._do("POST", "/execute/sync", script=code, args=list(arguments))

    def text(self) -> str:
        return str(self.script("return document.body.innerText"))

    def text_of(self, selector: str) -> str:
        """What the first element that matches shows; empty if none does."""
        code = "return (document.querySelector(arguments[0]) || {innerText: ''}).innerText"
        return str(self.script(code, selector)).strip()

    def cookies_away(self) -> None:
        """Forget who is signed in."""
        self.devtools("Network.clearBrowserCookies")

    def find(self, selector: str) -> list[str]:
        found = self._do("POST", "/elements", using="css selector", value=selector)
        return [element[_ELEMENT] for element in found]

    def one(self, selector: str) -> str:
        """The first element that matches, as soon as there is one."""
        return str(self.until(lambda: self.find(selector), f"no {selector}")[0])

    def click(self, selector: str) -> None:
        self._do("POST", f"/element/{self.one(selector)}/click")

    def press(self, keys: str) -> None:
        """Press keys, one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._do("POST", "/actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def type(self, selector: str, text: str) -> None:
        """Replace what a field holds."""
        element = self.one(selector)
        self._do("POST", f"/element/{element}/clear")
        self._do("POST", f"/element/{element}/value", text=text)

    def resize(self, width: int, height: int) -> None:
        """Give the page this size, which windows have at least 500 pixels for."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", **metrics)

    def scheme(self, name: str) -> None:
        """Prefer `light` or `dark`, and nothing that moves."""
        features = [
            {"name": "prefers-color-scheme", "value": name},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.devtools("Emulation.setEmulatedMedia", features=features)

    def devtools(self, command: str, **params: Any) -> Any:
        """Call Chromium's own protocol."""
        return self._do("POST", "/goog/cdp/execute", cmd=command, params=params)

    def screenshot(self, path: Path) -> None:
        """Write what the window shows as PNG."""
        path.write_bytes(base64.b64decode(self._do("GET", "/screenshot")))

    def errors(self) -> list[str]:
        """What the page has complained about since the last time, such as broken policies."""
        entries = self._do("POST", "/se/log", type="browser")
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def until(self, condition: Any, why: str) -> Any:
        """What the condition returns, as soon as it is true."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            found = condition()
            if found:
                return found
            assert time.monotonic() < end, f"{why} at {self.url}: {self.text()[:2000]}"
            time.sleep(0.05)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser for as long as the block lasts."""
    port = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile,
        subprocess.Popen(
            ["chromedriver", f"--port={port}", "--allowed-origins=*"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as driver,
        httpx2.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=WAIT_SECONDS * 2, trust_env=False
        ) as http,
    ):
        try:
            _wait_for(http, driver)
            options = {"args": [*_ARGUMENTS, f"--user-data-dir={profile}"]}
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            reply = http.post("/session", json={"capabilities": {"alwaysMatch": wanted}})
            value = reply.json()["value"]
            assert reply.status_code == 200, value
            try:
                yield Browser(http, value["sessionId"])
            finally:
                http.delete(f"/session/{value['sessionId']}")
        finally:
            driver.terminate()


def _wait_for(http: httpx2.Client, driver: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        assert driver.poll() is None, "chromedriver has ended"
        assert time.monotonic() < end, "chromedriver does not start"
        try:
            if http.get("/status").json()["value"]["ready"]:
                return
        except httpx2.TransportError:
            time.sleep(0.05)
