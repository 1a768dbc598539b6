"""How much each fact of ``evidence.py`` weighs: a logistic regression for each kind of question.

Fitted by ``tools/calibrate_judge.py``, which prints this table.
A fact that can only speak for (or only against) an answer has a weight bounded to say so.
Nothing here is set by hand but the least weights of contradictions (``CONTRADICTIONS`` there).
"""

from __future__ import annotations

from math import exp

from posh_reward.metrics.posh.judges.embedded.evidence import Facts
from posh_reward.types import Kind

WEIGHTS: dict[Kind, dict[str, float]] = {
    "entity": {
        "bias": -2.64,
        "name": 0.81,
        "verbatim": 1.46,
        "agreement": 2.50,
        "unqualified": -0.72,
        "other_number": -0.64,
        "salience": 3.01,
        "found_in_scene": 2.08,
        "other_person": 1.05,
        "word_only": 2.32,
        "abstract": 1.10,
        "depiction": 1.72,
        "unfound_in_scene": 1.50,
        "nameless": 1.85,
        "stand_in": 1.01,
        "place": -1.83,
        "same_things_there": 6.51,
        "scene": 2.00,
    },
    "attribute": {
        "bias": -0.80,
        "said": 0.90,
        "said_of_it": 1.90,
        "verbatim": 0.25,
        "denied": -3.00,
        "mixed_up": -2.00,
        "unsaid_settled": -2.00,
        "of_another": -1.50,
        "nowhere": -1.10,
        "scene": 2.50,
    },
    "relation": {
        "bias": -3.20,
        "as_such": 1.30,
        "verb_said": 1.40,
        "verbless": 1.15,
        "subject": 0.90,
        "object": 0.60,
        "both_ends": 2.10,
        "part_of": -0.13,
        "opposed": -6.00,
        "excluded": -5.00,
        "rivalled": -4.00,
        "turned_round": -3.00,
        "scene": 2.50,
    },
}


def weighed(kind: Kind, facts: Facts) -> float:
    """How likely an answer is yes, 0 to 1."""
    weights = WEIGHTS[kind]
    total = weights["bias"] + sum([weights[name] * value for name, value in facts.items()])
    return 1 / (1 + exp(-total))
