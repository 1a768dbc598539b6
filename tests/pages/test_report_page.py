import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from posh_reward.audit.audit import FALSE, HONEST, Outcome
from posh_reward.audit.audit import render_page as attack_page
from posh_reward.cli import EXIT_OK, main
from posh_reward.other_metrics.page import render_metric_page
from posh_reward.pages.details import read_detail
from posh_reward.pages.element_marks import PairCard
from posh_reward.pages.element_marks import render_pairs as pair_page
from posh_reward.pages.html import Thumbnails
from posh_reward.pages.report_page import read_contents, report_page
from posh_reward.pages.run_page import RunContents, run_page
from posh_reward.provenance import Origins
from posh_reward.study.packets.make import Packet
from posh_reward.study.packets.rater_answers import collect_answers
from posh_reward.study.packets.results import compute_results
from posh_reward.study.packets.results_page import results_page
from posh_reward.tables.item_ids import ItemIds
from posh_reward.tables.tables import Row
from posh_reward.types import Element, Failure, ImageGrade, Scores
from tests.chromium import Browser, axe, obscured, violations
from tests.cli.running import pairs, run, write_rows
from tests.page_checks import unfilled
from tests.pages.test_pair_page import READ, SCORES
from tests.study.packets.studies import coarse, items, packet, saved
from tests.study.pairs import pair_item, scored_row

EVIL = "</script><script>document.title = 'owned'</script><img src=//x onerror=alert(1)>"
RED = Element("precision", "attribute", "red", 1.2, ((2, 5),), "dog")
CAT = Element("recall", "entity", "cat", 2.7, ((2, 5),), "the black cat")


def row(name: str, overall: float | None, *elements: Element, **more: str) -> dict[str, Any]:
    texts = {"generation": "A red dog 🐶.", "reference": "A cat.", **more}
    failure = Failure("text", "the reference is empty") if overall is None else None
    scores = Scores(overall, overall, overall, "posh|preset:released|judge:x", elements, failure)
    return scored_row(pair_item(name, **texts), scores)


def report(rows: list[Row], images: Thumbnails | None = None, baseline: str | None = None) -> str:
    return report_page(read_contents(rows, images), "Title", baseline)


ROWS = [
    row("good", 0.9, RED, CAT),
    row("failed", None),
    row(EVIL, 0.3, RED, CAT, generation=EVIL),
    row("middling", 0.5, RED, CAT, reference='The 100% {text} \\ " cat'),
]


def data(html: str, name: str) -> Any:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', html)
    assert found
    return json.loads(found[1])


def test_a_pair_is_packed_with_its_marks() -> None:
    html = report(ROWS)
    assert unfilled(html) == []
    marks = 2**5 + 2**16  # written, attribute, absent; reference, entity, weak
    line = [0.9, 0.9, 0.9, 2, "A red dog 🐶.", 0, marks, 0, 0.9]
    assert data(html, "rows")[0] == ["good", [line], None]
    # Replies that were not read or doubtful: none in all rows, so not shown.
    shown = ["precision", "recall", "f1", "generation elements", "reference elements"]
    assert data(html, "figures") == shown
    assert data(html, "figure-values")[:2] == [["0.900"] * 3 + ["1", "1"], ["none"] * 3 + ["0"] * 2]
    written, reference, elements, failure, image, sentences = data(html, "pair-0")
    assert written == [["A "], ["red", 1.2, [0]], [" dog 🐶."]]
    assert reference == [["A "], ["cat", 2.7, [1]], ["."]]
    assert (failure, image, sentences) == (None, None, [])
    wording, side, kind, grade, *names = elements[0]
    assert data(html, "wordings")[wording].startswith('Is "{identifier}" from DESCRIPTION 2 desc')
    assert (side, kind, grade, names) == (0, 1, 1.2, ["red", "dog"])
    assert data(html, "pair-1")[3] == "the reference is empty"


def seen_row() -> Row:
    red = replace(RED, grade=5.0, image_grade=ImageGrade(5.0, 1.2))
    made = row("seen", 0.9, red)
    return {**made, "signature": "posh|preset:released|witness:eyes-1|version:1"}


def test_what_only_the_image_shows_is_marked_as_seen() -> None:
    html = report([seen_row()])
    written, _, elements, *_ = data(html, "pair-0")
    assert written == [["A "], ["red", 5.0, [0], 1], [" dog 🐶."]]
    wording = data(html, "wordings")[elements[0][0]]
    assert wording.startswith("In the image, not in the reference (reference {stated}, image ")
    assert elements[0][4:] == ["red", "dog", None, None, "1.2", "5.0"]
    assert "clear in the image" in html
    assert "clear in the image" not in report(ROWS)


def read_row(name: str, **changes: Any) -> Row:
    scores = replace(READ, **changes)
    texts = {"generation": scores.generation, "reference": scores.reference}
    return scored_row(pair_item(name, **texts), scores)


def test_contradicted_sentences_are_packed_and_counted_by_model() -> None:
    rows = [
        {**read_row("p1"), "model": "base"},
        {**read_row("p1", sentences=READ.sentences[1:], elements=()), "model": "tuned"},
        {**row("p2", None), "model": "tuned", "signature": READ.signature},
    ]
    html = report(rows)
    written, *_, sentences = data(html, "pair-0")
    assert written[0] == ["A blue monk sleeps.", 1.0, [0, 1], 0, 0]
    assert sentences == [[0, 0, 19, 0.9, 0.06, 0.04], [2, 20, 35, 0.1, 0.2, 0.7]]
    assert data(html, "figures")[-1] == "contradicted share"
    base, _, failed = data(html, "figure-values")
    assert (base[-1], failed[-1]) == ("0.500", "none")
    [_, [[*_, values, _], _], _] = data(html, "rows")[0]
    assert values == 2**0 + 2**2  # a contradicted and a supported sentence
    assert re.findall(r'<td class="n wide">(0\.\d+)</td>', html) == ["0.500", "0.000"]
    for figures in (report(ROWS), report(of_models({"base": [0.5], "tuned": [0.5]}))):
        assert "contradicted share" not in figures
        assert 'class="contradicted"' not in figures


def test_different_signatures_are_pointed_out() -> None:
    other = {**ROWS[0], "signature": "posh|another", "model": "other"}
    assert "2 signatures: they are not comparable" in report([ROWS[0], other])
    several = {**ROWS[0], "signature": f"{ROWS[0]['signature']}|references:joined"}
    assert "not comparable" not in report([*ROWS[1:], several])


def test_rows_of_one_id_by_several_models_are_one_line() -> None:
    rows: list[Row] = [
        {**row("p1", 0.5, RED), "model": "base"},
        {**row("p2", None), "model": "base"},
        {**row("p1", 0.75, RED), "model": "tuned"},
        {**row("p3", 0.25, RED), "model": "tuned"},
    ]
    html = report(rows)
    assert data(html, "models") == ["base", "tuned"]
    lines = [(line[0], [m and m[2] for m in line[1]]) for line in data(html, "rows")]
    assert lines == [("p1", [0.5, 0.75]), ("p2", [None, None]), ("p3", [None, 0.25])]
    assert "Differences to base, over the ids that both have" in html
    assert "<b>+0.250</b> <small>[+0.250, +0.250]</small> " in html
    assert ">too few ids</span>" in html
    assert "0.2 to 1, higher is better; with 95 % intervals" in html
    assert "Differences to tuned" in report(rows, baseline="tuned")


def of_models(scores: dict[str, list[float]]) -> list[Row]:
    return [
        {**row(f"p{place}", overall, RED), "model": model}
        for model, values in scores.items()
        for place, overall in enumerate(values)
    ]


def test_many_models_are_compared_with_the_baseline_best_first() -> None:
    scores = {
        "worst": [0.3] * 6, "base": [0.4, 0.5] * 3, "mixed": [0.5, 0.4] * 3, "best": [0.8] * 6
    }  # fmt: skip
    html = report(of_models(scores), baseline="base")
    means, differences = re.findall(r"<table>(.*?)</table>", html, re.DOTALL)[:2]
    assert re.findall(r"<tr.*?><td>(\w+)", means) == ["best", "base", "mixed", "worst"]
    assert '<tr class="base"><td>base</td>' in means
    assert re.findall(r"<tr><td>(\w+)", differences) == ["best", "mixed", "worst"]
    verdicts = re.findall(r'<span class="verdict \w*">([^<]*)</span>', differences)
    assert verdicts == ["better"] * 3 + ["not settled"] * 3 + ["worse"] * 3
    assert "of twenty models as good as the baseline, expect one" in html


# ---- in a browser


@pytest.fixture
def opened(chromium: Browser, tmp_path: Path) -> Browser:
    (tmp_path / "report.html").write_text(report(ROWS), encoding="utf-8")
    chromium.resize(1280, 900)
    chromium.open(tmp_path / "report.html")
    return chromium


def names(browser: Browser) -> list[str]:
    found: list[str] = browser.run(
        "[...document.querySelectorAll('tr.pair .name button')].map((it) => it.textContent)"
    )
    return found


def tip(browser: Browser) -> str | None:
    shown: str | None = browser.run(
        "document.getElementById('tip').hidden ? null : document.getElementById('tip').innerText"
    )
    return shown


def test_the_worst_come_first_and_headers_sort(opened: Browser) -> None:
    assert names(opened) == [EVIL, "middling", "good", "failed"]
    opened.point("th[aria-sort] button", click=True)
    assert names(opened) == ["good", "middling", EVIL, "failed"]
    assert opened.run("document.querySelector('[aria-sort]').ariaSort") == "descending"
    opened.point("th.name button", click=True)
    assert names(opened) == [EVIL, "failed", "good", "middling"]


def test_a_click_opens_a_pair_and_pointing_asks_why(opened: Browser) -> None:
    opened.point("tr.pair:nth-child(3) .name button", click=True)
    sheet = "document.querySelector('.sheet')"
    assert "A red1 dog 🐶." in opened.run(f"{sheet}.textContent")
    opened.point(".sheet .text mark.absent")
    assert tip(opened) == '1.2Is "dog" from DESCRIPTION 2 described as "red" in DESCRIPTION 1?'
    opened.point("h1")
    assert tip(opened) is None
    opened.point(".sheet summary", click=True)
    opened.run("new Promise((done) => setTimeout(done, 50))")
    assert opened.run("document.querySelectorAll('.sheet tbody tr').length") == 2
    opened.point("tr.pair:nth-child(3) .name button", click=True)
    assert opened.run(sheet) is None


def test_a_contradicted_sentence_is_explained(chromium: Browser, tmp_path: Path) -> None:
    changed = READ.generation.replace("dog", "🐶🐶🐶")
    rows = [read_row("p1"), read_row("p2", generation=changed, elements=())]
    (tmp_path / "report.html").write_text(report(rows), encoding="utf-8")
    chromium.resize(1280, 900)
    chromium.open(tmp_path / "report.html")
    for place in (1, 3):
        chromium.point(f"tr.pair:nth-child({place}) .name button", click=True)
    mark = ".sheet .text mark.contradicted"
    chromium.point(mark)
    assert str(tip(chromium)).startswith("CContradicted by the reference: probability 0.90; unm")
    said = "contradicted by the reference: A blue monk sleeps.C"
    assert chromium.run(f"document.querySelector('{mark}').textContent") == said
    last = "[...document.querySelectorAll('.sheet details td:last-child')].at(-1).textContent"
    assert chromium.run(last) == "A red 🐶🐶🐶 sits."
    assert chromium.run("document.querySelectorAll('.sheet .key mark').length") == 8
    assert chromium.complaints() == []


def test_the_keyboard_does_what_the_mouse_does(opened: Browser) -> None:
    opened.run("document.querySelector('tr.pair .name button').focus()")
    opened.press("Tab", 9)
    opened.press("Enter", 13, "\r")
    assert opened.run("document.activeElement.ariaExpanded") == "true"
    for expected in ("1.2Is", "2.7Is an entity matching"):
        opened.press("Tab", 9)
        assert expected in str(tip(opened)).replace("\n", "")
        assert opened.run("document.activeElement.getAttribute('aria-describedby')") == "tip"
    opened.press("Escape", 27)
    assert tip(opened) is None


def choose(browser: Browser, **values: str) -> None:
    """Set controls by their ids, as a person would."""
    for name, value in values.items():
        control = f"document.getElementById('{name}')"
        browser.run(f"{control}.value = {json.dumps(value)}; 0")
        browser.run(f"{control}.dispatchEvent(new Event('input', {{bubbles: true}})); 0")
    browser.run("new Promise((done) => setTimeout(done, 250))")


def address(browser: Browser) -> str:
    found: str = browser.run("location.hash")
    return found


OTHER_SIDE = Element("recall", "relation", "on", 3.4, ((2, 5),), "cat", "mat")


def test_filters_are_in_the_address_and_come_back_from_it(
    chromium: Browser, tmp_path: Path
) -> None:
    rows = [row("a", 0.4, RED), row("b", 0.5, OTHER_SIDE), row("c", None), row("d", 0.6, RED, CAT)]
    (tmp_path / "report.html").write_text(report(rows), encoding="utf-8")
    chromium.open(tmp_path / "report.html")
    expected = {
        "kind": ("1", ["a", "d"]), "side": ("1", ["b", "d"]), "grade": ("2", ["b"]),
        "scored": ("0", ["c"]),
    }  # fmt: skip
    for control, (value, found) in expected.items():
        choose(chromium, **{control: value})
        assert names(chromium) == found
        assert address(chromium) == f"#{control}={value}"
        chromium.point("#clear", click=True)
        assert names(chromium) == ["a", "b", "d", "c"]
        assert address(chromium) == ""
    choose(chromium, kind="0", side="1")
    assert names(chromium) == ["d"]
    chromium.point("th.n button", click=True)
    sent = chromium.run("location.href")
    chromium.open(tmp_path / "report.html")
    chromium.run(f"location.href = {json.dumps(sent)}; new Promise((it) => setTimeout(it, 100))")
    assert names(chromium) == ["d"]
    assert chromium.run("document.querySelector('[aria-sort]').textContent") == "precision"


def test_a_link_leads_to_its_pair(opened: Browser) -> None:
    opened.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }; 0")
    opened.point("tr.pair:nth-child(3) .name button", click=True)
    assert address(opened) == "#pair=good"
    opened.point(".tools button", click=True)
    link = opened.run("new Promise((it) => setTimeout(() => it(window.copied), 50))")
    assert link.endswith("report.html#pair=good")
    opened.run(f"location.href = {json.dumps(link)}; location.reload()")
    opened.run("new Promise((it) => setTimeout(it, 300))")
    assert names(opened)[0] == "good"
    assert "A red1 dog" in opened.run("document.querySelector('.sheet').textContent")


def test_a_pair_can_be_copied_and_kept(opened: Browser) -> None:
    opened.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }; 0")
    opened.point("tr.pair:nth-child(3) .name button", click=True)
    opened.point(".tools button:nth-child(2)", click=True)
    text = opened.run("new Promise((it) => setTimeout(() => it(window.copied), 50))")
    lines = text.split("\n")
    assert lines[0] == "good"
    assert lines[2].startswith("precision 0.900, recall 0.900")
    assert lines[3:5] == ["Written: A red dog 🐶.", "Reference: A cat."]
    assert lines[5].startswith('1.2  written: red. Is "dog" from DESCRIPTION 2 described as "red"')
    kept = opened.run("record(Number(document.querySelector('tr.open').dataset.index))")
    assert kept["id"] == "good"
    [pair] = kept["pairs"]
    assert (pair["written"], pair["failure"]) == ("A red dog 🐶.", None)
    assert [each["grade"] for each in pair["elements"]] == [1.2, 2.7]


def test_details_are_counted_and_lead_to_their_pairs(opened: Browser) -> None:
    cells = "[...document.querySelectorAll('#detail-tables tbody tr')].map((it) => it.innerText)"
    assert opened.run(cells) == ["red attribute\t3 of 3", "cat entity\t3 of 3"]
    opened.point("#detail-tables button", click=True)
    opened.run("new Promise((it) => setTimeout(it, 250))")
    assert address(opened) == "#detail=0.1.red"
    assert names(opened) == [EVIL, "middling", "good"]
    assert opened.run("document.getElementById('detail').textContent") == (
        "written, unsupported: red (attribute)"
    )


def test_texts_stay_texts_and_nothing_is_fetched(opened: Browser) -> None:
    title = opened.run("document.title")
    for place in range(1, 8, 2):
        opened.point(f"tr.pair:nth-child({place}) .name button", click=True)
    assert opened.run("document.querySelectorAll('.sheet').length") == 4
    assert opened.run("document.querySelectorAll('img').length") == 0
    assert opened.run("document.title") == title
    requests = [e for e in opened.events if e.get("method") == "Network.requestWillBeSent"]
    assert [r["params"]["request"]["url"][:5] for r in requests] == ["file:"]
    assert opened.complaints() == []


def test_the_policy_stops_a_script_that_is_not_ours(opened: Browser) -> None:
    title = opened.run("document.title")
    opened.run("(() => { const it = document.createElement('script');"
               "it.textContent = 'document.title = 1'; document.body.append(it) })()")  # fmt: skip
    opened.run("fetch('https://example.org').catch(() => null)")
    assert opened.run("document.title") == title
    complaints = " ".join(opened.complaints())
    assert "Executing inline script violates" in complaints
    assert "Connecting to 'https://example.org/' violates" in complaints


@pytest.fixture
def compared(chromium: Browser, tmp_path: Path) -> Browser:
    """A page about two models and an image."""
    image = pytest.importorskip("PIL.Image").new("RGB", (800, 600), "red")
    image.save(tmp_path / "red.png")
    scores: dict[str, list[tuple[str, float | None]]] = {
        "base": [("p1", 0.5), ("p2", 0.4), ("p3", None)],
        "tuned": [("p1", 0.4), ("p2", 0.9)],
    }
    rows = [
        {**row(name, overall, RED, CAT), "model": model, "image": "red.png"}
        for model, pairs in scores.items()
        for name, overall in pairs
    ]
    html = report(rows, images=Thumbnails(tmp_path))
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    chromium.resize(1280, 900)
    chromium.open(tmp_path / "report.html")
    return chromium


def test_models_are_shown_side_by_side(compared: Browser) -> None:
    assert names(compared) == ["p1", "p2", "p3"]
    cells = compared.run(
        "[...document.querySelectorAll('tr.pair')].map((tr) => [4, 5].map((n) =>"
        "[...tr.cells[n].children].map((line) => line.innerText.trim())))"
    )
    assert [overall for overall, _ in cells] == [
        ["0.500", "0.400"], ["0.400", "0.900"], ["none", "\u2013"]
    ]  # fmt: skip
    assert [gain for _, gain in cells] == [["", "-0.100"], ["", "+0.500"], ["", ""]]
    compared.point("th button[data-column='5']", click=True)
    compared.point("th button[data-column='5']", click=True)
    assert names(compared) == ["p2", "p1", "p3"]
    compared.point("tr.pair .name button", click=True)
    sides = compared.run("[...document.querySelectorAll('.side')].map((it) => it.innerText)")
    assert [side.split("\n")[0] for side in sides] == ["base", "tuned"]
    assert ["f1 0.400" in sides[0], "f1 0.900" in sides[1]] == [True, True]
    tops = compared.run("[...document.querySelectorAll('.side')].map((it) => it.offsetTop)")
    assert tops[0] == tops[1]
    assert compared.run("document.querySelector('.sheet img').naturalWidth") == 360
    assert compared.complaints() == []


FAILURE = {"kind": "text", "detail": "the text is missing"}
TEXTS = {"question": "Which colour?", "generation": "A red square. " * 20,
         "reference": "A red square on a green ground."}  # fmt: skip


def of_sibling(metric: str, **content: object) -> Callable[[Path], str]:
    """A page of two models' rows about one image, and one row without a score."""

    def page(folder: Path) -> str:
        Image.new("RGB", (60, 40), "red").save(folder / "red.png")
        row: Row = {"id": "p1", "image": "red.png", "signature": f"{metric}|model:x", **TEXTS}
        rows = [{**row, **content, "model": name} for name in ("sft", "tuned")]
        rows.append({**row, **content, "id": "p2", "model": "sft", "failure": FAILURE})
        return render_metric_page(rows, metric, Origins(), ItemIds(), images=Thumbnails(folder))

    return page


def of_study(made: Packet) -> Callable[[Path], str]:
    """The results of a study in which the later model wins, or each rater marks a word."""

    def page(folder: Path) -> str:
        for name, rater in made.key.raters.items():
            answers = [
                {**coarse(made.key, task), "overall": -1} if rater.form == "coarse" else
                {"task": task.id, "mistakes": [[0, 1]], "omissions": [], "seconds": 1}
                for task in rater.tasks
            ]  # fmt: skip
            (folder / f"{name}.json").write_bytes(saved(made.key, name, answers))
        (folder / "damaged.json").write_bytes(b"{")
        files = sorted(folder.glob("*.json"))
        return results_page(compute_results(collect_answers(files, made.key), made.key, readings=2))

    return page


def of_command(*arguments: str) -> Callable[[Path], str]:
    """The page that a command about scored pairs writes."""

    def page(folder: Path) -> str:
        rows = [{**row, "model": "sft", "generation1": row["generation"], "generation2": "A dog."}
                for row in pairs(8)]  # fmt: skip
        source, scores = write_rows(folder / "in.jsonl", rows), folder / "scores.jsonl"
        out = folder / "out.html"
        if arguments[0] == "report":
            assert run("score", source, "-o", scores, "--elements", "--quiet") == EXIT_OK
            assert main(["report", str(scores), "-o", str(out)]) == EXIT_OK
        else:
            assert main([*arguments, str(source), "--page", str(out)]) == EXIT_OK
        return out.read_text("utf-8")

    return page


THREE = ("a", "b", "c")


def of_a_run(folder: Path) -> str:
    contents = RunContents(read_contents([ROWS[0]]))
    contents.shown.lines[0].step = 1
    figures = {"reward": 0.5, "contradicted": 0.0, "words": 3.0}
    for step in (1, 2):
        contents.steps.append(step)
        contents.periods.append((step, step))
        contents.details.add(step - 1, map(read_detail, (RED, CAT)))
        for name, value in figures.items():
            contents.figures.setdefault(name, []).append(value)
    return run_page(contents)


PAGES: dict[str, Callable[[Path], str]] = {
    "harmonic": of_sibling("harmonic", overall=3.2, criteria=[
        {"criterion": "correctness", "mean": 2.5, "sigma": 0.3, "weight": 0.6, "mass": 0.2},
        {"criterion": "clarity", "mean": 4, "sigma": 0.0, "weight": 0.4, "reason": "It is clear."},
    ]),
    "rubric": of_sibling("rubric", total=3, share=0.6, metric_points=[
        {"metric": "M1", "title": "Class", "points": 1, "lowest": 0, "highest": 2,
         "feedback": "It is a bird."},
        {"metric": "M2", "title": "Family", "points": 2, "lowest": 0, "highest": 3,
         "feedback": ""},
    ]),
    "prove": of_sibling("prove", average=0.7, helpfulness=0.8, truthfulness=0.6, response="Red.",
        answer_tuples=[{"tuple": ["dress", "red"], "score": 0.9, "closest": ["dress"]}],
        claims=[{"tuple": ["dog"], "score": 0.3, "witness": "caption", "closest": None,
                 "caption": 0.3, "image": 0.2}]),
    "report": of_command("report"),
    "pair": lambda _: pair_page([PairCard("A pair", SCORES)]),
    "pair with sentences": lambda _: pair_page([PairCard("A pair", READ)]),
    "report with sentences": lambda _: report([{**read_row("p"), "model": m} for m in THREE]),
    "attack": lambda _: attack_page({"the true text": 1.0}, [
        Outcome(FALSE, "blind", "A dog.", 0.5, 0.4, None, "found", 6, "x " * 200),
        Outcome(HONEST, "format", "links", 0.5, 0.6, None, "held", 6, "A dog."),
    ], ["posh|x"]),
    "a run": of_a_run,
    "coarse results": of_study(packet(8)),
    "granular results": of_study(packet(3, coarse=0, granular=1)),
    "results of three models": of_study(
        packet(found=replace(items(8, THREE), incomplete=("x",)), coarse=6)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_the_focus_is_seen(
    chromium: Browser, tmp_path: Path, name: str, scheme: str
) -> None:
    script = axe()
    pytest.importorskip("choix")
    (tmp_path / "page.html").write_text(PAGES[name](tmp_path), encoding="utf-8")
    media = {"name": "prefers-color-scheme", "value": scheme}
    chromium.call("Emulation.setEmulatedMedia", features=[media])
    for width in (1280, 640, 390):
        chromium.resize(width, 800)
        chromium.open(tmp_path / "page.html")
        assert violations(chromium, script) == []
        assert chromium.run("document.documentElement.scrollWidth") <= width
        hidden = []
        for _ in range(25):
            chromium.press("Tab", 9)
            hidden += [it] if (it := obscured(chromium)) else []
        assert hidden == []
    chromium.call("Emulation.setEmulatedMedia", features=[])


@pytest.mark.parametrize("name", PAGES)
def test_dark_screens_print_black_on_white(chromium: Browser, tmp_path: Path, name: str) -> None:
    pytest.importorskip("choix")
    (tmp_path / "page.html").write_text(PAGES[name](tmp_path), encoding="utf-8")
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    chromium.open(tmp_path / "page.html")
    chromium.call("Emulation.setEmulatedMedia", media="print", features=[dark])
    ink = chromium.run("getComputedStyle(document.querySelector('h1')).color")
    chromium.call("Emulation.setEmulatedMedia", media="", features=[])
    assert ink == "rgb(31, 35, 40)"
