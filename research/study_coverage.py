"""Error rates of a study's page, from simulated studies of equally good models.

    python -m research.study_coverage --studies 1000
    python -m research.study_coverage --grid --studies 4000 --seed 2
    python -m research.study_coverage --grid --studies 4000 --two-way

For each design of `packets make`: the share of 95 % intervals that contain the truth, and the share
of studies with a false significant statement, with only items as random (as until version 0.1) and
as `packets read` does it. Each study has three axes; raters' tastes (lean) are drawn per model, and
a pair differs by them as in ``study_plan``. With ``--grid``: the coverage on one axis, where all
raters see all images, where each sees a random third, and where one sees all and each other one
60 % of what the one before saw. ``--two-way`` covers the same studies with two-way cluster-robust
intervals instead, as libraries have them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from posh_reward.study.crossed import CrossedDesign
from posh_reward.study.packets.draw import Design, draw_tasks
from posh_reward.study.packets.study_plan import Opinions
from posh_reward.study.packets.study_records import StudyItem
from posh_reward.tables.statistics import CONFIDENCE_LEVEL, Floats, Ints, correct_by_holm

AXIS_COUNT = 3
SHARED_VARIANCE = 0.3
STUDIES_PER_DESIGN = 250
GRID_LAYOUTS = "all see all", "each sees a third", "each sees less"


@dataclass(frozen=True)
class Case:
    """One design, and the behaviour of its raters."""

    pairs: int
    raters: int
    lean: float = 0.0
    repeated: float = 0.15
    models: int = 2
    side: float = 0.0


CASES = (
    *(Case(pairs, raters, lean) for pairs in (40, 100) for raters in (3, 7) for lean in (0.0, 0.3)),
    *(Case(100, 3, lean, repeated=1) for lean in (0.0, 0.3)),
    Case(40, 7, 0.3, side=0.5),
    *(Case(60, 7, lean, models=3) for lean in (0.0, 0.3)),
)


@dataclass
class Tally:
    """Counts over studies."""

    intervals: int = 0
    covering: int = 0  # intervals that contain the truth
    false: int = 0  # studies with a false significant statement

    def add(self, tests: Sequence[bool], wrong: bool) -> None:
        """Count one study."""
        self.intervals += len(tests)
        self.covering += sum(tests)
        self.false += wrong


def simulate(case: Case, seed: int, old: Tally, new: Tally) -> None:
    """Add one study to both tallies."""
    rng = np.random.default_rng(seed)
    names = tuple(f"m{number}" for number in range(case.models))
    items = [StudyItem(str(n), "r", {m: f"{m} {n}" for m in names}) for n in range(case.pairs)]
    times = min(3, case.raters)
    raters = draw_tasks(items, Design(seed, case.raters, 0, case.repeated, times))
    tasks = [
        (int(task.item), place, task.models, number)
        for place, rater in enumerate(raters.values())
        for number, task in enumerate(rater.tasks)
    ]
    quality = rng.standard_normal((case.pairs, case.models, case.models, AXIS_COUNT))
    tastes = rng.standard_normal((case.raters, case.models, AXIS_COUNT))
    noise = rng.standard_normal((len(tasks), AXIS_COUNT))
    tests, p_values = look_at(case, range(len(tasks)), tasks, quality, tastes, noise)
    over_items, both = ([low <= 0 <= high for low, high in each] for each in tests)
    old.add(over_items, not all(over_items))
    # A statement must also hold for these raters alone.
    significant = [p <= 1 - CONFIDENCE_LEVEL for p in correct_by_holm(p_values)]
    wrong = any(p and not own for p, own in zip(significant, over_items, strict=True))
    new.add(both, wrong)


Ends = list[tuple[float, float]]


def look_at(
    case: Case, rows: Sequence[int], tasks: Sequence[tuple[int, int, tuple[str, ...], int]],
    quality: Floats, tastes: Floats, noise: Floats,
) -> tuple[tuple[Ends, Ends], list[float]]:  # fmt: skip
    """Return intervals over items and over items and raters, and p-values, by pair and axis."""
    opinions = Opinions(SHARED_VARIANCE, lean=case.lean)
    over_items, over_both, p_values = [], [], []
    for one, other in combinations(range(case.models), 2):
        ours = [r for r in rows if {int(m[1:]) for m in tasks[r][2]} == {one, other}]
        item_of = [tasks[r][0] for r in ours]
        rater_of = [tasks[r][1] for r in ours]
        items = list(dict.fromkeys(item_of))
        sides = np.array([1 if int(tasks[r][2][0][1:]) == other else -1 for r in ours])
        design = CrossedDesign(item_of, rater_of)
        alone = CrossedDesign(items, [0] * len(items))
        for axis in range(AXIS_COUNT):
            taste = (tastes[rater_of, other, axis] - tastes[rater_of, one, axis]) / 2**0.5
            latent = SHARED_VARIANCE**0.5 * quality[item_of, one, other, axis] + sides * case.side
            latent += case.lean * taste + opinions.own_deviation * noise[ours, axis]
            values = opinions.choose_answers(latent)
            means = [
                float(values[[i for i, item in enumerate(item_of) if item == name]].mean())
                for name in items
            ]
            interval = alone.test(means).interval
            over_items.append((interval.low, interval.high))
            test = design.test(values.tolist())
            over_both.append((test.interval.low, test.interval.high))
            p_values.append(test.p)
    return (over_items, over_both), p_values


def two_way_half_widths(values: Floats, items: Ints, raters: Ints) -> Floats:
    """Half-widths by two-way cluster-robust variances (Cameron, Gelbach and Miller, 2011).

    Squared sums of residuals by item, plus those by rater, less those by answer, each times
    groups / (groups - 1); Student's t with the smaller number of groups, less 1, as degrees of
    freedom. ``values`` are (studies, answers); the mean counts each item once.
    """
    from scipy.special import stdtrit

    weights = 1 / (np.bincount(items)[items] * len(set(items.tolist())))  # (answers,)
    residuals = (values - (values @ weights)[:, None]) * weights
    variances = np.zeros(len(values))
    degrees = []
    for groups, sign in ((items, 1), (raters, 1), (np.arange(len(items)), -1)):
        count = int(groups.max()) + 1
        sums = np.zeros((count, len(values)))
        np.add.at(sums, groups, residuals.T)
        variances += sign * count / (count - 1) * np.square(sums).sum(axis=0)
        degrees.append(count - 1)
    student = float(stdtrit(min(degrees), (1 + CONFIDENCE_LEVEL) / 2))
    # The difference can be negative; it then counts as 0, as the authors propose.
    return np.asarray(student * np.sqrt(np.maximum(variances, 0)))


def grid_row(
    raters: int, lean: float, layout: str, studies: int, seed: int, two_way: bool = False
) -> list[str]:
    """Return the coverage of the intervals for 40, 100 and 300 images."""
    row = []
    rounds = -(-studies // STUDIES_PER_DESIGN)
    opinions = Opinions(SHARED_VARIANCE, lean=lean)
    for images in (40, 100, 300):
        rng = np.random.default_rng(
            [seed, images, raters, round(100 * lean), GRID_LAYOUTS.index(layout)]
        )
        held = 0.0
        for _ in range(rounds):
            items, members = grid_design(rng, images, raters, layout)
            design = CrossedDesign(items.tolist(), members.tolist())
            quality = rng.standard_normal((STUDIES_PER_DESIGN, images))
            latent = SHARED_VARIANCE**0.5 * quality[:, items]
            latent += lean * rng.standard_normal((STUDIES_PER_DESIGN, raters))[:, members]
            latent += opinions.own_deviation * rng.standard_normal((STUDIES_PER_DESIGN, len(items)))
            values = opinions.choose_answers(latent)
            means, variances = design.estimate(values)
            if two_way:
                half_widths = two_way_half_widths(values, items, members)
            else:
                half_widths = design.half_width(variances)
            held += float((np.abs(means) <= half_widths).mean())
        row.append(f"{held / rounds:.1%}")
    return row


def grid_design(
    rng: np.random.Generator, images: int, raters: int, layout: str
) -> tuple[Ints, Ints]:
    """Return the image and the rater of each answer."""
    parts: list[Ints] = []
    while len(parts) < raters:
        order = rng.permutation(images)
        if layout == "each sees a third":
            parts += np.array_split(order, 3)
        else:
            share = 1.0 if layout == "all see all" else max(0.15, 0.6 ** len(parts))
            parts.append(order[: round(share * images)])
    sizes = [len(part) for part in parts[:raters]]
    return np.concatenate(parts[:raters]), np.repeat(np.arange(raters), sizes)


def main(argv: list[str] | None = None) -> int:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--studies", type=int, default=1000, help="per design; default: 1000")
    parser.add_argument("--grid", action="store_true", help="one axis, other numbers of raters")
    parser.add_argument("--seed", type=int, default=2, help="of --grid")
    parser.add_argument("--two-way", action="store_true", help="--grid of cluster-robust intervals")
    flags = parser.parse_args(argv)
    if flags.grid:
        print(f"| raters | lean | {' | '.join(GRID_LAYOUTS)} |")
        print("|" + "---|" * 5)
        for raters, lean in product((2, 3, 5, 10), (0.0, 0.15, 0.3)):
            options = flags.studies, flags.seed, flags.two_way
            rows = (grid_row(raters, lean, each, *options) for each in GRID_LAYOUTS)
            print(f"| {raters} | {lean} | {' | '.join(map(', '.join, rows))} |", flush=True)
        return 0
    print("| pairs | raters | shared tasks | models | lean | side | held, items "
          "| held, both | false, items | false, corrected |")  # fmt: skip
    print("|" + "---|" * 10)
    for case in CASES:
        old, new = Tally(), Tally()
        for seed in range(flags.studies):
            simulate(case, seed, old, new)
        figures = (old.covering / old.intervals, new.covering / new.intervals,
                   old.false / flags.studies, new.false / flags.studies)  # fmt: skip
        print(f"| {case.pairs} | {case.raters} | {case.repeated:.0%} | {case.models} | "
              f"{case.lean} | {case.side} | "
              + " | ".join(f"{figure:.1%}" for figure in figures) + " |", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
