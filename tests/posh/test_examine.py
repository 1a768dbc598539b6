"""One direction of one pair, with a judge whose every answer is known."""

from collections.abc import Sequence
from typing import get_args

import pytest

from posh_reward.posh.batch import run_batched
from posh_reward.posh.examine import Examination, examine
from posh_reward.posh.fake_judge import FakeJudge, Grader
from posh_reward.posh.names import (
    CandidateName,
    EntityMatch,
    GraphIndex,
    list_parts,
    list_wholes,
    match_viewer,
    name_candidates,
    short_identifier,
)
from posh_reward.posh.rewriter import Rewriter
from posh_reward.posh.search import Pace
from posh_reward.types import Entity, Failure, Question, Relation
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
    return run_batched([steps], judge, Rewriter(judge))[0], judge


def graded(examination: Examination) -> list[tuple[str, float | None]]:
    return [(element.text, element.grade) for element in examination.elements]


def test_elements_stand_by_entity_with_attributes_and_relations() -> None:
    examination, _ = run(lambda question: 5.0)
    assert [(e.kind, e.text) for e in examination.elements] == [
        ("entity", "woman"), ("attribute", "tall"), ("relation", "see"), ("relation", "wears"),
        ("relation", "beside"), ("entity", "hat"), ("attribute", "red"),
        ("entity", "dog"), ("attribute", "sleeps"),
    ]  # fmt: skip


def test_what_belongs_to_an_absent_entity_gets_the_lowest_grade_unasked() -> None:
    examination, judge = run(lambda question: 1.0 if "dog" in question.identifier else 4.0)
    assert dict(graded(examination))["sleeps"] == 1.0
    assert dict(graded(examination))["beside"] == 1.0
    assert not [question for question in judge.questions if question.text in ("sleeps", "beside")]


def test_a_later_name_wins_only_with_a_higher_rounded_grade() -> None:
    def grader(question: Question) -> float:
        return {"woman": 3.6, "the tall woman": 4.4}.get(question.identifier, 5.0)

    examination, _ = run(grader)
    assert examination.matches[1].identifier == "woman"


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
        assert examination.matches[1].identifier == "woman"
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
    run_batched([steps], judge, Rewriter(judge))
    return judge.questions


def test_only_the_release_cuts_a_part_s_name_short_in_the_question_about_its_whole() -> None:
    assert [each.identifier for each in asked() if each.text == "part of"] == ["hand"]


def test_only_the_release_forgets_the_viewer_in_the_first_pass() -> None:
    assert "the boy sees us" in {each.identifier for each in asked()}


def roster(entities: list[Entity], relations: Sequence[Relation] = ()) -> GraphIndex:
    return GraphIndex(graph(entities, relations))


def texts(ways: list[CandidateName]) -> list[tuple[int, str]]:
    return [(way.rank, way.text) for way in ways]


def test_an_only_entity_is_called_by_its_name_then_by_its_attributes() -> None:
    dog = roster([entity("Dog", attribute("small"), attribute("Brown", sentence=1))])
    assert texts(name_candidates(dog, 0, {})) == [(0, "dog"), (1, "small dog"), (1, "brown dog")]


def test_namesakes_are_told_apart_by_what_only_one_has() -> None:
    men = roster([entity("man", attribute(age), attribute("tall")) for age in ("old", "young")])
    assert texts(name_candidates(men, 0, {})) == [(1, "old man")]
    assert texts(name_candidates(men, 1, {})) == [(1, "young man")]


def test_other_mentions_count_but_pronouns_do_not() -> None:
    boy = roster([entity("boy", mentions=["boy", "he", "Child"])])
    assert texts(name_candidates(boy, 0, {})) == [(0, "boy"), (2, "child")]


def test_relations_tell_namesakes_apart_where_nothing_else_does() -> None:
    people = roster(
        [entity("man"), entity("man"), entity("horse", attribute("white")), entity("king")],
        [relation(0, "rides", 2), relation(3, "greets", 1)],
    )
    assert texts(name_candidates(people, 0, {})) == [(3, "man rides white horse")]
    assert texts(name_candidates(people, 1, {})) == [(4, 'man with relation "king greets man"')]


def test_a_namesake_with_nothing_of_its_own_keeps_the_bare_name() -> None:
    trees = roster([entity("tree"), entity("tree")])
    assert texts(name_candidates(trees, 0, {})) == [(0, "tree")]


def test_an_absent_entity_identifies_nothing() -> None:
    men = roster([entity("man"), entity("man"), entity("hat")], [relation(0, "near", 2)])
    absent = {2: EntityMatch("hat", 1.2)}
    assert texts(name_candidates(men, 0, absent)) == [(0, "man")]


@pytest.mark.parametrize("text", ["wears", "has", "holding", "contained"])
def test_what_is_worn_held_or_contained_is_a_part(text: str) -> None:
    hers = roster([entity("woman"), entity("hat")], [relation(0, text, 1)])
    assert (list_wholes(hers), list_parts(hers)) == ([0], [1])


def test_a_part_is_called_by_the_whole_that_was_found() -> None:
    hats = roster(
        [entity("woman"), entity("hat"), entity("man"), entity("hat")],
        [relation(1, "part of", 0), relation(2, "wears", 3)],
    )
    found = {0: EntityMatch("the old woman", 4.0), 2: EntityMatch("man", 1.0)}
    assert texts(name_candidates(hats, 1, found)) == [(0, "hat of the old woman")]
    assert texts(name_candidates(hats, 3, found)) == [(0, "hat")], "its wearer is absent"


def test_the_viewer_is_given() -> None:
    seen = roster([entity("us", us=True), entity("left", left=True), entity("cup")])
    found = match_viewer(seen.graph)
    assert [finding.identifier for finding in found.values()] == ["the viewer", "our left"]
    assert list_wholes(seen) == [2]


def test_the_viewer_has_no_name_of_its_own_in_the_first_pass() -> None:
    """Q1: a first pass knows of no findings at all."""
    boys = roster(
        [entity("boy"), entity("us", attribute("red"), us=True), entity("boy")],
        [relation(0, "runs toward", 1)],
    )
    assert texts(name_candidates(boys, 0, {})) == [(3, "boy runs toward red us")]
    assert texts(name_candidates(boys, 0, match_viewer(boys.graph))) == [
        (3, "boy runs toward the viewer")
    ]


def test_our_left_is_not_a_namesake_of_another_left() -> None:
    """Q2."""
    lefts = roster([entity("left", left=True), entity("left")])
    assert texts(name_candidates(lefts, 1, {})) == [(0, "left")]


@pytest.mark.parametrize("text", ["held", "worn"])
def test_the_release_does_not_know_what_is_held_for_a_part(text: str) -> None:
    """Q3."""
    assert list_parts(roster([entity("man"), entity("cup")], [relation(0, text, 1)])) == []


def test_the_release_lets_a_thing_be_part_of_itself() -> None:
    """Q4: it waits for the second pass, where its own parts do not find it."""
    own = [relation(0, "part of", 0), relation(1, "part of", 0)]
    hers = roster([entity("woman"), entity("hand")], own)
    assert list_wholes(hers) == []
    assert texts(name_candidates(hers, 1, {})) == [(0, "hand")]


def test_a_text_that_an_earlier_frame_offered_is_not_found_again() -> None:
    """Q6: so that the later frame goes on to relations."""
    us, cold = entity("us", us=True), entity("hands", attribute("cold"))
    ours = roster(
        [us, cold, entity("hands"), us],
        [relation(0, "hold", 1), relation(1, "part of", 3), relation(2, "part of", 3)],
    )
    assert texts(name_candidates(ours, 1, match_viewer(ours.graph))) == [
        (0, "hands of the viewer"),
        (1, "cold hands of the viewer"),
        (4, 'hands of the viewer with relation "the viewer hold hands"'),
    ]


def test_the_release_takes_one_and_which_for_names() -> None:
    """Q8."""
    boat = roster([entity("boat", mentions=["boat", "it", "One", "which", "them"])])
    assert texts(name_candidates(boat, 0, {})) == [(0, "boat"), (2, "one"), (2, "which")]


def test_relations_are_offered_by_their_first_sentence() -> None:
    """Q9."""
    men = roster(
        [entity("man"), entity("dog"), entity("cat"), entity("man")],
        [relation(0, "chases", 2)._replace(sentences=(1,)), relation(0, "with", 1)],
    )
    assert texts(name_candidates(men, 0, {})) == [(3, "man with dog"), (3, "man chases cat")]


def test_the_bare_frame_is_asked_only_if_no_frame_gives_anything() -> None:
    """Q10, and then it is the first frame's."""
    first, other = entity("robe"), entity("robe", attribute("red"))
    owned = [relation(2, "part of", 0), relation(2, "part of", 1), relation(3, "part of", 1)]
    found = {0: EntityMatch("king", 5.0), 1: EntityMatch("maid", 5.0)}
    for relations in (owned, [*owned, relation(3, "part of", 0)]):
        robes = roster([entity("king"), entity("maid"), first, other], relations)
        assert texts(name_candidates(robes, 2, found)) == [(0, "robe of king")]


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
