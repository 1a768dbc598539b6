"""The weights for relations: fitted as they should be, and the shipped ones do their work."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from posh_reward.metrics.posh.judges.embedded.joining import NO_VERB, WEIGHTS
from tools.calibrate_judge import area, examples, fitted, is_marked

ARTWORKS = Path(__file__).parents[2] / "tools" / "calibration" / "artworks.json"


def test_what_speaks_for_a_relation_gets_a_positive_weight() -> None:
    telling = np.linspace(-1, 1, 200)
    rows = np.c_[np.ones(200), telling, np.tile((0.0, 1.0), 100)]
    bias, weight, none = fitted(rows, (telling > 0.2).astype(float))
    assert weight > 3
    assert abs(none) < 0.2
    assert 0 < -bias / weight < 0.4


def test_area() -> None:
    kept = np.array([1.0, 1.0, 0.0, 0.0])
    assert area(np.array([4.0, 3.0, 2.0, 1.0]), kept) == 1
    assert area(np.array([1.0, 1.0, 1.0, 1.0]), kept) == 0.5


def test_a_relation_is_omitted_if_most_of_it_is_marked() -> None:
    assert is_marked([(0, 6), (10, 12)], [(1, 9)])
    assert not is_marked([(0, 6), (10, 12)], [(4, 11)])


def test_the_shipped_weights_tell_omitted_relations_from_kept_ones() -> None:
    items = json.loads(ARTWORKS.read_text(encoding="utf-8"))[:6]
    rows, kept, _ = examples(items)
    _, best, said, has_verb, *ends = rows.T
    evidence = np.array([best, np.where(has_verb == 1, said, NO_VERB), *ends])
    assert area(np.array(WEIGHTS) @ evidence, kept) > 0.85
