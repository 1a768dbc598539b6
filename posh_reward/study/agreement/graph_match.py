"""Scene graphs against graphs that people drew (paper, A.4.2; Table 8).

Elements match by the words that they stand on. Entities are counted by mention: *coref* is the
share of matched mentions whose entity has the right first mention. *head* and *tail* are the shares
of matched attributes and relations with the right entities: those that share a matched mention. All
figures are means over descriptions, as in the paper, without those that have nothing to measure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan

import numpy as np
from scipy.optimize import linear_sum_assignment

from posh_reward.errors import InputError
from posh_reward.graph.reader import Reader
from posh_reward.study.agreement.agreement_report import (
    AgreementReport,
    AgreementSettings,
    few_groups_note,
    paper_table,
)
from posh_reward.study.agreement.compare import Cell, Figure, MetricLine
from posh_reward.study.agreement.judgment_files import as_list, check_columns, text_in
from posh_reward.study.agreement.rater_agreement import Matches, token_spans, tokens_in
from posh_reward.study.rows.tables import Row
from posh_reward.study.statistics import Floats, Ints, bootstrap
from posh_reward.types import Failure, SceneGraph, Span

Tokens = frozenset[int]  # indices of tokens
KINDS = {
    "entities": ("precision", "recall", "f1", "coref"),
    "attributes": ("precision", "recall", "f1", "head"),
    "relations": ("precision", "recall", "f1", "head", "tail"),
}
"""Kind -> figures of the paper's Table 8."""


@dataclass(frozen=True)
class TokenGraph:
    """A scene graph by the tokens that its elements stand on."""

    # (Tokens, entity) of every mention, in text order within an entity.
    mentions: Sequence[tuple[Tokens, int]]
    attributes: Sequence[tuple[Tokens, int]]  # (Tokens, entity)
    relations: Sequence[tuple[Tokens, int, int]]  # (Tokens, subject, object)

    def first_mentions(self) -> dict[int, Tokens]:
        """Entity -> tokens of its first mention."""
        firsts: dict[int, Tokens] = {}
        for tokens, entity in self.mentions:
            firsts.setdefault(entity, tokens)
        return firsts


def graph_on_tokens(graph: SceneGraph, text: str) -> TokenGraph:
    """Place our graph of a stripped text."""
    tokens = token_spans(text)
    entities = graph.entities
    return TokenGraph(
        [(tokens_in([s], tokens), i) for i, entity in enumerate(entities) for s in entity.spans],
        [(tokens_in(a.spans, tokens), i) for i, e in enumerate(entities) for a in e.attributes],
        [(tokens_in(r.spans, tokens), r.subject, r.object) for r in graph.relations],
    )


def gold_on_tokens(gold: Mapping[str, object], text: str, where: str) -> TokenGraph:
    """Place a graph that people drew; ``InputError`` if it is not as below.

    Args:
        gold: ``entities``: ``[{"mentions": [[start, end], ...]}, ...]``; ``attributes``:
            ``[{"spans": [[start, end], ...], "entity": 0}, ...]``; ``relations``:
            ``[{"spans": ..., "subject": 0, "object": 1}, ...]``.
        text: the stripped text that the offsets point into.
        where: its place in messages.
    """
    tokens = token_spans(text)
    try:
        entities, attributes, relations = (_objects(gold[kind]) for kind in KINDS)
        count = len(entities)
        return TokenGraph(
            [
                (tokens_in([span], tokens), i)
                for i, entity in enumerate(entities)
                for span in _spans(entity["mentions"])
            ],
            [
                (tokens_in(_spans(a["spans"]), tokens), _entity(a["entity"], count))
                for a in attributes
            ],
            [
                (
                    tokens_in(_spans(r["spans"]), tokens),
                    _entity(r["subject"], count),
                    _entity(r["object"], count),
                )
                for r in relations
            ],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{where}: not a scene graph ({type(error).__name__}: {error}): give entities with "
            "mentions, attributes with spans and entity, relations with spans, subject and object"
        ) from None


def _objects(value: object) -> list[dict[str, object]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise TypeError(f"{str(value)[:40]} is not a list of objects")
    return value


def _spans(value: object) -> list[Span]:
    if not isinstance(value, list) or not value:
        raise TypeError(f"{str(value)[:40]} is not a list of spans")
    return [(int(start), int(end)) for start, end in value]


def _entity(value: object, count: int) -> int:
    if not isinstance(value, int) or not 0 <= value < count:
        raise ValueError(f"{value!r} is not the number of an entity, 0 to {count - 1}")
    return value


def graph_figures(ours: TokenGraph, gold: TokenGraph) -> dict[str, float]:
    """The figures of one description, such as ``"entities f1"``; nan where there is nothing."""
    mentions = _matches([t for t, _ in ours.mentions], [t for t, _ in gold.mentions])
    attributes = _matches([t for t, _ in ours.attributes], [t for t, _ in gold.attributes])
    relations = _matches([t for t, _, _ in ours.relations], [t for t, _, _ in gold.relations])
    # Entities have no names in common: two are the same if any of their mentions match. A chain
    # with a wrong mention may so be the same as two; coref, by the first mentions, tells of that.
    same = {(ours.mentions[i][1], gold.mentions[j][1]) for i, j in mentions}
    first, right = ours.first_mentions(), gold.first_mentions()
    figures = _prf("entities", mentions, len(ours.mentions), len(gold.mentions))
    figures["entities coref"] = _share(
        [bool(first[ours.mentions[i][1]] & right[gold.mentions[j][1]]) for i, j in mentions]
    )
    figures |= _prf("attributes", attributes, len(ours.attributes), len(gold.attributes))
    figures["attributes head"] = _share(
        [(ours.attributes[i][1], gold.attributes[j][1]) in same for i, j in attributes]
    )
    figures |= _prf("relations", relations, len(ours.relations), len(gold.relations))
    for place, name in ((1, "head"), (2, "tail")):
        figures[f"relations {name}"] = _share(
            [(ours.relations[i][place], gold.relations[j][place]) in same for i, j in relations]
        )
    return figures


def _matches(ours: Sequence[Tokens], gold: Sequence[Tokens]) -> list[tuple[int, int]]:
    """Pairs of equal elements, one to one, so that they share as many tokens as possible."""
    if not ours or not gold:
        return []
    # (ours, gold) Jaccard similarity. An optimal assignment: greedy pairs would depend on the order
    # of elements, and a long span could take the match of two short ones.
    overlap = np.array([[len(a & b) / len(a | b or {0}) for b in gold] for a in ours])
    pairs = zip(*linear_sum_assignment(overlap, maximize=True), strict=True)
    return [(int(i), int(j)) for i, j in pairs if overlap[i, j] > 0]


def _prf(kind: str, matches: Sequence[object], ours: int, gold: int) -> dict[str, float]:
    counts = Matches(len(matches), ours, len(matches), gold)
    return {
        f"{kind} precision": counts.precision,
        f"{kind} recall": counts.recall,
        f"{kind} f1": counts.f1,
    }


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else nan


def graphs_report(
    rows: Sequence[Row], reader: Reader, name: str, settings: AgreementSettings
) -> AgreementReport:
    """Our scene graphs against those that people drew, below them the paper's Table 8.

    Raises:
        InputError: a column is missing, or a row is not a text with a graph.
    """
    check_columns(rows, {f"a column {c!r}": c for c in ("text", *KINDS)}, name)
    figures_of, failures = _figures_of(rows, reader, name)
    keys = [f"{kind} {figure}" for kind, names in KINDS.items() for figure in names]
    table = np.array([[each[key] for key in keys] for each in figures_of])
    estimates = bootstrap(
        partial(_means, table), range(len(table)), resamples=settings.resamples, seed=settings.seed
    )
    cells = {
        key: Cell(each, int((~np.isnan(column)).sum()))
        for key, each, column in zip(keys, estimates, table.T, strict=True)
    }
    notes = [
        "Means over descriptions. Elements match by the words that they stand on; entities are "
        "counted by mention. Intervals by bootstrap over descriptions.",
        *few_groups_note(range(len(figures_of)), "descriptions"),
    ]
    figures = [Figure(kind, name) for kind, names in KINDS.items() for name in names]
    signature = f"parser:{reader.parser_name}|coref:{reader.coref.name}"
    line = MetricLine("POSH", cells, {}, failures, signature)
    title = f"{name}: {len(figures_of):,} descriptions with scene graphs drawn by people"
    return AgreementReport(title, figures, [line], notes, paper_table(8), 8)


def _figures_of(
    rows: Sequence[Row], reader: Reader, name: str
) -> tuple[list[dict[str, float]], Mapping[str, int]]:
    figures: list[dict[str, float]] = []
    failures: Counter[str] = Counter()
    texts = [text_in(row, "text", f"{name}, row {n}") for n, row in enumerate(rows, start=1)]
    descriptions = reader.read(texts, keep=True)
    for place, (row, text, ours) in enumerate(zip(rows, texts, descriptions, strict=True), start=1):
        where = f"{name}, row {place}"
        if isinstance(ours, Failure):
            failures[str(ours)] += 1
            continue
        if text != ours.text:
            raise InputError(f"{where}: the text has white space around it: offsets would shift")
        gold = gold_on_tokens({kind: as_list(row.get(kind)) for kind in KINDS}, ours.text, where)
        figures.append(graph_figures(graph_on_tokens(ours.graph, ours.text), gold))
    return figures, failures


def _means(table: Floats, rows: Ints) -> list[float]:
    """(figures,) means over descriptions, without those where a figure is not defined."""
    some = table[rows]  # (descriptions, figures)
    defined = ~np.isnan(some)
    totals, counts = np.where(defined, some, 0).sum(axis=0), defined.sum(axis=0)
    return [float(t / c) if c else nan for t, c in zip(totals, counts, strict=True)]
