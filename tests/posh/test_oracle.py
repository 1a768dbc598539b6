"""The oracle answers about drawn images from their drawing, and never guesses."""

import pytest

from posh_reward import PoSh
from posh_reward.datasets.scenes import (
    Scene,
    Subject,
    caption,
    draw_scene,
    generate_scenes,
    list_things,
)
from posh_reward.posh.oracle import ground_entities, is_true
from posh_reward.types import Description, Question, SceneGraph

WOMAN = Subject("woman", "red", pose="stands", hat="white", held="fan", held_color="blue")
MAN = Subject("man", "green", pose="sits", behind="house", behind_color="yellow")
SHOWN = Scene("test", (WOMAN, MAN, Subject("bird", "black", count=2)))
DRAWN = "scenes:train=0:heldout=12:seed=5"


@pytest.fixture(scope="module")
def posh() -> PoSh:
    return PoSh(witness=DRAWN)


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return list(generate_scenes("test", 12, 5))


def read(posh: PoSh, text: str) -> Description:
    [found] = posh.graph_reader.read([text])
    assert isinstance(found, Description)
    return found


def told(posh: PoSh, text: str, scene: Scene = SHOWN) -> dict[str, bool | None]:
    """The oracle's answers about each element of a text."""
    source = read(posh, text)
    seen = ground_entities(source, list_things(scene))
    graph = source.graph
    nothing = Description("", SceneGraph((), ()))
    answers: dict[str, bool | None] = {}
    for place, entity in enumerate(graph.entities):
        ask = Question("precision", "entity", entity.head, source, nothing, place)
        answers[entity.head] = is_true(seen, ask)
        for attribute in entity.attributes:
            asked = ask._replace(kind="attribute", text=attribute.text)
            answers[f"{attribute.text} {entity.head}"] = is_true(seen, asked)
    for relation in graph.relations:
        ends = graph.entities[relation.subject].head, graph.entities[relation.object].head
        ask = Question(
            "precision", "relation", ends[0], source, nothing, relation.subject, relation.text,
            ends[1], relation.object,
        )  # fmt: skip
        answers[f"{ends[0]} {relation.text} {ends[1]}"] = is_true(seen, ask)
    return answers


def test_true_details_are_true(posh: PoSh) -> None:
    answers = told(
        posh,
        "On the left, a woman in a red dress stands. She holds a blue fan. In the middle, a man "
        "in a green coat sits in front of a yellow house. To our right, two black birds fly.",
    )
    assert set(answers.values()) == {True}
    assert {"red dress", "woman holds fan", "man sits in front", "two birds"} <= set(answers)


@pytest.mark.parametrize(
    ("text", "false"),
    [
        ("A woman in a green dress stands.", ["green dress"]),
        ("A woman in a red dress sits.", ["sits woman"]),
        ("A woman holds a red fan.", ["red fan"]),
        ("The woman holds a basket.", ["basket"]),
        ("A woman in a green coat stands.", ["woman in coat"]),
        ("A man sits in front of a blue tree.", ["tree"]),
        ("A man holds a blue fan.", ["man holds fan"]),
        ("Three black birds fly.", ["Three birds"]),
        ("On the left, a girl stands.", ["girl"]),
        ("A dog sits.", ["dog"]),
    ],
)
def test_a_false_detail_is_false(posh: PoSh, text: str, false: list[str]) -> None:
    answers = told(posh, text)
    assert [name for name, answer in answers.items() if answer is False] == false


@pytest.mark.parametrize(
    ("text", "untold"),
    [
        ("A proud woman stands.", "proud woman"),
        ("A crimson dress.", "crimson dress"),
        ("A red woman stands.", "red woman"),
        ("A small woman stands.", "small woman"),
        ("There is a castle.", "castle"),
        ("A woman admires a fan.", "woman admires fan"),
    ],
)
def test_what_the_drawing_does_not_tell_is_not_guessed(posh: PoSh, text: str, untold: str) -> None:
    assert told(posh, text)[untold] is None


def test_of_two_things_of_one_noun_the_place_decides(posh: PoSh) -> None:
    vases = Subject("vase", "red", size="small"), Subject("vase", "blue", size="large"), None
    pair = Scene("two", vases)
    answers = told(posh, "On the left, a red vase stands. At the center, a red vase stands.", pair)
    assert answers["red vase"] is False, "the last one named is the blue one"
    assert told(posh, "At the center, a blue vase stands.", pair)["blue vase"] is True


def test_one_dog_does_not_bear_out_two(posh: PoSh) -> None:
    alone = Scene("dog", (Subject("dog", "white", size="small"), None, None))
    source = read(posh, "A dog sits. There is another dog.")
    assert len(ground_entities(source, list_things(alone)).assigned) == 1


def test_no_full_description_is_ever_called_false(posh: PoSh, scenes: list[Scene]) -> None:
    full = [caption(scene) for scene in scenes]
    blank = [f"There is a {scene.slots[0].noun if scene.slots[0] else 'lake'}." for scene in scenes]
    scored = posh.score(full, blank, [draw_scene(scene) for scene in scenes])
    seen = [
        e.image_grade for scores in scored for e in scores.elements if e.image_grade is not None
    ]
    assert 1.0 not in [each.grade for each in seen]
    assert [each.grade for each in seen].count(5.0) > 0.9 * len(seen)
    assert all((scores.precision or 0) > 0.9 for scores in scored)


def test_an_image_that_the_oracle_does_not_know_fails_its_pair(posh: PoSh) -> None:
    scores = posh.score(["A red dog."], ["A cat."], [draw_scene(SHOWN)])[0]
    assert scores.precision is None
    assert "as they were loaded" in str(scores.failure)
