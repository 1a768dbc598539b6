"""Fit the weights of attributes and relations, and of precision, to people's ratings.

    posh-reward score rated.csv -o scored.jsonl --elements
    python -m research.fit_weights scored.jsonl rated.csv --rating overall

Rows of both files pair by their ``id`` (or their place). Prints the weights that rank the texts
most like people (Spearman's rho) and the gain over equal weights on images that were not fitted to:
take the weights only if that gain is above 0. On Flickr8k-Expert it was +.012, on THumB +.006, on
DiscourseFOIL -.003, so equal weights stay the default.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from posh_reward.posh.means import Weights, mean_score
from posh_reward.tables.reading import open_rows
from posh_reward.tables.tables import read_scores_of_row
from posh_reward.types import Scores

FACTORS = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
EQUAL = (1.0, 1.0, 1.0)  # attributes and relations (an entity is 1), precision (recall is 1)
Bools = npt.NDArray[np.bool_]
Point = tuple[float, float, float]


def f1(scores: Scores, point: Point) -> float:
    """Overall score under a point of the grid; nan if a judgment failed."""
    attribute, relation, balance = point
    precision, recall = (
        mean_score(
            [each for each in scores.elements if each.direction == direction],
            Weights(1.0, attribute, relation),
        )
        for direction in ("precision", "recall")
    )
    if precision is None or recall is None:
        return np.nan
    return (balance + 1) / (balance / precision + 1 / recall)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the weights of all images, and their gain out of fold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scored", help="rows of posh-reward score --elements")
    parser.add_argument("rated", help="rows with people's ratings; higher is better")
    parser.add_argument("--rating", default="overall", help="column of the ratings")
    options = parser.parse_args(arguments)
    with open_rows(options.rated) as rows:
        rated = {str(row.get("id", n)): float(row[options.rating]) for n, row in enumerate(rows, 1)}
    with open_rows(options.scored) as rows:
        scored = [row for row in rows if str(row["id"]) in rated]
    people = np.array([rated[str(row["id"])] for row in scored])
    images = [row.get("image") or row["reference"] for row in scored]
    fold = np.unique(images, return_inverse=True)[1] % 5
    scores = [read_scores_of_row(row) for row in scored]
    grid = product(FACTORS, FACTORS, FACTORS)
    columns = {point: np.array([f1(each, point) for each in scores]) for point in grid}

    def rho(point: Point, rows: Bools) -> float:
        return float(spearmanr(columns[point][rows], people[rows], nan_policy="omit").statistic)

    def best(rows: Bools) -> Point:  # of equally good ones that nearest to equal weights
        return max(columns, key=lambda p: (round(rho(p, rows), 6), -np.square(np.log(p)).sum()))

    gains = [rho(best(fold != k), fold == k) - rho(EQUAL, fold == k) for k in range(5)]
    print("attribute {:g}, relation {:g}, precision {:g}".format(*best(fold >= 0)))
    print(f"gain in rho out of fold: {np.mean(gains):+.3f} (sd over folds {np.std(gains):.3f})")


if __name__ == "__main__":
    main()
