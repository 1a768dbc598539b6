"""Agreement of the metric with people's judgments of captions, a bag of words beside it.

    python tools/eval_people.py ../shared/data/human [--sample N] [--store parsed.db]

Three public sets (their README says where they come from), each read as its authors and later
papers do:

- *Flickr8k-Expert*: Kendall's tau_c of score and rating over all (candidate, rating) pairs; the
  five references are joined into one text.
- *DiscourseFOIL*: how often the corrected text has the higher precision; a tie counts as wrong.
- *THumB*: Pearson's r of precision with P, recall with R, f1 with the total.

Higher is better everywhere. The bag of words has the share of one text's words that the other
has, too. 95 % intervals by bootstrap over images. ``--store`` keeps the parsed texts for the next
run.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau
from tqdm import tqdm

SIDES = ("precision", "recall", "f1")
RESAMPLES = 200
AT_ONCE = 128
WORD = re.compile(r"\w+")

Floats = NDArray[np.float64]
Pair = tuple[str, str]
"""(Generation, reference)."""
Measure = Callable[[Floats, Floats], float]


@dataclass(frozen=True)
class Judged:
    """Pairs that people judged: one row per pair, or per pair and rater."""

    name: str
    pairs: list[Pair]
    of: NDArray[np.int64]
    """Per row its pair."""
    images: list[str]
    """Per row its image: rows of one image are resampled together."""
    people: dict[str, Floats]
    """Score -> what people gave, which it should agree with; one value per row."""
    measure: Measure


def joined(references: Sequence[str]) -> str:
    """Several captions as one text of sentences."""
    return " ".join(r.strip().rstrip(" .") + "." for r in references)


def lines(path: Path, sample: int | None) -> list[Any]:
    """Rows of a JSON lines file: all, or ``sample`` that are spread over it."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    return rows if sample is None else rows[:: max(1, len(rows) // sample)][:sample]


def flickr8k(folder: Path, sample: int | None = None) -> Judged:
    """Three experts' ratings of each candidate, 1 to 4."""
    pairs: list[Pair] = []
    of, images, ratings = [], [], []
    for row in lines(folder / "flickr8k_expert_dev.jsonl", sample):
        reference = joined(row["references"])
        for candidate in row["candidates"]:
            for rating in candidate["ratings"]:
                of.append(len(pairs))
                images.append(row["image"])
                ratings.append(rating)
            pairs.append((candidate["caption"], reference))
    given = np.array(ratings, dtype=np.float64)
    return Judged(
        "Flickr8k-Expert", pairs, np.array(of), images, dict.fromkeys(SIDES, given), tau_c
    )


def thumb(folder: Path, sample: int | None = None) -> Judged:
    """Precision, recall and total of each caption, 1 to 5."""
    rows = lines(folder / "thumb_dev.jsonl", sample)
    people = {
        score: np.array([row[name] for row in rows], dtype=np.float64)
        for score, name in zip(SIDES, ("P", "R", "total"), strict=True)
    }
    pairs = [(row["caption"], joined(row["references"])) for row in rows]
    images = [row["image"] for row in rows]
    return Judged("THumB", pairs, np.arange(len(rows)), images, people, pearson)


def discourse_foil(folder: Path, sample: int | None = None) -> Judged:
    """Each text with a hallucination (0), and as people corrected it (1)."""
    pairs, images, corrected = [], [], []
    for number, row in enumerate(lines(folder / "discourse_foil_dev.jsonl", sample)):
        for name in ("hallucinated", "corrected"):
            pairs.append((row[name], row["reference"]))
            images.append(str(number))
            corrected.append(float(name == "corrected"))
    people = {"precision": np.array(corrected)}
    return Judged("DiscourseFOIL", pairs, np.arange(len(pairs)), images, people, share_above)


def tau_c(scores: Floats, people: Floats) -> float:
    """Kendall's tau_c, -1 to 1."""
    return float(kendalltau(scores, people, variant="c").statistic)


def pearson(scores: Floats, people: Floats) -> float:
    """Pearson's correlation, -1 to 1; nan where one side does not vary."""
    if not scores.std() or not people.std():
        return float("nan")
    return float(np.corrcoef(scores, people)[0, 1])


def share_above(scores: Floats, corrected: Floats) -> float:
    """How often a corrected text scores above the one it corrects, which comes just before."""
    return float(np.mean(scores[corrected == 1] > scores[corrected == 0]))


def interval(judged: Judged, score: str, given: Floats) -> tuple[float, float]:
    """Percentile bootstrap over images, 95 %; ``given`` has one score per row."""
    rows_of: dict[str, list[int]] = {}
    for row, image in enumerate(judged.images):
        rows_of.setdefault(image, []).append(row)
    groups = [np.array(rows) for rows in rows_of.values()]
    rng = np.random.default_rng(0)
    found = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([groups[i] for i in rng.integers(0, len(groups), len(groups))])
        found.append(judged.measure(given[rows], judged.people[score][rows]))
    low, high = np.nanpercentile(found, (2.5, 97.5))
    return float(low), float(high)


def bag_of_words(pair: Pair) -> dict[str, float]:
    """Share of the generation's words in the reference, the converse, and their harmonic mean."""
    mine, theirs = ({w.lower() for w in WORD.findall(text)} for text in pair)
    shared = len(mine & theirs)
    both = shared / len(mine or "-"), shared / len(theirs or "-")
    return dict(zip(SIDES, (*both, 2 * shared / (len(mine) + len(theirs) or 1)), strict=True))


def metric_scores(metric: Any, pairs: Sequence[Pair]) -> Iterator[dict[str, float]]:
    """The metric's scores of each pair; what it cannot score is nan."""
    for start in tqdm(range(0, len(pairs), AT_ONCE), unit_scale=AT_ONCE, unit="pair"):
        some = pairs[start : start + AT_ONCE]
        for scores in metric.score([g for g, _ in some], [r for _, r in some]):
            found = {side: getattr(scores, side) for side in SIDES}
            yield {side: np.nan if value is None else value for side, value in found.items()}


def report(judged: Judged, scored: Sequence[dict[str, float]], how: str) -> None:
    """Prints one line per score of one set."""
    for score, people in judged.people.items():
        given = np.array([row[score] for row in scored])[judged.of]
        low, high = interval(judged, score, given)
        value = judged.measure(given, people)
        print(f"{judged.name:16} {how:13} {score:10} {value:.3f} [{low:.3f}, {high:.3f}]")


def reading_metric(judge: Any, store: Path | None, texts: Sequence[str]) -> Any:
    """The metric with all texts parsed, from the store where they are there."""
    from posh_reward import PoSh
    from posh_reward.graph.read import Reader
    from posh_reward.store import Store

    kept = Store(store) if store else None
    metric = PoSh(judge=judge)
    metric.reader = Reader(capacity=len(texts), store=kept)
    for start in tqdm(range(0, len(texts), AT_ONCE), unit_scale=AT_ONCE, unit="text"):
        metric.reader.read(texts[start : start + AT_ONCE], keep=True)
    return metric


SETS = (flickr8k, discourse_foil, thumb)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints all figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--judge", default="embedded")
    parser.add_argument("--sample", type=int, help="rows of each set (of Flickr8k: images)")
    parser.add_argument("--store", type=Path, help="file that keeps parsed texts")
    options = parser.parse_args(arguments)
    sets = [read(options.folder, options.sample) for read in SETS]
    texts = list(dict.fromkeys(t for judged in sets for pair in judged.pairs for t in pair))
    metric = reading_metric(options.judge, options.store, texts)
    for judged in sets:
        report(judged, list(metric_scores(metric, judged.pairs)), metric.judge.name)
        report(judged, list(map(bag_of_words, judged.pairs)), "bag of words")
    print(metric.signature)


if __name__ == "__main__":
    main()
