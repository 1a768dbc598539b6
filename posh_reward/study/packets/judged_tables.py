"""Answers -> tables that ``posh-reward agreement`` reads, to compare metrics with these people.

One row per answer, as in the paper's data, so a text with three raters has three rows. Their image
is the same, and ``agreement`` resamples images: intervals do not take them for three texts. Sides
are as the rater saw them, so they are balanced, and a correlation does not only say that one model
is better. Equal texts, which nobody was asked about, have no row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from posh_reward.study.agreement.preferences import LABEL_SCORES
from posh_reward.study.packets.study_records import Answer, Marking, PacketKey, Preference
from posh_reward.tables.tables import Row

LABELS_BY_VALUE = {value: label for label, value in LABEL_SCORES.items()}


def list_pair_rows(answers: Sequence[Answer], key: PacketKey) -> Iterator[Row]:
    """One row per comparison, with the columns that ``agreement pairs`` reads by default."""
    raters = _count_raters(answers)
    for answer in answers:
        if not isinstance(answer, Preference):
            continue
        texts = key.items[answer.item].texts
        first, second = answer.models
        yield {
            **_start_row(answer, key),
            "model1": first, "generation1": texts[first],
            "model2": second, "generation2": texts[second],
            **{axis: LABELS_BY_VALUE[value] for axis, value in answer.by_axis.items()},
            **_end_row(answer, raters),
        }  # fmt: skip


def list_span_rows(answers: Sequence[Answer], key: PacketKey) -> Iterator[Row]:
    """One row per marked text, with the columns that ``agreement spans`` reads by default."""
    raters = _count_raters(answers)
    for answer in answers:
        if not isinstance(answer, Marking):
            continue
        [model] = answer.models
        yield {
            **_start_row(answer, key),
            "model": model, "generation": key.items[answer.item].texts[model],
            **{side: list(map(list, spans)) for side, spans in answer.by_side.items()},
            **_end_row(answer, raters),
        }  # fmt: skip


def _start_row(answer: Answer, key: PacketKey) -> Row:
    item = key.items[answer.item]
    image = answer.item if item.image is None else item.image
    return {"id": answer.item, "image": image, "reference": item.reference}


def _end_row(answer: Answer, raters: dict[tuple[str, frozenset[str]], set[str]]) -> Row:
    count = len(raters[answer.item, frozenset(answer.models)])
    return {"rater": answer.rater, "raters": count, "comment": answer.comment}


def _count_raters(answers: Sequence[Answer]) -> dict[tuple[str, frozenset[str]], set[str]]:
    """Raters of each item's models, whichever was shown first."""
    raters: dict[tuple[str, frozenset[str]], set[str]] = defaultdict(set)
    for answer in answers:
        raters[answer.item, frozenset(answer.models)].add(answer.rater)
    return raters
