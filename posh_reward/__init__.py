"""POSH as a reward for vision-language models that describe images.

::

    text --graph--> Description --judge--> Verdict --metric--> Scores --reward--> float
           parse      entities    questions   grades   means     precision,  shaping,
           coref      attributes  prompts              of        recall, f1  TRL
           build      relations                        grades

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
    from posh_reward.metric.posh import PoSh
    from posh_reward.reward.trl import PoshReward

__all__ = [
    "ConfigError",
    "Element",
    "InputError",
    "JudgeError",
    "MissingDependencyError",
    "PoSh",
    "PoshError",
    "PoshReward",
    "Scores",
]

_LAZY = {"PoSh": "posh_reward.metric.posh", "PoshReward": "posh_reward.reward.trl"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
