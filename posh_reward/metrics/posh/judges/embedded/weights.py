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
        "bias": -2.53,
        "name": 0.87,
        "verbatim": 1.69,
        "agreement": 2.59,
        "unqualified": -0.78,
        "other_number": -0.54,
        "salience": 2.74,
        "found_in_scene": 1.62,
        "other_person": 0.31,
        "word_only": 2.06,
        "abstract": 0.89,
        "depiction": 1.67,
        "unfound_in_scene": 1.50,
        "nameless": 1.56,
        "stand_in": 0.93,
        "place": -2.45,
        "same_things_there": 6.90,
        "scene": 2.50,
    },
    "attribute": {
        "bias": -0.17,
        "said": 0.48,
        "said_of_it": 1.33,
        "verbatim": 0.45,
        "denied": -3.00,
        "mixed_up": -2.00,
        "unsaid_settled": -2.50,
        "of_another": -1.50,
        "nowhere": -1.78,
        "scene": 2.50,
    },
    "relation": {
        "bias": -1.51,
        "as_such": 0.90,
        "verb_said": 0.40,
        "verbless": 0.39,
        "subject": 0.00,
        "object": 0.00,
        "both_ends": 4.01,
        "part_of": -0.05,
        "opposed": -7.00,
        "excluded": -7.00,
        "rivalled": -6.00,
        "turned_round": -6.00,
        "scene": 2.04,
    },
}


def weighed(kind: Kind, facts: Facts) -> float:
    """How likely an answer is yes, 0 to 1."""
    weights = WEIGHTS[kind]
    total = weights["bias"] + sum([weights[name] * value for name, value in facts.items()])
    return 1 / (1 + exp(-total))
