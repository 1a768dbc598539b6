"""A real Chromium, driven over its debugging pipe: no driver, no package, no port."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--hide-scrollbars", "--remote-debugging-pipe", "--disable-background-networking",
)  # fmt: skip
PATIENCE = 60
"""Seconds."""


def find_chromium() -> str | None:
    """Path of an installed Chromium, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page in a headless Chromium. Use it as a context manager."""

    def __init__(self, program: str, width: int = 1280, height: int = 900) -> None:
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read, self._to = os.pipe()
        self._from, write = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read, write)]
        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self._home.name}", "about:blank"],
            stderr=subprocess.DEVNULL, pass_fds=(3, 4),
            preexec_fn=lambda: [os.dup2(end, place) for place, end in enumerate(ends, 3)],
        )  # fmt: skip
        for end in (read, write, *ends):
            os.close(end)
        self._heard = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        """What the page reported: console messages, exceptions, requests."""
        pages = self.call("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._home.cleanup()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends one command of the DevTools protocol and waits for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._hear()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._heard:
            ready, _, _ = select.select([self._from], [], [], PATIENCE)
            heard = os.read(self._from, 1 << 20) if ready else b""
            assert heard, "Chromium has gone" if ready else f"nothing for {PATIENCE} seconds"
            self._heard += heard
        message, _, self._heard = self._heard.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def open(self, path: Path) -> None:
        """Loads a local file and waits until it has loaded."""
        self.visit(path.as_uri())

    def visit(self, address: str) -> None:
        """Loads a page and waits until it has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._hear())

    def resize(self, width: int, height: int) -> None:
        """Sets the size of the window, in CSS pixels, and waits until the page has heard of it."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        frame = "new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))"
        self.run(frame)
        self.run(frame)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; a promise is awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def point(self, selector: str, *, click: bool = False) -> None:
        """Moves the mouse onto the first element that matches, as a person would; may click.

        Waits until the element stands still: images that come in move what is below them.
        """
        x, y = self.run(
            f"(async () => {{ const it = document.querySelector({json.dumps(selector)});"
            "await Promise.all([...document.images].map((each) => each.decode().catch(() => 0)));"
            "for (let old = [];;) {"
            "it.scrollIntoView({block: 'center', behavior: 'instant'});"
            "await new Promise(requestAnimationFrame);"
            "const r = it.getClientRects()[0];"
            "const now = [r.left + r.width / 2, r.top + r.height / 2];"
            "if (now[0] === old[0] && now[1] === old[1]) return now;"
            "old = now; } })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Presses one key, e.g. ``("Tab", 9)`` or ``("Enter", 13, "\\r")``."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Types into whatever has the focus."""
        self.call("Input.insertText", text=text)

    def complaints(self) -> list[str]:
        """Exceptions and console or policy errors since the page was opened."""
        methods = ("Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event) for event in self.events if event.get("method") in methods]


OBSCURED = """(() => {
  const it = document.activeElement;
  if (it === document.body || it.closest('nav')) return false;
  const r = it.getClientRects()[0];
  const points = [[r.left + 3, r.top + 3], [r.right - 3, r.bottom - 3],
    [(r.left + r.right) / 2, (r.top + r.bottom) / 2]];
  return !points.some(([x, y]) => {
    const top = document.elementFromPoint(x, y);
    return top && (it.contains(top) || top.closest('label')?.contains(it));
  }) && `${it.tagName} ${it.id || it.name || it.textContent.slice(0, 20)}`;
})()"""


def obscured(browser: Browser) -> str:
    """The focused element, if nothing of it can be seen (WCAG 2.4.11); else ""."""
    return str(browser.run(OBSCURED) or "")


def axe() -> str:
    """The script of axe-core, which looks for what keeps people out."""
    path = os.environ.get("AXE_CORE")
    if not path:
        pytest.skip("set AXE_CORE to axe.min.js of `npm install axe-core@4.14.1`")
    return Path(path).read_text(encoding="utf-8")


def violations(browser: Browser, script: str) -> list[str]:
    """Violations that axe-core finds on the page as it is."""
    if not browser.run("'axe' in window"):
        browser.run(script + ";0")
    found = json.loads(browser.run("axe.run().then((it) => JSON.stringify(it.violations))"))
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]
