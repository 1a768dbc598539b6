from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward import PoSh, PoshReward
from posh_reward.embedded.english.word_order import disorder
from posh_reward.errors import ConfigError
from posh_reward.reward.guards import Guards
from posh_reward.reward.shaping import Shaping, read_shaping, shape_axes, shape_reward
from posh_reward.types import WORST_SCORE, Element, ImageGrade, Scores

ELEMENT = Element("precision", "entity", "x", 3.0, ((0, 100_000),), "x")
"""Covers all of a text."""


def scores(precision: float | None, recall: float | None, words: int = 10) -> Scores:
    text = " ".join((["word", "of", "the"] * words)[:words])
    reference = " ".join(["word"] * 10)
    return Scores(precision, recall, None, "s", (ELEMENT,), generation=text, reference=reference)


def test_loose_words_beyond_three_are_claims() -> None:
    """12 content words, 6 of them loose: 3 too many, each half an element, and all wrong.

    One element right and three halves wrong: (1 + 3 x 0.5 x 0.2) / (1 + 3 x 0.5) = 1.3 / 2.5.
    """
    text = "dog cat cow hen fox owl ruin snow lamp tent drum kite"
    covered = replace(ELEMENT, spans=((0, text.index("ruin")),))
    padded = replace(scores(1.0, 1.0), generation=text, reference="A dog.", elements=(covered,))
    floorless = Shaping("separate", guards=Guards(coverage_floor=0, disorder_limit=0))
    assert shape_axes(padded, floorless) == pytest.approx((1.3 / 2.5, 1.0))
    supported = replace(padded, reference="ruins, snow, lamps, a tent, drums and a kite")
    assert shape_axes(supported, floorless) == pytest.approx((1.0, 1.0))
    assert shape_axes(
        padded, Shaping("separate", guards=Guards(loose_weight=0, disorder_limit=0))
    ) == pytest.approx((1.0, 1.0))
    bare = replace(padded, generation=text.replace(" ruin snow lamp", ". Ruin snow lamp"))
    assert shape_axes(bare, floorless) == pytest.approx((1.6 / 4, 1.0)), "all six: none is free"
    wrapped = replace(padded, generation=text.replace(" ruin snow lamp", "\nruin snow lamp"))
    assert shape_axes(wrapped, floorless) == shape_axes(padded, floorless), "one sentence"
    german = replace(padded, reference="Ein Hund und eine Katze im Regen vor dem Haus.")
    assert shape_axes(german, Shaping("separate")) == (1.0, 1.0), "its words are not known"


def test_below_the_floor_of_coverage_the_reward_falls() -> None:
    """10 content words, 8 loose: 3 are free, so coverage is 0.5 of a floor of 1, half is kept."""
    text = "dog cat cow hen fox owl ruin snow lamp tent"
    covered = replace(ELEMENT, spans=((0, 7),))
    bare = replace(scores(1.0, 1.0), generation=text, reference="A dog.", elements=(covered,))
    assert shape_reward(
        bare, Shaping(guards=Guards(coverage_floor=1, loose_weight=0, disorder_limit=0))
    ) == pytest.approx(0.6)


def test_the_image_alone_pays_no_more_than_weak_support() -> None:
    """Reference 2.9 and image 5 were worth 5, reference 3.2 only 3.2: now 3 and 3.2 (of 5)."""

    def reward(reference: float, image: float | None, cap: float) -> float | None:
        grade = reference if image is None else max(reference, image)
        seen = None if image is None else ImageGrade(image, reference)
        element = replace(ELEMENT, grade=grade, image_grade=seen)
        paid = shape_axes(
            replace(scores(grade / 5, 1.0), elements=(element,)),
            Shaping("separate", guards=Guards(image_cap=cap)),
        )
        return paid[0] if paid else None

    assert reward(2.9, 5.0, cap=5) == pytest.approx(1.0)
    assert reward(2.9, 5.0, cap=3) == pytest.approx(0.6)
    assert reward(3.2, None, cap=3) == pytest.approx(0.64)
    assert reward(2.0, 2.5, cap=3) == pytest.approx(0.5)
    with pytest.raises(ConfigError, match="image_cap is 6"):
        Shaping(guards=Guards(image_cap=6))


def test_what_is_unmentioned_may_weigh_less_than_what_is_contradicted() -> None:
    """Grades 5, 1 (unmentioned) and 1 (contradicted): (5 + w + 1) / (2 + w) / 5."""
    elements = (
        replace(ELEMENT, grade=5.0),
        replace(ELEMENT, grade=1.0),
        replace(ELEMENT, grade=1.0, decided_by="contradicted"),
    )

    def precision(weight: float) -> float | None:
        shaping = Shaping("separate", unmentioned_weight=weight, guards="off")
        paid = shape_axes(replace(scores(7 / 15, 1.0), elements=elements), shaping)
        return paid[0] if paid else None

    assert precision(1.0) == pytest.approx(7 / 15)
    assert precision(0.5) == pytest.approx(6.5 / 2.5 / 5)
    with pytest.raises(ConfigError, match="unmentioned_weight is 0"):
        Shaping(unmentioned_weight=0)
    with pytest.raises(ConfigError, match="nothing tells what is unmentioned"):
        PoshReward(PoSh(), Shaping(unmentioned_weight=0.5))
    PoshReward(PoSh(reader="judge"), Shaping(unmentioned_weight=0.5))


@pytest.mark.parametrize("objective", ["f1", "weighted"])
def test_a_mean_of_equal_scores_is_exactly_that_score(objective: Literal["f1", "weighted"]) -> None:
    for weight in (1, 2, 3, 4, 8):
        assert (
            shape_reward(
                scores(WORST_SCORE, WORST_SCORE), Shaping(objective, precision_weight=weight)
            )
            == WORST_SCORE
        )


def test_a_failure_has_no_reward() -> None:
    assert shape_reward(scores(None, 0.4), Shaping()) is None


def of_kinds(entities: int, attributes: int) -> Scores:
    """A text with so many elements of each kind, all of them right."""
    elements = [replace(ELEMENT, kind="entity")] * entities
    elements += [replace(ELEMENT, kind="attribute")] * attributes
    return replace(scores(0.9, 0.6), elements=tuple(elements))


def test_a_list_of_bare_nouns_is_worst() -> None:
    assert shape_reward(of_kinds(100, 0), Shaping()) == pytest.approx(WORST_SCORE)
    assert shape_axes(of_kinds(100, 0), Shaping()) == pytest.approx((WORST_SCORE, WORST_SCORE))
    honest = shape_reward(of_kinds(10, 7), Shaping())
    assert (
        honest
        == shape_reward(of_kinds(10, 7), Shaping(guards=Guards(detail_floor=0)))
        == pytest.approx(0.72)
    )
    assert shape_reward(of_kinds(3, 0), Shaping()) == honest, "three things are no list"
    # Two of five are more than three that need nothing: 1 - 2 x (2 / 5 - 0.1) = 0.4 of 0.52.
    assert shape_reward(of_kinds(5, 0), Shaping()) == pytest.approx(0.2 + 0.4 * 0.52)
    assert shape_reward(of_kinds(5, 2), Shaping()) == honest


def test_plain_sentences_are_no_list() -> None:
    """Five sentences with a thing and a place in each: a policy learned to say false details
    instead, as long as they got the worst reward."""
    places = ("On the left", "At the center", "To our right", "In the back", "In front")
    plain = " ".join(f"{place}, there is a {thing}." for place, thing in zip(
        places, ("boy", "man", "house", "dog", "tree"), strict=True))  # fmt: skip
    detailed = "A boy in red pets a dog. A man in a coat stands at a house near a green tree."
    rewards = [PoshReward(shaping=shaping)([None], [plain], reference=[detailed])[0]
               for shaping in (Shaping(), Shaping(guards=Guards(detail_floor=0)))]  # fmt: skip
    assert rewards[0] == rewards[1]


def test_words_out_of_order_cost() -> None:
    """Shuffled words lose all; words in order and a few out of it nothing."""

    def reward(text: str, limit: float = 0.15) -> float | None:
        scored = replace(scores(0.9, 0.6), generation=text, reference="A dog and a man.")
        return shape_reward(scored, Shaping(guards=Guards(disorder_limit=limit)))

    honest = "The man in the coat and the dog beside the tree look at the bird on the path."
    shuffled = (
        "of the man the and coat in the on dog beside the tree look at the bird path the. " * 4
    )
    assert reward(honest) == reward("Of the.") == pytest.approx(0.72)
    assert reward(shuffled) == pytest.approx(WORST_SCORE)
    assert reward(shuffled, 2 * disorder(shuffled)) == pytest.approx(0.2 + 0.52 / 2)
    assert reward(shuffled, 0) == pytest.approx(0.72)


def test_prepositions_alone_describe_nothing() -> None:
    """Nine things in a sentence: "the sky of the quay beside ..." has no verb and no attribute."""
    own_rules_only = Shaping(guards=Guards(disorder_limit=0, coverage_floor=0, loose_weight=0))

    def reward(text: str) -> float | None:
        chain = " ".join(f"n{i} {text}" for i in range(8)) + " n8."
        places = [(i * (4 + len(text)), i * (4 + len(text)) + 2) for i in range(9)]
        own = [Element("precision", "entity", "n", 4.5, (place,), "n") for place in places]
        own += [Element("precision", "relation", text, 4.5, (place,), "n") for place in places[:8]]
        scored = replace(scores(0.9, 0.6), elements=tuple(own), generation=chain)
        return shape_reward(scored, own_rules_only)

    assert reward("of the") == pytest.approx(WORST_SCORE)
    assert reward("holds") == pytest.approx(0.72)


def test_things_that_the_reference_lacks_and_nothing_is_said_of_are_mistakes() -> None:
    """14 elements of 0.9, and two that count half an element each: (14 x 0.9 + 0.2) / 15."""
    text = "Dogs run. Dogs sit. Dogs eat. There is an item in a person."
    words = ["Dogs", "run", "Dogs", "sit", "Dogs", "eat", "item", "person"]
    places, at = [], 0
    for word in words:
        at = text.index(word, at)
        places.append((at, at + len(word)))
    own = [Element("precision", "entity", word, 4.5, (place,), word)
           for word, place in zip(words, places, strict=True)]  # fmt: skip
    own += [Element("precision", "attribute", "run", 4.5, (place,), "dog") for place in places[:6]]
    lone = replace(scores(0.9, 0.9), elements=tuple(own), generation=text, reference="Dogs sit.")
    some = Shaping("separate", guards=Guards(disorder_limit=0))
    assert shape_axes(lone, some) == pytest.approx(((14 * 0.9 + 0.2) / 15, 0.9))
    titled = replace(
        lone,
        generation=text.replace("an item", "an edge").replace("a person", "a shadow"),
        elements=tuple(
            replace(each, text={"item": "edge", "person": "shadow"}.get(each.text, each.text))
            for each in own
        ),
    )
    assert shape_axes(titled, some) == pytest.approx(((14 * 0.9 + 0.1) / 14.5, 0.9)), "one place"
    there = replace(lone, reference="Dogs and persons with items.")
    assert shape_axes(there, some) == pytest.approx((0.9, 0.9))
    few = replace(lone, elements=tuple(own[6:8]))
    assert shape_axes(
        few, Shaping("separate", guards=Guards(coverage_floor=0, loose_weight=0))
    ) == (0.9, 0.9)


def test_repetition_beyond_the_limit_costs() -> None:
    """12 words twice make 21 four-word sequences, of which 9 repeat: 12 / 21 of 0.85 is kept."""
    sentence = "The tall woman in the red dress holds a basket of apples. "
    limit = Shaping(guards=Guards(repetition_limit=0.15))

    def reward(text: str) -> float | None:
        return shape_reward(replace(scores(0.9, 0.6), generation=text), limit)

    assert reward(sentence) == pytest.approx(0.72)
    assert reward(sentence * 2) == pytest.approx(0.2 + 0.52 * 12 / 21 / 0.85)
    often = reward(sentence * 30)
    assert often is not None
    assert WORST_SCORE < often < 0.3


def test_each_axis_can_have_its_own_reward() -> None:
    assert shape_axes(scores(0.9, 0.6), Shaping("separate")) == (0.9, 0.6)
    assert shape_axes(scores(0.9, None), Shaping("separate")) is None


def test_words_beyond_the_limit_cost() -> None:
    limit = Shaping(guards=Guards(length_limit=2.0))
    assert shape_reward(scores(0.5, 0.5, words=20), limit) == pytest.approx(0.5)
    assert shape_reward(scores(0.5, 0.5, words=30), limit) == pytest.approx(0.35)
    assert shape_reward(scores(0.5, 0.5, words=40), limit) == pytest.approx(WORST_SCORE)


SHAPINGS = st.builds(
    Shaping,
    objective=st.sampled_from(["f1", "weighted", "separate"]),
    precision_weight=st.floats(0.1, 10),
    recall_weight=st.floats(0, 10),
    guards=st.builds(
        Guards,
        length_limit=st.none() | st.floats(0.1, 5),
        repetition_limit=st.none() | st.floats(0, 0.99),
        detail_floor=st.floats(0, 5),
        disorder_limit=st.floats(0, 5),
    ),
)
SCORE = st.floats(0.2, 1)


@given(SHAPINGS, SCORE, SCORE, st.integers(0, 20), st.integers(0, 20), st.integers(0, 60))
def test_shaping_never_adds_and_never_goes_below_the_worst(
    shaping: Shaping, precision: float, recall: float, entities: int, attributes: int, words: int
) -> None:
    elements = of_kinds(entities, attributes).elements
    scored = replace(scores(precision, recall, words), elements=elements)
    one, axes = shape_reward(scored, shaping), shape_axes(scored, shaping)
    assert one is not None
    assert axes is not None
    assert WORST_SCORE - 1e-9 <= one <= max(precision, recall) + 1e-9
    assert WORST_SCORE - 1e-9 <= axes[0] <= precision
    assert WORST_SCORE - 1e-9 <= axes[1] <= recall


@pytest.mark.parametrize(
    "wrong",
    [
        {"objective": "recall"},
        {"precision_weight": -1},
        {"precision_weight": 0, "recall_weight": 0},
        {"length_limit": 0},
        {"repetition_limit": 1.0},
        {"repetition_limit": -0.1},
        {"detail_floor": -1},
        {"disorder_limit": -0.1},
        *(
            {name: value}
            for name in (
                "precision_weight",
                "detail_floor",
                "loose_weight",
                "disorder_limit",
                "length_limit",
                "repetition_limit",
            )
            for value in (float("nan"), float("inf"))
        ),
    ],
)
def test_impossible_shapings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        read_shaping(wrong)
