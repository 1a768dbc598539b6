"""A packet through a real Potato: served, answered in a browser, read from what it saves.

``python -m venv ENV; ENV/bin/pip install potato-annotation==2.12.1``, then
``POTATO=ENV/bin/potato python -m pytest --run-potato`` on this file.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posh_reward.study.packets.draw import Design
from posh_reward.study.packets.make import Packet, make_packet
from posh_reward.study.packets.rater_answers import AnswerSheet, sheets
from posh_reward.study.packets.rater_texts import shipped_texts
from posh_reward.training.doctor.node_checks import free_port
from tests.chromium import Browser
from tests.study.packets.studies import EVIL, items

pytestmark = pytest.mark.potato
PATIENCE = 120
"""Seconds for the start, and for what a page does: 2 on an idle machine."""
NAME = "anna"

CHOICES = {value: label for label, value in shipped_texts().values.items()}


def packet(texts: dict[str, str] | None = None, **design: Any) -> Packet:
    found = items(1)
    if texts is not None:
        found = replace(found, items=(replace(found.items[0], texts=texts, reference=EVIL),))
    chosen = Design(**{"seed": 7, "coarse": 1, "granular": 0, "repeated": 0, **design})
    return make_packet(found, chosen, None, {}, with_potato=True)


@contextmanager
def served(made: Packet, folder: Path) -> Iterator[str]:
    """The address of the first rater's project, which finds nothing wrong with its settings."""
    program = os.environ["POTATO"]
    for name, data in made.files.items():
        if name.startswith("potato/rater-01/"):
            (folder / Path(name).name).write_bytes(data)
    subprocess.run([program, "validate", "--strict", "config.yaml"], cwd=folder, check=True)
    port = free_port()
    command = [program, "start", "config.yaml", "-p", str(port), "--host", "127.0.0.1"]
    address = f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            wait(lambda: answers(f"{address}/health"), "it does not start")
            yield address
        finally:
            server.kill()
            server.wait()


def answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except OSError:
        return False
    return True


def wait(done: Any, why: str) -> None:
    for _ in range(PATIENCE * 5):
        if done():
            return
        time.sleep(0.2)
    raise AssertionError(why)


def log_in(browser: Browser, address: str) -> None:
    browser.call("Network.clearBrowserCookies")  # of another server: ports share them
    browser.call("Page.navigate", url=address)
    wait(lambda: browser.run("!!document.querySelector('#login-email')"), "no login")
    browser.point("#login-email", click=True)
    browser.type(NAME)
    browser.point("button[type=submit]", click=True)
    loaded = (
        "document.readyState === 'complete' && !!document.querySelector('form.annotation-form')"
    )
    wait(lambda: browser.run(loaded), "no task")
    time.sleep(3)  # its scripts take over the page


def read(folder: Path, made: Packet) -> AnswerSheet:
    [sheet] = sheets(next(folder.rglob("user_state.json")).read_bytes(), made.key)
    return sheet


def finished(folder: Path, made: Packet) -> bool:
    return any(folder.rglob("user_state.json")) and bool(read(folder, made).answers)


def test_preferences_come_back(chromium: Browser, tmp_path: Path) -> None:
    made = packet()
    wanted = {"mistakes": 2, "omissions": 0, "overall": -1}
    with served(made, tmp_path) as address:
        log_in(chromium, address)
        for axis, value in wanted.items():
            chromium.point(f"#{axis} input[value={json.dumps(CHOICES[value])}]", click=True)
        wait(lambda: finished(tmp_path, made), "nothing is saved")
    sheet = read(tmp_path, made)
    assert (sheet.rater, sheet.unfinished) == ("rater-01", ())
    [answer] = sheet.answers
    assert answer.preferences == wanted


def test_rankings_come_back(chromium: Browser, tmp_path: Path) -> None:
    made = make_packet(items(1, ("a", "b", "c")), Design(7, 0, 0, 0, ranking=1), None, {},
                       with_potato=True)  # fmt: skip
    wanted = {"mistakes": (1, 2, 3), "omissions": (1, 1, 3), "overall": (3, 1, 2)}
    with served(made, tmp_path) as address:
        log_in(chromium, address)
        for axis, places in wanted.items():
            for seat, place in enumerate(places, start=1):
                label = json.dumps(shipped_texts().places[place - 1])
                chromium.point(f"#{axis}_{seat} input[value={label}]", click=True)
        wait(lambda: finished(tmp_path, made), "nothing is saved")
    [answer] = read(tmp_path, made).answers
    assert answer.places == wanted


def mark(browser: Browser, field: str, word: str) -> None:
    """Drags the mouse over a word, as a person does."""
    root = f"document.getElementById({json.dumps(f'text-content-{field}')})"
    browser.run(f"{root}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    time.sleep(0.5)
    left, right, y = browser.run(
        f"(() => {{ const walk = document.createTreeWalker({root}, NodeFilter.SHOW_TEXT); let node;"
        f"while ((node = walk.nextNode()) && !node.data.includes({json.dumps(word)}));"
        f"const at = node.data.indexOf({json.dumps(word)}), range = document.createRange();"
        f"range.setStart(node, at); range.setEnd(node, at + {len(word)});"
        "const box = range.getBoundingClientRect();"
        "return [box.left, box.right, (box.top + box.bottom) / 2] })()"
    )  # fmt: skip
    for kind, x in (
        ("mousePressed", left + 1), ("mouseMoved", (left + right) / 2), ("mouseMoved", right),
        ("mouseReleased", right),
    ):  # fmt: skip
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1,
                     clickCount=1)  # fmt: skip
        time.sleep(0.2)
    time.sleep(1)


def test_marks_come_back_from_texts_of_any_kind(chromium: Browser, tmp_path: Path) -> None:
    """After emoji, line breaks, blanks at the start and twice, and what looks like markup."""
    text = f" \r\n {EVIL}\n\n  two  dogs 👩\u200d🦰 & e\u0301 spots"
    made = packet({"sft": text, "posh-tuned": text[2:]}, coarse=0, granular=1)
    with served(made, tmp_path) as address:
        log_in(chromium, address)
        chromium.point("form#mistakes input", click=True)
        for word in ("dogs", "spots"):
            mark(chromium, "generation", word)
        chromium.point("form#no_omissions input", click=True)
        wait(lambda: finished(tmp_path, made), "nothing is saved")
        assert chromium.run("document.title") != "owned"
    [answer] = read(tmp_path, made).answers
    shown = made.key.items[answer.task.item].texts[answer.task.models[0]]
    assert answer.marks is not None
    assert [shown[start:end] for start, end in answer.marks.mistakes] == ["dogs", "spots"]
    assert answer.marks.omissions == ()
