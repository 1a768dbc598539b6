"""One scoring call, and a reward function for each of its objectives.

TRL calls every reward function with the same completions, one function after the other, and with
``multi_objective_aggregation="normalize_then_sum"`` compares each function's rewards within their
group before it adds them (GRPOTrainer of TRL 1.16, ``_generate_and_score_completions``). So an axis
counts by where a completion stands among its siblings, and not by how much the axis varies.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from posh_reward.errors import ConfigError
from posh_reward.reward.shaping import Shaping

AXES = ("precision", "recall")
NORMALIZE_FIRST = "normalize_then_sum"
"""TRL's name for comparing each function within its group before adding them."""

Asked = tuple[Any, ...]
"""What is scored: lists of texts and of what they are scored against, in tuples. None instead of a
list is a column that is not there."""
Rewards = list[float | None]


class Objectives(Protocol):
    """What makes one or more rewards of one scoring call, such as ``MetricReward``."""

    @property
    def objectives(self) -> Mapping[str, float | None]:
        """Names of the rewards with their weights; None leaves a weight to the trainer."""
        ...

    def asked(self, completions: Sequence[object], columns: Mapping[str, Any]) -> Asked:
        """What TRL's arguments ask to score."""
        ...

    def scored(self, *asked: Any, log_metric: Any, log_extra: Any) -> dict[str, Rewards]:
        """The rewards by name."""
        ...


class Together:
    """Several rewards of the same completions: what one cannot judge, none rewards.

    TRL leaves a completion out only if every function gave ``None`` (``grpo_trainer.py:2756`` in
    1.16). Where only one did, that one would count as 0 in the sum, or as average if each is
    normalised first.

    Args:
        rewards: such as a ``PoshReward`` and a ``HarmonicReward``.

    Raises:
        ConfigError: two of them have the same name.
    """

    def __init__(self, rewards: Sequence[Objectives]) -> None:
        self.rewards = tuple(rewards)
        names = [name for reward in rewards for name in reward.objectives]
        if len(set(names)) < len(names):
            raise ConfigError(f"two rewards have the same name: {', '.join(names)}")

    @property
    def objectives(self) -> Mapping[str, float | None]:
        """Those of all rewards, in their order."""
        return {name: by for reward in self.rewards for name, by in reward.objectives.items()}

    def asked(self, completions: Sequence[object], columns: Mapping[str, Any]) -> Asked:
        """What each reward asks."""
        return tuple(reward.asked(completions, columns) for reward in self.rewards)

    def scored(self, *asked: Any, log_metric: Any, log_extra: Any) -> dict[str, Rewards]:
        """The rewards by name, all None for a completion for which one is."""
        found: dict[str, Rewards] = {}
        for reward, each in zip(self.rewards, asked, strict=True):
            found |= reward.scored(*each, log_metric=log_metric, log_extra=log_extra)
        judged = [None not in row for row in zip(*found.values(), strict=True)]
        return {
            name: [value if known else None for value, known in zip(values, judged, strict=True)]
            for name, values in found.items()
        }


def together(*rewards: Objectives) -> list[Callable[..., Rewards]]:
    """Reward functions for ``reward_funcs``, one an objective, that fail together.

    Set ``multi_objective_aggregation="normalize_then_sum"`` to compare each within its group before
    they are added, and ``reward_weights`` to weight them. All of them can go to
    ``StopWithCheckpoint(*rewards)``.

    Raises:
        ConfigError: two rewards have the same name.
    """
    return functions_of(Together(rewards))


def functions_of(reward: Objectives) -> list[Callable[..., Rewards]]:
    """One reward function per objective; they share one scoring call."""
    scoring = SharedScoring(reward.scored)
    return [
        ObjectiveReward(name, reward.asked, scoring, weight)
        for name, weight in reward.objectives.items()
    ]


class SharedScoring:
    """Scores once what several functions are asked about one after the other.

    Each function takes its rewards of a scoring once, and only if it is asked about the very texts
    and columns that were scored. Whatever does not fit is scored again: equal texts in a later
    call, or a call after one that was broken off.

    Args:
        score: gives, for each objective, the rewards for what is asked.
    """

    def __init__(self, score: Callable[..., dict[str, Rewards]]) -> None:
        self._score = score
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[Any] = []
        self._untaken: dict[str, Rewards] = {}

    def rewards(self, objective: str, asked: Asked, **logs: Any) -> Rewards:
        """Those of one objective; scores, and logs, if nothing fitting is left from another."""
        with self._lock:
            values = _values(asked)
            if objective not in self._untaken or not _same(self._asked, values):
                self._untaken = {}  # should scoring raise
                self._untaken = self._score(*asked, **logs)
                self._asked = values
            return self._untaken.pop(objective)

    def __getstate__(self) -> dict[str, Any]:
        return {"_score": self._score}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._score = state["_score"]
        self._begin()


def _values(asked: Asked) -> list[Any]:
    """Everything in the lists, which stand in tuples and in tuples of those."""
    found: list[Any] = []
    for each in asked:
        found += _values(each) if isinstance(each, tuple) else each or ()
    return found


def _same(some: list[Any], others: list[Any]) -> bool:
    """Strings by what they say, anything else by identity: arrays, say, do not compare."""
    return len(some) == len(others) and all(
        a is b or (isinstance(a, str) and isinstance(b, str) and a == b)
        for a, b in zip(some, others, strict=True)
    )


class ObjectiveReward:
    """A reward function for one objective; TRL's logs call it ``posh_precision_reward``, say.

    Args:
        objective: its name.
        asked: finds texts and columns in what TRL passes.
        scoring: shared with the other objectives.
        weight: how much it counts; the trainer's ``reward_weights`` must say the same. None leaves
            it to the trainer.
    """

    def __init__(
        self,
        objective: str,
        asked: Callable[[Sequence[object], Mapping[str, Any]], Asked],
        scoring: SharedScoring,
        weight: float | None = None,
    ) -> None:
        self.__name__ = f"{objective}_reward"
        self.objective = objective
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
        """Rewards of this objective; None wherever another objective has none either.

        Raises:
            ConfigError: the trainer would add the objectives in another way.
        """
        if self.weight is not None:
            # TRL 1.16 passes a method of the trainer (grpo_trainer.py:1594)
            self._check_addition(getattr(log_metric, "__self__", None), self.weight)
        asked = self._find(completions, columns)
        return self._scoring.rewards(
            self.objective, asked, log_metric=log_metric, log_extra=log_extra
        )

    def _check_addition(self, trainer: Any, weight: float) -> None:
        """Refuses a trainer that is known to sum the axes, or to weight them differently.

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
        given = next((float(each) for function, each in weighted if function is self), weight)
        if not math.isclose(given, weight, rel_tol=1e-6):
            axis = self.objective.rpartition("_")[2]
            raise ConfigError(
                f"{axis}_weight is {weight:g}, but the trainer's reward_weights have "
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
