"""PROVE over files: captions -> verified questions, responses -> scores. Both resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from posh_reward.errors import InputError, on_one_line
from posh_reward.study.rows.engine import REMEDY, TableSettings, fill, go_through, open_items
from posh_reward.study.rows.journal import check_apart, sink
from posh_reward.study.rows.scorers import SiblingRows, column, failed
from posh_reward.study.rows.standings import Unscored, unscored_lines
from posh_reward.study.rows.table_items import TableItem
from posh_reward.study.rows.table_writer import write_table
from posh_reward.study.rows.tables import STANDARD, Row, format_of

if TYPE_CHECKING:
    from posh_reward.metrics.prove.equations import ProveScores, ResponseClaim
    from posh_reward.metrics.prove.pair_maker import PairMaker
    from posh_reward.metrics.prove.prove import Prove
    from posh_reward.metrics.prove.sifting import CaptionQuestions

SCORED = ("response", "answer", "question", "caption")
"""Columns of what is scored."""
NAMES = ("helpfulness", "truthfulness", "average")
SCALE = "Scores are 0 to 1, higher is better"


class MadeRows(SiblingRows):
    """Captions -> rows with all candidates for questions, kept and dropped.

    Args:
        maker: makes them.
    """

    unit = "caption"

    def __init__(self, maker: PairMaker) -> None:
        super().__init__((), "", "pairs")
        self.maker = maker

    @property
    def signature(self) -> str:
        """The maker's."""
        return self.maker.signature

    @property
    def wants_images(self) -> bool:
        """True if a judge of entailment looks at images."""
        return self.maker.entailment is not None

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        """One row for each caption."""
        images = [item.content for item in items] if self.wants_images else None
        made = self.maker.make(column(items, "caption"), images)
        return [self._row(item, each) for item, each in zip(items, made, strict=True)]

    def _row(self, item: TableItem, made: CaptionQuestions) -> Row:
        pairs = [asdict(pair) for pair in made.pairs]
        return {**item.head, **failed(made.failure), "pairs": pairs, "signature": self.signature}


class ScoredRows(SiblingRows):
    """Responses -> rows with PROVE's scores.

    Args:
        prove: what scores.
    """

    unit = "response"

    def __init__(self, prove: Prove) -> None:
        super().__init__(NAMES, SCALE, "claims")
        self.prove = prove

    @property
    def signature(self) -> str:
        """The metric's."""
        return self.prove.signature

    @property
    def wants_images(self) -> bool:
        """True if a judge of entailment looks at images."""
        return self.prove.entailment is not None

    def rows(self, items: Sequence[TableItem]) -> list[Row]:
        """One scored row for each response."""
        images = [item.content for item in items] if self.wants_images else None
        texts = [column(items, name) for name in SCORED]
        scores = self.prove.score(texts[0], texts[1], texts[2], texts[3], images)
        return [self._row(item, each) for item, each in zip(items, scores, strict=True)]

    def _row(self, item: TableItem, scores: ProveScores) -> Row:
        return {
            **item.head,
            **{name: getattr(scores, name) for name in NAMES},
            **failed(scores.failure),
            "wanted": [_without_failure(asdict(each)) for each in scores.answer_tuples],
            "claims": [_claim_row(each) for each in scores.claims],
            "signature": scores.signature,
        }


def _claim_row(claim: ResponseClaim) -> Row:
    """Return a claim as files keep it: what the image shows stands in column ``picture``."""
    row = _without_failure(asdict(claim))
    row["picture"] = row.pop("image")
    return row


def _without_failure(element: Row) -> Row:
    failure = element.pop("failure", None)
    return element if failure is None else {**element, "failure": failure["detail"]}


class Means:
    """Means over the rows that have the score, by model if there are several (paper, Table 1).

    A response may be helpful and make no claim, so each score has its own rows.
    """

    def __init__(self) -> None:
        self.failures: dict[str, Unscored] = {}
        """Reason -> the rows that lack a score for it."""
        self._models: dict[str | None, dict[str, list[float]]] = {}

    def add(self, row: Row) -> None:
        """Counts one more row."""
        _note(self.failures, row)
        means = self._models.setdefault(row.get("model"), {name: [] for name in NAMES})
        for name, values in means.items():
            if row[name] is not None:
                values.append(row[name])

    def __str__(self) -> str:
        lines = [_means(model, means) for model, means in self._models.items()]
        return "\n".join([*lines, *unscored_lines(self.failures)])


def _note(failures: dict[str, Unscored], row: Row) -> None:
    """Counts a row that failed under its reason."""
    if row["failure"] is not None:
        failures.setdefault(on_one_line(row["failure"]), Unscored()).add(row["id"])


def _means(model: str | None, scores: dict[str, list[float]]) -> str:
    said = ", ".join(
        f"{name} {f'{fmean(values):.3f}' if values else 'none'} (of {len(values):,})"
        for name, values in scores.items()
    )
    return f"{'' if model is None else f'{on_one_line(model)}: '}{said}; higher is better"


class _Kept:
    """Keeps all rows."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        self.rows.append(row)


def make_pairs(maker: PairMaker, source: str, output: str, how: TableSettings) -> list[Row]:
    """Makes verified questions for a table of captions.

    Args:
        maker: makes them.
        source: a table with captions.
        output: a table of the kept pairs, written at the end. Next to it, ``OUTPUT.made.jsonl``
            has for each caption all candidates, those dropped with their reasons.
        how: columns, of which ``caption`` is the text; size of batches.

    Returns:
        The rows of ``OUTPUT.made.jsonl``.

    Raises:
        InputError: a file cannot be used, or the output holds something else.
        JudgeError: the writer cannot work at all, or not any more.
        OSError: the output cannot be written.
    """
    format = format_of(output)
    if output == STANDARD:
        raise InputError("the pairs need a file, next to which all candidates are kept")
    check_apart(source, output)
    candidates = f"{output}.made.jsonl"
    if Path(output).exists() and not Path(candidates).exists() and not how.overwrite:
        raise InputError(f"{output!r} is already there: {REMEDY}")
    work, made = MadeRows(maker), _Kept()
    with (
        open_items(source, how, images=work.wants_images) as (items, total),
        sink(candidates, format_of(candidates), how.overwrite) as out,
    ):
        fill(out, work, items, candidates, how, made, total)
    write_table([pair for row in made.rows for pair in kept_rows(row)], Path(output), format)
    return made.rows


def kept_rows(row: Row) -> Iterator[Row]:
    """The kept pairs of one caption, as rows that a model under test is asked by."""
    head: Row = {key: row[key] for key in ("caption", "image") if key in row}
    kept = [pair for pair in row["pairs"] if pair["dropped"] is None]
    for number, pair in enumerate(kept, start=1):
        asked: Row = {key: pair[key] for key in ("question", "answer", "program")}
        yield {"id": f"{row['id']}/{number}", **head, **asked}


def made_summary(rows: Iterable[Row]) -> str:
    """Counts of one run: captions, candidates, kept, and dropped by reason."""
    rows = list(rows)
    pairs = [pair for row in rows for pair in row["pairs"]]
    dropped = Counter(pair["dropped"] for pair in pairs)
    kept = dropped.pop(None, 0)
    failed = sum(row["failure"] is not None for row in rows)
    lines = [
        f"{len(rows):,} captions ({failed:,} failed), {len(pairs):,} candidates, {kept:,} kept"
    ]
    lines += [f"  {on_one_line(str(reason))}: {count:,}" for reason, count in dropped.most_common()]
    unjudged = Counter(pair["why"] for pair in pairs if pair["dropped"] == "unjudged")
    lines += [
        f"  unjudged, {count:,} of them: {on_one_line(str(why))}"
        for why, count in unjudged.most_common(3)
    ]
    failures: dict[str, Unscored] = {}
    for row in rows:
        _note(failures, row)
    return "\n".join([*lines, *unscored_lines(failures, "no pairs")])


def score_responses(prove: Prove, source: str, output: str, how: TableSettings) -> Means:
    """Scores a table of responses.

    Args:
        prove: what scores.
        source: a table with responses, answers, questions and captions.
        output: one row for each response.
        how: columns, of which the texts are ``SCORED``; size of batches.

    Raises:
        InputError: a file cannot be used, or the output holds something else.
        JudgeError: the judge cannot work at all, or not any more.
        OSError: the output cannot be written.
    """
    means = Means()
    go_through(ScoredRows(prove), source, output, how, means)
    return means
