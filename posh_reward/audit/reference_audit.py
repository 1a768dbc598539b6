"""Audit of references: which ones teach a policy to omit, to list, or to contradict itself."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from math import sqrt
from statistics import median

from posh_reward.embedded.english.likeness import colours, conflict, number
from posh_reward.embedded.english.meaning import dictionary_forms, is_material, senses
from posh_reward.embedded.english.wordnet import is_english, wordnet
from posh_reward.graph.reader import Reader
from posh_reward.markup import find_markup
from posh_reward.pages.html import render
from posh_reward.settings import shorten, shorten_list
from posh_reward.text_values import is_placeholder
from posh_reward.types import Description, Entity, Failure
from posh_reward.words import DEPICTION, LIGHT, PLACES, find_words

WORST = 20
"""References on the page."""
TERSE = 1 / 3
"""Share of the median number of details below which a reference is terse."""
LIST, LIST_SHARE = 8, 0.65
"""Entities from which, and details per entity below which a text is a list, as for rewards."""
BULLET = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+\w")
GRAM, SAME = 5, 0.5
"""Words in a sequence, and the share of sequences in common from which two texts are the same."""
COMMON = 50
"""References from which on a sequence is a phrase of the data set, not a sign of a copy."""
MOST = 20
"""Largest number that counts things."""
OFTEN, FEWEST = 0.1, 8
"""Share of long references that mention a word that short ones omit, and fewest of each half."""
SURE = 4.0
"""Standard errors by which a detail must be rarer with a thing; high, as hundreds are compared."""

UNTELLING = DEPICTION | LIGHT | PLACES
"""Words that say how an image is shown, not what is in it."""
PEOPLE = "a person"
SORTS = {5: "an animal", 13: "food", 18: PEOPLE, 20: "a plant"}
"""WordNet's file of a thing's usual sense -> its sort."""
KINDS: Mapping[str, Callable[[str], bool]] = {
    "a colour": lambda word: word in colours(),
    "a count": lambda word: number(word) is not None,
    "a place (left, back)": lambda word: word in PLACES,
    "a material": lambda word: is_material((word, "n")) or is_material((word, "a")),
    "words to read (in quotes)": lambda word: word in ('"', "\N{LEFT DOUBLE QUOTATION MARK}"),
}
"""Kinds of detail, by a word of the text."""


@dataclass(frozen=True)
class Reference:
    """A reference with what its graph says; ``problems`` are filled in by ``audit``."""

    row: int
    text: str
    description: Description | Failure
    problems: dict[str, str] = field(default_factory=dict)
    """Kind -> what is wrong."""

    @cached_property
    def counts(self) -> tuple[int, int, int, int]:
        """Entities, attributes, relations by verbs or possession, all relations."""
        if isinstance(self.description, Failure):
            return 0, 0, 0, 0
        things = [each for each in self.description.graph.entities if not each.flagged]
        relations = self.description.graph.relations
        said = sum(each.source != "prep" for each in relations)
        return len(things), sum(len(e.attributes) for e in things), said, len(relations)

    @property
    def details(self) -> int:
        """Elements of the graph, which a policy is paid for."""
        things, attributes, _, relations = self.counts
        return things + attributes + relations

    @property
    def rate(self) -> float:
        return 100 * self.details / max(1, len(self.text.split()))


@dataclass(frozen=True, slots=True)
class Omission:
    """A detail, and the share of long and of short references that mention it."""

    what: str
    long: float
    short: float
    beside: str = ""
    """A thing: references that mention it have the detail less than half as often as the others."""
    there: float = 0.0
    elsewhere: float = 0.0

    def __str__(self) -> str:
        text = f"{self.what}: in {self.long:.0%} of long references, {self.short:.0%} of short"
        if not self.beside:
            return text
        return f"{text}; {self.there:.0%} with {self.beside}, {self.elsewhere:.0%} without"


@dataclass(frozen=True, slots=True)
class Audit:
    """References, and what a policy paid by them would learn to omit."""

    references: Sequence[Reference]
    omissions: Sequence[Omission]
    silent: Sequence[int] = ()
    """Rows without a text."""

    @property
    def flagged(self) -> list[Reference]:
        """Those with a problem: most problems first, then fewest details."""
        found = [each for each in self.references if each.problems]
        return sorted(found, key=lambda each: (-len(each.problems), each.details))

    @property
    def share(self) -> float:
        count = len(self.flagged) + len(self.silent)
        return count / max(1, len(self.references) + len(self.silent))

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(kind for each in self.references for kind in each.problems))

    def lines(self) -> Iterator[str]:
        rates = [each.rate for each in self.references]
        yield (
            f"{len(self.references):,} references, {len(self.flagged):,} with a problem; median "
            f"{median(each.details for each in self.references):g} details, "
            f"{median(rates):.0f} per 100 words"
        )
        if self.silent:
            rows = shorten_list(row + 1 for row in self.silent)
            yield f"without a text: {len(self.silent):,} (rows {rows})"
        yield from (f"{kind}: {count:,}" for kind, count in sorted(self.counts.items()))
        yield from map(str, self.omissions)


def audit(rows: Sequence[Sequence[str]], reader: Reader | None = None) -> Audit:
    """Audit references; each row has one or several texts about one image."""
    pairs = [(row, text) for row, texts in enumerate(rows) for text in texts]
    read = (reader or Reader()).read([text for _, text in pairs])
    references = [Reference(row, text, each) for (row, text), each in zip(pairs, read, strict=True)]
    typical = median(each.details for each in references)
    for each in references:
        each.problems.update(_alone(each, typical))
    for copy, original, share in _copies([each.text for each in references]):
        why = f"shares {share:.0%} of its phrases with row {references[original].row + 1}"
        references[copy].problems.setdefault("duplicate", why)
    for one, other in _several(references):
        if found := _contradictions(one.description, other.description):
            why = f"two texts about one image disagree: {found}"
            one.problems.setdefault("contradiction", why)
    silent = [row for row, texts in enumerate(rows) if not texts]
    return Audit(references, [*_omissions(references)], silent)


def _alone(reference: Reference, typical: float) -> Iterator[tuple[str, str]]:
    text, description = reference.text, reference.description
    if isinstance(description, Failure):
        yield "unreadable", str(description)
        return
    things, attributes, said, relations = reference.counts
    if is_placeholder(text):
        yield "placeholder", "stands for a text that is missing"
    elif not is_english(text):
        yield "foreign", "fewer than half of its words are English"
    if reference.details < TERSE * typical:
        yield "terse", f"{reference.details} details; the median is {typical:g}"
    if sign := find_markup(text):
        yield "markup", f"has {shorten(sign)}, which a model would learn to write"
    lines = [line for line in text.splitlines() if line.strip()]
    bullets = sum(bool(BULLET.match(line)) for line in lines)
    claims = min(2 * (attributes + said), attributes + relations)
    if len(lines) > 2 and 2 * bullets > len(lines):
        yield "list", f"{bullets} of {len(lines)} lines are items"
    elif things >= LIST and claims < LIST_SHARE * things:
        yield "list", f"{things} things, about which it says only {claims}"
    if found := _contradictions(description, description):
        yield "contradiction", found


def _contradictions(one: Description | Failure, other: Description | Failure) -> str:
    if isinstance(one, Failure) or isinstance(other, Failure):
        return ""
    mine, theirs = one.graph.entities, other.graph.entities
    pairs: list[tuple[str, set[str], set[str]]] = []
    if one is other:  # between its sentences
        for each in mine:
            said = [_settled(each, at) for at in sorted({*each.sentences})]
            pairs += [(each.head, *two) for two in combinations(said, 2)]
    else:  # a name must be unique in each text to be of the same thing
        names, others = (Counter(map(_name, some)) for some in (mine, theirs))
        twins = {_name(each): each for each in theirs if others[_name(each)] == 1}
        for each in mine:
            if names[_name(each)] == 1 and (twin := twins.get(_name(each))):
                pairs.append((each.head, _settled(each), _settled(twin)))
    found = []
    for head, ours, rest in pairs:
        for kind in (colours().__contains__, _is_count):
            a, b = (sorted(filter(kind, some)) for some in (ours, rest))
            # "Black and white" and "white" agree: all must exclude each other.
            if a and b and all(conflict((x, "a"), (y, "a")) for x in a for y in b):
                found.append(f"{head}: {' and '.join(a)}, or {' and '.join(b)}")
    return "; ".join(dict.fromkeys(found))


def _settled(entity: Entity, sentence: int | None = None) -> set[str]:
    attributes = (
        each for each in entity.attributes if sentence is None or sentence in each.sentences
    )
    return {each.text.lower() for each in attributes}


def _is_count(word: str) -> bool:
    value = number(word)  # not a year
    return value is not None and value <= MOST


def _name(entity: Entity) -> str:
    return min(dictionary_forms(entity.head.lower()), key=len)


def _several(references: Sequence[Reference]) -> Iterator[tuple[Reference, Reference]]:
    by_row: dict[int, list[Reference]] = defaultdict(list)
    for each in references:
        by_row[each.row].append(each)
    for some in by_row.values():
        yield from combinations(some, 2)


def _copies(texts: Sequence[str]) -> Iterator[tuple[int, int, float]]:
    """Yield a later text, an earlier one, and the share of sequences in common."""
    parts = [find_words(text) for text in texts]
    grams = [
        {tuple(own[at : at + GRAM]) for at in range(max(1, len(own) - GRAM + 1))} for own in parts
    ]
    places: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, own in enumerate(grams):
        shared = Counter(o for gram in own if len(places[gram]) < COMMON for o in places[gram])
        for other, count in shared.most_common(1):
            share = count / min(len(own), len(grams[other]))
            if share >= SAME:
                yield place, other, share
        for gram in own:
            places[gram].append(place)


def _omissions(references: Sequence[Reference]) -> Iterator[Omission]:
    """Yield kinds of detail, then words that are much rarer in short references."""
    usable = sorted(
        (each for each in references if isinstance(each.description, Description)),
        key=lambda each: each.details,
    )
    quarter = len(usable) // 4
    if quarter < FEWEST:
        return
    said = [_mentions(each) for each in usable]
    parts = said[-quarter:], said[:quarter]
    long, short = (Counter(each for own in part for each in own) for part in parts)
    kinds = [*KINDS, PEOPLE]
    sizes = {word: (long[word] / quarter, short[word] / quarter) for word in [*long, *kinds]}
    for kind in kinds:
        yield _rarest(Omission(kind, *sizes[kind]), said)
    found = [Omission(word, *sizes[word]) for word in long.keys() - {*KINDS, *SORTS.values()}]
    kept = [each for each in found if each.long >= OFTEN and each.short < each.long / 2]
    yield from sorted(kept, key=lambda each: (each.short - each.long, each.what))[:12]


def _rarest(kind: Omission, said: Sequence[set[str]]) -> Omission:
    """Add the thing with which a kind of detail is most clearly rarer, if there is one.

    Of 100 references 40 have a dog, and 4 of these a colour, of the others 54: 10% and 90%, which
    differ by 8 standard errors of 0.1 (58% of 100 have a colour).
    """
    things = Counter(thing for own in said for thing in own - {*KINDS, kind.what})
    both = Counter(thing for own in said if kind.what in own for thing in own)
    share, rows = both[kind.what] / len(said), len(said)
    found = [(SURE, kind)]
    for thing, count in things.items():
        if FEWEST <= count <= rows - FEWEST and 0 < share < 1:
            there = both[thing] / count
            elsewhere = (both[kind.what] - both[thing]) / (rows - count)
            error = sqrt(share * (1 - share) * (1 / count + 1 / (rows - count)))
            if there < elsewhere / 2:
                rarer = replace(kind, beside=thing, there=there, elsewhere=elsewhere)
                found.append(((elsewhere - there) / error, rarer))
    return max(found, key=lambda each: each[0])[1]


def _mentions(reference: Reference) -> set[str]:
    """Names and sorts of a reference's things, and its kinds of detail."""
    assert isinstance(reference.description, Description)
    own = {token.text.lower() for token in reference.description.tokens} - LIGHT
    kinds = {kind for kind, belongs in KINDS.items() if any(map(belongs, own))}
    names = {_name(each) for each in reference.description.graph.entities if not each.flagged}
    usual = {
        name: max(weights, key=weights.__getitem__)
        for name in names - UNTELLING - colours().keys()
        if (weights := senses((name, "n")))
    }
    files = {wordnet().file[synset] for synset in usual.values()}
    return kinds | usual.keys() | {SORTS[file] for file in files & SORTS.keys()}


def page(found: Audit, footer: Sequence[str]) -> str:
    """Render an HTML page: counts, what would be omitted, and the worst references."""
    lead, *_ = found.lines()
    return render(
        "reference_page.html",
        title="Audit of references",
        lead=lead,
        footer=footer,
        styles=["posh.css", "shell.css"],
        counts=found.counts,
        omissions=found.omissions,
        worst=found.flagged[:WORST],
        total=len(found.flagged),
    )
