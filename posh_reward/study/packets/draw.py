"""Items -> each rater's tasks: who sees what, on which side, in which order. Seeded."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations, permutations
from typing import TypeVar

from posh_reward.errors import InputError
from posh_reward.study.packets.rater_texts import Form
from posh_reward.study.packets.study_records import Rater, RaterTask, StudyItem

TRIES = 500  # ways to hand out one item's tasks before there are taken to be too few raters
T = TypeVar("T")
Models = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Design:
    """Layout of a study; by default the paper's (A.3.5, section 4)."""

    seed: int
    coarse: int = 7  # raters who compare two generations
    # Raters who mark spans in one generation; other people than those who compare.
    granular: int = 0
    repeated: float = 0.15  # share of tasks that several raters get, to measure how far they agree
    times: int = 3  # raters of each of these
    # Raters who put the generations of three models in order, in place of comparing two.
    ranking: int = 0
    before: int = 0  # raters of earlier packets who get nothing more: names go on after theirs

    def __post_init__(self) -> None:
        sizes = self.coarse, self.ranking, self.granular
        if min(sizes) < 0 or not any(sizes):
            raise InputError("a study needs raters: coarse, ranking or granular ones")
        if self.coarse and self.ranking:
            raise InputError("raters compare two texts or rank three: one study has one of these")
        if not 0 <= self.repeated <= 1:
            raise InputError(f"repeated is {self.repeated}, not a share from 0 to 1")
        if self.times < 1:
            raise InputError(f"times is {self.times}: each task is given to one rater at least")
        fewest = min(count for count in sizes if count)
        if self.repeated and self.times > fewest:
            raise InputError(
                f"{self.times} raters are to share a task, and there are {fewest}: ask more "
                "raters, lower --times, or set --repeated 0"
            )


def draw(items: Sequence[StudyItem], design: Design) -> dict[str, Rater]:
    """The tasks of each rater, by the rater's name.

    No rater sees one generation twice. Raters get equally many tasks, as near as can be. For each
    rater and each pair of models either is #1 equally often, up to one; three models take turns in
    all their orders.

    Raises:
        InputError: there are too few raters for that.
    """
    rng = random.Random(design.seed)
    raters: dict[str, Rater] = {}
    sizes: dict[Form, int] = {
        "coarse": design.coarse, "ranking": design.ranking, "granular": design.granular
    }  # fmt: skip
    width = max(2, len(str(design.before + sum(sizes.values()))))
    for form, count in sizes.items():
        begin = design.before + len(raters) + 1
        names = [f"rater-{number:0{width}}" for number in range(begin, begin + count)]
        if not names:
            continue
        tasks_of = _allot(items, form, names, design, rng)
        sides: Counter[Models] = Counter()
        for name in names:
            sequence = _balance_order(_balance_sides(tasks_of[name], sides, rng), rng)
            tasks = tuple(RaterTask(_opaque(design, name, *each), *each) for each in sequence)
            raters[name] = Rater(form, _opaque(design, name, "token"), tasks)
    return raters


def questions_about(item: StudyItem, form: Form) -> list[Models]:
    """Models whose generations are compared, ranked or marked: none twice, no equal texts."""
    if form == "granular":
        return [(model,) for model in item.texts]
    if form == "ranking":  # a text that two models wrote stands once: ranking it twice is no answer
        firsts: dict[str, str] = {}
        for model, text in item.texts.items():
            firsts.setdefault(text, model)
        return [tuple(firsts.values())] if len(firsts) > 1 else []
    return [(a, b) for a, b in combinations(item.texts, 2) if item.texts[a] != item.texts[b]]


def identical_pairs(items: Sequence[StudyItem]) -> tuple[RaterTask, ...]:
    """Pairs of models that wrote the same text about an item."""
    return tuple(
        RaterTask("", item.id, (a, b))
        for item in items
        for a, b in combinations(item.texts, 2)
        if item.texts[a] == item.texts[b]
    )


Allotment = dict[str, list[tuple[str, Models]]]
"""By rater: items with the models whose generations are shown."""


def _allot(
    items: Sequence[StudyItem], form: Form, names: Sequence[str], design: Design, rng: random.Random
) -> Allotment:
    by_item = [[(item.id, models) for models in questions_about(item, form)] for item in items]
    # One task of each item, then a second one, and so on: the first 15 %, which are repeated, are
    # then spread over the items, and agreement is not measured on a few.
    tasks = interleave(by_item, rng)
    # No rater sees a text twice, so what several models wrote may need too many raters to repeat.
    by_id = {item.id: item for item in items}
    spare = len(names) - design.times
    tasks.sort(key=lambda task: _others(by_id[task[0]], task[1], form) > spare)
    if not tasks:
        raise InputError("there is nothing to ask: the models wrote the same texts")
    repeated = set(tasks[: round(design.repeated * len(tasks))])
    slots = len(tasks) + len(repeated) * (design.times - 1)
    if slots < len(names):
        raise InputError(f"there are {slots} tasks for {len(names)} raters: ask fewer raters")
    load = dict.fromkeys(names, 0)
    tasks_of: Allotment = {name: [] for name in names}
    for item in rng.sample(list(items), len(items)):
        copies = [
            models
            for models in questions_about(item, form)
            for _ in range(design.times if (item.id, models) in repeated else 1)
        ]
        for rater, models in _allot_item(item, copies, load, rng):
            load[rater] += 1
            tasks_of[rater].append((item.id, models))
    return tasks_of


def _others(item: StudyItem, models: Models, form: Form) -> int:
    """Other tasks that show a text of this one, for the text that most of them show."""
    text_sets = [{item.texts[m] for m in models} for models in questions_about(item, form)]
    return max(sum(item.texts[model] in each for each in text_sets) for model in models) - 1


def _allot_item(
    item: StudyItem, copies: Sequence[Models], load: Mapping[str, int], rng: random.Random
) -> list[tuple[str, Models]]:
    """Raters for one item's tasks, those with the fewest tasks first."""
    # Greedy choices can end where nobody is free though there is a way. Ties are broken at random,
    # so trying again goes another way; a search would be longer and is not needed.
    for _ in range(TRIES):
        texts_of: dict[str, set[str]] = defaultdict(set)
        allotment: list[tuple[str, Models]] = []
        # Tasks of which there are several copies have the smallest choice of raters.
        count = Counter(copies)
        for models in sorted(copies, key=lambda models: (-count[models], rng.random())):
            texts = {item.texts[model] for model in models}
            free = [name for name in load if not texts_of[name] & texts]
            if not free:
                break
            extra = Counter(name for name, _ in allotment)
            rater = min(free, key=lambda name: (load[name] + extra[name], rng.random()))
            texts_of[rater] |= texts
            allotment.append((rater, models))
        else:
            return allotment
    raise InputError(
        f"{len(load)} raters are too few: each would see a generation of {item.id!r} twice; ask "
        "more raters, or repeat fewer tasks"
    )


def _balance_sides(
    tasks: Sequence[tuple[str, Models]], sides: Counter[Models], rng: random.Random
) -> list[tuple[str, Models]]:
    """The tasks of one rater with each order of a task's models equally often.

    ``sides`` counts the orders of earlier raters, and is brought up to date.
    """
    groups: dict[Models, list[str]] = defaultdict(list)
    for item, models in tasks:
        groups[models].append(item)
    tasks_with_sides: list[tuple[str, Models]] = []
    for models, ids in groups.items():
        orders = list(permutations(models))
        # Tasks rarely come out even. An odd one goes to the order that raters before had less
        # often, so that a liking for #1 cancels over the study, too.
        orders.sort(key=lambda order: (sides[order], rng.random()))
        # Each model comes first once before any does so again.
        firsts: Counter[str] = Counter()
        turns = {}
        for order in orders:
            turns[order] = firsts[order[0]]
            firsts[order[0]] += 1
        orders.sort(key=turns.__getitem__)
        rng.shuffle(ids)
        for place, item in enumerate(ids):
            order = orders[place % len(orders)]
            tasks_with_sides.append((item, order))
            sides[order] += 1
    return tasks_with_sides


def _balance_order(
    tasks: Sequence[tuple[str, Models]], rng: random.Random
) -> list[tuple[str, Models]]:
    # Balanced from the beginning on: raters stop early, and tire or warm up on the way.
    groups: dict[Models, list[tuple[str, Models]]] = defaultdict(list)
    for task in tasks:
        groups[task[1]].append(task)
    return interleave(list(groups.values()), rng)


def interleave(groups: Sequence[Sequence[T]], rng: random.Random) -> list[T]:
    """Blocks of one member of each group that has any left, shuffled within each block."""
    left = [rng.sample(list(group), len(group)) for group in groups]
    order: list[T] = []
    while left := [group for group in left if group]:
        rng.shuffle(left)
        order += [group.pop() for group in left]
    return order


def _opaque(design: Design, *parts: Hashable) -> str:
    # A keyed hash: without the seed, which only the key has, nobody can try names until one fits.
    seed = str(design.seed).encode()[-64:]
    return blake2b(repr(parts).encode(), key=seed, digest_size=6).hexdigest()
