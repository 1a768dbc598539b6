"""Only elements are evidence for the embedded judge; their order, attachment and company count."""

from __future__ import annotations

import random

import pytest

from posh_reward import PoSh
from posh_reward.embedded.judge.alignment import Alignment
from posh_reward.embedded.judge.features import MIN_SUPPORT, PairFeatures
from posh_reward.embedded.judge.index import DescriptionIndex
from posh_reward.embedded.judge.relation_features import compute_relation_features
from posh_reward.types import Description, Question

REFERENCE = (
    "A tall woman in a red dress stands to our left, holding a yellow basket. To her right, a "
    "small brown dog sleeps under a wooden table. Behind them, an old man reads a letter."
)
OMITTING = "A woman in a dress stands to our left. A dog sleeps under a table."


@pytest.fixture(scope="module")
def posh() -> PoSh:
    return PoSh()


def f1(posh: PoSh, text: str) -> float:
    [score] = posh.score([text], [REFERENCE])
    assert score.f1 is not None
    return score.f1


def read(text: str) -> Description:
    [found] = PoSh().graph_reader.read([text])
    assert isinstance(found, Description)
    return found


def test_words_that_no_element_covers_are_no_evidence() -> None:
    found = read("A dog sleeps. Tall's red's yellow's basket's.")
    words = {word for word, _ in DescriptionIndex(found).places}
    assert {"dog", "sleeps"} <= words
    spans = [s for e in found.graph.entities for s in e.spans]
    spans += [s for e in found.graph.entities for a in e.attributes for s in a.spans]
    spans += [s for relation in found.graph.relations for s in relation.spans]
    assert words <= {w.strip("'.").lower() for a, b in spans for w in found.text[a:b].split()}


@pytest.mark.parametrize(
    "padding",
    ["Tall's red's yellow's small's brown's old's.", "We tall. We red. We hold. We read."],
)
def test_loose_words_do_not_pay(posh: PoSh, padding: str) -> None:
    assert f1(posh, f"{OMITTING} {padding}") <= f1(posh, OMITTING) + 0.002


def test_words_in_disorder_say_less_than_in_order(posh: PoSh) -> None:
    words = REFERENCE.replace(",", "").replace(".", "").split()
    bags = [" ".join(random.Random(seed).sample(words, len(words))) + "." for seed in range(5)]
    assert max(f1(posh, bag) for bag in bags) < f1(posh, REFERENCE) - 0.1


def features_about(text: str, other: str, element: str) -> dict[str, float]:
    """The judge's features of one attribute or entity of ``text``, looked for in ``other``."""
    source, target = read(text), read(other)
    pair = PairFeatures(Alignment(DescriptionIndex(source), DescriptionIndex(target)))
    for number, entity in enumerate(source.graph.entities):
        if entity.head == element:
            question = Question("precision", "entity", element, source, target, number)
            return pair.compute_features(question)
        if element in [attribute.text.lower() for attribute in entity.attributes]:
            head = entity.head
            question = Question("precision", "attribute", head, source, target, number, element)
            return pair.compute_features(question)
    raise AssertionError(f"{element} is not in {source.graph}")


@pytest.mark.parametrize(
    ("text", "other", "attribute"),
    [
        ("She holds a cup in one hand.", "She holds a cup in her hand.", "one"),
        ("A coat of ivory satin hangs there.", "An ivory satin coat shines.", "ivory"),
        ("White tufts stick out.", "He has tufts of white hair.", "white"),
    ],
)
def test_a_count_of_one_and_the_colour_of_a_stuff_are_said(
    text: str, other: str, attribute: str
) -> None:
    features = features_about(text, other, attribute)
    assert features["said"] >= MIN_SUPPORT
    assert not features["unsaid_settled"]


def test_one_is_not_said_of_several() -> None:
    features = features_about("One boat lies there.", "Two boats lie there.", "one")
    assert features["said"] < MIN_SUPPORT
    assert features["denied"]


@pytest.mark.parametrize(
    ("text", "attribute"),
    [("A man in a three-cornered hat waits.", "three"), ("He looks at his own hat.", "own")],
)
def test_words_that_count_or_pick_nothing_are_not_missed(text: str, attribute: str) -> None:
    features = features_about(text, "A man with a hat waits.", attribute)
    assert not features.get("unsaid_settled")
    assert not features.get("mixed_up")


def test_a_stuff_that_is_not_said_of_the_thing_is_a_fact() -> None:
    text = "The man rings a bell of silver."
    assert features_about(text, "The man rings a bell.", "silver")["stuff_unsaid"]
    assert not features_about(text, "The man rings a silver bell.", "silver")["stuff_unsaid"]


def relation_feature(text: str, other: str, feature: str) -> float:
    """A feature of the first relation of ``text``."""
    source, target = read(text), read(other)
    alignment = Alignment(DescriptionIndex(source), DescriptionIndex(target))
    first = source.graph.relations[0]
    return compute_relation_features(alignment, first.subject, first.text, first.object)[feature]


HARBOUR = (
    "Under a heavy sky, a stout sailor mends a torn net on the quay. A girl with a wicker basket "
    "feeds a striped cat. In the distance, a narrow bridge leads to a white church."
)


def test_a_sentence_of_true_words_that_is_false_is_incoherent() -> None:
    # "Mends" and "torn" belong to other things, and the words come from all three sentences.
    false = "The stout bridge mends a striped basket on the torn church."
    assert features_about(false, HARBOUR, "striped")["incoherent"] == 1
    true = "A heavy-set sailor on the quay is mending his net, which is torn."
    assert features_about(true, HARBOUR, "torn")["incoherent"] == 0


def test_true_words_in_false_sentences_do_not_pay(posh: PoSh) -> None:
    [half, _, _] = HARBOUR.split(". ")
    false = (
        "The narrow cat leads a white basket to the sky. The striped church of a girl feeds the "
        "wicker bridge. A heavy net in the distance mends a torn basket."
    )
    honest, padded = posh.score([f"{half}.", f"{half}. {false}"], [HARBOUR] * 2)
    assert honest.precision is not None
    assert padded.precision is not None
    assert padded.precision < honest.precision - 0.2


def test_only_the_same_words_turn_a_relation_round() -> None:
    assert relation_feature("A man chases a dog.", "A dog chases a man.", "turned_round")
    crowned = "The head is crowned with a wreath."
    assert not relation_feature("A wreath circles the head.", crowned, "turned_round")


def claim_features(text: str, other: str, claim: str) -> dict[str, float]:
    """All features of one relation of ``text``."""
    source, target = read(text), read(other)
    [ends] = [(r.subject, r.object) for r in source.graph.relations if r.text == claim]
    question = Question("precision", "relation", "", source, target, ends[0], claim, "", ends[1])
    pair = PairFeatures(Alignment(DescriptionIndex(source), DescriptionIndex(target)))
    return pair.compute_features(question)


CAT_ON_TABLE = "A cat lies on the table, and a dog sleeps on the floor."
DOG_ON_TABLE = "A dog lies on the table, and a cat sleeps on the floor."


def test_what_is_said_of_another_thing_contradicts_in_a_short_text() -> None:
    assert claim_features(DOG_ON_TABLE, CAT_ON_TABLE, "lies on")["exchanged"] == 1
    assert claim_features(CAT_ON_TABLE, CAT_ON_TABLE, "lies on").get("exchanged", 0.0) == 0
    kicked = claim_features("A man kicks a ball.", "A man throws a ball.", "kicks")
    assert kicked["other_verb"] > 0.5


def test_a_long_text_says_so_much_that_this_proves_little() -> None:
    features = claim_features(DOG_ON_TABLE, f"{CAT_ON_TABLE} {REFERENCE} {HARBOUR}", "lies on")
    assert 0 < features["exchanged"] < 0.5


@pytest.mark.parametrize(("place", "excluded"), [("under", True), ("in", False), ("on", False)])
def test_a_place_that_a_long_text_excludes_is_contradicted(place: str, excluded: bool) -> None:
    text = f"A cat lies {place} the chest."
    reference = f"A cat lies on the chest. {REFERENCE} {HARBOUR}"
    feature = claim_features(text, reference, f"lies {place}")["other_preposition"]
    assert (feature > 0.5) == excluded


@pytest.mark.parametrize(
    ("text", "other", "claim"),
    [
        ("The boat with white sails floats.", "The sails of the boat are white.", "with"),
        ("A man wears a coat.", "The coat of the man is red.", "wears"),
        ("The sails of the boat are white.", "The deck of the boat is white, as is a sail.", "of"),
    ],
)
def test_a_whole_with_one_part_may_have_another(text: str, other: str, claim: str) -> None:
    features = claim_features(text, other, claim)
    assert not features.get("exchanged")
    assert not features.get("turned_round")
