"""A judge is anybody's code: a verdict that is not one fails alone, and no mean takes it in."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posh_reward import PoSh
from posh_reward.models.asker import READING_VERSION
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.models.model import make_verdict as read_masses
from posh_reward.posh.fake_judge import FakeJudge, fake_model
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.search import check_grade
from posh_reward.store import Store
from posh_reward.types import LABELS, Failure, Phrase, Question, Reply, Verdict

GOOD = (0.1, 0.2, 0.3, 0.4, 0.0)
UNSOUND: dict[str, Any] = {
    "nothing": None,
    "a number": 3.0,
    "probabilities alone": GOOD,
    "neither": Verdict(None),
    "a reason that is text": Verdict(None, "broken"),  # type: ignore[arg-type]
    "four": Verdict((0.25,) * 4),
    "six": Verdict((0.0, *GOOD)),
    "none": Verdict(()),
    "NaN": Verdict((math.nan, *GOOD[1:])),
    "infinite": Verdict((math.inf, *GOOD[1:])),
    "infinite both ways": Verdict((math.inf, -math.inf, 0.0, 0.0, 1.0)),
    "negative": Verdict((-0.1, 0.4, 0.3, 0.4, 0.0)),
    "too much": Verdict((0.9,) * 5),
    "too little": Verdict((0.1,) * 5),
    "huge": Verdict((1e308,) * 5),
    "texts": Verdict(("0.2",) * 5),  # type: ignore[arg-type]
    "a number for five": Verdict(1.0),  # type: ignore[arg-type]
    "a table": Verdict(np.full((5, 2), 0.2)),  # type: ignore[arg-type]
    "mass": Verdict(GOOD, mass=math.nan),
}
PAIRS = (
    ["A red dog sleeps.", "A tall man holds a cup.", "Two white cats."],
    ["A brown dog sleeps.", "A man in a coat holds a red cup.", "A white cat."],
)


def test_sound_verdicts_and_failures_pass_as_they_are() -> None:
    failed = Verdict(None, Failure("engine", "down"))
    sound = Verdict(GOOD, unparsed=True, mass=0.5)
    assert check_grade(failed) == failed
    assert check_grade(sound) == sound
    assert check_grade(Verdict(GOOD, failed.failure)) == failed, "half a grade is none"


def test_numbers_of_other_libraries_become_plain() -> None:
    half = np.asarray(GOOD, dtype=np.float16)
    found = check_grade(Verdict(half, mass=np.float32(0.5)))  # type: ignore[arg-type]
    assert found.failure is None
    assert json.dumps([found.probabilities, found.mass])


class Unsound(FakeJudge):
    """Gives one bad verdict whenever it is asked about a cup."""

    def __init__(self, bad: Any) -> None:
        super().__init__()
        self._bad = bad

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        verdicts = super().grade(questions)
        return [
            self._bad if "cup" in question.identifier else verdict
            for question, verdict in zip(questions, verdicts, strict=True)
        ]


@pytest.mark.parametrize("name", UNSOUND)
def test_an_unsound_verdict_costs_its_own_pair_alone(name: str) -> None:
    scores = PoSh(Unsound(UNSOUND[name])).score(*PAIRS)
    honest = PoSh(FakeJudge()).score(*PAIRS)
    assert (scores[0], scores[2]) == (honest[0], honest[2])
    assert scores[1].f1 is None
    assert scores[1].failure is not None
    assert scores[1].failure.kind == "reply"


class UnsoundWriter(FakeJudge):
    """Gives one bad phrase."""

    def rewrite(self, questions: Sequence[Phrase]) -> list[Reply]:
        bad: Any = "the tall man"
        return [bad if "tall" in each.text else Reply(f"the {each.text}") for each in questions]


def test_an_unsound_phrase_costs_its_own_pair_at_most() -> None:
    texts = (["A tall man and a man.", "A red dog and a dog."],) * 2
    unsound, sound = (PoSh(judge).score(*texts) for judge in (UnsoundWriter(), FakeJudge()))
    assert unsound[1].f1 == sound[1].f1
    for score in unsound:
        assert score.failure is None or score.failure.kind == "reply"


class UnsoundModel(FakeModel):
    """Gives one bad verdict whenever a prompt asks about a cup."""

    def __init__(self, bad: Any) -> None:
        super().__init__()
        self._bad = bad

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        verdicts = super().choose(prompts, labels)
        return [
            self._bad if "cup" in prompt.suffix else verdict
            for prompt, verdict in zip(prompts, verdicts, strict=True)
        ]


@pytest.mark.parametrize("name", UNSOUND)
def test_a_models_unsound_verdict_fails_alone_and_is_not_kept(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    judge = PromptJudge(UnsoundModel(UNSOUND[name]), store=store)
    scores = PoSh(judge, store=store).score(*PAIRS)
    assert [score.f1 is None for score in scores] == [False, True, False]
    assert judge.usage.failures
    good = PromptJudge(FakeModel(), store=store)
    assert PoSh(good, store=store).score(*PAIRS)[1].f1 is not None


@pytest.mark.parametrize("kept", ["[[0.5, 0.5], false, 1.0]", "[[NaN, 0, 0, 0, 1], false, 1.0]"])
def test_an_unsound_verdict_in_a_store_is_asked_for_again(kept: str, tmp_path: Path) -> None:
    model, store = fake_model(), Store(tmp_path / "store")
    PoSh(PromptJudge(model, store=store), store=store).score(*PAIRS)
    asked = [prompt for prompt in model.prompts if "Rewrite" not in prompt.text]
    space = f"fake-model-1|{READING_VERSION}|{'/'.join(LABELS)}"
    other = Store(tmp_path / "other")
    other.put("verdict", space, {prompt.key: kept for prompt in asked})
    scores = PoSh(PromptJudge(fake_model(), store=other), store=other).score(*PAIRS)
    assert [score.f1 for score in scores] == [s.f1 for s in PoSh("fake-model").score(*PAIRS)]


@pytest.mark.parametrize("masses", [[1e308] * 5, [math.inf, 0.0], [math.inf, -math.inf], [-1, 2]])
def test_masses_that_are_no_probabilities_are_a_failure(masses: list[float]) -> None:
    found = read_masses(masses)
    assert found.failure is not None
    assert found.failure.kind == "reply"
