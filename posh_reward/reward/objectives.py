"""One scoring call, and a reward function for each axis of its scores.

TRL calls every reward function with the same completions, one function after the other, and with
``multi_objective_aggregation="normalize_then_sum"`` compares each function's rewards within their
group before it adds them (GRPOTrainer of TRL 1.16, ``_generate_and_score_completions``). So an axis
counts by where a completion stands among its siblings, and not by how much the axis varies.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from posh_reward.errors import ConfigError
from posh_reward.reward.shaping import Shaping

AXES = ("precision", "recall")
NORMALIZE_FIRST = "normalize_then_sum"
"""TRL's name for comparing each function within its group before adding them."""

Asked = tuple[list[Any], list[Any]]
"""Texts and their references."""
Rewards = list[float | None]


class SharedScoring:
    """Scores once what several functions are asked about one after the other.

    Each function takes its rewards of a scoring once, and only if it is asked about the very texts
    and references that were scored. Whatever does not fit is scored again: equal texts in a later
    call, or a call after one that was broken off.

    Args:
        score: gives, for each axis, the rewards of texts against references.
    """

    def __init__(self, score: Callable[..., dict[str, Rewards]]) -> None:
        self._score = score
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._asked: Asked = ([], [])
        self._untaken: dict[str, Rewards] = {}

    def rewards(self, axis: str, asked: Asked, **logs: Any) -> Rewards:
        """Those of one axis; scores, and logs, if nothing fitting is left from another axis."""
        with self._lock:
            if axis not in self._untaken or not _same(self._asked, asked):
                self._untaken = {}  # should scoring raise
                self._untaken = self._score(*asked, **logs)
                self._asked = asked
            return self._untaken.pop(axis)

    def __getstate__(self) -> dict[str, Any]:
        return {"_score": self._score}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._score = state["_score"]
        self._begin()


def _same(some: Asked, others: Asked) -> bool:
    """Strings by what they say, anything else by identity: arrays, say, do not compare."""
    one, other = [*some[0], *some[1]], [*others[0], *others[1]]
    return len(one) == len(other) and all(
        a is b or (isinstance(a, str) and isinstance(b, str) and a == b)
        for a, b in zip(one, other, strict=True)
    )


class AxisReward:
    """A reward function for one axis; TRL's logs call it ``posh_precision_reward``, say.

    Args:
        axis: one of ``AXES``.
        asked: finds texts and references in what TRL passes.
        scoring: shared with the other axes.
        weight: how much the axis counts; the trainer's ``reward_weights`` must say the same.
    """

    def __init__(
        self,
        axis: str,
        asked: Callable[[Sequence[object], Any], Asked],
        scoring: SharedScoring,
        weight: float = 1.0,
    ) -> None:
        self.__name__ = f"posh_{axis}_reward"
        self.axis = axis
        self.weight = weight
        self._find = asked
        self._scoring = scoring

    def __call__(
        self,
        prompts: Sequence[object] | None = None,
        completions: Sequence[object] = (),
        *,
        log_metric: Any = None,
        log_extra: Any = None,
        **columns: Any,
    ) -> Rewards:
        """Rewards of this axis in [0.2, 1]; None wherever the other axis has none either.

        Raises:
            ConfigError: the trainer would add the axes in another way.
        """
        # TRL 1.16 passes a method of the trainer (grpo_trainer.py:1594)
        self._check_addition(getattr(log_metric, "__self__", None))
        asked = self._find(completions, columns)
        return self._scoring.rewards(self.axis, asked, log_metric=log_metric, log_extra=log_extra)

    def _check_addition(self, trainer: Any) -> None:
        """Refuses a trainer that is known to make one sum of the axes, or to weight them otherwise.

        Nothing would show it: rewards and metrics look the same.
        """
        functions = getattr(trainer, "reward_funcs", None)
        if functions is None:
            return
        how = getattr(trainer, "multi_objective_aggregation", "a plain sum")
        if how != NORMALIZE_FIRST:
            raise ConfigError(
                f"objective is separate, but this trainer adds precision and recall by {how}: call "
                "settle_aggregation(args, reward.shaping) before you make a GRPOTrainer, or set "
                f"multi_objective_aggregation to {NORMALIZE_FIRST}"
            )
        weighted = zip(functions, trainer.reward_weights, strict=True)
        given = next((float(weight) for each, weight in weighted if each is self), self.weight)
        if not math.isclose(given, self.weight, rel_tol=1e-6):
            raise ConfigError(
                f"{self.axis}_weight is {self.weight:g}, but the trainer's reward_weights have "
                f"{given:g}: call settle_aggregation(args, reward.shaping), or set both alike"
            )


class Aggregation(Protocol):
    """The settings of TRL's ``GRPOConfig`` that say how rewards are added."""

    multi_objective_aggregation: str
    reward_weights: list[float] | None
    scale_rewards: str


def settle_aggregation(args: Aggregation, shaping: Shaping) -> None:
    """Makes the trainer add rewards as the shaping's objective says.

    Raises:
        ConfigError: the trainer's settings say something else.
    """
    if shaping.objective != "separate":
        if args.multi_objective_aggregation == NORMALIZE_FIRST:
            raise ConfigError(
                f"multi_objective_aggregation is {NORMALIZE_FIRST}, but objective "
                f"{shaping.objective} is one reward: set objective to separate, which sets both"
            )
        return
    weights = list(shaping.weights)
    if args.reward_weights not in (None, weights):
        raise ConfigError(
            f"reward_weights is {args.reward_weights}: with objective separate, set "
            "precision_weight and recall_weight instead"
        )
    if args.scale_rewards != "group":
        raise ConfigError(
            f"scale_rewards is {args.scale_rewards!r}, which TRL ignores with objective separate: "
            "leave it out"
        )
    args.multi_objective_aggregation = NORMALIZE_FIRST
    args.reward_weights = weights
