"""One direction of one pair, with a judge whose every answer is known."""

from typing import get_args

from posh_reward.metrics.posh.examine import Examination, examine
from posh_reward.metrics.posh.judges.fake_judge import FakeJudge, Grader
from posh_reward.metrics.posh.posh import Rewriter, run_together
from posh_reward.metrics.posh.search import Pace
from posh_reward.types import Failure, Question
from tests.graphs import attribute, description, entity, relation

SOURCE = description(
    "We see a tall woman in a red hat. A dog sleeps.",
    [
        entity("We", us=True),
        entity("woman", attribute("tall")),
        entity("hat", attribute("red")),
        entity("dog", attribute("sleeps")),
    ],
    [relation(0, "see", 1), relation(1, "wears", 2), relation(3, "beside", 1)],
)
TARGET = description("A woman in a hat.")


def run(grader: Grader, *, pace: Pace = "lazy") -> tuple[Examination, FakeJudge]:
    judge = FakeJudge(grader)
    steps = examine(SOURCE, TARGET, "precision", pace=pace)
    return run_together([steps], judge, Rewriter(judge))[0], judge


def graded(examination: Examination) -> list[tuple[str, float | None]]:
    return [(element.text, element.grade) for element in examination.elements]


def test_elements_stand_by_entity_with_attributes_and_relations() -> None:
    examination, _ = run(lambda question: 5.0)
    assert [(e.kind, e.text) for e in examination.elements] == [
        ("entity", "woman"),
        ("attribute", "tall"),
        ("relation", "see"),
        ("relation", "wears"),
        ("relation", "beside"),
        ("entity", "hat"),
        ("attribute", "red"),
        ("entity", "dog"),
        ("attribute", "sleeps"),
    ]


def test_what_belongs_to_an_absent_entity_gets_the_lowest_grade_unasked() -> None:
    examination, judge = run(lambda question: 1.0 if "dog" in question.identifier else 4.0)
    assert dict(graded(examination))["sleeps"] == 1.0
    assert dict(graded(examination))["beside"] == 1.0
    assert not [question for question in judge.questions if question.text in ("sleeps", "beside")]


def test_a_later_name_wins_only_with_a_higher_rounded_grade() -> None:
    def grader(question: Question) -> float:
        return {"woman": 3.6, "the tall woman": 4.4}.get(question.identifier, 5.0)

    examination, _ = run(grader)
    assert examination.findings[1].identifier == "woman"


def test_asking_stops_when_no_candidate_can_win_and_the_result_is_the_same() -> None:
    lazy, few = run(lambda question: 4.6)
    eager, many = run(lambda question: 4.6, pace="eager")
    assert lazy.elements == eager.elements
    assert len(few.questions) < len(many.questions)
    assert "the tall woman" not in [question.identifier for question in few.questions]


def test_a_candidate_that_cannot_win_cannot_fail_either() -> None:
    """Asked at once with the others, it is not heard once an earlier one has the top grade."""

    def grader(question: Question) -> float | Failure:
        other = question.kind == "entity" and question.identifier.startswith("the")
        return Failure("engine", "timed out") if other else 5.0

    for pace in get_args(Pace):
        examination, _ = run(grader, pace=pace)
        assert examination.findings[1].identifier == "woman"
        assert examination.failure is None


def test_a_failed_judgment_is_none_and_spares_the_rest() -> None:
    def grader(question: Question) -> float | Failure:
        return Failure("engine", "timed out") if question.identifier.endswith("dog") else 4.0

    examination, _ = run(grader)
    grades = dict(graded(examination))
    assert (grades["dog"], grades["sleeps"], grades["beside"]) == (None, None, None)
    assert grades["woman"] == 4.0
    assert str(examination.failure) == "timed out"


def test_a_part_is_asked_for_after_its_whole() -> None:
    _, judge = run(lambda question: 4.0)
    asked = [question.identifier for question in judge.questions if question.kind == "entity"]
    assert asked.index("woman") < asked.index("hat")
    assert "hat of woman" in asked


PART = description(
    "The man] 's hand. A boy sees us.",
    [entity("hand"), entity("man]"), entity("boy"), entity("us", us=True), entity("boy")],
    [relation(0, "part of", 1), relation(2, "sees", 3)],
)


def asked() -> list[Question]:
    judge = FakeJudge(lambda question: 2.0 if question.identifier == "hand" else 4.0)
    steps = examine(PART, TARGET, "recall")
    run_together([steps], judge, Rewriter(judge))
    return judge.questions


def test_only_the_release_cuts_a_part_s_name_short_in_the_question_about_its_whole() -> None:
    def named(questions: list[Question]) -> str:
        return next(each.identifier for each in questions if each.text == "part of")

    assert named(asked()) == "hand"


def test_only_the_release_forgets_the_viewer_in_the_first_pass() -> None:
    assert "the boy sees us" in {each.identifier for each in asked()}
