import re
from dataclasses import replace

import pytest

from posh_reward.study.pages.element_marks import (
    PairCard,
    explain,
    page,
    preset_of,
    question_about,
    stretches,
)
from posh_reward.types import Element, Failure, ImageGrade, Kind, Scores
from tests.pages import unfilled


def element(text: str, start: int, end: int, grade: float | None, kind: Kind = "entity") -> Element:
    failure = None if grade is not None else Failure("engine", "timed out")
    return Element("precision", kind, text, grade, ((start, end),), text, failure=failure)


GENERATION = "A red dog sleeps."
SCORES = Scores(
    0.5,
    0.6,
    0.55,
    "posh|preset:released",
    (
        element("red", 2, 5, 1.2, "attribute"),
        element("dog", 6, 9, 4.8),
        element("dog", 6, 16, 2.4, "relation"),
    ),
    generation=GENERATION,
    reference="A brown dog.",
)


def test_stretches_join_to_the_text() -> None:
    cut = list(stretches(SCORES, "precision"))
    assert "".join(stretch.text for stretch in cut) == GENERATION
    assert [(s.text, s.level) for s in cut if s.elements] == [
        ("red", "absent"),
        ("dog", "weak"),
        (" sleeps", "weak"),
    ]


def marks(html: str) -> list[str]:
    return re.findall(r'<mark class="(\w+)"', html)


def test_mistakes_are_marked_by_grade() -> None:
    html = page([PairCard("One", SCORES)])
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
    assert not re.search("<(script|img)", page([PairCard(text, scores)], title=text))


def test_questions_are_worded_as_the_signature_says() -> None:
    red = SCORES.elements[0]
    assert question_about(red, "posh|preset:paper|judge:x") == (
        'Is "red" from DESCRIPTION2 described as "red" in DESCRIPTION1?'
    )
    assert preset_of("another metric") == "released"
    unasked = replace(red, kind="relation", identifier="dog", other="{text}", direct=False)
    assert question_about(unasked) == '"red" was not asked about: "dog" or "{text}" is absent.'


def test_a_pair_without_a_score_says_why() -> None:
    failed = Scores.failed(Failure("text", "the reference is empty"), "s")
    html = page([PairCard("One", failed)])
    assert "No score: the reference is empty" in html
    assert unfilled(html) == []


def test_a_mark_says_which_witness() -> None:
    fan = replace(element("fan", 2, 5, 4.5), image_grade=ImageGrade(4.5, 1.2))
    dog = replace(element("dog", 6, 9, 2.1), image_grade=ImageGrade(2.1, 1.2))
    sky = replace(
        element("sky", 10, 13, 1.2), image_grade=ImageGrade(None, 1.2, Failure("reply", "blurred"))
    )
    scores = replace(SCORES, signature="posh|witness:x|supported:4|version:1",
                     elements=(fan, dog, sky), generation="A fan dog sky.")  # fmt: skip
    html = page([PairCard("one", scores)])
    assert marks(html)[-3:] == ["seen", "weak", "absent"]
    for said in (
        "In the image, not in the reference (reference 1.2, image 4.5). Is &#34;fan&#34;",
        "Neither in the reference nor in the image (reference 1.2, image 2.1). Is &#34;dog",
        "Not in the reference (1.2), and the image does not settle it. Is &#34;sky&#34;",
    ):
        assert said in html
    assert "clear in the image, not in the reference" in html
    assert "the image" not in page([PairCard("one", SCORES)])
    shown = explain(scores, color=False)
    assert "[fan]* [dog]2 [sky]1" in shown
    assert "* clear in the image" in shown
