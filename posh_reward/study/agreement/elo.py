"""Elo ratings of models from the battles of their texts, as CapArena ranks them (paper, section 5).

Elo depends on the order of the battles, so they are drawn with replacement many times, and each
model gets the median of its ratings. K 4, scale 400, base 10, start 1000; 1,000 draws, seed 42.
The draws are those of ``pandas.DataFrame.sample`` after ``numpy.random.seed(42)``, which CapArena
uses: NumPy froze that generator.
"""

from __future__ import annotations

import numpy as np

from posh_reward.study.statistics import Floats, Ints

K, SCALE, BASE, START = 4.0, 400.0, 10.0, 1000.0
DRAWS, SEED = 1000, 42
NONE = -1
"""In an order of battles: none at this place."""


def drawn_orders(battles: int, draws: int = DRAWS, seed: int = SEED) -> Ints:
    """(draws, battles): in each row indices of battles, drawn with replacement."""
    generator = np.random.RandomState(seed)
    return np.array([generator.choice(battles, battles, replace=True) for _ in range(draws)])


def ratings(first: Ints, second: Ints, outcome: Floats, orders: Ints, models: int) -> Floats:
    """Ratings after the battles in each order, all orders at once.

    Args:
        first: (battles,) number of the first model of each battle, from 0.
        second: (battles,) that of the second.
        outcome: 1 if the first won, -1 if the second, 0 for a tie; (battles,), or
            (orders, battles) where each order has outcomes of its own.
        orders: (orders, places) indices of battles; ``NONE`` where a row is shorter.
        models: how many there are.

    Returns:
        (orders, models).
    """
    found = np.full((len(orders), models), START)
    rows = np.arange(len(orders))
    outcome = np.broadcast_to(outcome, (len(orders), outcome.shape[-1]))
    for battle in orders.T:
        a, b = first[battle], second[battle]
        expected = 1 / (1 + BASE ** ((found[rows, b] - found[rows, a]) / SCALE))
        gain = K * ((outcome[rows, battle] + 1) / 2 - expected) * (battle != NONE)
        found[rows, a] += gain
        found[rows, b] -= gain
    return found


def median_ratings(first: Ints, second: Ints, outcome: Floats, models: int) -> Floats:
    """(models,) each model's median rating over ``DRAWS`` draws of the battles."""
    orders = drawn_orders(len(outcome))
    medians: Floats = np.median(ratings(first, second, outcome, orders, models), axis=0)
    return medians
