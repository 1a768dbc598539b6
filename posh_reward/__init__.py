"""POSH as a reward for vision-language models that describe images.

::

    text --graph--> Description --metrics/posh--> Scores --reward--> float
           parser    entities     questions        precision,  shaping,
           coref     attributes   judges, models   recall, f1  TRL
           rules     relations    grades, means

Importing this package loads neither torch nor spaCy; what is heavy is loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posh_reward.errors import (
    ConfigError,
    InputError,
    JudgeError,
    MissingDependencyError,
    PoshError,
)
from posh_reward.types import Element, Scores

if TYPE_CHECKING:
    from posh_reward.metrics.harmonic.metric import HarmonicEval
    from posh_reward.metrics.posh.posh import PoSh
    from posh_reward.metrics.prove.metric import Prove
    from posh_reward.metrics.rubric.metric import RubricJudge
    from posh_reward.reward.harmonic import HarmonicReward
    from posh_reward.reward.rubric import RubricReward
    from posh_reward.reward.trl import PoshReward

__all__ = [
    "ConfigError",
    "Element",
    "HarmonicEval",
    "HarmonicReward",
    "InputError",
    "JudgeError",
    "MissingDependencyError",
    "PoSh",
    "PoshError",
    "PoshReward",
    "Prove",
    "RubricJudge",
    "RubricReward",
    "Scores",
]


def _as_html(scores: Scores) -> str:
    """How a notebook shows scores: the two texts with their marks."""
    from posh_reward.study.pages.page import fragment

    return fragment(scores)


# Records import no stage, so what a notebook asks of them is added here, above all stages.
Scores._repr_html_ = _as_html  # type: ignore[attr-defined]

_LAZY = {
    "PoSh": "posh_reward.metrics.posh.posh",
    "PoshReward": "posh_reward.reward.trl",
    "HarmonicEval": "posh_reward.metrics.harmonic.metric",
    "HarmonicReward": "posh_reward.reward.harmonic",
    "RubricJudge": "posh_reward.metrics.rubric.metric",
    "RubricReward": "posh_reward.reward.rubric",
    "Prove": "posh_reward.metrics.prove.metric",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
