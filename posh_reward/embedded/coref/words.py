"""Word classes for the coreference rules, read from ``lexicon.txt`` on first use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

from posh_reward.types import WORD_CACHE_SIZE

Gender = frozenset[str]
"""Genders of the pronouns that may refer to it: masculine "m", feminine "f", neuter "n"."""

THING_GENDER: Gender = frozenset("n")
PERSON_GENDER: Gender = frozenset("mf")
ANY_GENDER: Gender = frozenset("mfn")

Number = frozenset[str]  # singular "s", plural "p", or both
SINGULAR: Number = frozenset("s")
PLURAL: Number = frozenset("p")
EITHER_NUMBER: Number = frozenset("sp")

WE_FORMS, ME_FORMS = "we us our ours ourselves".split(), "i me my mine myself".split()
YOU_FORMS = "you your yours yourself yourselves".split()
SPEAKER_PRONOUNS = {
    **dict.fromkeys(WE_FORMS, "we"),
    **dict.fromkeys(ME_FORMS, "i"),
    **dict.fromkeys(YOU_FORMS, "you"),
}
"""Pronouns of the first and second person, whose referent does not depend on the text."""

PRONOUNS: dict[str, tuple[Number, Gender]] = {
    **dict.fromkeys("he him his himself".split(), (SINGULAR, frozenset("m"))),
    **dict.fromkeys("she her hers herself".split(), (SINGULAR, frozenset("f"))),
    **dict.fromkeys("it its itself".split(), (SINGULAR, THING_GENDER)),
    **dict.fromkeys("they them their theirs themselves themself".split(), (PLURAL, ANY_GENDER)),
    **dict.fromkeys(WE_FORMS, (PLURAL, ANY_GENDER)),
    **dict.fromkeys(ME_FORMS, (SINGULAR, PERSON_GENDER)),
    **dict.fromkeys(YOU_FORMS, (EITHER_NUMBER, ANY_GENDER)),
}
"""Number and gender of each personal pronoun."""

ANIMAL_CLASSES = ("animal", "femaleanimal", "kind.animal", "kind.bird", "kind.dog", "kind.fish")
"""Classes of ``lexicon.txt``."""


@lru_cache(maxsize=1)
def load_classes() -> dict[str, frozenset[str]]:
    """Read ``lexicon.txt``: name of a class -> its lemmas."""
    table: dict[str, set[str]] = {}
    text = files(__package__).joinpath("lexicon.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        name, colon, lemmas = line.partition(":")
        if colon and not line.startswith("#"):
            table.setdefault(name, set()).update(lemmas.split())
    return {name: frozenset(lemmas) for name, lemmas in table.items()}


def in_class(name: str, lemma: str) -> bool:
    """Test whether a lemma is in a class of the lexicon."""
    return lemma in load_classes()[name]


@lru_cache(maxsize=WORD_CACHE_SIZE)
def find_gender(lemma: str) -> Gender | None:
    """Find the gender of a common noun; None for an unlisted one."""
    table = load_classes()
    if lemma in table["male"]:
        return frozenset("m")
    if lemma in table["female"]:
        return frozenset("f")
    if lemma in ("baby", "infant"):
        return ANY_GENDER
    if lemma in table["person"]:
        return PERSON_GENDER
    if lemma in table["femaleanimal"] or lemma in table["vessel"]:
        return frozenset("fn")
    if is_animal(lemma):
        return ANY_GENDER
    # Compounds: a "horsewoman" is female, a "bookkeeper" may be either.
    if lemma.endswith(tuple(table["personsuffix"] - {lemma})):
        if lemma.endswith(("woman", "women", "maid")):
            return frozenset("f")
        if lemma.endswith(("man", "men")):
            return frozenset("m")
        return PERSON_GENDER
    kinds = [name for name in table if name.startswith("kind.")]
    if any(lemma in table[name] for name in ("things", *kinds)):
        return THING_GENDER
    return None


def find_name_gender(words: Iterable[str]) -> Gender:
    """Find the gender of the first word with one: {"f"} of "the Virgin Mary"; else any gender."""
    table = load_classes()
    for word in words:
        if word in table["male"] or word in table["malename"]:
            return frozenset("m")
        if word in table["female"] or word in table["femalename"]:
            return frozenset("f")
    return ANY_GENDER


def is_animal(lemma: str) -> bool:
    """Test whether a noun names an animal."""
    table = load_classes()
    return any(lemma in table[name] for name in ANIMAL_CLASSES)


def is_animate(gender: Gender, lemmas: Iterable[str]) -> bool:
    """Test for a person or an animal; a ship may be "she", and a horse "it"."""
    return "m" in gender or gender == frozenset("f") or any(map(is_animal, lemmas))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def may_resume(anaphor: str, antecedent: str) -> bool:
    """Test whether "the <anaphor>" may resume "an <antecedent>".

    "The dog" may resume "a hound", "the child" "a boy"; not the other way round, since "the boy"
    adds to "a child".
    """
    table = load_classes()
    if antecedent in table.get(f"kind.{anaphor}", ()):
        return True
    if anaphor in table["animal"]:
        kinds = ("animal", "dog", "bird", "fish")
        return any(antecedent in table[f"kind.{name}"] for name in kinds)
    # People: general words resume specific ones of the same age and gender.
    first, second = find_gender(anaphor), find_gender(antecedent)
    if not first or not second or not first & second or not is_person(antecedent):
        return False
    if anaphor in table["anyone"]:
        return True
    young = antecedent in table["young"]
    if anaphor in table["young"]:
        return young and anaphor in ("child", "girl", "boy", "kid", "youngster", "youth")
    return anaphor in table["adult"] and not young


def is_person(lemma: str) -> bool:
    """Test whether a noun names a human being."""
    gender = find_gender(lemma)
    return gender is not None and is_animate(gender, ()) and not is_animal(lemma)
