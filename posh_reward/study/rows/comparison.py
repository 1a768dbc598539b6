"""Models against a baseline, paired by what they describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from textwrap import fill

from posh_reward.errors import InputError
from posh_reward.study.rows.plain import on_one_line
from posh_reward.study.rows.scored import NAMES
from posh_reward.study.statistics import FEWEST, Interval, paired_difference

Item = Mapping[str, Sequence[float | None]]
"""What several models wrote about one thing: by model its scores, in the order of ``NAMES``."""
OVERALL = NAMES.index("overall")
WIDTH = 90
"""Columns of a terminal that explanations fill."""
HOW = (
    "over the ids that both have, with 95 % intervals; above 0 is better, in mistakes and "
    f"omissions too. Not settled: the interval includes 0; fewer than {FEWEST} ids settle nothing"
)


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better a model is than the baseline."""

    model: str
    axes: dict[str, Interval]
    """By axis, higher is better; empty if there is no item that both have a score for."""

    @property
    def count(self) -> int:
        """Items that both have a score for."""
        return next((interval.count for interval in self.axes.values()), 0)


def baseline_of(models: Sequence[str], wanted: str | None = None) -> str:
    """The model that the others are compared with: the first, unless another is wanted.

    Raises:
        InputError: there is no such model.
    """
    if wanted is None:
        return models[0]
    if wanted not in models:
        there = ", ".join(map(repr, models))
        raise InputError(f"no row is of the model {wanted!r}: choose the baseline from {there}")
    return wanted


def gains(items: Iterable[Item], models: Sequence[str], baseline: str) -> list[Gain]:
    """Each other model against the baseline, the best first.

    Args:
        items: what was described; those that lack a score of either model are left out.
        models: names.
        baseline: one of them.
    """
    items = list(items)
    found = [
        Gain(model, _differences(items, model, baseline)) for model in models if model != baseline
    ]
    return sorted(found, key=lambda it: -it.axes["overall"].mean if it.axes else inf)


def _differences(items: Sequence[Item], model: str, baseline: str) -> dict[str, Interval]:
    pairs = [
        (item[model], item[baseline])
        for item in items
        if all(name in item and item[name][OVERALL] is not None for name in (model, baseline))
    ]
    if not pairs:
        return {}
    return {
        axis: paired_difference([after[at] for after, _ in pairs], [old[at] for _, old in pairs])
        for at, axis in enumerate(NAMES)
    }


def verdict(interval: Interval) -> str:
    """In words, what an interval of differences says of the later model."""
    if interval.excludes_zero:
        return "better" if interval.mean > 0 else "worse"
    return "not settled" if interval.count >= FEWEST else "too few ids"


def gains_table(gains: Sequence[Gain], baseline: str) -> str:
    """A table in plain text."""
    names = [on_one_line(each.model) for each in gains]
    width = max(len("model"), *map(len, names))
    lines = [
        fill(f"Differences to {on_one_line(baseline)}, {HOW}.", WIDTH),
        "  ".join([f"{'model':<{width}}", f"{'ids':>5}", *(f"{axis:<38}" for axis in NAMES)]),
    ]
    for name, each in zip(names, gains, strict=True):
        cells = [f"{f'{it} {verdict(it)}':<38}" for it in each.axes.values()]
        lines.append("  ".join([f"{name:<{width}}", f"{each.count:>5}", *cells]))
    return "\n".join(line.rstrip() for line in lines)
