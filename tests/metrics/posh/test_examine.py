"""One direction of one pair, with a judge whose every answer is known."""

from dataclasses import replace
from typing import get_args

import pytest

from posh_reward.metrics.posh.examine import Examination, examine
from posh_reward.metrics.posh.judges.fake_judge import FakeJudge, Grader
from posh_reward.metrics.posh.posh import Rewriter, run_together
from posh_reward.metrics.posh.questions import (
    CandidateName,
    Finding,
    Roster,
    candidates,
    parts,
    short_identifier,
    viewer_findings,
    wholes,
)
from posh_reward.metrics.posh.search import Pace
from posh_reward.types import Failure, Question
from tests.graphs import attribute, description, entity, graph, relation

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


def texts(ways: list[CandidateName]) -> list[tuple[int, str]]:
    return [(way.rank, way.text) for way in ways]


def test_an_only_entity_is_called_by_its_name_then_by_its_attributes() -> None:
    roster = Roster(graph([entity("Dog", attribute("small"), attribute("Brown", sentence=1))]))
    assert texts(candidates(roster, 0, {})) == [(0, "dog"), (1, "small dog"), (1, "brown dog")]


def test_namesakes_are_told_apart_by_what_only_one_has() -> None:
    roster = Roster(
        graph(
            [
                entity("man", attribute("old"), attribute("tall")),
                entity("man", attribute("young"), attribute("tall")),
            ]
        )
    )
    assert texts(candidates(roster, 0, {})) == [(1, "old man")]
    assert texts(candidates(roster, 1, {})) == [(1, "young man")]


def test_other_mentions_count_but_pronouns_do_not() -> None:
    roster = Roster(graph([entity("boy", mentions=["boy", "he", "Child"])]))
    assert texts(candidates(roster, 0, {})) == [(0, "boy"), (2, "child")]


def test_relations_tell_namesakes_apart_where_nothing_else_does() -> None:
    roster = Roster(
        graph(
            [entity("man"), entity("man"), entity("horse", attribute("white")), entity("king")],
            [relation(0, "rides", 2), relation(3, "greets", 1)],
        )
    )
    assert texts(candidates(roster, 0, {})) == [(3, "man rides white horse")]
    assert texts(candidates(roster, 1, {})) == [(4, 'man with relation "king greets man"')]


def test_a_namesake_with_nothing_of_its_own_keeps_the_bare_name() -> None:
    roster = Roster(graph([entity("tree"), entity("tree")]))
    assert texts(candidates(roster, 0, {})) == [(0, "tree")]


def test_an_absent_entity_identifies_nothing() -> None:
    roster = Roster(graph([entity("man"), entity("man"), entity("hat")], [relation(0, "near", 2)]))
    absent = {2: Finding("hat", 1.2)}
    assert texts(candidates(roster, 0, absent)) == [(0, "man")]


@pytest.mark.parametrize("text", ["wears", "has", "holding", "contained"])
def test_what_is_worn_held_or_contained_is_a_part(text: str) -> None:
    roster = Roster(graph([entity("woman"), entity("hat")], [relation(0, text, 1)]))
    assert (wholes(roster), parts(roster)) == ([0], [1])


def test_a_part_is_called_by_the_whole_that_was_found() -> None:
    roster = Roster(
        graph(
            [entity("woman"), entity("hat"), entity("man"), entity("hat")],
            [relation(1, "part of", 0), relation(2, "wears", 3)],
        )
    )
    found = {0: Finding("the old woman", 4.0), 2: Finding("man", 1.0)}
    assert texts(candidates(roster, 1, found)) == [(0, "hat of the old woman")]
    assert texts(candidates(roster, 3, found)) == [(0, "hat")], "its wearer is absent"


def test_the_viewer_is_given() -> None:
    roster = Roster(graph([entity("us", us=True), entity("left", left=True), entity("cup")]))
    found = viewer_findings(roster.graph)
    assert [finding.identifier for finding in found.values()] == ["the viewer", "our left"]
    assert wholes(roster) == [2]


VIEWERS = graph(
    [entity("boy"), entity("us", attribute("red"), us=True), entity("boy")],
    [relation(0, "runs toward", 1)],
)


def test_the_viewer_has_no_name_of_its_own_in_the_first_pass() -> None:
    """Q1: a first pass knows of no findings at all."""
    assert texts(candidates(Roster(VIEWERS), 0, {})) == [(3, "boy runs toward red us")]
    known = viewer_findings(VIEWERS)
    assert texts(candidates(Roster(VIEWERS), 0, known)) == [(3, "boy runs toward the viewer")]


def test_our_left_is_not_a_namesake_of_another_left() -> None:
    """Q2."""
    roster = Roster(graph([entity("left", left=True), entity("left")]))
    assert texts(candidates(roster, 1, {})) == [(0, "left")]


@pytest.mark.parametrize("text", ["held", "worn"])
def test_the_release_does_not_know_what_is_held_for_a_part(text: str) -> None:
    """Q3."""
    told = graph([entity("man"), entity("cup")], [relation(0, text, 1)])
    assert parts(Roster(told)) == []


def test_the_release_lets_a_thing_be_part_of_itself() -> None:
    """Q4: it waits for the second pass, where its own parts do not find it."""
    told = graph(
        [entity("woman"), entity("hand")], [relation(0, "part of", 0), relation(1, "part of", 0)]
    )
    assert wholes(Roster(told)) == []
    assert texts(candidates(Roster(told), 1, {})) == [(0, "hand")]


FOUND = {0: Finding("king", 5.0), 1: Finding("maid", 5.0)}


def test_a_text_that_an_earlier_frame_offered_is_not_found_again() -> None:
    """Q6: so that the later frame goes on to relations."""
    roster = Roster(
        graph(
            [
                entity("us", us=True),
                entity("hands", attribute("cold")),
                entity("hands"),
                entity("us", us=True),
            ],
            [relation(0, "hold", 1), relation(1, "part of", 3), relation(2, "part of", 3)],
        )
    )
    found = viewer_findings(roster.graph)
    assert texts(candidates(roster, 1, found)) == [
        (0, "hands of the viewer"),
        (1, "cold hands of the viewer"),
        (4, 'hands of the viewer with relation "the viewer hold hands"'),
    ]


def test_the_release_takes_one_and_which_for_names() -> None:
    """Q8."""
    told = graph([entity("boat", mentions=["boat", "it", "One", "which", "them"])])
    assert texts(candidates(Roster(told), 0, {})) == [(0, "boat"), (2, "one"), (2, "which")]


def test_relations_are_offered_by_their_first_sentence() -> None:
    """Q9."""
    roster = Roster(
        graph(
            [entity("man"), entity("dog"), entity("cat"), entity("man")],
            [replace(relation(0, "chases", 2), sentences=(1,)), relation(0, "with", 1)],
        )
    )
    assert texts(candidates(roster, 0, {})) == [(3, "man with dog"), (3, "man chases cat")]


def test_the_bare_frame_is_asked_only_if_no_frame_gives_anything() -> None:
    """Q10, and then it is the first frame's."""
    first, other = entity("robe"), entity("robe", attribute("red"))
    owned = [relation(2, "part of", 0), relation(2, "part of", 1), relation(3, "part of", 1)]
    king, maid = entity("king"), entity("maid")
    roster = Roster(graph([king, maid, first, other], owned))
    assert texts(candidates(roster, 2, FOUND)) == [(0, "robe of king")]
    roster = Roster(graph([king, maid, first, other], [*owned, relation(3, "part of", 0)]))
    assert texts(candidates(roster, 2, FOUND)) == [(0, "robe of king")]


@pytest.mark.parametrize(
    ("identifier", "left"),
    [
        ("hand of man]", "hand"),
        ("hand of [the man] there", "hand there"),
        ("hand of man", "hand of man"),
        ("hand]", "hand]"),
    ],
)
def test_brackets_cut_a_part_short(identifier: str, left: str) -> None:
    """Q12."""
    assert short_identifier(identifier) == left
