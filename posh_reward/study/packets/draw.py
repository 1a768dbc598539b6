"""Items -> each rater's tasks: who sees what, on which side, in which order. Seeded."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import combinations, permutations
from typing import TypeVar

from posh_reward.errors import InputError
from posh_reward.study.packets.study_records import (
    BETTER,
    WORSE,
    Form,
    KnownItem,
    Rater,
    RaterTask,
    StudyItem,
)

MAX_ALLOTMENT_ATTEMPTS = 500  # for one item's tasks, before the raters count as too few
T = TypeVar("T")
Models = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Design:
    """Layout of a study; by default the paper's (A.3.5, section 4)."""

    seed: int
    coarse: int = 7  # raters who compare two generations
    granular: int = 0  # raters who mark spans in one generation; none of the coarse raters
    repeated: float = 0.15  # share of tasks given to several raters, to measure agreement
    times: int = 3  # raters of each of these

    def __post_init__(self) -> None:
        sizes = self.coarse, self.granular
        if min(sizes) < 0 or not any(sizes):
            raise InputError("a study needs raters: coarse or granular ones")
        if not 0 <= self.repeated <= 1:
            raise InputError(f"repeated is {self.repeated}: use a share from 0 to 1")
        if self.times < 1:
            raise InputError(f"times is {self.times}: use 1 or more raters for each task")
        fewest = min(filter(None, sizes))
        if self.repeated and self.times > fewest:
            raise InputError(
                f"{self.times} raters cannot share a task if there are only {fewest}: ask more "
                "raters, lower --times, or set --repeated 0"
            )


def draw_tasks(items: Sequence[StudyItem], design: Design) -> dict[str, Rater]:
    """Draw the tasks of each rater, by the rater's name.

    No rater sees a generation twice. Raters get equally many tasks, as far as possible. For each
    rater and pair of models, either model is #1 equally often, give or take one.
    """
    rng = random.Random(design.seed)
    raters: dict[str, Rater] = {}
    sizes: dict[Form, int] = {"coarse": design.coarse, "granular": design.granular}
    width = max(2, len(str(sum(sizes.values()))))
    for form, count in sizes.items():
        begin = len(raters) + 1
        names = [f"rater-{number:0{width}}" for number in range(begin, begin + count)]
        if not names:
            continue
        tasks_of = _allot_tasks(items, form, names, design, rng)
        sides: Counter[Models] = Counter()
        for name in names:
            sequence = _balance_order(_balance_sides(tasks_of[name], sides, rng), rng)
            tasks = tuple(RaterTask(_opaque_id(design, name, *each), *each) for each in sequence)
            raters[name] = Rater(form, _opaque_id(design, name, "token"), tasks)
    return raters


def add_known_tasks(
    raters: Mapping[str, Rater], known: Sequence[KnownItem], design: Design
) -> dict[str, Rater]:
    """Give all practice and attention items to each rater who compares.

    Practice comes first, in the given order; attention tasks stand among those of the study, never
    first.
    """
    added = {}
    for name, rater in raters.items():
        added[name] = rater
        if rater.form == "coarse":
            rng = random.Random(f"{design.seed} {name} known")
            added[name] = replace(rater, tasks=_mix_known_tasks(name, rater, known, design, rng))
    return added


def _mix_known_tasks(
    name: str, rater: Rater, known: Sequence[KnownItem], design: Design, rng: random.Random
) -> tuple[RaterTask, ...]:
    practice: list[RaterTask] = []
    tasks = list(rater.tasks)
    for each in known:
        models = tuple(rng.sample((BETTER, WORSE), 2))
        id = _opaque_id(design, name, each.item.id, models, each.purpose)
        task = RaterTask(id, each.item.id, models, each.purpose)
        if each.purpose == "practice":
            practice.append(task)
        else:
            tasks.insert(rng.randint(1, len(tasks)), task)
    return (*practice, *tasks)


def list_shown_models(item: StudyItem, form: Form) -> list[Models]:
    """Models to compare or mark in each task; no generation twice, no equal texts."""
    if form == "granular":
        return [(model,) for model in item.texts]
    comparisons: list[Models] = []
    for one, other in combinations(item.texts, 2):
        if item.texts[one] != item.texts[other]:
            comparisons.append((one, other))
    return comparisons


def find_identical_pairs(items: Sequence[StudyItem]) -> tuple[RaterTask, ...]:
    """Pairs of models that wrote the same text about an item."""
    pairs = []
    for item in items:
        for one, other in combinations(item.texts, 2):
            if item.texts[one] == item.texts[other]:
                pairs.append(RaterTask("", item.id, (one, other)))
    return tuple(pairs)


Task = tuple[str, Models]
"""An item, and the models whose generations are shown."""


def _allot_tasks(
    items: Sequence[StudyItem], form: Form, names: Sequence[str], design: Design, rng: random.Random
) -> dict[str, list[Task]]:
    by_item: list[list[Task]] = []
    for item in items:
        by_item.append([(item.id, models) for models in list_shown_models(item, form)])
    # One task of each item, then a second one, and so on: this spreads the repeated tasks, which
    # are the first 15 %, over the items, so that agreement is not measured on a few.
    tasks = interleave_groups(by_item, rng)
    # Tasks that share texts with many others come last: as no rater sees a text twice, repeating
    # them could take too many raters.
    by_id = {item.id: item for item in items}
    spare = len(names) - design.times
    tasks.sort(key=lambda task: _count_rival_tasks(by_id[task[0]], task[1], form) > spare)
    if not tasks:
        raise InputError("nothing to ask: the models wrote the same texts")
    repeated = set(tasks[: round(design.repeated * len(tasks))])
    slots = len(tasks) + len(repeated) * (design.times - 1)
    if slots < len(names):
        raise InputError(f"only {slots} tasks for {len(names)} raters: ask fewer raters")
    tasks_of: dict[str, list[Task]] = {name: [] for name in names}
    for item in rng.sample(list(items), len(items)):
        copies: list[Models] = []
        for models in list_shown_models(item, form):
            count = design.times if (item.id, models) in repeated else 1
            copies += [models] * count
        load = {name: len(own) for name, own in tasks_of.items()}
        for rater, models in _allot_item(item, copies, load, rng):
            tasks_of[rater].append((item.id, models))
    return tasks_of


def _count_rival_tasks(item: StudyItem, models: Models, form: Form) -> int:
    """Number of other tasks that show the same text, for the text that most of them show."""
    tasks_by_text: Counter[str] = Counter()
    for shown in list_shown_models(item, form):
        tasks_by_text.update({item.texts[model] for model in shown})
    return max(tasks_by_text[item.texts[model]] for model in models) - 1


def _allot_item(
    item: StudyItem, copies: Sequence[Models], load: Mapping[str, int], rng: random.Random
) -> list[tuple[str, Models]]:
    """Raters of one item's tasks, preferring those with the fewest tasks."""
    # Greedy choices can leave nobody free though another way exists. Ties are broken at random, so
    # another attempt goes another way, which saves a search.
    for _ in range(MAX_ALLOTMENT_ATTEMPTS):
        texts_of: dict[str, set[str]] = defaultdict(set)
        allotment: list[tuple[str, Models]] = []
        # Most copies first: they are the hardest to place.
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
        f"{len(load)} raters are too few: one would see a generation of {item.id!r} twice; ask "
        "more raters, or repeat fewer tasks"
    )


def _balance_sides(tasks: Sequence[Task], sides: Counter[Models], rng: random.Random) -> list[Task]:
    """Order the models of one rater's tasks so that each order occurs equally often.

    ``sides`` counts the orders of earlier raters, and is updated.
    """
    groups: dict[Models, list[str]] = defaultdict(list)
    for item, models in tasks:
        groups[models].append(item)
    tasks_with_sides: list[Task] = []
    for models, ids in groups.items():
        orders = list(permutations(models))
        # If the tasks do not divide evenly, the extra one goes to the order that earlier raters had
        # less often, so that a preference for #1 cancels over the whole study.
        orders.sort(key=lambda order: (sides[order], rng.random()))
        rng.shuffle(ids)
        for place, item in enumerate(ids):
            order = orders[place % len(orders)]
            tasks_with_sides.append((item, order))
            sides[order] += 1
    return tasks_with_sides


def _balance_order(tasks: Sequence[Task], rng: random.Random) -> list[Task]:
    # Balance every stretch of the sequence: raters stop early, tire, or warm up.
    groups: dict[Models, list[Task]] = defaultdict(list)
    for task in tasks:
        groups[task[1]].append(task)
    return interleave_groups(list(groups.values()), rng)


def interleave_groups(groups: Sequence[Sequence[T]], rng: random.Random) -> list[T]:
    """Blocks of one member of each group that has any left, shuffled within the block."""
    left = [rng.sample(list(group), len(group)) for group in groups]
    order: list[T] = []
    while left := [group for group in left if group]:
        rng.shuffle(left)
        order += [group.pop() for group in left]
    return order


def _opaque_id(design: Design, *parts: Hashable) -> str:
    # Keyed with the seed, which only the key file has: names cannot be found by trying them.
    seed = str(design.seed).encode()[-64:]
    return blake2b(repr(parts).encode(), key=seed, digest_size=6).hexdigest()
