"""A rater's page in a real browser: by mouse, by keyboard alone, reloaded, saved and loaded."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posh_reward.study.packets.draw import Design
from posh_reward.study.packets.make import Packet, make_packet, read_known_items
from posh_reward.study.packets.rater_answers import (
    AnswerSheet,
    RaterAbout,
    compute_checksum,
    read_sheets,
)
from posh_reward.study.packets.study_records import LANGUAGES, BackgroundQuestion, shipped_texts
from tests.chromium import Browser, axe, violations
from tests.study.packets.studies import (
    EVIL,
    coarse,
    content,
    items,
    markings,
    packet,
    preferences,
    saved,
)

COARSE, GRANULAR = packet(4), packet(3, coarse=0, granular=1)
FORMS = [COARSE, GRANULAR]
AXES = ("mistakes", "omissions", "overall")


@pytest.fixture
def browser(chromium: Browser, tmp_path: Path) -> Browser:
    chromium.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    chromium.resize(1280, 900)
    return chromium


def opened(browser: Browser, made: Packet, folder: Path, name: str = "rater-01") -> Path:
    """The page of one rater, opened with nothing kept from earlier tests."""
    path = folder / f"{name}.html"
    path.write_bytes(made.files[path.name])
    # The page of the test before keeps its answers as it is left, perhaps after this one has begun.
    browser.run("typeof at === 'undefined' || (at = -1)")
    browser.open(path)
    if browser.run("localStorage.length + sessionStorage.length"):
        browser.run("localStorage.clear(); sessionStorage.clear()")
        browser.open(path)
    return path


def downloaded(made: Packet, folder: Path, name: str = "rater-01") -> AnswerSheet:
    path = folder / f"answers-{made.key.packet}-{name}.json"
    for _ in range(100):
        if path.exists() and path.stat().st_size:
            break
        time.sleep(0.05)
    [sheet] = read_sheets(path.read_bytes(), made.key)
    return sheet


def said(browser: Browser) -> str:
    text: str = browser.run("document.getElementById('say').textContent")
    return text


def focused(browser: Browser, script: str) -> Any:
    return browser.run(f"(() => {{ const it = document.activeElement; return {script} }})()")


def tab_to(browser: Browser, condition: str) -> None:
    """Presses Tab until what has the focus meets a condition on ``it``."""
    for _ in range(30):
        browser.press("Tab", 9)
        if focused(browser, condition):
            return
    raise AssertionError(f"the Tab key never comes to {condition}")


def choose(browser: Browser, axis: str, value: int) -> None:
    browser.point(f"input[name='{axis}'][value='{value}']", click=True)


# ---- coarse


def test_a_packet_is_rated_by_mouse(browser: Browser, tmp_path: Path) -> None:
    opened(browser, COARSE, tmp_path)
    browser.point("#begin", click=True)
    wanted = [{"mistakes": 2, "omissions": -1, "overall": 0},
              {"mistakes": -2, "omissions": 1, "overall": 1}]  # fmt: skip
    for place, choices in enumerate(wanted):
        task = COARSE.key.raters["rater-01"].tasks[place]
        shown = browser.run("[...document.querySelectorAll('p.text')].map((it) => it.textContent)")
        item = COARSE.key.items[task.item]
        assert shown == [item.reference, *(item.texts[model] for model in task.models)]
        for axis, value in choices.items():
            choose(browser, axis, value)
        browser.point("#next", click=True)
    left = browser.run("document.getElementById('left').textContent")
    assert left == "All tasks are finished. Thank you!"
    browser.point("#save", click=True)
    sheet = downloaded(COARSE, tmp_path)
    assert [answer.by_axis for answer in preferences(sheet)] == wanted
    assert sheet.unfinished == ()
    assert browser.complaints() == []


def test_a_packet_is_rated_by_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    opened(browser, COARSE, tmp_path)
    tab_to(browser, "it.id === 'begin'")
    browser.press("Enter", 13, "\r")
    for _ in COARSE.key.raters["rater-01"].tasks:
        assert focused(browser, "it.id") == "heading"
        for axis, downs in zip(AXES, (1, 0, 4), strict=True):
            tab_to(browser, f"it.name === '{axis}'")
            browser.press(" ", 32, " ")
            for _ in range(downs):
                browser.press("ArrowDown", 40)
        tab_to(browser, "it.id === 'next'")
        browser.press("Enter", 13, "\r")
    assert focused(browser, "it.id") == "end-title"
    tab_to(browser, "it.id === 'save'")
    browser.press("Enter", 13, "\r")
    sheet = downloaded(COARSE, tmp_path)
    chosen = {"mistakes": 1, "omissions": 2, "overall": -2}
    assert [answer.by_axis for answer in preferences(sheet)] == [chosen, chosen]


@pytest.mark.parametrize("forgets", [False, True])  # as Chromium did soon after its start
def test_a_reload_loses_nothing(browser: Browser, tmp_path: Path, forgets: bool) -> None:
    path = opened(browser, COARSE, tmp_path)
    browser.point("#begin", click=True)
    choose(browser, "mistakes", 1)
    choose(browser, "overall", -2)
    browser.point(".comment summary", click=True)
    browser.point(".comment textarea", click=True)
    browser.type('Both "hard" \\ to say 🐶\nreally')
    if forgets:
        browser.run("localStorage.clear()")
    browser.open(path)
    assert browser.run("document.getElementById('begin').textContent") == "Continue"
    browser.point("#begin", click=True)
    checked = (
        "[...document.querySelectorAll('#task input:checked')].map((it) => [it.name, it.value])"
    )
    assert browser.run(checked) == [["mistakes", "1"], ["overall", "-2"]]
    assert browser.run("document.querySelector('textarea').value").endswith("🐶\nreally")
    browser.point("#finish", click=True)
    still_open = browser.run("document.getElementById('open').innerText")
    assert still_open.split("\n")[0] == "Task 1 of 2: Missing details"
    browser.point("#save", click=True)
    assert downloaded(COARSE, tmp_path).unfinished == (
        "task 1 (Missing details)",
        "task 2 (Significant mistakes, Missing details, Overall quality)",
    )


def load(browser: Browser, path: Path) -> str:
    """Gives the page a file, and returns what it says."""
    browser.run("document.getElementById('loaded').textContent = ''")
    found = browser.call("Runtime.evaluate", expression="document.getElementById('load')")
    browser.call("DOM.setFileInputFiles", files=[str(path)], objectId=found["result"]["objectId"])
    for _ in range(200):
        text: str = browser.run("document.getElementById('loaded').textContent")
        if text:
            return text
        time.sleep(0.05)
    raise AssertionError("the page says nothing about the file")


def test_a_saved_file_is_loaded_on_another_computer(browser: Browser, tmp_path: Path) -> None:
    opened(browser, COARSE, tmp_path)
    good, bad, foreign = (tmp_path / name for name in ("good", "bad", "foreign"))
    good.write_bytes(saved(COARSE.key, "rater-01"))
    bad.write_bytes(saved(COARSE.key, "rater-01").replace(b":60", b":61"))
    foreign.write_bytes(saved(COARSE.key, "rater-02"))
    assert load(browser, bad) == "This file cannot be used. It was changed, or is damaged."
    assert load(browser, foreign) == "This file cannot be used. It belongs to another page."
    for text in (b"{", b"null", b"[]", b'{"packet": 1}'):
        (tmp_path / "torn").write_bytes(text)
        assert load(browser, tmp_path / "torn").startswith("This file cannot be used. It ")
    assert "0 of 2 tasks done" in browser.run("document.querySelector('header').innerText")
    assert load(browser, good) == "Loaded. Choose Continue."
    assert "2 of 2 tasks done" in browser.run("document.querySelector('header').innerText")
    browser.point("#begin", click=True)
    browser.point("#save", click=True)
    [before] = read_sheets(good.read_bytes(), COARSE.key)
    after = downloaded(COARSE, tmp_path)
    first, second = ([a.by_axis for a in preferences(each)] for each in (before, after))
    assert first == second


def test_an_older_file_does_not_replace_newer_answers(browser: Browser, tmp_path: Path) -> None:
    opened(browser, COARSE, tmp_path)
    browser.point("#begin", click=True)
    choose(browser, "overall", 0)
    browser.point("#help", click=True)
    old = tmp_path / "old.json"
    old.write_bytes(saved(COARSE.key, "rater-01"))  # of 2026-11-22, 10:00
    browser.run("latest = '2026-11-23T10:00:00.000Z'")
    assert load(browser, old).startswith("This file was saved 11/22/2026")
    here = "answers.map((it) => [it.mistakes !== null, it.overall])"
    file_overall = [coarse(COARSE.key, t)["overall"] for t in COARSE.key.raters["rater-01"].tasks]
    assert browser.run(here) == [[True, 0], [True, file_overall[1]]]
    browser.run("document.querySelector('#intro details').open = true")
    browser.point("#replace", click=True)
    assert browser.run(here) == [[True, value] for value in file_overall]
    assert browser.complaints() == []


def test_a_browser_that_keeps_nothing_says_so(browser: Browser, tmp_path: Path) -> None:
    path = opened(browser, COARSE, tmp_path)
    hidden = "document.getElementById('unkept').hidden"
    assert browser.run(hidden) is True
    source = "Storage.prototype.setItem = () => { throw new DOMException('no'); };"
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=source)
    try:
        browser.open(path)
        assert browser.run(hidden) is False
        browser.point("#begin", click=True)
        for axis in AXES:
            choose(browser, axis, 0)
        browser.point("#finish", click=True)
        browser.point("#save", click=True)
        assert len(downloaded(COARSE, tmp_path).answers) == 1
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", **script)


def test_two_raters_on_one_computer_do_not_mix(browser: Browser, tmp_path: Path) -> None:
    opened(browser, COARSE, tmp_path)
    browser.point("#begin", click=True)
    choose(browser, "overall", 2)
    (tmp_path / "rater-02.html").write_bytes(COARSE.files["rater-02.html"])
    browser.open(tmp_path / "rater-02.html")
    assert browser.run("answers.every((it) => it.overall === null)") is True


CHECKED = "[...document.querySelectorAll('#task input:checked')].map((it) => Number(it.value))"
PLACE = "at"


def digit(browser: Browser, number: int) -> None:
    browser.press(str(number), 48 + number, str(number))


def test_shortcuts_choose_and_go_on(browser: Browser, tmp_path: Path) -> None:
    opened(browser, COARSE, tmp_path)
    assert "1 to 5" in browser.run("document.getElementById('intro').innerText")
    browser.press("n", 78, "n")
    for number in (1, 3, 5):  # one question after the other
        digit(browser, number)
    assert browser.run(CHECKED) == [2, 0, -2]
    assert said(browser) == "Overall quality: #2 much better"
    browser.press("Enter", 13, "\r")
    assert browser.run(PLACE) == 1
    browser.press("p", 80, "p")
    tab_to(browser, "it.name === 'omissions'")
    digit(browser, 1)  # the question that has the focus is answered anew
    assert browser.run(CHECKED) == [2, 2, -2]
    browser.press("n", 78, "n")
    browser.press("n", 78, "n")
    assert focused(browser, "it.id") == "end-title"


def test_shortcuts_do_nothing_where_text_is_typed_or_once_they_are_off(
    browser: Browser, tmp_path: Path
) -> None:
    opened(browser, COARSE, tmp_path)
    browser.point("#begin", click=True)
    browser.point(".comment summary", click=True)
    browser.point(".comment textarea", click=True)
    for key, code in (("n", 78), ("p", 80), ("1", 49)):
        browser.press(key, code, key)
    browser.press("Enter", 13, "\r")
    assert browser.run("document.querySelector('textarea').value") == "np1\n"
    assert browser.run(PLACE) == 0
    browser.point("#help", click=True)
    browser.point("#use-keys", click=True)
    browser.point("#begin", click=True)
    digit(browser, 1)
    browser.press("n", 78, "n")
    assert (browser.run(CHECKED), browser.run(PLACE)) == ([], 0)


def test_the_browsers_back_button_leads_to_the_screen_before(
    browser: Browser, tmp_path: Path
) -> None:
    opened(browser, COARSE, tmp_path)
    browser.point("#begin", click=True)
    choose(browser, "overall", 1)
    browser.point("#next", click=True)
    for step, place in (("back", 0), ("forward", 1), ("back", 0), ("back", -1)):
        # Resolves once the page has heard of it.
        browser.run(
            f"new Promise((it) => {{ addEventListener('popstate', it); history.{step}(); }})"
        )
        assert browser.run(PLACE) == place
    browser.point("#begin", click=True)
    assert browser.run(CHECKED) == [1]
    assert browser.complaints() == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [390, 320])
def test_the_bar_covers_no_choice_on_a_phone(
    browser: Browser, tmp_path: Path, language: str, width: int
) -> None:
    made = make_packet(items(2), Design(7, 1, 0, 0), None, {}, texts=shipped_texts(language))
    opened(browser, made, tmp_path)
    browser.resize(width, 640)
    browser.point("#begin", click=True)
    bottom = "document.querySelector('{}').getBoundingClientRect().{}"
    last = "fieldset:last-of-type label:last-of-type"
    # Half of it is above the bar, as after a swipe: once chosen it is all in sight.
    browser.run(
        f"scrollBy(0, {bottom.format(last, 'bottom')} - {bottom.format('nav', 'top')} - 20)"
    )
    browser.run(f"document.querySelector('{last}').click()")
    assert browser.run(bottom.format(last, "bottom")) <= browser.run(bottom.format("nav", "top"))
    browser.run("scrollTo(0, document.documentElement.scrollHeight)")
    comment = browser.run(bottom.format(".comment", "bottom"))
    assert comment <= browser.run(bottom.format("nav", "top"))


def test_a_task_left_open_is_said_and_nobody_is_kept(browser: Browser, tmp_path: Path) -> None:
    skipped = "document.getElementById('skipped').textContent"
    opened(browser, COARSE, tmp_path)
    browser.point("#begin", click=True)
    choose(browser, "overall", 1)
    browser.point("#next", click=True)
    assert browser.run(skipped) == "Task 1 of 2 is not finished. You can come back to it."
    browser.point("#back", click=True)
    for axis in AXES:
        choose(browser, axis, 1)
    browser.point("#next", click=True)
    assert browser.run(skipped) == ""


def test_a_phone_shows_that_more_texts_are_below(browser: Browser, tmp_path: Path) -> None:
    opened(browser, COARSE, tmp_path)
    more = "document.querySelector('.sight').classList.contains('more')"
    browser.point("#begin", click=True)
    assert not browser.run(more), "all is in sight"
    browser.resize(390, 600)
    assert browser.run(more)
    browser.run("document.querySelector('.materials').scrollTop = 9999")
    browser.resize(390, 601)  # waits for the page to notice
    assert not browser.run(more)


def test_dark_screens_print_black_on_white(browser: Browser, tmp_path: Path) -> None:
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    opened(browser, COARSE, tmp_path)
    browser.call("Emulation.setEmulatedMedia", media="print", features=[dark])
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    ink = browser.run("getComputedStyle(document.querySelector('h2')).color")
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    assert (background, ink) == ("rgb(255, 255, 255)", "rgb(31, 35, 40)")


KNOWN = {
    "reference": "A brown dog.",
    "better": "A brown dog.",
    "worse": "A cat.",
    "why": "No <cat>.",
}
ASKING = replace(
    shipped_texts(),
    consent="We store\nyour answers.",
    background=(
        BackgroundQuestion("Your age?", ("under 40", "over 40")),
        BackgroundQuestion("Job?"),
    ),
)
WITH_START = make_packet(
    replace(items(2), known=read_known_items([KNOWN], "practice")),
    Design(7, 1, 0, 0), None, {}, texts=ASKING,
)  # fmt: skip


def test_a_rater_agrees_says_who_it_is_and_practises(browser: Browser, tmp_path: Path) -> None:
    path = opened(browser, WITH_START, tmp_path)
    browser.point("#begin", click=True)
    assert focused(browser, "it.id") == "agree"  # and no task is shown
    assert browser.run("document.getElementById('agree-first').hidden") is False
    browser.point("input[name='about-0'][value='over 40']", click=True)
    assert browser.run("localStorage.length") == 0  # nothing is kept of who has not agreed
    browser.point("#agree", click=True)
    assert browser.run("document.getElementById('agree-first').hidden") is True
    browser.point("input[name='about-1']", click=True)
    browser.type("curator")
    browser.point("#begin", click=True)
    assert browser.run("document.getElementById('heading').textContent") == "Practice 1 of 1"
    better = WITH_START.key.raters["rater-01"].tasks[0].models.index("better") + 1
    for axis in AXES:
        assert browser.run("document.querySelector('.feedback')") is None
        choose(browser, axis, 0)
    shown = browser.run("document.querySelector('.feedback').innerText")
    assert shown.startswith(f"We think that #{better} is better.")
    assert "No <cat>." in shown
    choose(browser, "overall", 2 if better == 1 else -2)
    assert browser.run("document.querySelector('.feedback').innerText").startswith(
        "We think so, too"
    )
    assert "0 of 2 tasks done" in browser.run("document.querySelector('header').innerText")
    browser.open(path)
    assert browser.run("document.getElementById('agree').checked") is True
    assert browser.run("document.querySelector('[name=about-1]').value") == "curator"
    browser.point("#begin", click=True)
    assert browser.run("document.getElementById('heading').textContent") == "Task 1 of 2"
    browser.point("#finish", click=True)
    browser.point("#save", click=True)
    browser.point("#help", click=True)
    browser.point("#agree", click=True)  # who no longer agrees sees no task, by no way
    browser.run("new Promise((it) => { addEventListener('popstate', it); history.back(); })")
    assert browser.run(PLACE) == -1
    sheet = downloaded(WITH_START, tmp_path)
    assert sheet.about == RaterAbout(agreed=True, background=("over 40", "curator"))
    assert (len(sheet.answers), len(sheet.unfinished)) == (0, 2)
    assert browser.complaints() == []


# ---- granular


def word(side: str, place: int) -> str:
    return f".{side} .word[data-place='{place}']"


def middle(browser: Browser, selector: str) -> tuple[float, float]:
    x, y = browser.run(
        f"(() => {{ const r = document.querySelector({json.dumps(selector)})"
        ".getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2] })()"
    )
    return x, y


def drag(browser: Browser, start: str, end: str) -> None:
    places = [middle(browser, selector) for selector in (start, end)]
    for kind, (x, y) in zip(("mousePressed", "mouseReleased"), places, strict=True):
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, buttons=1)
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def test_words_are_marked_by_mouse(browser: Browser, tmp_path: Path) -> None:
    opened(browser, GRANULAR, tmp_path)
    browser.point("#begin", click=True)
    drag(browser, word("mistakes", 6), word("mistakes", 5))  # backwards: "spots sits"
    assert said(browser) == "Marked \u201cspots sits\u201d"
    browser.point(word("mistakes", 1), click=True)
    assert "mark begins" in said(browser)
    browser.point(word("mistakes", 2), click=True)
    browser.point(word("omissions", 9), click=True)
    browser.point(word("omissions", 9), click=True)
    assert browser.run("[...document.querySelectorAll('.marks button')].length") == 3
    browser.point(word("omissions", 9), click=True)
    assert said(browser).startswith("Removed")
    browser.point(".card:last-child input[type=checkbox]", click=True)
    browser.point("#finish", click=True)
    browser.point("#save", click=True)
    [answer] = markings(downloaded(GRANULAR, tmp_path))
    task = GRANULAR.key.raters["rater-01"].tasks[0]
    text = GRANULAR.key.items[task.item].texts[task.models[0]]
    assert [text[a:b] for a, b in answer.mistakes] == [
        " ".join(text.split()[1:3]), "spots sits",
    ]  # fmt: skip
    assert answer.omissions == ()
    assert browser.complaints() == []


def test_a_packet_is_marked_by_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    opened(browser, GRANULAR, tmp_path)
    tab_to(browser, "it.id === 'begin'")
    browser.press("Enter", 13, "\r")
    tasks = GRANULAR.key.raters["rater-01"].tasks
    for _ in tasks:
        tab_to(browser, "it.role === 'option'")
        browser.press("ArrowRight", 39)
        browser.press("Enter", 13, "\r")
        browser.press("ArrowRight", 39)
        browser.press(" ", 32, " ")
        assert focused(browser, "it.ariaSelected") == "true"
        browser.press("End", 35)
        browser.press("Enter", 13, "\r")
        browser.press("Escape", 27)
        browser.press("Home", 36)
        browser.press("ArrowLeft", 37)
        tab_to(browser, "it.type === 'checkbox' && !it.checked")
        browser.press(" ", 32, " ")
        tab_to(browser, "it.id === 'next'")
        browser.press("Enter", 13, "\r")
    tab_to(browser, "it.id === 'save'")
    browser.press("Enter", 13, "\r")
    sheet = downloaded(GRANULAR, tmp_path)
    assert len(sheet.answers) == len(tasks)
    for answer in markings(sheet):
        text = GRANULAR.key.items[answer.item].texts[answer.models[0]]
        assert [text[a:b] for a, b in answer.mistakes] == [" ".join(text.split()[1:3])]


def test_offsets_count_characters_as_python_does(browser: Browser, tmp_path: Path) -> None:
    text = "🐶🐶 e\u0301 A👩\u200d🦰 red \r\n  dog\u2028 <b> sits"
    found = items(1)
    texts = {"sft": text, "posh-tuned": text + " here"}
    made = packet(found=replace(found, items=(replace(found.items[0], texts=texts),)),
                  coarse=0, granular=1)  # fmt: skip
    opened(browser, made, tmp_path)
    browser.point("#begin", click=True)
    words = "[...document.querySelectorAll('.mistakes .word')].map((w) => w.textContent)"
    shown = browser.run(words)
    browser.point(word("mistakes", shown.index("dog")), click=True)
    browser.point(word("mistakes", shown.index("dog")), click=True)
    browser.point(".card:last-child input[type=checkbox]", click=True)
    browser.point("#finish", click=True)
    browser.point("#save", click=True)
    [answer] = markings(downloaded(made, tmp_path))
    assert [text[a:b] for a, b in answer.mistakes] == ["dog"]


# ---- both


def test_texts_stay_texts_and_nothing_is_fetched(browser: Browser, tmp_path: Path) -> None:
    found = items(2)
    texts = {"sft": EVIL, "posh-tuned": EVIL + " again"}
    evil = tuple(replace(item, reference=EVIL, texts=texts) for item in found.items)
    made = packet(found=replace(found, items=evil), coarse=1, granular=1)
    for name in made.key.raters:
        opened(browser, made, tmp_path, name)
        title = browser.run("document.title")
        browser.point("#begin", click=True)
        assert EVIL in browser.run("document.getElementById('task').textContent")
        assert browser.run("document.querySelectorAll('#task img').length") == 0
        assert browser.run("document.title") == title
        assert browser.complaints() == []
        requests = [e for e in browser.events if e.get("method") == "Network.requestWillBeSent"]
        assert [r["params"]["request"]["url"][:5] for r in requests] == ["file:"]
    browser.run("fetch('https://example.org').catch(() => null)")
    assert "violates" in " ".join(browser.complaints())


@pytest.mark.parametrize("made", FORMS, ids=["coarse", "granular"])
def test_no_width_scrolls_sideways(browser: Browser, tmp_path: Path, made: Packet) -> None:
    opened(browser, made, tmp_path)
    for button in (None, "#begin", "#finish"):
        if button:
            browser.point(button, click=True)
        for width in (1280, 640, 390, 320):  # 640: a window of 1280 at 200 % zoom
            browser.resize(width, 700)
            assert browser.run("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("made", [*FORMS, WITH_START], ids=["coarse", "granular", "start"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, tmp_path: Path, made: Packet, scheme: str) -> None:
    script = axe()
    media = {"name": "prefers-color-scheme", "value": scheme}
    browser.call("Emulation.setEmulatedMedia", features=[media])
    opened(browser, made, tmp_path)
    for button in (None, "#begin", "#finish"):
        if button:
            browser.point(button, click=True)
        if button is None and made is WITH_START:
            browser.point("#agree", click=True)
        if button == "#begin" and made is WITH_START:
            for axis in AXES:
                choose(browser, axis, 1)
        if button == "#begin" and made is GRANULAR:
            drag(browser, word("mistakes", 1), word("mistakes", 2))
        for width in (1280, 640, 390):
            browser.resize(width, 800)
            assert violations(browser, script) == [], (button, width)
        browser.resize(1280, 900)
    browser.call("Emulation.setEmulatedMedia", features=[])


def test_the_check_of_the_page_is_the_check_of_the_reader(browser: Browser, tmp_path: Path) -> None:
    opened(browser, COARSE, tmp_path)
    made = content(COARSE.key, "rater-01")
    made["answers"][0]["comment"] = "\x00\x1f\x7f\u2028\ud83d\udc36".encode(
        "utf-16", "surrogatepass").decode("utf-16") + 'é "\\/\b\f\n\r\t'  # fmt: skip
    made["answers"][0]["seconds"] = 12.3
    text = json.dumps(made)
    check = browser.run(f"sha256(packet.token + JSON.stringify({text}))")
    assert check == compute_checksum(made, COARSE.key.raters["rater-01"].token)
