"""Word classes for the coreference rules, read from ``lexicon.txt`` on first use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

from posh_reward.types import CACHED

Gender = frozenset[str]
"""Sexes of the pronouns that may refer to something: masculine "m", feminine "f", neuter "n"."""

THING: Gender = frozenset("n")
PERSON: Gender = frozenset("mf")
ANY: Gender = frozenset("mfn")

Number = frozenset[str]  # singular "s", plural "p", or both

SINGULAR: Number = frozenset("s")
PLURAL: Number = frozenset("p")
EITHER: Number = frozenset("sp")

PRONOUNS: dict[str, tuple[Number, Gender]] = {
    **dict.fromkeys(("he", "him", "his", "himself"), (SINGULAR, frozenset("m"))),
    **dict.fromkeys(("she", "her", "hers", "herself"), (SINGULAR, frozenset("f"))),
    **dict.fromkeys(("it", "its", "itself"), (SINGULAR, THING)),
    **dict.fromkeys(("they", "them", "their", "theirs", "themselves", "themself"), (PLURAL, ANY)),
    **dict.fromkeys(("we", "us", "our", "ours", "ourselves"), (PLURAL, ANY)),
    **dict.fromkeys(("i", "me", "my", "mine", "myself"), (SINGULAR, PERSON)),
    **dict.fromkeys(("you", "your", "yours", "yourself", "yourselves"), (EITHER, ANY)),
}
"""Number and gender of each personal pronoun."""

SPEAKER = {
    **dict.fromkeys(("we", "us", "our", "ours", "ourselves"), "we"),
    **dict.fromkeys(("i", "me", "my", "mine", "myself"), "i"),
    **dict.fromkeys(("you", "your", "yours", "yourself", "yourselves"), "you"),
}
"""Pronouns of the first and second person, whose referent does not depend on the text."""


@lru_cache(maxsize=1)
def classes() -> dict[str, frozenset[str]]:
    """The classes of ``lexicon.txt``: name -> lemmas."""
    table: dict[str, set[str]] = {}
    text = files(__package__).joinpath("lexicon.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        name, colon, lemmas = line.partition(":")
        if colon and not line.startswith("#"):
            table.setdefault(name, set()).update(lemmas.split())
    return {name: frozenset(lemmas) for name, lemmas in table.items()}


def has(name: str, lemma: str) -> bool:
    """Test whether a class of the lexicon has a lemma."""
    return lemma in classes()[name]


@lru_cache(maxsize=CACHED)
def gender_of(lemma: str) -> Gender | None:
    """The pronouns that a common noun may be resumed by; None for an unlisted noun."""
    table = classes()
    if lemma in table["male"] or lemma in table["female"]:
        return frozenset("m" if lemma in table["male"] else "f")
    if lemma in ("baby", "infant"):
        return ANY
    if lemma in table["person"]:
        return PERSON
    if lemma in table["femaleanimal"] or lemma in table["vessel"]:
        return frozenset("fn")
    if lemma in table["animal"] or lemma in table["kind.animal"] or lemma in table["kind.bird"]:
        return ANY
    if any(lemma.endswith(suffix) and lemma != suffix for suffix in table["personsuffix"]):
        return compound_gender(lemma)
    if lemma in table["things"] or any(
        lemma in lemmas for name, lemmas in table.items() if name.startswith("kind.")
    ):
        return THING
    return None


def gender_of_name(words: Iterable[str]) -> Gender:
    """By the first word with a gender: {"f"} of "the Virgin Mary", {"m"} of "King Charles"."""
    table = classes()
    for word in words:
        for gender, kinds in (("m", ("male", "malename")), ("f", ("female", "femalename"))):
            if any(word in table[kind] for kind in kinds):
                return frozenset(gender)
    return ANY


def compound_gender(lemma: str) -> Gender:
    """Gender of compounds: a "horsewoman" is female, a "bookkeeper" may be either."""
    if lemma.endswith(("woman", "women", "maid")):
        return frozenset("f")
    return frozenset("m") if lemma.endswith(("man", "men")) else PERSON


def animate(gender: Gender) -> bool:
    """Test whether it is a person or an animal; a ship, although it may be "she", is not."""
    return "m" in gender or gender == frozenset("f")


@lru_cache(maxsize=CACHED)
def resumes(anaphor: str, antecedent: str) -> bool:
    """Test whether "the <anaphor>" may refer to what was introduced as an <antecedent>.

    "the dog" may after "a hound", "the child" after "a boy"; not the other way round, as "the
    boy" after "a child" says something new.
    """
    table = classes()
    if antecedent in table.get(f"kind.{anaphor}", ()):
        return True
    if anaphor in table["animal"]:
        return any(
            antecedent in table[f"kind.{name}"] for name in ("animal", "dog", "bird", "fish")
        )
    first, second = gender_of(anaphor), gender_of(antecedent)
    if first is None or second is None or not (first & second):
        return False
    return person_resumes(anaphor, antecedent)


def person_resumes(anaphor: str, antecedent: str) -> bool:
    """The same for people: general words resume specific ones of the same age and sex."""
    table = classes()
    if not is_person(antecedent):
        return False
    if anaphor in table["anyone"]:
        return True
    young = antecedent in table["young"]
    if anaphor in table["young"]:
        return young and anaphor in ("child", "girl", "boy", "kid", "youngster", "youth")
    return anaphor in table["adult"] and not young


def is_person(lemma: str) -> bool:
    """Test whether a noun names a human being."""
    gender = gender_of(lemma)
    animal = has("animal", lemma) or has("kind.animal", lemma) or has("kind.bird", lemma)
    return gender is not None and animate(gender) and not animal
