"""Evaluate a judge's detection of planted mistakes and omissions.

    python research/eval_planted.py ../shared/data/planted/planted_dev.json [--preset paper]

Prints how often the faithful text outranks the mistaken (precision) and the omitting (recall) one;
macro F1 over marked and unmarked tokens, at the best threshold and at thresholds chosen on the
other half of the items; and the recall of each kind of mistake. A token's grade is the lowest among
the elements whose spans cover it; a token is flagged if its grade is below the threshold.

Marked spans contain articles, auxiliaries and punctuation that no element covers, so no metric can
flag them: *ceiling* is the F1 of a judge that knows for each element if most of it is marked.
*Bridged*: such a token is flagged if the nearest words with elements on both sides are.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from posh_reward.audit.variants import with_articles
from posh_reward.study.agreement.localisation import TokenCounts, count_tokens
from posh_reward.types import Direction, Element, Scores, Span

TOKEN = re.compile(r"\w+|[^\w\s]")
NEVER = inf  # grade of a token that no element covers: no threshold flags it

NOUNS = (
    "man woman child boy girl figure angel saint king queen soldier sailor fisherman shepherd "
    "monk priest dancer musician rider crowd horse dog cat donkey sheep cow bird boat ship "
    "river sea lake sky cloud sun moon tree forest hill mountain field garden flower rose "
    "grass path road bridge house church tower castle wall window door room table chair bench "
    "bed curtain carpet mirror lamp candle book letter map globe clock vase bowl cup plate "
    "jug basket bread fruit apple grape fish knife sword shield crown hat cloak dress shawl "
    "shoe ring necklace fan umbrella flag drum flute violin column statue "
).split()
"""Common objects in museum images, for guessing blindly."""
SENTENCE = re.compile(r"(?<=[.!?])\s+")


def blind_list() -> str:
    """Return a text that names many objects without any detail."""
    return with_articles(" ".join(f"There is a {noun}." for noun in NOUNS))


@dataclass(frozen=True)
class TextMarks:
    """Tokens of one text, with the metric's grades and people's marks."""

    grades: tuple[float, ...]
    marks: tuple[bool, ...]


def token_grades(tokens: Sequence[Span], scores: Scores, direction: Direction) -> list[float]:
    """Return the lowest grade among the elements that cover each token."""
    grades = [NEVER] * len(tokens)
    for element in scores.elements:
        if element.direction == direction and element.grade is not None:
            for start, end in element.spans:
                for i, (first, last) in enumerate(tokens):
                    if first < end and start < last:
                        grades[i] = min(grades[i], element.grade)
    return grades


def text_marks(text: str, spans: Sequence[Span], scores: Scores, direction: Direction) -> TextMarks:
    """Return one text's tokens with grades and marks."""
    tokens = [match.span() for match in TOKEN.finditer(text)]
    marks = [any(start < e and s < end for s, e in spans) for start, end in tokens]
    return TextMarks(tuple(token_grades(tokens, scores, direction)), tuple(marks))


def bridge(text: TextMarks) -> TextMarks:
    """Give each token without an element the better grade of its nearest neighbours with one.

    So an article is flagged if the words on both sides are: people mark phrases.
    """
    before, after = _fill(text.grades), _fill(text.grades[::-1])[::-1]
    return replace(text, grades=tuple(map(max, before, after)))


def _fill(grades: Sequence[float]) -> list[float]:
    """Replace every ``NEVER`` by the last other grade before it."""
    result: list[float] = []
    for grade in grades:
        result.append(result[-1] if grade == NEVER and result else grade)
    return result


def knowing(text: str, spans: Sequence[Span], scores: Scores, direction: Direction) -> Scores:
    """Regrade each element: 1 if most of it is marked, else 5."""
    tokens = [match.span() for match in TOKEN.finditer(text)]

    def is_marked(element: Element) -> bool:
        own = [t for t in tokens if any(t[0] < e and s < t[1] for s, e in element.spans)]
        inside = [t for t in own if any(t[0] < e and s < t[1] for s, e in spans)]
        return 2 * len(inside) > len(own)

    graded = [
        replace(e, grade=1.0 if is_marked(e) else 5.0)
        for e in scores.elements
        if e.direction == direction
    ]
    return replace(scores, elements=tuple(graded))


def tokens_counted(texts: Sequence[TextMarks]) -> TokenCounts:
    """Count flagged tokens at every threshold, as ``posh-reward agreement spans`` does."""
    grades = [np.array(text.grades) for text in texts]
    marks = [np.array(text.marks, dtype=bool) for text in texts]
    return count_tokens(grades, marks)


def macro_f1(texts: Sequence[TextMarks], threshold: float) -> float:
    """Return the mean F1 of marked and of unmarked tokens, pooled over all texts."""
    counts = tokens_counted(texts)
    return float(counts.macro_f1(np.ones((1, len(texts))))[0, counts.threshold_index(threshold)])


def best_threshold(texts: Sequence[TextMarks]) -> float:
    """Return the threshold with the highest macro F1."""
    counts = tokens_counted(texts)
    return float(counts.thresholds[counts.macro_f1(np.ones((1, len(texts))))[0].argmax()])


def cross_validated(texts: Sequence[TextMarks]) -> float:
    """Return the macro F1 with each half's threshold chosen on the other half."""
    halves = (texts[::2], texts[1::2])
    return sum(macro_f1(a, best_threshold(b)) for a, b in (halves, halves[::-1])) / 2


def catches(items: Sequence[Any], texts: Sequence[TextMarks], threshold: float) -> dict[str, str]:
    """Return, by kind of mistake, the marked spans with a flagged token, out of all."""
    hits: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for item, text in zip(items, texts, strict=True):
        tokens = [match.span() for match in TOKEN.finditer(item["mistaken_text"])]
        for start, end, kind in item["mistake_spans"]:
            inside = [
                g for (a, b), g in zip(tokens, text.grades, strict=True) if start < b and a < end
            ]
            hits[kind] += min(inside) < threshold
            total[kind] += 1
    table = {kind: f"{hits[kind]}/{total[kind]}" for kind in sorted(total)}
    return {**table, "all": f"{sum(hits.values())}/{sum(total.values())}"}


def report_spans(
    name: str, texts: Sequence[tuple[str, list[Span], Scores]], direction: Direction
) -> None:
    """Print the detection of one direction's spans."""
    ours = [text_marks(*text, direction) for text in texts]
    ceiling = [
        text_marks(text, spans, knowing(text, spans, scores, direction), direction)
        for text, spans, scores in texts
    ]
    for how, some, bound in (
        ("", ours, ceiling),
        (", bridged", list(map(bridge, ours)), list(map(bridge, ceiling))),
    ):
        threshold = best_threshold(some)
        print(
            f"{name} spans{how}: macro F1 {macro_f1(some, threshold):.3f} at {threshold:.2f}, "
            f"cross-validated {cross_validated(some):.3f}; ceiling {macro_f1(bound, 3.0):.3f}"
        )


def report(
    items: Sequence[Any],
    faithful: Sequence[Scores],
    mistaken: Sequence[Scores],
    omitting: Sequence[Scores],
) -> None:
    """Print the figures."""
    precise = sum(
        (f.precision or 0) > (m.precision or 0) for f, m in zip(faithful, mistaken, strict=True)
    )
    complete = sum(
        (f.recall or 0) > (o.recall or 0) for f, o in zip(faithful, omitting, strict=True)
    )
    print(f"faithful above mistaken (precision): {precise}/{len(items)}")
    print(f"faithful above omitting (recall): {complete}/{len(items)}")
    mistakes = [
        (item["mistaken_text"], [(s, e) for s, e, _ in item["mistake_spans"]], scores)
        for item, scores in zip(items, mistaken, strict=True)
    ]
    omissions = [
        (item["reference"], [(s, e) for s, e in item["omission_spans"]], scores)
        for item, scores in zip(items, omitting, strict=True)
    ]
    wrong = [text_marks(*mistake, "precision") for mistake in mistakes]
    report_spans("mistake", mistakes, "precision")
    report_spans("omission", omissions, "recall")
    print("mistakes caught:", catches(items, wrong, best_threshold(wrong)))


def report_blind(metric: Any, references: Sequence[str]) -> None:
    """Print f1 of a blind list of nouns, and of single true sentences, against each reference."""
    true = [(s, reference) for reference in references for s in SENTENCE.split(reference)]
    lists = metric.score([blind_list()] * len(references), references)
    singles = metric.score([s for s, _ in true], [r for _, r in true])
    means = [sum(s.f1 or 0 for s in some) / len(some) for some in (lists, singles)]
    print(f"f1 of a blind list {means[0]:.3f}, of one true sentence {means[1]:.3f}")


def main() -> None:
    """Score the three versions of every artwork, and print the figures."""
    from posh_reward import PoSh

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("planted", type=Path)
    parser.add_argument("--judge", default="embedded")
    parser.add_argument("--preset", default="released")
    options = parser.parse_args()
    items = json.loads(options.planted.read_text(encoding="utf-8"))
    metric = PoSh(judge=options.judge, preset=options.preset)
    references = [item["reference"] for item in items]
    start = time.perf_counter()
    versions = [
        metric.score([item[name] for item in items], references)
        for name in ("faithful", "mistaken_text", "omitting")
    ]
    report(items, *versions)
    report_blind(metric, references)
    print(f"{3 * len(items)} pairs in {time.perf_counter() - start:.1f} s; {metric.signature}")


if __name__ == "__main__":
    main()
