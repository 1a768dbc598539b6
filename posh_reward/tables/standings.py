"""Scored rows -> means by model, and each model's difference to a baseline."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from math import inf, isnan, nan
from statistics import fmean
from textwrap import fill
from typing import Any

from posh_reward.embedded.english.wordnet import is_english
from posh_reward.errors import InputError, on_one_line
from posh_reward.markup import find_markup
from posh_reward.metrics.records import find_failure_reason
from posh_reward.models.model import explain_doubtful_replies
from posh_reward.provenance import Origins
from posh_reward.settings import shorten
from posh_reward.tables.statistics import (
    MIN_VALUES_FOR_SIGN,
    Interval,
    bootstrap_mean,
    paired_difference,
)
from posh_reward.tables.tables import SCORE_NAMES, SCORES_EXPLANATION, Row
from posh_reward.tables.text_tables import align_columns
from posh_reward.text_values import is_placeholder
from posh_reward.types import SentenceVerdict, score_in_means

MAX_LISTED_IDS = 10  # that a summary names for each reason; a line of a terminal has room for them
SCORED_TEXTS = ("generation", "reference")
NOT_ENGLISH = "the {side} does not read like English, the only supported language"
SIDE_NOT_ENGLISH = {NOT_ENGLISH.format(side=side): side for side in SCORED_TEXTS}
NOTHING_ASKED = "the reference names nothing to look for, so recall is 1 for any generation"
NOTHING_WRITTEN = "the generation is empty, so nothing in it is wrong (precision is 1)"
NOTHING_SAID = "the generation names nothing that could be wrong, so its precision is 1"
IS_PLACEHOLDER = "the {side} is a placeholder, such as None or -"
HAS_MARKUP = (
    "the {side} has markup or invisible characters, which count as words (see score --clean)"
)
NO_GRADES = "most replies of the judge were more likely something else than a grade"
MAX_LISTED_REASONS = 5  # in a summary
EXPLANATION_WIDTH_CHARACTERS = 90
CONTRADICTED_SHARE = "contradicted_share"
CONTRADICTED_EXPLANATION = (
    "contradicted_share: of the sentences, how many the reference contradicts, 0 to 1, lower is "
    "better"
)


@dataclass(frozen=True, slots=True)
class MetricColumns:
    """A metric's columns of scores, and their meaning."""

    names: tuple[str, ...]  # columns of scores, higher is better; all set if the leading one is
    leading: str  # the one that ranks models
    explanation: str  # range of the scores, and that higher is better
    unit: str = "text"  # noun for a row
    # Reasons why a row's scores mean little; empty if there are none.
    doubts: Callable[[Mapping[str, Any]], Iterable[str]] = lambda row: ()


def _find_doubts(row: Mapping[str, Any]) -> Iterator[str]:
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
    for side in SCORED_TEXTS:
        text = (row.get(side) or "").strip()
        if is_placeholder(text):
            yield IS_PLACEHOLDER.format(side=side)
        elif not is_english(text):
            yield NOT_ENGLISH.format(side=side)
        if find_markup(text):
            yield HAS_MARKUP.format(side=side)


def read_averaged_score(row: Mapping[str, Any], axis: str) -> float | None:
    """Return a row's score as it counts in means (``score_in_means``)."""
    return score_in_means(row.get, axis)


POSH_COLUMNS = MetricColumns(SCORE_NAMES, "f1", SCORES_EXPLANATION, "pair", _find_doubts)


@dataclass(slots=True)
class ModelTotals:
    """Scores of one model's rows."""

    rows: int = 0
    words: int = 0
    lengths: array[int] = field(default_factory=lambda: array("l"))  # words of each scored text
    # By name, one for each scored text; NaN for one that means leave out (``read_averaged_score``).
    scores: dict[str, array[float]] = field(default_factory=dict)
    sentences: int = 0  # of scored texts, that a reader read against the reference
    contradicted: int = 0  # of these

    def values(self, axis: str) -> list[float]:
        """Scores that count in the mean."""
        return [value for value in self.scores[axis] if not isnan(value)]

    def format_means(self) -> str:
        means = []
        for name in self.scores:
            values = self.values(name)
            mean = f"{fmean(values):.3f}" if values else "none"
            means.append(f"{name} {mean}")
        line = ", ".join(means)
        if self.sentences:
            line += f"; contradicted {self.contradicted:,} of {self.sentences:,} sentences"
        return line

    @property
    def contradicted_share(self) -> float | None:
        """Share of the sentences that their references contradict; None if none was read."""
        if not self.sentences:
            return None
        return self.contradicted / self.sentences


@dataclass(slots=True)
class ReasonCount:
    """Rows without a score, or with a doubtful one, for one reason."""

    count: int = 0
    ids: list[str | int] = field(default_factory=list)  # of the first few
    example: str = ""  # the first one's text, where it shows the reason
    models: list[str] = field(default_factory=list)  # whose rows they are, where rows name any

    def add(self, id: str | int, example: str = "", model: str = "") -> None:
        self.count += 1
        if model and model not in self.models:
            self.models.append(model)
        self.example = self.example or example
        if self.count <= MAX_LISTED_IDS:
            self.ids.append(id)

    def __str__(self) -> str:
        noun = "id" if self.count == 1 else "ids"
        listed = ", ".join(map(repr, self.ids))
        if self.count > len(self.ids):
            listed += ", ..."
        owners = f" of {', '.join(map(on_one_line, self.models))}" if self.models else ""
        return f"{self.count:,} ({noun} {listed}{owners})"


def reason_lines(failures: Mapping[str, ReasonCount], lack: str = "no score") -> list[str]:
    """A summary's lines about rows without a result, the most frequent reason first."""
    reasons = sorted(failures.items(), key=lambda each: -each[1].count)
    lines = [f"{lack} for {rows}: {reason}" for reason, rows in reasons[:MAX_LISTED_REASONS]]
    others = len(reasons) - MAX_LISTED_REASONS
    if others > 0:
        lines.append(f"and {others} other reasons")
    return lines


@dataclass(slots=True)
class ScoreTotals:
    """Running totals over scored rows, for a summary."""

    metric_columns: MetricColumns = POSH_COLUMNS
    models: dict[str, ModelTotals] = field(default_factory=dict)  # by model; "" where none is named
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
            self.models[name] = ModelTotals(
                scores={each: array("d") for each in self.metric_columns.names}
            )
        model = self.models[name]
        model.rows += 1
        words = len((row["generation"] or "").split())
        model.words += words
        if row[self.metric_columns.leading] is None:
            self.failures.setdefault(find_failure_reason(row) or "", ReasonCount()).add(
                row["id"], model=name
            )
            return
        for doubt in self.metric_columns.doubts(row):
            example = row.get(SIDE_NOT_ENGLISH.get(doubt, "")) or ""
            self.doubts.setdefault(doubt, ReasonCount()).add(row["id"], example, name)
        model.lengths.append(words)
        for sentence in row.get("sentences") or ():
            model.sentences += 1
            model.contradicted += SentenceVerdict(**sentence).value == "contradicted"
        for axis, values in model.scores.items():
            value = read_averaged_score(row, axis)
            values.append(nan if value is None else value)

    def average_by_model(self) -> list[ModelMeans]:
        """The models, in the order of their first rows."""
        table = []
        for name, totals in self.models.items():
            count = len(totals.scores[self.metric_columns.leading])
            axes = {}
            for axis in totals.scores:
                if values := totals.values(axis):
                    axes[axis] = bootstrap_mean(values)
            words = totals.words / max(totals.rows, 1)
            failures, contradicted = totals.rows - count, totals.contradicted_share
            table.append(ModelMeans(name, count, failures, axes, words, contradicted))
        return table

    def partial_means(self) -> Iterator[str]:
        """Say which means leave out rows without elements."""
        for name, totals in self.models.items():
            for axis, values in totals.scores.items():
                left_out = sum(map(isnan, values))
                if not left_out:
                    continue
                mean = f"the mean {axis}"
                if name:
                    mean += f" of {on_one_line(name)}"
                line = f"{mean} leaves out {left_out:,} of {len(values):,} rows, "
                line += "which have nothing to look for"
                if axis == "precision":
                    line += "; their f1 counts as the worst"
                yield line

    def __str__(self) -> str:
        columns = self.metric_columns
        count = sum(len(model.scores[columns.leading]) for model in self.models.values())
        first = f"scored {count:,} of {self.rows:,} {columns.unit}s"
        lines: list[str] = []
        if len(self.models) > 1:
            models = sort_best_first(self.average_by_model(), columns.leading)
            lines.append(format_leaderboard(models, columns))
        elif count:
            [model] = self.models.values()
            first += f"; means: {model.format_means()}"
            lines.append(fill(columns.explanation, EXPLANATION_WIDTH_CHARACTERS))
        lines += [*reason_lines(self.failures), *self.partial_means(), *self.doubtful()]
        return "\n".join([first, *lines])

    def figures(self) -> dict[str, Any]:
        """The summary as plain data: each model's means, and rows without a good score."""
        return {
            "rows": self.rows,
            "models": [asdict(each) for each in self.average_by_model()],
            "failures": {why: asdict(rows) for why, rows in self.failures.items()},
            "doubts": {why: asdict(rows) for why, rows in self.doubts.items()},
        }

    def doubtful(self) -> Iterator[str]:
        """Name rows whose scores mean little."""
        for why, rows in self.doubts.items():
            example = f", such as {shorten(rows.example)}" if rows.example else ""
            yield f"do not rely on {rows}: {why}{example}"


@dataclass(frozen=True, slots=True)
class ModelMeans:
    """One model's means over its rows; higher is better on every axis."""

    model: str
    count: int  # rows with scores
    failures: int
    axes: dict[str, Interval]  # 95 % bootstrap intervals over rows; empty if none was scored
    words: float  # mean words of a generation
    contradicted_share: float | None = None  # of its sentences; None if none was read


def average_by_model(rows: Iterable[Row]) -> list[ModelMeans]:
    """Means by model; rows that failed are counted but left out."""
    totals = ScoreTotals()
    for row in rows:
        totals.add(row)
    return totals.average_by_model()


def sort_best_first(
    models: Iterable[ModelMeans], leading: str = POSH_COLUMNS.leading
) -> list[ModelMeans]:
    """Sort by one score, the highest first; models without a score come last."""
    return sorted(models, key=partial(_rank_first, leading=leading))


def _rank_first(means: ModelMeans | ModelGain, leading: str = POSH_COLUMNS.leading) -> float:
    """Key by which the highest mean comes first, and a missing one last."""
    if leading not in means.axes:
        return inf
    return -means.axes[leading].mean


def compare_rows(
    after: Sequence[Row], before: Sequence[Row], axis: str = POSH_COLUMNS.leading
) -> Interval:
    """Paired by id: how much higher, so better, ``after`` is on one axis."""
    old = {row["id"]: read_averaged_score(row, axis) for row in before}
    if set(old) != {row["id"] for row in after}:
        raise InputError("the two models described different items: score the same split")
    new = [read_averaged_score(row, axis) for row in after]
    return paired_difference(new, [old[row["id"]] for row in after])


def have_sentences(models: Iterable[ModelMeans]) -> bool:
    """Return True if a reader read the sentences of any model."""
    return any(each.contradicted_share is not None for each in models)


def format_share(share: float | None) -> str:
    return "none" if share is None else f"{share:.3f}"


def format_leaderboard(models: Sequence[ModelMeans], columns: MetricColumns = POSH_COLUMNS) -> str:
    others = [name for name in columns.names if name != columns.leading]
    shares = [CONTRADICTED_SHARE] if have_sentences(models) else []
    table = [["model", f"{columns.leading} [95 %]", *others, *shares, "words", "scored", "failed"]]
    unscored = []
    for each in models:
        name = on_one_line(each.model)
        if not each.axes:
            unscored.append(f"{name}  none of its {each.failures} generations was scored")
            continue
        cells = {axis: f"{interval.mean:.3f}" for axis, interval in each.axes.items()}
        if columns.leading in each.axes:
            cells[columns.leading] = f"{each.axes[columns.leading]:.3f}"
        scores = [cells.get(axis, "none") for axis in (columns.leading, *others)]
        if shares:
            scores.append(format_share(each.contradicted_share))
        table.append([name, *scores, f"{each.words:.1f}", str(each.count), str(each.failures)])
    explanation = columns.explanation
    if shares:
        explanation += f". {CONTRADICTED_EXPLANATION}"
    explanation = fill(explanation, EXPLANATION_WIDTH_CHARACTERS)
    return "\n".join([explanation, align_columns(table), *unscored])


IdScores = Mapping[str, Sequence[float | None]]
"""Model -> scores of one id, in the order of ``SCORE_NAMES``."""
GAINS_EXPLANATION = (
    "over the ids that both have, with 95 % intervals; above 0 is better. Not settled: the "
    f"interval includes 0; fewer than {MIN_VALUES_FOR_SIGN} ids settle nothing"
)


@dataclass(frozen=True, slots=True)
class ModelGain:
    """A model's differences to the baseline."""

    model: str
    axes: dict[str, Interval]  # higher is better; empty if no id has scores of both

    @property
    def count(self) -> int:
        return max((interval.count for interval in self.axes.values()), default=0)


def choose_baseline(models: Sequence[str], name: str | None = None) -> str:
    if name is None:
        return models[0]
    if name not in models:
        if list(models) == [""]:
            raise InputError(f"no row names a model, so none can be compared with {name!r}")
        names = ", ".join(map(repr, models))
        raise InputError(f"no row is of the model {name!r}: choose the baseline from {names}")
    return name


def compare_with_baseline(
    items: Iterable[IdScores], models: Sequence[str], baseline: str
) -> list[ModelGain]:
    """Differences of the other models to the baseline over ids with both scores, best first."""
    items = list(items)
    others = [model for model in models if model != baseline]
    gains = [ModelGain(model, _compare_pairs(items, model, baseline)) for model in others]
    return sorted(gains, key=_rank_first)


def _compare_pairs(items: Sequence[IdScores], model: str, baseline: str) -> dict[str, Interval]:
    pairs = [(item[model], item[baseline]) for item in items if model in item and baseline in item]
    differences = {}
    for at, axis in enumerate(SCORE_NAMES):
        both = [(new[at], old[at]) for new, old in pairs if None not in (new[at], old[at])]
        if both:
            differences[axis] = paired_difference(*zip(*both, strict=True))
    return differences


def describe_gain(interval: Interval) -> str:
    """Meaning of an interval of differences, in words."""
    if interval.count < MIN_VALUES_FOR_SIGN:
        return "too few ids"
    if not interval.excludes_zero:
        return "not settled"
    return "better" if interval.mean > 0 else "worse"


def format_gains(gains: Sequence[ModelGain], baseline: str) -> str:
    table = [["model", "ids", *SCORE_NAMES]]
    for each in gains:
        cells = {name: f"{gain} {describe_gain(gain):<11}" for name, gain in each.axes.items()}
        scores = [cells.get(name, "") for name in SCORE_NAMES]
        table.append([on_one_line(each.model), str(each.count), *scores])
    lead = fill(
        f"Differences to {on_one_line(baseline)}, {GAINS_EXPLANATION}.",
        EXPLANATION_WIDTH_CHARACTERS,
    )
    return f"{lead}\n{align_columns(table)}"
