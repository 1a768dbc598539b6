"""POSH as a reward for vision-language models that describe images.

::

    text --graph--> Description ------posh------> Scores --reward--> float
           parser    entities     questions        precision,  shaping,
           coref     attributes   judges, models   recall, f1  TRL
           rules     relations    grades, means

Importing this package loads neither torch nor spaCy; each name is imported when first used.
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
    from posh_reward.datasets.load_dataset import load_images, prompt
    from posh_reward.other_metrics.harmonic_eval import HarmonicEval
    from posh_reward.other_metrics.prove.prove import Prove
    from posh_reward.other_metrics.rewards import HarmonicReward, RubricReward
    from posh_reward.other_metrics.rubric_judge import RubricJudge
    from posh_reward.pages.element_marks import explain
    from posh_reward.posh.load_metric import load_metric
    from posh_reward.posh.posh import PoSh
    from posh_reward.reward.guards import Guards
    from posh_reward.reward.shaping import Shaping
    from posh_reward.reward.trl import PoshReward
    from posh_reward.training.launch import finish, train
    from posh_reward.training.processors import load_processor
    from posh_reward.training.resume import RefuseLostWeights
    from posh_reward.training.stopping import StopWithCheckpoint

__all__ = [
    "ConfigError",
    "Element",
    "Guards",
    "HarmonicEval",
    "HarmonicReward",
    "InputError",
    "JudgeError",
    "MissingDependencyError",
    "PoSh",
    "PoshError",
    "PoshReward",
    "Prove",
    "RefuseLostWeights",
    "RubricJudge",
    "RubricReward",
    "Scores",
    "Shaping",
    "StopWithCheckpoint",
    "explain",
    "finish",
    "load_images",
    "load_metric",
    "load_processor",
    "prompt",
    "train",
]

_HOME = {
    "Guards": "reward.guards",
    "HarmonicEval": "other_metrics.harmonic_eval",
    "HarmonicReward": "other_metrics.rewards",
    "PoSh": "posh.posh",
    "PoshReward": "reward.trl",
    "Prove": "other_metrics.prove.prove",
    "RefuseLostWeights": "training.resume",
    "RubricJudge": "other_metrics.rubric_judge",
    "RubricReward": "other_metrics.rewards",
    "Shaping": "reward.shaping",
    "StopWithCheckpoint": "training.stopping",
    "explain": "pages.element_marks",
    "finish": "training.launch",
    "load_images": "datasets.load_dataset",
    "load_metric": "posh.load_metric",
    "load_processor": "training.processors",
    "prompt": "datasets.load_dataset",
    "train": "training.launch",
}
"""Public name -> the module below this package that defines it."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "__version__":
        return import_module("posh_reward.metrics.metric").package_version()
    if name in _HOME:
        return getattr(import_module(f"posh_reward.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def _as_html(scores: Scores) -> str:
    from posh_reward.pages.element_marks import fragment

    return fragment(scores)


# Notebooks show a pair with its marks. Records import no stage, so the method is added up here.
Scores._repr_html_ = _as_html  # type: ignore[attr-defined]
