"""A headless Chromium to look at pages with: what a reader sees, and every complaint of the browser.

Spoken to over its DevTools protocol through a pipe, for which the standard library is enough. Chromium itself is the
system's; where there is none, tests that need it are skipped.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
# No sandbox, since tests in containers run as root; and nothing that Chromium does for its own purposes.
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


# Chromium expects the protocol on descriptors 3 and 4; the detour over two others is for when those are given.
ON_3_AND_4 = """
import os, sys
reading, writing = (os.dup(os.dup(int(each))) for each in sys.argv[1:3])
os.dup2(reading, 103), os.dup2(writing, 104), os.dup2(103, 3), os.dup2(104, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def program() -> str:
    """Where it is; without it the test is skipped."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    return found


@dataclass
class Page:
    """An open page, and what happened while it was loaded and looked at."""

    browser: "Chromium"
    session: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    loads: int = 0

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, expression: str, seconds: float = 20) -> Any:
        """The value of an expression once it is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(expression)):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.02)
        return value

    def reload(self, seconds: float = 20) -> None:
        """Load the page again, to the end."""
        before, end = self.loads, time.monotonic() + seconds
        self.call("Page.reload")
        while self.loads == before:
            assert time.monotonic() < end, "the page is not loaded again"
            time.sleep(0.02)
            self.browser.call("Browser.getVersion")  # the page itself cannot answer between two documents

    def press(self, *keys: str) -> None:
        """Press keys by name, one after the other."""
        for key in keys:
            for kind in ("keyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def write(self, text: str) -> None:
        """Write into the focused field."""
        self.call("Input.insertText", text=text)

    def call(self, method: str, **parameters: Any) -> Any:
        return self.browser.call(method, self, **parameters)

    def picture(self, file: Path) -> None:
        """The whole page as a PNG."""
        result = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(b64decode(result["data"]))

    def noted(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([each.get("value") for each in parameters["args"]]))
        elif method == "Page.loadEventFired":
            self.loads += 1
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith("data:"):
            self.requests.append(parameters["request"]["url"])  # what is part of the page itself is no request


class Chromium:
    """The browser's end of the pipe."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to = os.fdopen(to_browser, "wb")
        self._from = os.fdopen(from_browser, "rb")
        self._buffer = b""
        self._number = 0
        self._pages: dict[str, Page] = {}

    @contextmanager
    def open(self, address: Path | str, width: int, colours: Literal["light", "dark"] = "light") -> Iterator[Page]:
        """A page of a file or of a server, loaded to the end, as wide as given."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": colours}])
        page.call("Page.navigate", url=address.resolve().as_uri() if isinstance(address, Path) else address)
        page.run(
            "new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done)).then("
            "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 50))))"
        )
        try:
            yield page
        finally:
            self.call("Target.closeTarget", targetId=target)

    def call(self, method: str, page: Page | None = None, **parameters: Any) -> Any:
        """Ask, and note whatever is said before the answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": page.session} if page else {}
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            if (about := self._pages.get(answer.get("sessionId", ""))) is not None:
                about.noted(answer["method"], answer["params"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = self._from.read1(1 << 20)
            assert part, "Chromium is gone"
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message


@contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser with an empty profile, gone at the end."""
    command = program()
    for_browser, to_browser = os.pipe()
    from_browser, for_us = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", ON_3_AND_4, str(for_browser), str(for_us)),
                *(command, *OPTIONS, f"--user-data-dir={profile}", "about:blank"),
            ],
            pass_fds=(for_browser, for_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(for_browser)
        os.close(for_us)
        try:
            yield Chromium(to_browser, from_browser)
        finally:
            process.terminate()
            process.wait(20)
