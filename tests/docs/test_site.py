"""The built site (make docs) keeps nobody out, and loads nothing from elsewhere."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.chromium import Browser, axe, violations

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
WIDTHS = {"desktop": 1280, "phone": 390}
"""In CSS pixels."""
SHOWN = {"light": "default", "dark": "slate"}
"""What the system prefers -> the theme's name for it."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of each request."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the site is served."""
    if not (SITE / "index.html").is_file():
        pytest.skip("build the site first: make docs")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def visit(browser: Browser, address: str, scheme: str) -> None:
    """Load a page and wait until its scripts have made what they make."""
    preferences = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in preferences.items()]
    browser.call("Emulation.setEmulatedMedia", features=features)
    browser.visit(address)
    browser.run("new Promise((made) => setTimeout(made, 200))")


def foreign_requests(browser: Browser, address: str) -> list[str]:
    sent = (each for each in browser.events if each.get("method") == "Network.requestWillBeSent")
    urls = (each["params"]["request"]["url"] for each in sent)
    return [url for url in urls if not url.startswith((address, "data:", "blob:"))]


each_way = pytest.mark.parametrize(
    ("device", "scheme"), [(device, scheme) for device in WIDTHS for scheme in SHOWN]
)


@pytest.mark.slow
@each_way
def test_every_page_is_open_to_everybody(
    chromium: Browser, address: str, device: str, scheme: str
) -> None:
    script = axe()
    chromium.resize(WIDTHS[device], 900)
    found = []
    for page in sorted(SITE.rglob("*.html")):
        name = page.relative_to(SITE).as_posix()
        visit(chromium, address + name, scheme)
        assert chromium.run("document.body.dataset.mdColorScheme") == SHOWN[scheme]
        wrong = violations(chromium, script) + foreign_requests(chromium, address)
        if chromium.run("document.documentElement.scrollWidth > innerWidth"):
            wrong.append("scrolls sideways")
        found += [f"{name}: {each}" for each in wrong]
    assert found == []


@pytest.mark.slow
@each_way
def test_what_the_search_finds_is_open_to_everybody(
    chromium: Browser, address: str, device: str, scheme: str
) -> None:
    script = axe()
    chromium.resize(WIDTHS[device], 900)
    visit(chromium, address + "index.html", scheme)
    chromium.run("document.querySelector('#__search').click()")
    chromium.run("document.querySelector('.md-search__input').focus()")
    chromium.type("reward")
    found = "document.querySelector('.md-search-result__item')"
    chromium.run(
        f"(async () => {{ while (!{found}) await new Promise((it) => setTimeout(it, 50)) }})()"
    )
    assert violations(chromium, script) == []
