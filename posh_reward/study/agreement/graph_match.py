"""Scene graphs against graphs that people drew (paper, A.4.2; Table 8).

Elements match by the tokens of their spans. Entities are counted by mention: *coref* is the share
of matched mentions whose entity has the right first mention. *head* and *tail* are the shares of
matched attributes and relations with the right entities, i.e. those that share a matched mention.
Figures are means over descriptions, as in the paper, without those where a figure is undefined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from math import fsum, nan

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
Elements = Sequence[tuple[Sequence[Span], tuple[int, ...]]]  # spans and entities of elements
KINDS = {
    "entities": ("precision", "recall", "f1", "coref"),
    "attributes": ("precision", "recall", "f1", "head"),
    "relations": ("precision", "recall", "f1", "head", "tail"),
}
"""Kind -> figures of the paper's Table 8."""
TokenGraph = dict[str, list[tuple[Tokens, tuple[int, ...]]]]
"""Kind -> elements with their tokens and entities: of a mention and an attribute one entity, of a
relation subject and object. Mentions are in text order within an entity."""


def graph_on_tokens(graph: SceneGraph, text: str) -> TokenGraph:
    """Locate the elements of our graph of a stripped text."""
    entities = list(enumerate(graph.entities))
    return _on_tokens(
        [([span], (i,)) for i, entity in entities for span in entity.spans],
        [(attribute.spans, (i,)) for i, entity in entities for attribute in entity.attributes],
        [(relation.spans, (relation.subject, relation.object)) for relation in graph.relations],
        text,
    )


def gold_on_tokens(gold: Mapping[str, object], text: str, where: str) -> TokenGraph:
    """Locate the elements of a graph that people drew; ``InputError`` if it is malformed.

    Args:
        gold: ``entities``: ``[{"mentions": [[start, end], ...]}, ...]``; ``attributes``:
            ``[{"spans": [[start, end], ...], "entity": 0}, ...]``; ``relations``:
            ``[{"spans": ..., "subject": 0, "object": 1}, ...]``.
        text: the stripped text that the offsets point into.
        where: its place, for messages.
    """
    try:
        entities, attributes, relations = (_objects(gold[kind]) for kind in KINDS)
        entity_in = partial(_entity, count=len(entities))
        return _on_tokens(
            [
                ([span], (i,))
                for i, each in enumerate(entities)
                for span in _spans(each["mentions"])
            ],
            [(_spans(each["spans"]), (entity_in(each["entity"]),)) for each in attributes],
            [
                (_spans(each["spans"]), (entity_in(each["subject"]), entity_in(each["object"])))
                for each in relations
            ],
            text,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{where}: not a scene graph ({type(error).__name__}: {error}): use entities with "
            "mentions, attributes with spans and entity, relations with spans, subject and object"
        ) from None


def _on_tokens(
    mentions: Elements, attributes: Elements, relations: Elements, text: str
) -> TokenGraph:
    tokens = token_spans(text)
    return {
        kind: [(tokens_in(spans, tokens), ends) for spans, ends in some]
        for kind, some in zip(KINDS, (mentions, attributes, relations), strict=True)
    }


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
    """Figures of one description, such as ``"entities f1"``; nan where undefined."""
    figures: dict[str, float] = {}
    ends = {}  # kind -> (our entities, gold entities) of each match
    for kind in KINDS:
        pairs = _matches([t for t, _ in ours[kind]], [t for t, _ in gold[kind]])
        counts = Matches(len(pairs), len(ours[kind]), len(pairs), len(gold[kind]))
        for name in ("precision", "recall", "f1"):
            figures[f"{kind} {name}"] = getattr(counts, name)
        ends[kind] = [(ours[kind][i][1], gold[kind][j][1]) for i, j in pairs]
    # Entities have no common names: two are the same if any of their mentions match. So a chain
    # with a wrong mention may be the same as two entities; coref, by first mentions, shows that.
    same = {(a, b) for (a,), (b,) in ends["entities"]}
    first, right = _first_mentions(ours), _first_mentions(gold)
    figures["entities coref"] = _share(
        [bool(first[a] & right[b]) for (a,), (b,) in ends["entities"]]
    )
    for kind, name, end in (
        ("attributes", "head", 0),
        ("relations", "head", 0),
        ("relations", "tail", 1),
    ):
        figures[f"{kind} {name}"] = _share([(a[end], b[end]) in same for a, b in ends[kind]])
    return figures


def _first_mentions(graph: TokenGraph) -> dict[int, Tokens]:
    return {entity: tokens for tokens, (entity,) in reversed(graph["entities"])}  # the first wins


def _matches(ours: Sequence[Tokens], gold: Sequence[Tokens]) -> list[tuple[int, int]]:
    """One-to-one pairs of elements that share as many tokens as possible."""
    if not ours or not gold:
        return []
    # (ours, gold) Jaccard similarity. An optimal assignment: greedy pairs would depend on the order
    # of elements, and a long span could take the match of two short ones.
    overlap = np.array([[len(a & b) / len(a | b or {0}) for b in gold] for a in ours])
    pairs = zip(*linear_sum_assignment(overlap, maximize=True), strict=True)
    return [(int(i), int(j)) for i, j in pairs if overlap[i, j] > 0]


def _share(values: Sequence[bool]) -> float:
    return fsum(values) / len(values) if values else nan


def graphs_report(
    rows: Sequence[Row], reader: Reader, name: str, settings: AgreementSettings
) -> AgreementReport:
    """Agreement of our scene graphs with those that people drew, above the paper's Table 8.

    Raises:
        InputError: a column is missing, or a row is not a text with a graph.
    """
    check_columns(rows, {f"a column {c!r}": c for c in ("text", *KINDS)}, name)
    figures_of, failures = _figures_of(rows, reader, name)
    figures = [Figure(kind, figure) for kind, names in KINDS.items() for figure in names]
    table = np.array([[each[figure.key] for figure in figures] for each in figures_of])
    estimates = bootstrap(
        partial(_means, table), range(len(table)), resamples=settings.resamples, seed=settings.seed
    )
    cells = {
        figure.key: Cell(each, int((~np.isnan(column)).sum()))
        for figure, each, column in zip(figures, estimates, table.T, strict=True)
    }
    notes = [
        "Means over descriptions. Elements match by their words; entities are counted by mention. "
        "Intervals by bootstrap over descriptions.",
        *few_groups_note(range(len(figures_of)), "descriptions"),
    ]
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
            raise InputError(
                f"{where}: the text has white space around it: strip it and shift its spans"
            )
        gold = gold_on_tokens({kind: as_list(row.get(kind)) for kind in KINDS}, ours.text, where)
        figures.append(graph_figures(graph_on_tokens(ours.graph, ours.text), gold))
    return figures, failures


def _means(table: Floats, rows: Ints) -> list[float]:
    """(figures,) means over the descriptions where each figure is defined."""
    some = table[rows]  # (descriptions, figures)
    defined = ~np.isnan(some)
    totals, counts = np.where(defined, some, 0).sum(axis=0), defined.sum(axis=0)
    return [float(t / c) if c else nan for t, c in zip(totals, counts, strict=True)]
