"""How much each fact of ``evidence.py`` weighs: a logistic regression for each kind of question.

Fitted by ``research/calibrate_judge.py``, which prints this table.
A fact that can only speak for (or only against) an answer has a weight bounded to say so.
Nothing here is set by hand but the least weights of contradictions (``CONTRADICTIONS`` there).
"""

from __future__ import annotations

from math import exp

from posh_reward.metrics.posh.judges.embedded.evidence import Facts
from posh_reward.types import Kind

WEIGHTS: dict[Kind, dict[str, float]] = {
    "entity": {
        "bias": -2.48,
        "name": 1.01,
        "verbatim": 1.73,
        "agreement": 2.56,
        "unqualified": -0.91,
        "other_number": -0.53,
        "salience": 2.63,
        "found_in_scene": 1.17,
        "other_person": 0.35,
        "word_only": 2.05,
        "abstract": 1.05,
        "depiction": 1.58,
        "unfound_in_scene": 1.50,
        "nameless": 1.69,
        "stand_in": 1.00,
        "place": -2.45,
        "same_things_there": 6.95,
        "scene": 2.63,
    },
    "attribute": {
        "bias": -1.13,
        "said": 0.90,
        "said_of_it": 1.12,
        "verbatim": 0.19,
        "denied": -3.12,
        "mixed_up": -2.50,
        "unsaid_settled": -1.50,
        "of_another": -1.00,
        "elsewhere": -0.34,
        "nowhere": -1.38,
        "scene": 4.08,
    },
    "relation": {
        "bias": -1.21,
        "as_such": 1.08,
        "verb_said": 0.40,
        "verbless": 0.26,
        "subject": 0.00,
        "object": 0.00,
        "both_ends": 3.53,
        "part_of": -0.32,
        "opposed": -5.51,
        "excluded": -4.16,
        "rivalled": -2.50,
        "turned_round": -2.50,
        "scene": 1.65,
    },
}


def weighed(kind: Kind, facts: Facts) -> float:
    """How likely an answer is yes, 0 to 1."""
    weights = WEIGHTS[kind]
    total = weights["bias"] + sum([weights[name] * value for name, value in facts.items()])
    return 1 / (1 + exp(-total))
