"""The image as second witness: asked about what the reference does not support, and only that."""

from functools import partial

import pytest

from posh_reward import InputError, PoSh
from posh_reward.embedded.judge import EmbeddedJudge
from posh_reward.models.fake_model import FakeModel
from posh_reward.posh.batch import run_batched
from posh_reward.posh.examine import Examination, examine
from posh_reward.posh.fake_judge import FakeJudge, Grader
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.rewriter import Rewriter
from posh_reward.posh.wording import PRESETS, build_prompt
from posh_reward.types import Element, Failure, PromptImage, Question, Scores
from tests.columns import LazyColumn
from tests.graphs import attribute, description, entity, relation

IMAGE = PromptImage("a", None)
OTHER_IMAGE = PromptImage("b", None)
SOURCE = description(
    "A tall woman holds a red fan. A dog sleeps.",
    [
        entity("woman", attribute("tall")),
        entity("fan", attribute("red")),
        entity("dog", attribute("sleeps")),
    ],
    [relation(0, "near", 1), relation(2, "beside", 0)],
)
TARGET = description("A woman.")


def stated(question: Question) -> float:
    """A reference that has the woman, and half of what she is like."""
    if question.kind == "entity":
        return 5.0 if "woman" in question.identifier else 1.0
    return 3.5


def run(sees: Grader) -> tuple[Examination, FakeJudge]:
    judge, witness = FakeJudge(stated), FakeJudge(sees)
    steps = [examine(SOURCE, TARGET, "precision", image=IMAGE, supported=3.0)]
    return run_batched(steps, judge, Rewriter(judge), witness)[0], witness


def by_text(examination: Examination) -> dict[str, Element]:
    return {element.text: element for element in examination.elements}


def test_the_larger_of_the_two_grades_counts_and_the_element_keeps_both() -> None:
    elements = by_text(run(lambda question: 4.5 if "fan" in question.identifier else 1.0)[0])
    fan, dog, woman = elements["fan"], elements["dog"], elements["woman"]
    assert (fan.grade, fan.witness) == (4.5, "image")
    assert fan.image_grade is not None
    assert (fan.image_grade.reference_grade, fan.image_grade.grade) == (1.0, 4.5)
    assert (dog.grade, dog.witness) == (1.0, "reference")
    assert (woman.grade, woman.witness, woman.image_grade) == (5.0, None, None)


def test_what_the_reference_supports_is_not_asked_of_the_image() -> None:
    _, witness = run(lambda question: 5.0)
    asked = {question.text or question.identifier for question in witness.questions}
    assert asked == {"fan", "dog", "near", "red", "beside", "sleeps"}


def test_what_belongs_to_a_thing_that_only_the_image_shows_is_asked_of_the_image() -> None:
    elements = by_text(run(lambda question: 1.0 if "dog" in question.identifier else 5.0)[0])
    assert (elements["red"].grade, elements["red"].witness) == (5.0, "image")
    assert (elements["near"].grade, elements["near"].direct) == (5.0, False)
    assert (elements["sleeps"].grade, elements["sleeps"].image_grade) == (1.0, None)
    assert (elements["beside"].grade, elements["beside"].image_grade) == (1.0, None)


def test_an_image_that_does_not_tell_leaves_the_reference_s_grade() -> None:
    untold = Failure("reply", "cannot tell")
    examination, _ = run(lambda question: untold)
    fan = by_text(examination)["fan"]
    assert (fan.grade, fan.witness, fan.failure) == (1.0, "reference", None)
    assert fan.image_grade is not None
    assert (fan.image_grade.grade, fan.image_grade.failure) == (None, untold)
    assert examination.failure is None


@pytest.mark.parametrize(
    "unheard",
    [Failure("engine", "timed out"), Failure("error", "it raised"),
     Failure("prompt", "the image is too long and thin")],
)  # fmt: skip
def test_an_image_that_was_not_asked_is_a_failure_and_not_a_low_grade(unheard: Failure) -> None:
    examination, _ = run(lambda question: unheard)
    assert by_text(examination)["fan"].grade is None
    assert examination.failure == unheard


GENERATION = "A woman in a red coat stands near a dog."
REFERENCE = "A woman stands."


def sighted(sees: Grader = lambda question: 5.0) -> PoSh:
    return PoSh(witness=FakeJudge(sees, "eyes-1"))


def score(posh: PoSh, image: object = IMAGE) -> Scores:
    return posh.score([GENERATION], [REFERENCE], [image])[0]


def test_precision_rises_and_recall_stays() -> None:
    [blind], seeing = PoSh().score([GENERATION], [REFERENCE]), score(sighted())
    assert blind.precision is not None
    assert seeing.precision is not None
    assert seeing.precision > blind.precision
    assert seeing.recall == blind.recall
    assert "|witness:eyes-1|supported:3|" in seeing.signature


def test_a_missing_image_fails_its_pair_alone() -> None:
    posh = sighted()
    scores = posh.score([GENERATION] * 3, [REFERENCE] * 3, [None, IMAGE, "no such file.png"])
    assert [each.precision is None for each in scores] == [True, False, True]
    assert str(scores[0].failure) == "there is no image"
    assert scores[2].failure is not None
    assert scores[2].failure.kind == "text"


def test_few_images_of_a_lazy_column_are_in_memory_at_a_time() -> None:
    column = LazyColumn(["red", "blue", "red", "blue", "red"])
    posh = PoSh(witness=FakeJudge(lambda question: 5.0, "eyes-1"), pairs_at_once=2)
    scores = posh.score([GENERATION] * 5, [REFERENCE] * 5, column)
    assert scores == [score(sighted())] * 5
    assert column.most <= 2


@pytest.mark.parametrize("preset", PRESETS)
def test_an_image_is_asked_about_in_words_with_the_image_before_them(preset: str) -> None:
    ask = partial(Question, "precision", source=SOURCE, target=TARGET, entity=0, image=IMAGE)
    thing = build_prompt(ask("entity", "tall woman"), preset)
    red = build_prompt(ask("attribute", "fan", text="red"), preset)
    near = build_prompt(ask("relation", "woman", text="near", other="fan"), preset)
    assert 'Q: Is "tall woman" shown in the picture?' in thing.text
    assert 'Q: Is "fan" shown as "red" in the picture?' in red.text
    assert 'between "woman" and "fan" shown as "near" in the picture?' in near.text
    for each in (thing, red, near):
        assert each.images == (IMAGE,)
        assert each.prefix == thing.prefix
        assert SOURCE.text not in each.text
        assert TARGET.text not in each.text


def test_a_judge_that_sees_is_its_own_witness_and_is_counted_once() -> None:
    model = FakeModel(lambda prompt: 5.0 if prompt.images else 2.5, sees=True)
    posh = PoSh(PromptJudge(model), witness="judge")
    assert score(posh).precision == 1.0
    assert posh.usage is model.usage
    assert 0 < model.usage.images < model.usage.requests
    assert model.events == ["wake", "sleep"]


@pytest.mark.parametrize(
    "blind", [PromptJudge(FakeModel()), EmbeddedJudge(), "judge", "fake-model"]
)
def test_a_judge_that_cannot_see_is_refused_as_a_witness(
    blind: PromptJudge | EmbeddedJudge | str,
) -> None:
    with pytest.raises(InputError, match="name a model that sees"):
        PoSh(witness=blind)


@pytest.mark.parametrize("images", [None, [IMAGE, IMAGE]])
def test_a_witness_needs_one_image_for_each_pair(images: list[object] | None) -> None:
    with pytest.raises(InputError, match="images"):
        sighted().score([GENERATION], [REFERENCE], images)


def test_neither_order_nor_batch_changes_a_score() -> None:
    texts = [GENERATION, "A dog near a red cat.", "A woman."] * 2
    prompt_images = [IMAGE] * 3 + [OTHER_IMAGE] * 3

    def scored(pairs_at_once: int, step: int) -> list[Scores]:
        sees = FakeJudge(lambda r: 4.0 if r.image == IMAGE else 2.0, "eyes-1")
        posh = PoSh(witness=sees, pairs_at_once=pairs_at_once)
        return posh.score(texts[::step], [REFERENCE] * 6, prompt_images[::step])[::step]

    assert scored(1, 1) == scored(256, 1) == scored(4, -1)
