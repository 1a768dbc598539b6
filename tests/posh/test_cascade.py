"""Plain questions are settled by the embedded judge; the full judge gets the rest, and may fail."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from posh_reward import PoSh
from posh_reward.errors import ConfigError, InputError
from posh_reward.graph.reader import Reader
from posh_reward.posh.cascade import (
    ABSENT_VERDICT,
    VERBATIM_VERDICT,
    Cascade,
    compare_wording,
    measure_uncertainty,
)
from posh_reward.posh.fake_judge import FakeJudge, fake_model
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.load_judge import load_judge
from posh_reward.types import Description, Failure, Kind, Question, Verdict
from tests.graphs import description

GENERATION = "A tall man in a red coat holds a cup beside a sailboat."
REFERENCE = "A tall man in a red coat holds a lantern. Snow covers the ground."
BROKEN = Failure("engine", "broken pipe")


@pytest.fixture(scope="module")
def read() -> dict[str, Description]:
    described = [d for d in Reader().read([GENERATION, REFERENCE]) if isinstance(d, Description)]
    return {each.text: each for each in described}


def ask(
    read: dict[str, Description], identifier: str, kind: Kind = "entity", text: str | None = None
) -> Question:
    source = read[GENERATION]
    entity = next(i for i, e in enumerate(source.graph.entities) if e.head in identifier)
    return Question("precision", kind, identifier, source, read[REFERENCE], entity, text)


def test_only_what_is_not_plain_reaches_the_full_judge(read: dict[str, Description]) -> None:
    full = FakeJudge(lambda question: 3.0)
    judge = Cascade(full)
    asked = [
        ask(read, "the tall man"),
        ask(read, "sailboat"),
        ask(read, "cup"),
        ask(read, "man", "attribute", "grim"),
        ask(read, "coat", "attribute", "red"),
    ]
    grades = [verdict.grade for verdict in judge.grade(asked)]
    assert grades[0] == grades[4] == VERBATIM_VERDICT.grade
    assert grades[3] == 3.0, "other words may say what an attribute says"
    assert ABSENT_VERDICT.grade in grades[1:3]
    assert judge.first_answers == len(asked) - len(full.questions) > 0


def test_a_failure_of_the_full_judge_stays_one(read: dict[str, Description]) -> None:
    judge = Cascade(FakeJudge(lambda question: BROKEN))
    plain, hard = judge.grade([ask(read, "the tall man"), ask(read, "man", "attribute", "grim")])
    assert plain == VERBATIM_VERDICT
    assert hard.failure == BROKEN


def test_it_is_made_from_settings_and_asks_by_the_metrics_preset(tmp_path: Path) -> None:
    posh = PoSh(
        {"name": "cascade", "judge": "fake-model"}, preset="paper", store=tmp_path / "store"
    )
    assert isinstance(posh.judge, Cascade)
    assert isinstance(posh.judge.judge, PromptJudge)
    assert (posh.judge.judge.preset, posh.judge.judge.store) == ("paper", posh.store)
    with pytest.raises(InputError, match="paper"):
        PoSh(Cascade(PromptJudge(fake_model(), "paper")))


@pytest.mark.parametrize(
    ("settings", "named"),
    [({}, "needs judge"), ({"judge": "gpt"}, "'gpt'"), ({"judge": "fake", "low": 5}, "low is 5")],
)
def test_wrong_settings_are_named(settings: dict[str, object], named: str) -> None:
    with pytest.raises((ConfigError, InputError), match=named):
        load_judge({"name": "cascade", **settings})


@pytest.mark.parametrize(
    ("identifier", "text", "wording"),
    [
        ("the red boat", "A boat, red all over.", "same"),
        ("boat", "Two boats.", "other"),
        ("boat", "A ship.", "none"),
        ("it", "A ship.", "other"),
        ("Boat", "A BOAT.", "same"),
    ],
)
def test_words_are_compared_whole_to_be_there_and_in_part_to_be_absent(
    identifier: str, text: str, wording: str
) -> None:
    source = description("A boat.")
    question = Question("recall", "entity", identifier, source, description(text), 0)
    assert compare_wording(question) == wording


def sure_of(label: int) -> Verdict:
    return Verdict(tuple(float(each == label) for each in range(1, 6)))


def test_a_first_judge_settles_what_it_is_sure_of(read: dict[str, Description]) -> None:
    class First(FakeJudge):
        """Sure about coats, torn between absent and there about cups, gone for men."""

        def grade(self, questions: Sequence[Question]) -> list[Verdict]:
            answers = {"coat": sure_of(4), "cup": Verdict((0.5, 0.0, 0.0, 0.0, 0.5))}
            return [answers.get(q.identifier, Verdict(None, BROKEN)) for q in questions]

    full = FakeJudge(lambda question: 3.0)
    judge = Cascade(full, first=First(name="small"), doubt=0.5)
    asked = [ask(read, name) for name in ("coat", "cup", "man")]
    assert [verdict.grade for verdict in judge.grade(asked)] == [4.0, 3.0, 3.0]
    assert [question.identifier for question in full.questions] == ["cup", "man"]
    assert judge.name == "cascade-1:doubt-0.5:small+fake-shared-words-1"
    assert judge.first_answers == 1


def test_doubt_is_the_spread_of_the_label() -> None:
    assert measure_uncertainty(sure_of(3)) == 0
    assert measure_uncertainty(Verdict((0.5, 0.0, 0.0, 0.0, 0.5))) == 2
    assert measure_uncertainty(Verdict((0.0, 0.0, 0.0, 0.5, 0.5))) == 0.5
    with pytest.raises(InputError, match="no doubt"):
        measure_uncertainty(Verdict(None, BROKEN))


def test_the_first_judge_of_a_folder_is_found_wherever_the_folder_is(tmp_path: Path) -> None:
    (tmp_path / "judge.yaml").write_text("name: fake-model\n")
    (tmp_path / "cascade.yaml").write_text("name: cascade\njudge: fake\nfirst: judge.yaml\n")
    judge = load_judge(str(tmp_path / "cascade.yaml"))
    assert judge.name == "cascade-1:doubt-0.5:fake-model-1+fake-shared-words-1"
