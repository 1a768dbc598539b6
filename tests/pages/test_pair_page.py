import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from PIL import Image

from posh_reward.cli import EXIT_INCOMPLETE, EXIT_OK, main
from posh_reward.errors import InputError
from posh_reward.models import model as model_names
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.other_metrics.page import render_metric_page
from posh_reward.pages.element_marks import (
    PairCard,
    cut_stretches,
    explain,
    fragment,
    question_about,
    read_preset,
    render_pairs,
)
from posh_reward.provenance import Origins
from posh_reward.tables.item_ids import ItemIds
from posh_reward.tables.tables import Row
from posh_reward.types import Element, Failure, ImageGrade, Kind, Scores, SentenceVerdict
from tests.cli.running import rows_in, write_rows
from tests.page_checks import unfilled


def element(text: str, start: int, end: int, grade: float | None, kind: Kind = "entity") -> Element:
    failure = None if grade is not None else Failure("engine", "timed out")
    return Element("precision", kind, text, grade, ((start, end),), text, failure=failure)


GENERATION = "A red dog sleeps."
ELEMENTS = (
    element("red", 2, 5, 1.2, "attribute"),
    element("dog", 6, 9, 4.8),
    element("dog", 6, 16, 2.4, "relation"),
)
SCORES = Scores(0.5, 0.6, 0.55, "posh|preset:released", ELEMENTS, generation=GENERATION,
                reference="A brown dog.")  # fmt: skip


def test_stretches_join_to_the_text() -> None:
    cut = list(cut_stretches(SCORES, "precision"))
    assert "".join(stretch.text for stretch in cut) == GENERATION
    marked = [(s.text, s.level) for s in cut if s.elements]
    assert marked == [("red", "absent"), ("dog", "weak"), (" sleeps", "weak")]


def marks(html: str) -> list[str]:
    return re.findall(r'<mark class="(\w+)"', html)


def test_mistakes_are_marked_by_grade() -> None:
    html = render_pairs([PairCard("One", SCORES)])
    in_key = ["absent", "weak", "partial"]
    assert marks(html) == [*in_key, "absent", "weak", "weak"]
    assert "A true detail that the reference leaves out is marked, too" in html
    assert "Is &#34;red&#34; from DESCRIPTION 2 described as" in html


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{items} {title}"]
)
def test_texts_stay_texts(text: str) -> None:
    scores = Scores(
        0.2, 0.2, 0.2, text, (element(text, 0, len(text), 1.0),), generation=text, reference=text
    )
    assert not re.search("<(script|img)", render_pairs([PairCard(text, scores)], title=text))


def test_questions_are_worded_as_the_signature_says() -> None:
    red = SCORES.elements[0]
    asked = question_about(red, "posh|preset:paper|judge:x")
    assert asked == 'Is "red" from DESCRIPTION2 described as "red" in DESCRIPTION1?'
    assert read_preset("another metric") == "released"
    unasked = replace(red, kind="relation", identifier="dog", other="{text}", direct=False)
    assert question_about(unasked) == '"red" was not asked about: "dog" or "{text}" is absent.'


def test_a_pair_without_a_score_says_why() -> None:
    failed = Scores.failed(Failure("text", "the reference is empty"), "s")
    html = render_pairs([PairCard("One", failed)])
    assert "No score: the reference is empty" in html
    assert unfilled(html) == []


def test_a_mark_says_which_witness() -> None:
    fan = replace(element("fan", 2, 5, 4.5), image_grade=ImageGrade(4.5, 1.2))
    dog = replace(element("dog", 6, 9, 2.1), image_grade=ImageGrade(2.1, 1.2))
    blurred = ImageGrade(None, 1.2, Failure("reply", "blurred"))
    sky = replace(element("sky", 10, 13, 1.2), image_grade=blurred)
    scores = replace(SCORES, signature="posh|witness:x|supported:4|version:1",
                     elements=(fan, dog, sky), generation="A fan dog sky.")  # fmt: skip
    html = render_pairs([PairCard("one", scores)])
    assert marks(html)[-3:] == ["seen", "weak", "absent"]
    for said in (
        "In the image, not in the reference (reference 1.2, image 4.5). Is &#34;fan&#34;",
        "Neither in the reference nor in the image (reference 1.2, image 2.1). Is &#34;dog",
        "Not in the reference (1.2), and the image does not settle it. Is &#34;sky&#34;",
    ):
        assert said in html
    assert "clear in the image, not in the reference" in html
    assert "the image" not in render_pairs([PairCard("one", SCORES)])
    shown = explain(scores, color=False)
    assert "[fan]* [dog]2 [sky]1" in shown
    assert "* clear in the image" in shown


MONK = "A blue monk sleeps."
TEXT = f"{MONK} A red dog sits."
READ = Scores(
    0.5, 0.6, 0.55, "posh|preset:released|reader:x|version:1",
    (
        replace(element("monk", 7, 11, 1.0), direct=False, decided_by="contradicted"),
        replace(element("blue", 2, 6, 1.0, "attribute"), direct=False, decided_by="contradicted"),
        replace(element("dog", 26, 29, 3.8), decided_by="supported"),
        element("red", 22, 25, 1.2, "attribute"),
    ),
    generation=TEXT, reference="A red monk sleeps. A dog sits.",
    sentences=(SentenceVerdict((0, 19), 0.9, 0.06, 0.04), SentenceVerdict((20, 35), 0.1, 0.2, 0.7)),
)  # fmt: skip


def test_a_contradicted_sentence_is_marked_as_a_whole() -> None:
    cut = cut_stretches(READ, "precision")
    assert "".join(stretch.text for stretch in cut) == TEXT
    assert [(s.text, s.level, s.digit) for s in cut if s.has_mark] == [
        (MONK, "contradicted", "C"), ("red", "absent", "1"), ("dog", "partial", "3")
    ]  # fmt: skip
    assert [each.text for each in cut[0].elements] == ["monk", "blue"]
    assert not any(stretch.sentence for stretch in cut_stretches(READ, "recall"))


def test_two_contradicted_sentences_about_one_thing_stay_two() -> None:
    verdicts = [SentenceVerdict(span, 1.0, 0.0, 0.0) for span in ((0, 13), (14, 28))]
    monk = Element("precision", "entity", "monk", 1.0, ((2, 6), (16, 20)), "monk")
    text = "A monk reads. A monk sleeps."
    scores = replace(READ, generation=text, elements=(monk,), sentences=tuple(verdicts))
    cut = cut_stretches(scores, "precision")
    assert [s.text for s in cut if s.sentence] == ["A monk reads.", "A monk sleeps."]


@pytest.mark.parametrize("span", [(0, 9_999), (30, 2), (5, 5), (-3, 10)])
def test_a_sentence_out_of_place_loses_no_text(span: tuple[int, int]) -> None:
    scores = replace(READ, sentences=(*READ.sentences, SentenceVerdict(span, 1.0, 0.0, 0.0)))
    assert "".join(each.text for each in cut_stretches(scores, "precision")) == TEXT


def test_a_page_says_which_sentences_are_contradicted() -> None:
    html = render_pairs([PairCard("One", READ)])
    assert marks(html) == [
        "contradicted", "absent", "weak", "partial", "contradicted", "absent", "partial"
    ]  # fmt: skip
    shown = words(html)
    assert f"contradicted by the reference: {MONK}" in shown, "for those who only hear the page"
    assert (
        "Contradicted by the reference: probability 0.90; unmentioned 0.06, supported 0." in shown
    )
    assert "contradicted share 0.500" in shown
    assert f"contradicted 0.90 0.06 0.04 {MONK} supported 0.10 0.20 0.70 A red dog sits." in shown
    assert 'Graded by its sentence, which the reference supports. Is "dog" from' in shown
    assert '"monk" was not asked about: the reference contradicts its sentence.' in shown
    without = words(render_pairs([PairCard("One", SCORES)]))
    assert "sentence" not in without
    assert "contradicted share" not in without
    assert "contradicted share" in words(fragment(READ))


def test_a_terminal_lists_sentences_apart_from_elements() -> None:
    shown = explain(READ, color=False)
    assert f"[{MONK}]C A [red]1 [dog]3 sits." in shown
    assert "C a contradicted sentence" in shown
    assert f"contradicted  0.90  0.06  0.04  {MONK}\n   supported  0.10" in shown
    assert "Worst 2 of 2 elements outside contradicted sentences" in shown
    assert "contradicted" not in explain(SCORES, color=False)


def test_a_sentence_that_the_image_outdoes_did_not_decide() -> None:
    dog = replace(READ.elements[2], grade=4.5, image_grade=ImageGrade(4.5, 2.8))
    assert question_about(dog).startswith("In the image, not in the reference (reference 2.8,")


EVIL = '</p><script>alert("1")</script><img src="http://x.test/y">'


def written(prompt: Prompt) -> str:
    given = {"M1": 2, "M2": 3, "M3": 1, "M4": 1, "M5": 0}
    return json.dumps({m: {"score": n, "feedback": f"{m}: {EVIL}"} for m, n in given.items()})


class Judge(FakeModel):
    def __init__(self) -> None:
        super().__init__(lambda prompt: 1.5 + len(prompt.text) % 3, written, sees=True)


def words(page: str) -> str:
    """Text of a page that a reader sees."""
    shown = re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(shown).split())


@pytest.fixture(autouse=True)
def judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(model_names.MODELS, "fake-model", "tests.pages.test_pair_page:Judge")


def table(folder: Path, *texts: str | None) -> Path:
    """Two models about one image, and so on."""
    Image.new("RGB", (16, 16), "red").save(folder / "red.png")
    rows: list[Row] = [
        {"id": f"p{place // 2}", "model": "ab"[place % 2], "image": "red.png",
         "generation": text, "reference": "A red square."}
        for place, text in enumerate(texts)
    ]  # fmt: skip
    return write_rows(folder / "in.jsonl", rows)


def scored(folder: Path, metric: str, source: Path, name: str = "scores.jsonl") -> Path:
    flags = ["-o", str(folder / name), "--id", "id", "--judge", "fake-model", "--quiet"]
    assert main([metric, "score", str(source), *flags]) in (EXIT_OK, EXIT_INCOMPLETE)
    return folder / name


def reported(scores: Path, *flags: str) -> str:
    page = scores.with_suffix(".html")
    assert main(["report", str(scores), "-o", str(page), *flags]) == EXIT_OK
    return page.read_text("utf-8")


def check_safe(page: str) -> None:
    assert "<script" not in page
    sources = re.findall(r'(?<=[ <])(?:src|href)="([^"]*)', page)
    assert all(source.startswith("data:image/jpeg;base64,") for source in sources)
    assert "default-src 'none'" in page


def test_models_are_side_by_side_under_one_image(tmp_path: Path) -> None:
    source = table(tmp_path, "A red square.", "A blue square.", "Red.", "Blue.")
    page = reported(scored(tmp_path, "harmonic", source))
    check_safe(page)
    assert page.count("<article") == page.count("<img") == 2
    assert page.count('<section class="side">') == 4
    assert "1 to 5, higher is better" in words(page)
    first = rows_in(tmp_path / "scores.jsonl")[0]
    assert f"{first['overall']:.2f}" in words(page)
    assert all(f"{each['criterion']}" in words(page) for each in first["criteria"])
    assert f"sigma {first['criteria'][0]['sigma']:.2f}" in words(page)


def test_reasons_of_judges_and_texts_are_escaped(tmp_path: Path) -> None:
    source = table(tmp_path, EVIL, None)
    page = reported(scored(tmp_path, "rubric", source), "--title", EVIL)
    check_safe(page)
    assert words(page).count("alert") >= 7, "a title, a text, five reasons: all shown"
    assert "7 of 15" in words(page)
    assert "No score: the text is missing" in page


def test_claims_say_what_bears_them_out(tmp_path: Path) -> None:
    row = {"response": "The dress is red. A dog barks.", "answer": "The dress is red.",
           "question": "Which colour?", "caption": "A woman in a red dress.",
           "image": "red.png"}  # fmt: skip
    table(tmp_path)
    source = write_rows(tmp_path / "in.jsonl", [row, {**row, "response": None}])
    out, csv = tmp_path / "scores.jsonl", tmp_path / "scores.csv"
    for name in (out, csv):
        command = ["prove", "score", str(source), "-o", str(name), "--quiet"]
        assert main([*command, "--entailment-judge", "fake-model"]) == EXIT_INCOMPLETE
    page = reported(out)
    assert page == reported(csv)
    check_safe(page)
    shown = words(page)
    assert "best witness: caption 1.00 (closest: dress, red)" in shown
    assert "best witness: image" in shown
    assert "No score: the response is missing" in shown
    assert "0 to 1, higher is better" in shown


@pytest.mark.parametrize(
    "change",
    [
        {"signature": "rubric|model:x"}, {"criteria": "[nonsense"}, {"criteria": [1]},
        {"criteria": [{"criterion": None, "mean": 1}]},
        {"overall": "high"}, {"overall": True}, {"overall": 10**400},
    ],
)  # fmt: skip
def test_a_row_that_is_not_of_this_metric_is_named(change: Row) -> None:
    row = {"id": 1, "signature": "harmonic|model:x", "overall": 3.0, "criteria": []}
    with pytest.raises(InputError, match="row 2 is not a row of harmonic scores"):
        render_metric_page([row, {**row, **change}], "harmonic", Origins(), ItemIds())
