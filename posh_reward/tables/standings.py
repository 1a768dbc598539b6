"""Scored rows -> means by model, and each model's difference to a baseline."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, nan
from statistics import fmean
from textwrap import fill
from typing import Any

from posh_reward.embedded.english.wordnet import is_english
from posh_reward.errors import InputError, on_one_line
from posh_reward.markup import find_markup
from posh_reward.metrics.records import reason_of
from posh_reward.models.model import explain_doubtful_replies
from posh_reward.provenance import Origins
from posh_reward.tables.statistics import FEWEST, Interval, bootstrap_mean, paired_difference
from posh_reward.tables.tables import EXPLANATION, NAMES, Row
from posh_reward.tables.text_tables import align
from posh_reward.text_values import is_placeholder
from posh_reward.types import score_in_means

MAX_LISTED_IDS = 10  # that a summary names for each reason; a line of a terminal has room for them
SIDES = ("generation", "reference")
NOT_ENGLISH = "the {side} does not read like English, the only supported language"
NOTHING_ASKED = "the reference names nothing to look for, so recall is 1 for any generation"
NOTHING_WRITTEN = "the generation is empty, so nothing in it is wrong (precision is 1)"
NOTHING_SAID = "the generation names nothing that could be wrong, so its precision is 1"
PLACEHOLDER = "the {side} is a placeholder, such as None or -"
MARKUP = "the {side} has markup or invisible characters, which count as words (see score --clean)"
NO_GRADES = "most replies of the judge were more likely something else than a grade"
REASONS = 5  # reasons that a summary lists


@dataclass(frozen=True, slots=True)
class Board:
    """A metric's columns of scores, and their meaning."""

    names: tuple[str, ...]  # columns of scores, higher is better; all set if the leading one is
    leading: str  # the one that ranks models
    explanation: str  # range of the scores, and that higher is better
    unit: str = "text"  # noun for a row
    # Reasons why a row's scores mean little; empty if there are none.
    doubts: Callable[[Mapping[str, Any]], Iterable[str]] = lambda row: ()


def _doubts(row: Mapping[str, Any]) -> Iterator[str]:
    """Reasons why POSH's scores of a row mean little: no failure, but a score that misleads."""
    if explain_doubtful_replies(row.get("doubtful_share") or 0) is not None:
        yield NO_GRADES
    if row.get("reference_elements") == 0:
        yield NOTHING_ASKED
    written = (row.get("generation") or "").strip()
    if not written:
        yield NOTHING_WRITTEN
    elif row.get("generation_elements") == 0:
        yield NOTHING_SAID
    for side in SIDES:
        text = (row.get(side) or "").strip()
        if is_placeholder(text):
            yield PLACEHOLDER.format(side=side)
        elif not is_english(text):
            yield NOT_ENGLISH.format(side=side)
        if find_markup(text):
            yield MARKUP.format(side=side)


def counted(row: Mapping[str, Any], axis: str) -> float | None:
    """Return a row's score as it counts in means (``score_in_means``)."""
    return score_in_means(row.get, axis)


POSH = Board(NAMES, "f1", EXPLANATION, "pair", _doubts)


@dataclass(slots=True)
class Totals:
    """Scores of one model's rows."""

    rows: int = 0
    words: int = 0
    lengths: array[int] = field(default_factory=lambda: array("l"))  # words of each scored text
    # By name, one for each scored text; NaN for one that means leave out (``counted``).
    scores: dict[str, array[float]] = field(default_factory=dict)

    def values(self, axis: str) -> list[float]:
        """Scores that count in the mean."""
        return [value for value in self.scores[axis] if not isnan(value)]


@dataclass(slots=True)
class ReasonCount:
    """Rows without a score, or with a doubtful one, for one reason."""

    count: int = 0
    ids: list[str | int] = field(default_factory=list)  # of the first few

    def add(self, id: str | int) -> None:
        self.count += 1
        if self.count <= MAX_LISTED_IDS:
            self.ids.append(id)

    def __str__(self) -> str:
        ids = ", ".join(map(repr, self.ids))
        more = ", ..." if self.count > len(self.ids) else ""
        return f"{self.count:,} ({'id' if self.count == 1 else 'ids'} {ids}{more})"


def reason_lines(failures: Mapping[str, ReasonCount], lack: str = "no score") -> list[str]:
    """A summary's lines about rows without a result, the most frequent reason first."""
    reasons = sorted(failures.items(), key=lambda each: -each[1].count)
    lines = [f"{lack} for {rows}: {reason}" for reason, rows in reasons[:REASONS]]
    others = len(reasons) - REASONS
    return [*lines, f"and {others} other reasons"] if others > 0 else lines


@dataclass(slots=True)
class Tally:
    """Running totals over scored rows, for a summary."""

    board: Board = POSH
    models: dict[str, Totals] = field(default_factory=dict)  # by model; "" where none is named
    failures: dict[str, ReasonCount] = field(default_factory=dict)  # by reason
    doubts: dict[str, ReasonCount] = field(default_factory=dict)  # by reason
    origins: Origins = field(default_factory=Origins)

    @property
    def rows(self) -> int:
        return sum(model.rows for model in self.models.values())

    def add(self, row: Mapping[str, Any]) -> None:
        self.origins.add(row)
        name = row.get("model") or ""
        if name not in self.models:
            self.models[name] = Totals(scores={each: array("d") for each in self.board.names})
        model = self.models[name]
        model.rows += 1
        words = len((row["generation"] or "").split())
        model.words += words
        if row[self.board.leading] is None:
            self.failures.setdefault(reason_of(row) or "", ReasonCount()).add(row["id"])
            return
        for doubt in self.board.doubts(row):
            self.doubts.setdefault(doubt, ReasonCount()).add(row["id"])
        model.lengths.append(words)
        for axis, values in model.scores.items():
            value = counted(row, axis)
            values.append(nan if value is None else value)

    def standings(self) -> list[Standing]:
        """The models, in the order of their first rows."""
        table = []
        for name, totals in self.models.items():
            count = len(totals.scores[self.board.leading])
            axes = {
                axis: bootstrap_mean(values)
                for axis in totals.scores
                if (values := totals.values(axis))
            }
            words = totals.words / max(totals.rows, 1)
            table.append(Standing(name, count, totals.rows - count, axes, words))
        return table

    def partial_means(self) -> Iterator[str]:
        """Say which means leave out rows without elements."""
        for name, totals in self.models.items():
            for axis, values in totals.scores.items():
                if left := sum(map(isnan, values)):
                    of = f" of {on_one_line(name)}" if name else ""
                    worst = "; their f1 counts as the worst" if axis == "precision" else ""
                    yield (
                        f"the mean {axis}{of} leaves out {left:,} of {len(values):,} rows, which "
                        f"have nothing to look for{worst}"
                    )

    def __str__(self) -> str:
        count = sum(len(model.scores[self.board.leading]) for model in self.models.values())
        lines = [f"scored {count:,} of {self.rows:,} {self.board.unit}s"]
        if len(self.models) > 1:
            lines += [leaderboard(best_first(self.standings(), self.board.leading), self.board)]
        elif count:
            [model] = self.models.values()
            means = (
                f"{name} {f'{fmean(values):.3f}' if (values := model.values(name)) else 'none'}"
                for name in model.scores
            )
            lines[0] += f"; means: {', '.join(means)}"
            lines += [fill(self.board.explanation, WIDTH)]
        lines += [*reason_lines(self.failures), *self.partial_means()]
        return "\n".join([*lines, *self.doubtful()])

    def doubtful(self) -> Iterator[str]:
        """Name rows whose scores mean little."""
        return (f"do not rely on {rows}: {why}" for why, rows in self.doubts.items())


@dataclass(frozen=True, slots=True)
class Standing:
    """One model's means over its rows; higher is better on every axis."""

    model: str
    count: int  # rows with scores
    failures: int
    axes: dict[str, Interval]  # 95 % bootstrap intervals over rows; empty if none was scored
    words: float  # mean words of a generation


def standings(rows: Iterable[Row]) -> list[Standing]:
    """Means by model; rows that failed are counted but left out."""
    tally = Tally()
    for row in rows:
        tally.add(row)
    return tally.standings()


def best_first(standings: Iterable[Standing], leading: str = POSH.leading) -> list[Standing]:
    """Sort by one score, the highest first; models without a score come last."""
    return sorted(standings, key=lambda it: -it.axes[leading].mean if leading in it.axes else inf)


def difference(after: Sequence[Row], before: Sequence[Row], axis: str = POSH.leading) -> Interval:
    """Paired by id: how much higher, so better, ``after`` is on one axis."""
    old = {row["id"]: counted(row, axis) for row in before}
    if set(old) != {row["id"] for row in after}:
        raise InputError("the two models described different items: score the same split")
    new = [counted(row, axis) for row in after]
    return paired_difference(new, [old[row["id"]] for row in after])


def leaderboard(standings: Sequence[Standing], board: Board = POSH) -> str:
    others = [name for name in board.names if name != board.leading]
    table = [["model", f"{board.leading} [95 %]", *others, "words", "scored", "failed"]]
    table += [
        [on_one_line(s.model),
         f"{s.axes[board.leading]:.3f}" if board.leading in s.axes else "none",
         *(f"{s.axes[each].mean:.3f}" if each in s.axes else "none" for each in others),
         f"{s.words:.1f}", str(s.count), str(s.failures)]
        for s in standings if s.axes
    ]  # fmt: skip
    unscored = [
        f"{on_one_line(s.model)}  none of its {s.failures} generations was scored"
        for s in standings
        if not s.axes
    ]
    return "\n".join([fill(board.explanation, WIDTH), align(table), *unscored])


IdScores = Mapping[str, Sequence[float | None]]
"""Model -> scores of one id, in the order of ``NAMES``."""
LEADING = POSH.leading
WIDTH = 90  # line length of explanations
GAINS = (
    "over the ids that both have, with 95 % intervals; above 0 is better. Not settled: the "
    f"interval includes 0; fewer than {FEWEST} ids settle nothing"
)


@dataclass(frozen=True, slots=True)
class Gain:
    """A model's differences to the baseline."""

    model: str
    axes: dict[str, Interval]  # higher is better; empty if no id has scores of both

    @property
    def count(self) -> int:
        return max((interval.count for interval in self.axes.values()), default=0)


def baseline_of(models: Sequence[str], name: str | None = None) -> str:
    if name is None:
        return models[0]
    if name not in models:
        names = ", ".join(map(repr, models))
        raise InputError(f"no row is of the model {name!r}: choose the baseline from {names}")
    return name


def gains(items: Iterable[IdScores], models: Sequence[str], baseline: str) -> list[Gain]:
    """Differences of the other models to the baseline over ids with both scores, best first."""
    items = list(items)
    others = [model for model in models if model != baseline]
    gains = [Gain(model, _differences(items, model, baseline)) for model in others]
    return sorted(gains, key=lambda it: -it.axes[LEADING].mean if LEADING in it.axes else inf)


def _differences(items: Sequence[IdScores], model: str, baseline: str) -> dict[str, Interval]:
    pairs = [
        (item[model], item[baseline])
        for item in items
        if all(name in item for name in (model, baseline))
    ]
    if not pairs:
        return {}
    differences = {}
    for at, axis in enumerate(NAMES):
        both = [(new[at], old[at]) for new, old in pairs if None not in (new[at], old[at])]
        if both:
            differences[axis] = paired_difference(*zip(*both, strict=True))
    return differences


def verdict(interval: Interval) -> str:
    """Meaning of an interval of differences, in words."""
    if interval.excludes_zero:
        return "better" if interval.mean > 0 else "worse"
    return "not settled" if interval.count >= FEWEST else "too few ids"


def gains_table(gains: Sequence[Gain], baseline: str) -> str:
    table = [["model", "ids", *NAMES]]
    for each in gains:
        cells = [
            f"{each.axes[name]} {verdict(each.axes[name]):<11}" if name in each.axes else ""
            for name in NAMES
        ]
        table.append([on_one_line(each.model), str(each.count), *cells])
    lead = fill(f"Differences to {on_one_line(baseline)}, {GAINS}.", WIDTH)
    return f"{lead}\n{align(table)}"
