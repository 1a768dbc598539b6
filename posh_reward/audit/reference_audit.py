"""Audit of references: which ones teach a policy to omit, to list, or to contradict itself."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations, product, starmap
from math import sqrt
from statistics import median
from typing import Any

from posh_reward.embedded.english.likeness import conflict, load_colours, parse_number
from posh_reward.embedded.english.meaning import dictionary_forms, find_senses, is_material
from posh_reward.embedded.english.wordnet import is_english, load_wordnet
from posh_reward.graph.reader import Reader
from posh_reward.markup import find_markup
from posh_reward.pages.html import render
from posh_reward.settings import shorten, shorten_list
from posh_reward.text_values import is_placeholder
from posh_reward.types import Description, Entity, Failure
from posh_reward.words import DEPICTION, LIGHT, PLACES, find_words

MAX_REFERENCES_SHOWN = 20
"""The worst, on the page."""
MAX_WORDS_SHOWN = 12
"""Of those that only short references omit."""
TERSE_SHARE = 1 / 3
"""Share of the median number of details below which a reference is terse."""
MIN_LIST_ENTITIES, MAX_LIST_DETAILS_PER_ENTITY = 8, 0.65
"""Entities from which, and details per entity below which a text is a list, as for rewards."""
BULLET_START = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+\w")
WORDS_PER_SEQUENCE, MIN_COPY_SHARE = 5, 0.5
"""Words in a sequence, and the share of sequences in common from which two texts are the same."""
MIN_PHRASE_REFERENCES = 50
"""References from which on a sequence is a phrase of the data set, not a sign of a copy."""
MAX_COUNT_OF_THINGS = 20
"""Largest number that counts things."""
MIN_MENTION_SHARE, MIN_REFERENCES_PER_HALF = 0.1, 8
"""Share of long references that mention a word that short ones omit, and fewest of each half."""
MIN_STANDARD_ERRORS = 4.0
"""Standard errors by which a detail must be rarer with a thing; high, as hundreds are compared."""

UNINFORMATIVE_WORDS = DEPICTION | LIGHT | PLACES
"""Words that say how an image is shown, not what is in it."""
PERSON_SORT = "a person"
SORTS_BY_FILE = {5: "an animal", 13: "food", 18: PERSON_SORT, 20: "a plant"}
"""WordNet's file of a thing's usual sense -> its sort."""
DETAIL_KINDS: Mapping[str, Callable[[str], bool]] = {
    "a colour": lambda word: word in load_colours(),
    "a count": lambda word: parse_number(word) is not None,
    "a place (left, back)": lambda word: word in PLACES,
    "a material": lambda word: is_material((word, "n")) or is_material((word, "a")),
    "words to read (in quotes)": lambda word: word in ('"', "\N{LEFT DOUBLE QUOTATION MARK}"),
}
"""Kinds of detail, by a word of the text."""


def _list_things(description: Description) -> list[Entity]:
    return [each for each in description.graph.entities if not each.flagged]


@dataclass(frozen=True)
class Reference:
    """A reference with what its graph says; ``problems`` are filled in by ``audit_texts``."""

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
        things = _list_things(self.description)
        relations = self.description.graph.relations
        stated = sum(each.source != "prep" for each in relations)
        return len(things), sum(len(each.attributes) for each in things), stated, len(relations)

    @property
    def details(self) -> int:
        """Elements of the graph, which a policy is rewarded for."""
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
    thing: str = ""
    """References that mention it have the detail less than half as often as the others."""
    with_thing: float = 0.0
    without_thing: float = 0.0

    def __str__(self) -> str:
        text = f"{self.what}: in {self.long:.0%} of long references, {self.short:.0%} of short"
        if not self.thing:
            return text
        return f"{text}; {self.with_thing:.0%} with {self.thing}, {self.without_thing:.0%} without"


@dataclass(frozen=True, slots=True)
class Audit:
    """References, and what a policy rewarded by them would learn to omit."""

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
        return dict(Counter(chain.from_iterable(each.problems for each in self.references)))

    def figures(self) -> dict[str, Any]:
        """The lines as plain data; rows are numbered from 1."""
        problems = [
            {"row": each.row + 1, "text": each.text, "problems": each.problems}
            for each in self.flagged
        ]
        return {
            "references": len(self.references),
            "share": self.share,
            "median_details": median(each.details for each in self.references),
            "median_details_per_100_words": median(each.rate for each in self.references),
            "rows_without_text": [row + 1 for row in self.silent],
            "counts": self.counts,
            "flagged": problems,
            "omissions": list(map(asdict, self.omissions)),
        }

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
        for kind, count in sorted(self.counts.items()):
            yield f"{kind}: {count:,}"
        yield from map(str, self.omissions)


def audit_texts(rows: Sequence[Sequence[str]], reader: Reader | None = None) -> Audit:
    """Audit references; each row has one or several texts about one image."""
    numbers: list[int] = []
    texts: list[str] = []
    for row, some in enumerate(rows):
        numbers += [row] * len(some)
        texts += some
    descriptions = (reader or Reader()).read(texts)
    references = list(map(Reference, numbers, texts, descriptions))
    typical = median(each.details for each in references)
    for each in references:
        each.problems.update(_find_problems(each, typical))
    for copy, original, share in _find_copies(texts):
        why = f"shares {share:.0%} of its phrases with row {references[original].row + 1}"
        references[copy].problems.setdefault("duplicate", why)
    for one, other in _pair_within_rows(references):
        if found := _find_contradictions(one.description, other.description):
            why = f"two texts about one image disagree: {found}"
            one.problems.setdefault("contradiction", why)
    silent = [row for row, some in enumerate(rows) if not some]
    return Audit(references, list(_find_omissions(references)), silent)


def _find_problems(reference: Reference, typical: float) -> Iterator[tuple[str, str]]:
    text, description = reference.text, reference.description
    if isinstance(description, Failure):
        yield "unreadable", str(description)
        return
    things, attributes, stated, relations = reference.counts
    if is_placeholder(text):
        yield "placeholder", "stands for a text that is missing"
    elif not is_english(text):
        yield "foreign", "fewer than half of its words are English"
    if reference.details < TERSE_SHARE * typical:
        yield "terse", f"{reference.details} details; the median is {typical:g}"
    if sign := find_markup(text):
        yield "markup", f"has {shorten(sign)}, which a model would learn to write"
    lines = [line for line in text.splitlines() if line.strip()]
    bullets = sum(BULLET_START.match(line) is not None for line in lines)
    claims = min(2 * (attributes + stated), attributes + relations)
    if len(lines) > 2 and 2 * bullets > len(lines):
        yield "list", f"{bullets} of {len(lines)} lines are items"
    elif things >= MIN_LIST_ENTITIES and claims < MAX_LIST_DETAILS_PER_ENTITY * things:
        yield "list", f"{things} things, about which it says only {claims}"
    if found := _find_contradictions(description, description):
        yield "contradiction", found


def _find_contradictions(one: Description | Failure, other: Description | Failure) -> str:
    """Find colours and counts of one thing that exclude each other; "" if there are none."""
    if isinstance(one, Failure) or isinstance(other, Failure):
        return ""
    pairs = _pair_sentences(one) if one is other else _pair_namesakes(one, other)
    found: dict[str, None] = {}  # each once, in order
    for head, ours, theirs in pairs:
        for belongs in (load_colours().__contains__, _is_count):
            mine, others = sorted(filter(belongs, ours)), sorted(filter(belongs, theirs))
            # "Black and white" and "white" agree: all must exclude each other.
            if mine and others and all(starmap(_conflict, product(mine, others))):
                found[f"{head}: {' and '.join(mine)}, or {' and '.join(others)}"] = None
    return "; ".join(found)


def _pair_sentences(description: Description) -> Iterator[tuple[str, set[str], set[str]]]:
    """Yield each thing's name, and its attributes in each two of its sentences."""
    for each in description.graph.entities:
        stated = [_list_attributes(each, place) for place in sorted(set(each.sentences))]
        for two in combinations(stated, 2):
            yield each.head, *two


def _pair_namesakes(
    one: Description, other: Description
) -> Iterator[tuple[str, set[str], set[str]]]:
    """Yield things of the same name, which must be unique in each text, with their attributes."""
    names = Counter(map(_name_entity, one.graph.entities))
    others = Counter(map(_name_entity, other.graph.entities))
    namesakes = {_name_entity(each): each for each in other.graph.entities}
    for each in one.graph.entities:
        name = _name_entity(each)
        if names[name] == 1 and others[name] == 1:
            yield each.head, _list_attributes(each), _list_attributes(namesakes[name])


def _conflict(one: str, other: str) -> bool:
    return conflict((one, "a"), (other, "a"))


def _list_attributes(entity: Entity, sentence: int | None = None) -> set[str]:
    """List an entity's attributes, or those that one sentence gives it."""
    attributes: set[str] = set()
    for each in entity.attributes:
        if sentence is None or sentence in each.sentences:
            attributes.add(each.text.lower())
    return attributes


def _is_count(word: str) -> bool:
    value = parse_number(word)  # not a year
    return value is not None and value <= MAX_COUNT_OF_THINGS


def _name_entity(entity: Entity) -> str:
    return min(dictionary_forms(entity.head.lower()), key=len)


def _pair_within_rows(references: Sequence[Reference]) -> Iterator[tuple[Reference, Reference]]:
    by_row: dict[int, list[Reference]] = defaultdict(list)
    for each in references:
        by_row[each.row].append(each)
    for some in by_row.values():
        yield from combinations(some, 2)


def _list_sequences(parts: Sequence[str]) -> set[tuple[str, ...]]:
    """List the sequences of ``WORDS_PER_SEQUENCE`` words; of a shorter text, the whole."""
    starts = range(max(1, len(parts) - WORDS_PER_SEQUENCE + 1))
    return {tuple(parts[start : start + WORDS_PER_SEQUENCE]) for start in starts}


def _find_copies(texts: Sequence[str]) -> Iterator[tuple[int, int, float]]:
    """Yield a later text, an earlier one, and the share of sequences in common."""
    earlier: list[set[tuple[str, ...]]] = []
    places: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        own = _list_sequences(find_words(text))
        shared: Counter[int] = Counter()
        for sequence in own:
            if len(places[sequence]) < MIN_PHRASE_REFERENCES:
                shared.update(places[sequence])
        for other, count in shared.most_common(1):
            share = count / min(len(own), len(earlier[other]))
            if share >= MIN_COPY_SHARE:
                yield place, other, share
        for sequence in own:
            places[sequence].append(place)
        earlier.append(own)


def _find_omissions(references: Sequence[Reference]) -> Iterator[Omission]:
    """Yield kinds of detail, then words that are much rarer in short references."""
    readable = [each for each in references if isinstance(each.description, Description)]
    readable.sort(key=lambda each: each.details)
    quarter = len(readable) // 4
    if quarter < MIN_REFERENCES_PER_HALF:
        return
    mentions = list(map(_list_mentions, readable))
    long = Counter(chain.from_iterable(mentions[-quarter:]))
    short = Counter(chain.from_iterable(mentions[:quarter]))
    kinds = [*DETAIL_KINDS, PERSON_SORT]
    for kind in kinds:
        omission = Omission(kind, long[kind] / quarter, short[kind] / quarter)
        yield _find_rarest(omission, mentions)
    omitted: list[Omission] = []
    for word in long.keys() - {*DETAIL_KINDS, *SORTS_BY_FILE.values()}:
        omission = Omission(word, long[word] / quarter, short[word] / quarter)
        if omission.long >= MIN_MENTION_SHARE and omission.short < omission.long / 2:
            omitted.append(omission)
    omitted.sort(key=lambda each: (each.short - each.long, each.what))
    yield from omitted[:MAX_WORDS_SHOWN]


def _find_rarest(kind: Omission, mentions: Sequence[set[str]]) -> Omission:
    """Add the thing with which a kind of detail is most clearly rarer, if there is one.

    The standard error of the difference of two shares is that of equal shares, pooled. Of 100
    references 40 have a dog, and 4 of these a colour, of the others 54: 10% and 90%, which
    differ by 8 standard errors of 0.1 (58% of 100 have a colour).
    """
    things: Counter[str] = Counter()
    both: Counter[str] = Counter()  # of references that also have the detail
    for own in mentions:
        things.update(own - {*DETAIL_KINDS, kind.what})
        if kind.what in own:
            both.update(own)
    share, rows = both[kind.what] / len(mentions), len(mentions)
    found = [(MIN_STANDARD_ERRORS, kind)]
    for thing, count in things.items():
        enough = MIN_REFERENCES_PER_HALF <= count <= rows - MIN_REFERENCES_PER_HALF
        if enough and 0 < share < 1:
            share_with = both[thing] / count
            share_without = (both[kind.what] - both[thing]) / (rows - count)
            error = sqrt(share * (1 - share) * (1 / count + 1 / (rows - count)))
            if share_with < share_without / 2:
                rarer = replace(
                    kind, thing=thing, with_thing=share_with, without_thing=share_without
                )
                found.append(((share_without - share_with) / error, rarer))
    return max(found, key=lambda each: each[0])[1]


def _list_mentions(reference: Reference) -> set[str]:
    """Names and sorts of a reference's things, and its kinds of detail."""
    assert isinstance(reference.description, Description)
    own = {token.text.lower() for token in reference.description.tokens} - LIGHT
    mentions = {kind for kind, belongs in DETAIL_KINDS.items() if any(map(belongs, own))}
    names = set(map(_name_entity, _list_things(reference.description)))
    for name in names - UNINFORMATIVE_WORDS - load_colours().keys():
        if weights := find_senses((name, "n")):
            mentions.add(name)
            usual = max(weights, key=weights.__getitem__)
            if sort := SORTS_BY_FILE.get(load_wordnet().file[usual]):
                mentions.add(sort)
    return mentions


def render_page(found: Audit, footer: Sequence[str]) -> str:
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
        worst=found.flagged[:MAX_REFERENCES_SHOWN],
        total=len(found.flagged),
    )
