"""Coreference rules on hand-written parses, one fact per test."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from posh_reward.embedded.coref.words import find_gender, may_resume
from posh_reward.graph.coreference import load_coref
from tests.parses import VOCAB, columns

POS = {
    **dict.fromkeys(("NN", "NNS"), "NOUN"),
    **dict.fromkeys(("VB", "VBZ", "VBP", "VBN", "VBG", "VBD"), "VERB"),
    **dict.fromkeys(("PRP", "PRP$", "WP"), "PRON"),
    **dict.fromkeys((".", ",", "HYPH"), "PUNCT"),
    **dict.fromkeys(("JJ", "JJR", "JJS"), "ADJ"),
    "NNP": "PROPN", "DT": "DET", "IN": "ADP", "CC": "CCONJ", "CD": "NUM", "RB": "ADV",
    "POS": "PART",
}  # fmt: skip


def parse(*sentences: str) -> Doc:
    """A Doc of sentences, each written as ``word/tag/label/head``, heads within the sentence."""
    words, tags, deps, heads, starts = columns(*sentences)
    lemmas = [
        word.lower().removesuffix("s") if tag in ("NNS", "VBZ") else word.lower()
        for word, tag in zip(words, tags, strict=True)
    ]
    lemmas = ["be" if lemma in ("i", "are") else lemma for lemma in lemmas]
    pos = [POS[tag] for tag in tags]
    return Doc(VOCAB, words=words, tags=tags, pos=pos, lemmas=lemmas, heads=heads, deps=deps,
               sent_starts=starts)  # fmt: skip


def linked(*sentences: str) -> list[list[str]]:
    """The clusters of a text, as the texts of their mentions."""
    doc = parse(*sentences)
    (clusters,) = load_coref("rules").resolve([doc])
    return [[doc[first : last + 1].text for first, last in cluster] for cluster in clusters]


WOMAN = "A/DT/det/1 woman/NN/nsubj/2 sits/VBZ/ROOT/2 ././punct/2"
MAN = "A/DT/det/1 man/NN/nsubj/2 sits/VBZ/ROOT/2 ././punct/2"
TWO_WOMEN = "Two/CD/nummod/1 women/NNS/nsubj/2 stand/VBP/ROOT/2 ././punct/2"
ON_LEFT = (
    "The/DT/det/1 woman/NN/nsubj/5 to/IN/prep/1 our/PRP$/poss/4 left/NN/pobj/2 "
    "kneels/VBZ/ROOT/5 ././punct/5"
)
ON_RIGHT = ON_LEFT.replace("left", "right")


def test_pronoun_resumes_what_agrees_in_sex() -> None:
    she = "She/PRP/nsubj/1 sleeps/VBZ/ROOT/1 ././punct/1"
    assert linked(WOMAN, MAN, she) == [["A woman", "She"]]


def test_it_resumes_a_thing_and_not_a_person() -> None:
    lamp = "A/DT/det/1 lamp/NN/nsubj/2 burns/VBZ/ROOT/2 ././punct/2"
    falls = "It/PRP/nsubj/1 falls/VBZ/ROOT/1 ././punct/1"
    assert linked(lamp, WOMAN, falls) == [["A lamp", "It"]]


def test_they_resumes_a_plural_or_a_coordination() -> None:
    they = "They/PRP/nsubj/1 sleep/VBP/ROOT/1 ././punct/1"
    both = (
        "A/DT/det/1 man/NN/nsubj/5 and/CC/cc/1 a/DT/det/4 boy/NN/conj/1 sit/VBP/ROOT/5 ././punct/5"
    )
    assert linked(TWO_WOMEN, MAN, they) == [["Two women", "They"]]
    assert linked(both, they) == [["A man and a boy", "They"]]


def test_they_is_a_person_or_several_but_not_one_animal() -> None:
    smile = "They/PRP/nsubj/1 smile/VBP/ROOT/1 ././punct/1"
    person = "A/DT/det/1 person/NN/nsubj/2 stands/VBZ/ROOT/2 ././punct/2"
    assert linked(person, smile) == [["A person", "They"]]
    assert linked(person.replace("person", "horse"), smile) == []


def test_a_cow_is_alive() -> None:
    cow = "A/DT/det/1 cow/NN/nsubj/2 grazes/VBZ/ROOT/2 ././punct/2"
    bulky = "The/DT/det/2 bulky/JJ/amod/2 cow/NN/nsubj/3 sleeps/VBZ/ROOT/3 ././punct/3"
    assert linked(cow, bulky) == [["A cow", "The bulky cow"]]
    assert linked(cow.replace("cow", "ship"), bulky.replace("cow", "ship")) == []


def test_subjects_are_resumed_before_other_phrases() -> None:
    faces = "A/DT/det/1 man/NN/nsubj/2 faces/VBZ/ROOT/2 a/DT/det/4 boy/NN/dobj/2 ././punct/2"
    he = "He/PRP/nsubj/1 sleeps/VBZ/ROOT/1 ././punct/1"
    assert linked(faces, he) == [["A man", "He"]]


def test_an_object_pronoun_is_not_its_own_subject_but_a_reflexive_is() -> None:
    he = "A/DT/det/1 boy/NN/nsubj/2 watches/VBZ/ROOT/2 him/PRP/dobj/2 ././punct/2"
    assert linked(MAN, he) == [["A man", "him"]]
    assert linked(MAN, he.replace("him", "himself")) == [["A boy", "himself"]]


def test_a_pronoun_after_a_preposition_of_place_may_be_the_subject() -> None:
    behind = (
        "A/DT/det/1 girl/NN/nsubj/2 lifts/VBZ/ROOT/2 a/DT/det/4 leg/NN/dobj/2 "
        "behind/IN/prep/2 her/PRP/pobj/5 ././punct/2"
    )
    assert linked(behind) == [["A girl", "her"]]


def test_his_right_is_not_that_of_who_stands_there() -> None:
    stands = (
        "A/DT/det/1 boy/NN/nsubj/2 stands/VBZ/ROOT/2 to/IN/prep/2 "
        "his/PRP$/poss/5 right/NN/pobj/3 ././punct/2"
    )
    assert linked(MAN, stands) == [["A man", "his"]]
    assert linked(MAN, stands.replace("stands", "turns")) == [["A boy", "his"]]


def test_definite_phrase_resumes_its_noun_with_fewer_modifiers() -> None:
    small = "A/DT/det/2 small/JJ/amod/2 lamp/NN/nsubj/3 burns/VBZ/ROOT/3 ././punct/3"
    the = "The/DT/det/1 lamp/NN/nsubj/2 falls/VBZ/ROOT/2 ././punct/2"
    assert linked(small, the) == [["A small lamp", "The lamp"]]
    assert linked(the, small) == []


def test_indefinite_phrases_introduce_something_new() -> None:
    assert linked(MAN, MAN, MAN.replace("A/", "Another/")) == []


def test_sides_tell_one_from_the_other() -> None:
    found = linked(TWO_WOMEN, ON_LEFT, ON_RIGHT, ON_LEFT)
    assert found == [["The woman to our left"] * 2, ["our"] * 3]


def test_what_was_said_before_tells_one_from_the_other() -> None:
    old = "She/PRP/nsubj/1 is/VBZ/ROOT/1 old/JJ/acomp/1 ././punct/1"
    the = "The/DT/det/2 old/JJ/amod/2 woman/NN/nsubj/3 sleeps/VBZ/ROOT/3 ././punct/3"
    left_is_old = ON_LEFT.replace("kneels/VBZ/ROOT/5", "is/VBZ/ROOT/5 old/JJ/acomp/5")
    clusters = linked(TWO_WOMEN, left_is_old, ON_RIGHT, the)
    assert ["The woman to our left", "The old woman"] in clusters
    assert ["A woman", "She"] in linked(WOMAN, old)


def test_ordinals_borrow_the_noun_of_the_counted_group() -> None:
    two = "Two/CD/nummod/1 boys/NNS/nsubj/2 stand/VBP/ROOT/2 ././punct/2"
    first = "The/DT/det/1 first/JJ/nsubj/2 sleeps/VBZ/ROOT/2 ././punct/2"
    his = "His/PRP$/poss/1 hat/NN/nsubj/2 falls/VBZ/ROOT/2 ././punct/2"
    second = first.replace("first", "second")
    clusters = linked(two, first, his, second, his)
    assert clusters == [["The first", "His"], ["The second", "His"]]


def test_plural_is_resumed_by_a_plural_only() -> None:
    women = "The/DT/det/1 women/NNS/nsubj/2 sleep/VBP/ROOT/2 ././punct/2"
    woman = "The/DT/det/1 woman/NN/nsubj/2 sleeps/VBZ/ROOT/2 ././punct/2"
    assert linked(TWO_WOMEN, women) == [["Two women", "The women"]]
    assert linked(TWO_WOMEN, woman) == []


def test_both_resumes_two() -> None:
    both = "Both/DT/nsubj/1 sleep/VBP/ROOT/1 ././punct/1"
    assert linked(TWO_WOMEN, both) == [["Two women", "Both"]]


def test_other_words_for_the_same_thing() -> None:
    oak = "An/DT/det/1 oak/NN/nsubj/2 stands/VBZ/ROOT/2 ././punct/2"
    tree = "The/DT/det/1 tree/NN/nsubj/2 falls/VBZ/ROOT/2 ././punct/2"
    assert linked(oak, tree) == [["An oak", "The tree"]]
    assert linked(oak.replace("An/", "The/"), tree.replace("The/", "A/")) == []


@pytest.mark.parametrize(
    ("anaphor", "antecedent"),
    [("dog", "hound"), ("animal", "terrier"), ("child", "boy"), ("girl", "daughter")],
)
def test_general_words_resume_special_ones(anaphor: str, antecedent: str) -> None:
    assert may_resume(anaphor, antecedent)
    assert not may_resume("lamp", antecedent)


def test_people_differ_in_sex_and_age() -> None:
    assert not may_resume("woman", "king")
    assert not may_resume("man", "boy")
    assert find_gender("horsewoman") == frozenset("f")
    assert find_gender("zzz") is None


def test_we_us_and_the_viewer_are_one() -> None:
    we = "We/PRP/nsubj/1 see/VBP/ROOT/1 a/DT/det/3 man/NN/dobj/1 ././punct/1"
    at_us = "He/PRP/nsubj/1 looks/VBZ/ROOT/1 at/IN/prep/1 us/PRP/pobj/2 ././punct/1"
    assert linked(we, at_us) == [["We", "us"], ["a man", "He"]]


def test_names_are_resumed_by_part_of_them() -> None:
    virgin = "The/DT/det/2 Virgin/NNP/compound/2 Mary/NNP/nsubj/3 sits/VBZ/ROOT/3 ././punct/3"
    mary = "Mary/NNP/nsubj/1 sleeps/VBZ/ROOT/1 ././punct/1"
    her = "Her/PRP$/poss/1 dress/NN/nsubj/2 glows/VBZ/ROOT/2 ././punct/2"
    assert linked(virgin, mary, her) == [["The Virgin Mary", "Mary", "Her"]]


def test_possessed_things_are_the_same_if_their_owners_are() -> None:
    hat = "His/PRP$/poss/1 hat/NN/nsubj/2 falls/VBZ/ROOT/2 ././punct/2"
    assert linked(MAN, hat, hat) == [["A man", "His", "His"], ["His hat", "His hat"]]


def test_pronoun_before_its_noun() -> None:
    beneath = (
        "Beneath/IN/prep/6 its/PRP$/poss/2 roof/NN/pobj/0 ,/,/punct/6 "
        "a/DT/det/5 hut/NN/nsubj/6 glows/VBZ/ROOT/6 ././punct/6"
    )
    assert linked(beneath) == [["its", "a hut"]]


TAGS = st.sampled_from(sorted(POS))
WORDS = st.sampled_from(
    "the a his her it they one of others second , and - our left man women ship looks Mary "
    "who each both two between old 's".split()
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(WORDS, TAGS, st.integers(0, 40)), max_size=40))
def test_any_doc_gives_consistent_clusters(tokens: list[tuple[str, str, int]]) -> None:
    doc = Doc(
        VOCAB,
        words=[word for word, _, _ in tokens],
        tags=[tag for _, tag, _ in tokens],
        pos=[POS[tag] for _, tag, _ in tokens],
        heads=[min(head, i) for i, (_, _, head) in enumerate(tokens)],
        deps=["pobj" if head % 3 else "nsubj" for _, _, head in tokens],
    )
    coref = load_coref()
    (clusters,) = coref.resolve([doc])
    mentions = [mention for cluster in clusters for mention in cluster]
    assert all(len(cluster) >= 2 for cluster in clusters)
    assert all(0 <= first <= last < len(doc) for first, last in mentions)
    assert len(mentions) == len(set(mentions))
    assert coref.resolve([doc]) == [clusters]


def test_planted_references_are_linked_well(shared_data: Path) -> None:
    from research.eval_coref import METRICS, Ratio, all_scores, conll_f1, exact, read_planted

    totals = dict.fromkeys(METRICS, Ratio())
    data, parses = shared_data / "data/planted/planted_dev.json", shared_data / "goldens"
    for _, doc, gold in read_planted(data, "", parses / "goldens.jsonl"):
        found = load_coref().resolve([doc])[0]
        scores = all_scores(exact(doc, gold), exact(doc, found))
        totals = {metric: totals[metric] + scores[metric] for metric in METRICS}
    assert conll_f1(totals) >= 0.85
