"""Word classes for the coreference rules, read from ``lexicon.txt`` on first use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

from posh_reward.types import WORD_CACHE_SIZE

Gender = frozenset[str]
"""Genders of the pronouns that may refer to it: masculine "m", feminine "f", neuter "n"."""

THING: Gender = frozenset("n")
PERSON: Gender = frozenset("mf")
ANY: Gender = frozenset("mfn")

Number = frozenset[str]  # singular "s", plural "p", or both
SINGULAR: Number = frozenset("s")
PLURAL: Number = frozenset("p")
EITHER: Number = frozenset("sp")

WE, ME = "we us our ours ourselves".split(), "i me my mine myself".split()
YOU = "you your yours yourself yourselves".split()
SPEAKER = {word: words[0] for words in (WE, ME, YOU) for word in words}
"""Pronouns of the first and second person, whose referent does not depend on the text."""

PRONOUNS: dict[str, tuple[Number, Gender]] = {
    **dict.fromkeys("he him his himself".split(), (SINGULAR, frozenset("m"))),
    **dict.fromkeys("she her hers herself".split(), (SINGULAR, frozenset("f"))),
    **dict.fromkeys("it its itself".split(), (SINGULAR, THING)),
    **dict.fromkeys("they them their theirs themselves themself".split(), (PLURAL, ANY)),
    **dict.fromkeys(WE, (PLURAL, ANY)),
    **dict.fromkeys(ME, (SINGULAR, PERSON)),
    **dict.fromkeys(YOU, (EITHER, ANY)),
}
"""Number and gender of each personal pronoun."""

ANIMALS = ("animal", "femaleanimal", "kind.animal", "kind.bird", "kind.dog", "kind.fish")
"""Classes of ``lexicon.txt``."""


@lru_cache(maxsize=1)
def classes() -> dict[str, frozenset[str]]:
    """Read ``lexicon.txt``: name of a class -> its lemmas."""
    table: dict[str, set[str]] = {}
    text = files(__package__).joinpath("lexicon.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        name, colon, lemmas = line.partition(":")
        if colon and not line.startswith("#"):
            table.setdefault(name, set()).update(lemmas.split())
    return {name: frozenset(lemmas) for name, lemmas in table.items()}


def has(name: str, lemma: str) -> bool:
    """Test whether a lemma is in a class of the lexicon."""
    return lemma in classes()[name]


@lru_cache(maxsize=WORD_CACHE_SIZE)
def gender_of(lemma: str) -> Gender | None:
    """Gender of a common noun; None for an unlisted one."""
    table = classes()
    if lemma in table["male"] or lemma in table["female"]:
        return frozenset("m" if lemma in table["male"] else "f")
    if lemma in ("baby", "infant"):
        return ANY
    if lemma in table["person"]:
        return PERSON
    if lemma in table["femaleanimal"] or lemma in table["vessel"]:
        return frozenset("fn")
    if is_animal(lemma):
        return ANY
    # Compounds: a "horsewoman" is female, a "bookkeeper" may be either.
    if any(lemma.endswith(suffix) and lemma != suffix for suffix in table["personsuffix"]):
        if lemma.endswith(("woman", "women", "maid")):
            return frozenset("f")
        return frozenset("m") if lemma.endswith(("man", "men")) else PERSON
    kinds = (lemmas for name, lemmas in table.items() if name.startswith("kind."))
    return THING if lemma in table["things"] or any(lemma in each for each in kinds) else None


def gender_of_name(words: Iterable[str]) -> Gender:
    """Gender of the first word that has one: {"f"} of "the Virgin Mary", else ``ANY``."""
    table = classes()
    for word in words:
        for gender, kinds in (("m", ("male", "malename")), ("f", ("female", "femalename"))):
            if any(word in table[kind] for kind in kinds):
                return frozenset(gender)
    return ANY


def is_animal(lemma: str) -> bool:
    """Test whether a noun names an animal."""
    table = classes()
    return any(lemma in table[name] for name in ANIMALS)


def animate(gender: Gender, lemmas: Iterable[str]) -> bool:
    """Test for a person or an animal; a ship may be "she", and a horse "it"."""
    return "m" in gender or gender == frozenset("f") or any(map(is_animal, lemmas))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def resumes(anaphor: str, antecedent: str) -> bool:
    """Test whether "the <anaphor>" may resume "an <antecedent>".

    "The dog" may resume "a hound", "the child" "a boy"; not the other way round, since "the boy"
    adds to "a child".
    """
    table = classes()
    if antecedent in table.get(f"kind.{anaphor}", ()):
        return True
    if anaphor in table["animal"]:
        kinds = ("animal", "dog", "bird", "fish")
        return any(antecedent in table[f"kind.{name}"] for name in kinds)
    # People: general words resume specific ones of the same age and gender.
    first, second = gender_of(anaphor), gender_of(antecedent)
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
    gender = gender_of(lemma)
    return gender is not None and animate(gender, ()) and not is_animal(lemma)
