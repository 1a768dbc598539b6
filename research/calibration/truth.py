"""Captions of known truth: pairs of which it is known whether the reference bears the text out."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from posh_reward.graph.reader import Reader
from posh_reward.types import Description
from research.calibration.perturb import CAPTIONS, negated

FALSE_KINDS = (
    "swap_obj", "swap_att", "replace_rel", "replace_att", "replace_obj",
    *CAPTIONS, "negated", "negated reference",
)  # fmt: skip
"""Kinds of false captions, each with one thing wrong."""
LABELS = ("entailment", "contradiction", "neutral")
NOT = ("not", "no", "never", "nobody", "without", "none", "n't")


class Case(NamedTuple):
    """A text, a reference that bears it out or not, the kind, and the image for folds."""

    text: str
    reference: str
    kind: str
    image: str


def truth(folder: Path, reader: Reader, most: int) -> list[Case]:
    """Return at most ``most`` cases of each kind: SugarCrepe, SNLI, SICK, and perturbed captions.

    SNLI's hypotheses have its labels as kinds; "honest negation" is its entailed negations. SICK is
    for measuring only (its licence), and so are its kinds, "sick ...".
    """
    crepe = _sample(_rows(folder / "sugarcrepe_dev.jsonl"), "kind", most)
    cases = [
        Case(row["false"], row["true"], row["kind"], row["image"])
        for row in crepe
        if row["kind"] in FALSE_KINDS
    ]
    snli = _rows(folder / "snli_dev.jsonl")
    cases += [
        Case(row["hypothesis"], row["premise"], row["label"], row["premise"])
        for row in _sample(snli, "label", 2 * most)
        if row["label"] in LABELS
    ]
    true = list(dict.fromkeys((row["true"], row["image"]) for row in crepe))
    with_be = [(text, image) for text, image in true if negated(text)][:most]
    for text, image in with_be:
        changed = negated(text)
        assert changed
        cases.append(Case(changed, text, "negated", image))
        cases.append(Case(text, changed, "negated reference", image))
    premises = list(dict.fromkeys(row["premise"] for row in snli))
    random.Random(0).shuffle(premises)
    cases += perturbed(premises[: 8 * most], reader, most)
    sick = _rows(folder / "sick.jsonl")
    for label in ("entailment", "contradiction", "neutral"):
        own = [row for row in sick if row["label"] == label][:most]
        cases += [Case(row["b"], row["a"], f"sick {label}", row["a"]) for row in own]
    for name, rows in (
        ("honest negation", [(r["hypothesis"], r["premise"], r["label"]) for r in snli]),
        ("sick honest negation", [(r["b"], r["a"], r["label"]) for r in sick]),
    ):
        cases += [
            Case(a, b, name, b)
            for a, b, label in rows
            if label == "entailment" and set(NOT) & set(a.lower().replace("n't", " n't").split())
        ][:most]
    return cases


def perturbed(texts: Sequence[str], reader: Reader, most: int) -> Iterator[Case]:
    """Yield false captions made of true ones, at most ``most`` of each kind."""
    counts: dict[str, int] = defaultdict(int)
    for description in reader.read(texts):
        for kind, perturb in CAPTIONS.items():
            if isinstance(description, Description) and counts[kind] < most:
                pair = perturb(description, random.Random(description.text))
                if pair:
                    counts[kind] += 1
                    yield Case(pair[1], pair[0], kind, description.text)


def _rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _sample(rows: Sequence[Any], field: str, most: int) -> Iterable[Any]:
    """Yield at most ``most`` evenly spaced rows of each value of a field."""
    groups: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        groups[row[field]].append(row)
    return [row for own in groups.values() for row in own[:: max(1, len(own) // most)][:most]]
