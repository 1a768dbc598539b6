"""Read three public sets of people's judgments, to fit the embedded judge's weights.

`posh-reward agreement` evaluates any metric on the same files (docs/agreement.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posh_reward.metrics.metric import join_references
from posh_reward.tables.statistics import kendall, pearson

SIDES = ("precision", "recall", "f1")
AT_ONCE = 128

Floats = NDArray[np.float64]
Pair = tuple[str, str]  # (Generation, reference)
Measure = Callable[[Floats, Floats], float]


tau_c = partial(kendall, variant="c")


def share_above(scores: Floats, corrected: Floats) -> float:
    """Return the share of corrected texts that score above the original, the row before each."""
    return float(np.mean(scores[corrected == 1] > scores[corrected == 0]))


@dataclass(frozen=True)
class Ratings:
    """Pairs that people judged: one row per pair, or per pair and rater."""

    name: str
    pairs: list[Pair]
    of: NDArray[np.int64]  # pair of each row
    images: list[str]  # image of each row: rows of one image are resampled together
    people: dict[str, Floats]  # score -> people's ratings of it, one per row
    measure: Measure


def lines(path: Path, sample: int | None) -> list[Any]:
    """Read the rows of a JSON lines file: all, or an evenly spaced ``sample``."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    return rows if sample is None else rows[:: max(1, len(rows) // sample)][:sample]


def flickr8k(folder: Path, sample: int | None = None) -> Ratings:
    """Read three experts' ratings of each candidate, 1 to 4."""
    pairs: list[Pair] = []
    of, images, ratings = [], [], []
    for row in lines(folder / "flickr8k_expert_dev.jsonl", sample):
        reference = join_references(row["references"])
        for candidate in row["candidates"]:
            for rating in candidate["ratings"]:
                of.append(len(pairs))
                images.append(row["image"])
                ratings.append(rating)
            pairs.append((candidate["caption"], reference))
    means = np.array(ratings, dtype=np.float64)
    return Ratings(
        "Flickr8k-Expert", pairs, np.array(of), images, dict.fromkeys(SIDES, means), tau_c
    )


def thumb(folder: Path, sample: int | None = None) -> Ratings:
    """Read the precision, recall and total of each caption, 1 to 5."""
    rows = lines(folder / "thumb_dev.jsonl", sample)
    people = {
        score: np.array([row[name] for row in rows], dtype=np.float64)
        for score, name in zip(SIDES, ("P", "R", "total"), strict=True)
    }
    pairs = [(row["caption"], join_references(row["references"])) for row in rows]
    images = [row["image"] for row in rows]
    return Ratings("THumB", pairs, np.arange(len(rows)), images, people, pearson)


def discourse_foil(folder: Path, sample: int | None = None) -> Ratings:
    """Read each text with a hallucination (0), and as people corrected it (1)."""
    pairs, images, corrected = [], [], []
    for number, row in enumerate(lines(folder / "discourse_foil_dev.jsonl", sample)):
        for name in ("hallucinated", "corrected"):
            pairs.append((row[name], row["reference"]))
            images.append(str(number))
            corrected.append(float(name == "corrected"))
    people = {"precision": np.array(corrected)}
    return Ratings("DiscourseFOIL", pairs, np.arange(len(pairs)), images, people, share_above)


def reading_metric(judge: Any, store: Path | None, texts: Sequence[str]) -> Any:
    """Return a metric with all texts parsed, or read from the store."""
    from posh_reward import PoSh
    from posh_reward.graph.reader import Reader
    from posh_reward.store import Store

    texts_store = Store(store) if store else None
    metric = PoSh(judge=judge)
    metric.graph_reader = Reader(capacity=len(texts), store=texts_store)
    for start in tqdm(range(0, len(texts), AT_ONCE), unit_scale=AT_ONCE, unit="text"):
        metric.graph_reader.read(texts[start : start + AT_ONCE], keep=True)
    return metric


SETS = (flickr8k, discourse_foil, thumb)
