"""Which questions a graph gives rise to, on graphs small enough to check by eye."""

from __future__ import annotations

import pytest

from posh_reward.metrics.posh.questions import (
    Candidate,
    Finding,
    candidates,
    given,
    parts,
    wholes,
)
from posh_reward.metrics.posh.roster import Roster
from tests.graphs import attribute, entity, graph, relation


def texts(ways: list[Candidate]) -> list[tuple[int, str]]:
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
    found = given(roster.graph)
    assert [finding.identifier for finding in found.values()] == ["the viewer", "our left"]
    assert wholes(roster) == [2]


def test_a_word_repeated_thousands_of_times_stays_quick() -> None:
    roster = Roster(graph([entity("dog", attribute("red"))] * 4000))
    assert all(texts(candidates(roster, i, {})) == [(0, "dog")] for i in range(4000))
