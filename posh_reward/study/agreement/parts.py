"""Reports about POSH's parts, and about where it finds errors (paper, Tables 2, 8 and 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from posh_reward.errors import InputError
from posh_reward.graph.reader import Reader
from posh_reward.study.agreement import answers, graphs, localise, marks, published
from posh_reward.study.agreement.bars import Bars
from posh_reward.study.agreement.compare import Cell, Line, head
from posh_reward.study.agreement.report import Report, few
from posh_reward.study.agreement.sources import as_list, check_columns, text_of
from posh_reward.study.agreement.spans import overlaps
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints, bootstrap
from posh_reward.types import Failure

POSH = "POSH"


def spans_report(
    judged: marks.Marked,
    localisers: Sequence[localise.Localiser],
    missing: Sequence[tuple[str, str]] = (),
    *,
    against: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
    quiet: bool = False,
) -> Report:
    """Mistakes and omissions found token by token, below them the paper's Table 2."""
    bars = Bars(quiet)
    total = len(set(judged.pairs))
    try:
        found = [
            localise.localised(each, judged, bars.bar(each.name, total, "pair"))
            for each in localisers
        ]
    finally:
        bars.close()
    lines = localise.localising_lines(
        judged, found, against=against, resamples=resamples, seed=seed
    )
    lines += [Line(name, {}, missing=why) for name, why in missing]
    shares = ", ".join(f"{axis} {_marked_share(judged, axis):.1%}" for axis in marks.AXES)
    thresholds = ", ".join(f"{each.name} {each.threshold:g}" for each in found)
    notes = [
        "Macro F1 over marked and unmarked tokens. best: at the best threshold for these very "
        f"texts, as in the paper; fixed: at a threshold set before ({thresholds}); held out: each "
        "half of the images at the best threshold of the other half.",
        f"Tokens that people marked: {shares}.",
        *few(judged.groups),
    ]
    figures = [head(axis, kind) for axis in marks.AXES for kind in localise.KINDS]
    title = f"{judged.name}: {len(judged.pairs):,} marked pairs, {len(set(judged.groups)):,} images"
    return Report(title, figures, lines, notes, published.published(2), 2,
                  against or (found[0].name if found else None))  # fmt: skip


def _marked_share(judged: marks.Marked, axis: str) -> float:
    marked = total = 0
    for text, spans in enumerate(judged.marks[axis]):
        tokens = judged.tokens(axis, text)
        total += len(tokens)
        marked += sum(any(overlaps(token, span) for span in spans) for token in tokens)
    return marked / total if total else 0.0


def answers_report(
    answered: answers.Answered, name: str, *, resamples: int = 1000, seed: int = 0
) -> Report:
    """The judge against people's own answers, below it the paper's Table 9."""
    estimates = bootstrap(
        partial(answers.answer_figures, answered), answered.groups, resamples=resamples, seed=seed
    )
    graded = [
        axis
        for axis, grade in zip(answered.axis, answered.grades, strict=True)
        if not np.isnan(grade)
    ]
    counts = {axis: graded.count(axis) for axis in marks.AXES} | {"overall": len(graded)}
    cells = {
        key: Cell(each, counts[key.split()[0]])
        for key, each in zip(answers.KEYS, estimates, strict=True)
    }
    failed = int(np.isnan(answered.grades).sum())
    failures = {"the judge gave no grade": failed} if failed else {}
    notes = [
        "The highest F1 over all thresholds: f1 of elements that are present, f1 absent of those "
        "that are not, f1 macro their mean. The paper does not say which it reports; its figures "
        "stand under f1.",
        *few(answered.groups, "pairs of texts"),
    ]
    figures = [head(axis, kind) for axis in answers.AXES for kind in answers.CLASSES]
    title = f"{name}: {len(answered.axis):,} questions that people answered"
    line = Line("judge", cells, {}, failures)
    return Report(title, figures, [line], notes, published.published(9), 9)


def graphs_report(
    rows: Sequence[Row], reader: Reader, name: str, *, resamples: int = 1000, seed: int = 0
) -> Report:
    """Our scene graphs against those that people drew, below them the paper's Table 8.

    Raises:
        InputError: a column is missing, or a row is not a text with a graph.
    """
    check_columns(rows, {f"a column {c!r}": c for c in ("text", *graphs.KINDS)}, name)
    measured, failures = _measured_graphs(rows, reader, name)
    keys = [f"{kind} {figure}" for kind, names in graphs.KINDS.items() for figure in names]
    table = np.array([[each[key] for key in keys] for each in measured])
    estimates = bootstrap(partial(_means, table), range(len(table)), resamples=resamples, seed=seed)
    cells = {
        key: Cell(each, int((~np.isnan(column)).sum()))
        for key, each, column in zip(keys, estimates, table.T, strict=True)
    }
    notes = [
        "Means over descriptions. Elements match by the words that they stand on; entities are "
        "counted by mention. Intervals by bootstrap over descriptions.",
        *few(range(len(measured)), "descriptions"),
    ]
    figures = [head(*key.split()) for key in keys]
    signature = f"parser:{reader.parser_name}|coref:{reader.coref.name}"
    line = Line(POSH, cells, {}, failures, signature)
    title = f"{name}: {len(measured):,} descriptions with scene graphs drawn by people"
    return Report(title, figures, [line], notes, published.published(8), 8)


def _measured_graphs(
    rows: Sequence[Row], reader: Reader, name: str
) -> tuple[list[dict[str, float]], Mapping[str, int]]:
    measured: list[dict[str, float]] = []
    failures: dict[str, int] = {}
    texts = [text_of(row, "text", f"{name}, row {n}") for n, row in enumerate(rows, start=1)]
    read = reader.read(texts, keep=True)
    for place, (row, text, ours) in enumerate(zip(rows, texts, read, strict=True), start=1):
        where = f"{name}, row {place}"
        if isinstance(ours, Failure):
            failures[str(ours)] = failures.get(str(ours), 0) + 1
            continue
        if text != ours.text:
            raise InputError(f"{where}: the text has white space around it: offsets would shift")
        gold = {kind: as_list(row.get(kind)) for kind in graphs.KINDS}
        drawn = graphs.placed_gold(gold, ours.text, where)
        measured.append(graphs.graph_figures(graphs.placed_graph(ours.graph, ours.text), drawn))
    return measured, failures


def _means(table: Floats, rows: Ints) -> list[float]:
    """(figures,) means over descriptions, without those where a figure is not defined."""
    some = table[rows]
    defined = ~np.isnan(some)
    totals = np.where(defined, some, 0).sum(axis=0)
    counts = defined.sum(axis=0)
    return [float(t / c) if c else np.nan for t, c in zip(totals, counts, strict=True)]
