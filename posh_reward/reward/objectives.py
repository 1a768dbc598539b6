"""Several reward functions that share one scoring call, one for each objective.

TRL calls every reward function with the same completions, one function after the other. With
``multi_objective_aggregation="normalize_then_sum"`` it normalises each function's rewards within
their group before it adds them (GRPOTrainer of TRL 1.16, ``_generate_and_score_completions``). So
an axis counts by where a completion is among its siblings, not by how much the axis varies.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any, Protocol

from posh_reward.errors import ConfigError
from posh_reward.reward.shaping import Shaping

AXES = ("precision", "recall")
NORMALIZE_FIRST = "normalize_then_sum"
"""TRL's name for normalising each function within its group before adding them."""

TextBatch = tuple[Any, ...]
"""Texts to score and their columns: lists, in nested tuples; None for a missing optional column."""
Rewards = list[float | None]


class Objectives(Protocol):
    """One or more rewards of one scoring call, such as ``MetricReward``."""

    @property
    def objectives(self) -> Mapping[str, float | None]:
        """Names of the rewards with their weights; None leaves a weight to the trainer."""

    def batch(self, completions: Sequence[object], columns: Mapping[str, Any]) -> TextBatch:
        """Texts and columns from TRL's arguments."""

    def rewards(self, *batch: Any, log_metric: Any, log_extra: Any) -> dict[str, Rewards]:
        """Rewards by name."""


class JointReward:
    """Several rewards of the same completions: if one fails on a completion, all do.

    TRL skips a completion only if every function returns ``None`` (``grpo_trainer.py:2756`` in
    1.16). A single ``None`` would count as 0 in the sum, or as average if normalised first.

    Args:
        members: such as a ``PoshReward`` and a ``HarmonicReward``.
        others: names of plain reward functions, for which ``rewards`` returns a mask.

    Raises:
        ConfigError: two have the same name.
    """

    def __init__(self, members: Sequence[Objectives], others: Sequence[str] = ()) -> None:
        self.members = tuple(members)
        self.others = tuple(others)
        names = [*(name for member in members for name in member.objectives), *others]
        if len(set(names)) < len(names):
            raise ConfigError(f"two rewards have the same name: {', '.join(names)}")

    @property
    def objectives(self) -> Mapping[str, float | None]:
        """The objectives of all members."""
        return {name: by for member in self.members for name, by in member.objectives.items()}

    def batch(self, completions: Sequence[object], columns: Mapping[str, Any]) -> TextBatch:
        """The batch of each member."""
        return tuple(member.batch(completions, columns) for member in self.members)

    def rewards(self, *batch: Any, log_metric: Any, log_extra: Any) -> dict[str, Rewards]:
        """Rewards by name; all are None for a completion for which one is.

        Each of ``others`` is a mask: 1 for a judged completion, else None.
        """
        rewards: dict[str, Rewards] = {}
        for member, part in zip(self.members, batch, strict=True):
            rewards |= member.rewards(*part, log_metric=log_metric, log_extra=log_extra)
        complete = [None not in row for row in zip(*rewards.values(), strict=True)]
        mask: Rewards = [1.0 if whole else None for whole in complete]
        return {
            name: [value if whole else None for value, whole in zip(values, complete, strict=True)]
            for name, values in rewards.items()
        } | dict.fromkeys(self.others, mask)


def together(*rewards: Objectives | Callable[..., Any]) -> list[Callable[..., Any]]:
    """Make ``reward_funcs`` that fail together: one per objective, then the plain functions.

    A completion that a metric cannot judge gets ``None`` from all of them, and so advantage 0.
    Without this, a run whose judge is gone would train on the other functions alone.

    Set ``multi_objective_aggregation="normalize_then_sum"`` to normalise each within its group
    first, and ``reward_weights`` to weight them. Pass the metrics' rewards to
    ``StopWithCheckpoint``.

    Args:
        rewards: metrics' rewards, such as ``PoshReward``, and plain reward functions, which keep
            their names in logs and may be ``async``.

    Raises:
        ConfigError: two have the same name, or one is a model or its name.
    """
    members: list[Any] = [each for each in rewards if hasattr(each, "objectives")]
    others: list[Any] = [each for each in rewards if not hasattr(each, "objectives")]
    for other in others:
        if not callable(other) or hasattr(other, "parameters"):
            raise ConfigError(
                f"{other!r} is a reward model, which never returns None: wrap it in a function"
            )
    joint = JointReward(members, [_name_of(other) for other in others])
    scoring = SharedScoring(joint.rewards)
    dependent = [
        (AsyncSharedFunction if _is_async(each) else SharedFunction)(
            _name_of(each), joint, scoring, function=each
        )
        for each in others
    ]
    return [*functions_of(joint, scoring), *dependent]


def functions_of(
    reward: Objectives, scoring: SharedScoring | None = None
) -> list[Callable[..., Rewards]]:
    """Make one reward function per objective; they share one scoring call."""
    scoring = scoring or SharedScoring(reward.rewards)
    objectives = reward.objectives.items()
    return [SharedFunction(name, reward, scoring, weight) for name, weight in objectives]


def metrics_behind(function: Any) -> Sequence[Any]:
    """Return the metrics' rewards that a trainer's reward function asks; itself if it is one."""
    source = getattr(function, "source", function)
    members: Sequence[Any] = getattr(source, "members", (source,))
    return members


class SharedScoring:
    """One scoring call for several functions that TRL calls one after the other.

    Each function takes its rewards of a scoring once, and only for the same texts and columns.
    Anything else is scored again: equal texts in a later call, or a call after an interrupted one.
    """

    def __init__(self, score: Callable[..., dict[str, Rewards]]) -> None:
        self._score = score
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._values: list[Any] = []
        self._untaken: dict[str, Rewards] = {}

    def take(self, function: str, batch: TextBatch, **logs: Any) -> Rewards:
        """Take the rewards of one function; scores first, and logs, if none are left for it."""
        with self._lock:
            values = _values(batch)
            # TRL calls the functions in turn with the same lists, so the first call scores for all;
            # taken rewards are gone, so that a second round scores again.
            if function not in self._untaken or not _same(self._values, values):
                self._untaken = {}  # scoring may raise
                self._untaken = self._score(*batch, **logs)
                self._values = values
            return self._untaken.pop(function)

    def __getstate__(self) -> dict[str, Any]:
        return {"_score": self._score}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._score = state["_score"]
        self._begin()


def _values(batch: TextBatch) -> list[Any]:
    # Flattens lists in nested tuples.
    values: list[Any] = []
    for each in batch:
        values += _values(each) if isinstance(each, tuple) else each or ()
    return values


def _same(some: list[Any], others: list[Any]) -> bool:
    # Strings by content, anything else by identity: arrays, for example, do not compare to a bool.
    return len(some) == len(others) and all(
        a is b or (isinstance(a, str) and isinstance(b, str) and a == b)
        for a, b in zip(some, others, strict=True)
    )


class SharedFunction:
    """One of several reward functions that share a scoring call.

    Args:
        name: of its rewards in the call, and in TRL's logs.
        source: scores the completions.
        scoring: the shared call.
        weight: that the trainer's ``reward_weights`` must have; None leaves it to the trainer.
        function: a plain reward function, whose rewards are None where the metric failed; without
            one, the rewards are the metric's.
    """

    def __init__(
        self,
        name: str,
        source: Objectives,
        scoring: SharedScoring,
        weight: float | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.__name__ = name if function is not None else f"{name}_reward"
        self.name = name
        self.source = source
        self.scoring = scoring
        self.weight = weight
        self.function = function

    def __call__(
        self, prompts: Any = None, completions: Sequence[object] = (), **columns: Any
    ) -> Any:
        """Return this function's rewards; None where any objective failed.

        Raises:
            ConfigError: the trainer would add the objectives differently, or has a function that
                does not fail with them.
        """
        judged = self._take(completions, **columns)
        if self.function is None:
            return judged
        own = self.function(prompts=prompts, completions=completions, **columns)
        return _where(judged, own)

    def _take(
        self,
        completions: Sequence[object],
        *,
        log_metric: Any = None,
        log_extra: Any = None,
        **columns: Any,
    ) -> Rewards:
        trainer = trainer_of(log_metric)
        check_shared(trainer, lambda each: getattr(each, "scoring", None) is self.scoring)
        if self.weight is not None:
            self._check_addition(trainer, self.weight)
        batch = self.source.batch(completions, columns)
        return self.scoring.take(self.name, batch, log_metric=log_metric, log_extra=log_extra)

    def _check_addition(self, trainer: Any, weight: float) -> None:
        # No logged figure would show that a trainer sums the axes, or weights them differently.
        functions = getattr(trainer, "reward_funcs", None)
        if functions is None:
            return
        aggregation = getattr(trainer, "multi_objective_aggregation", "a plain sum")
        if aggregation != NORMALIZE_FIRST:
            raise ConfigError(
                f"objective is separate, but this trainer adds precision and recall by "
                f"{aggregation}: call settle_aggregation(args, reward.shaping) before you create "
                f"the GRPOTrainer, or set multi_objective_aggregation to {NORMALIZE_FIRST}"
            )
        weights = zip(functions, trainer.reward_weights, strict=True)
        actual = next((float(each) for function, each in weights if function is self), weight)
        if not math.isclose(actual, weight, rel_tol=1e-6):
            axis = self.name.rpartition("_")[2]
            raise ConfigError(
                f"{axis}_weight is {weight:g}, but the trainer's reward_weights have "
                f"{actual:g}: call settle_aggregation(args, reward.shaping), or set both the same"
            )


class AsyncSharedFunction(SharedFunction):
    """The same for an ``async`` function; TRL runs these concurrently, after all others."""

    async def __call__(
        self, prompts: Any = None, completions: Sequence[object] = (), **columns: Any
    ) -> Any:
        """Return the function's rewards; None for completions without a score."""
        assert self.function is not None
        judged = self._take(completions, **columns)
        own = self.function(prompts=prompts, completions=completions, **columns)
        return _where(judged, await own)


def _is_async(function: Any) -> bool:
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def _where(mask: Rewards, values: Sequence[float | None]) -> Rewards:
    return [None if m is None else value for m, value in zip(mask, values, strict=True)]


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def trainer_of(log_metric: object) -> Any:
    """Return the trainer whose method ``log_metric`` is (``grpo_trainer.py:1594``), or None."""
    return getattr(log_metric, "__self__", None)


def check_shared(trainer: Any, shares: Callable[[Any], bool]) -> None:
    """Refuse a trainer whose reward functions do not all fail together.

    After a judge's death it would train on the others alone, and save the result. If none of its
    functions is ours, users call the reward from functions of their own, and are responsible.

    Raises:
        ConfigError: ``shares`` is true for some of the trainer's functions but not for all.
    """
    functions = getattr(trainer, "reward_funcs", ())
    alone = [each for each in functions if not shares(each)]
    if 0 < len(alone) < len(functions):
        raise ConfigError(
            f"{', '.join(map(_name_of, alone))} would still pay where the judge fails: "
            "set reward_funcs=reward.functions(other, ...), or "
            "posh_reward.reward.objectives.together(reward, other, ...)"
        )


class Aggregation(Protocol):
    """Settings of TRL's ``GRPOConfig`` for adding rewards."""

    multi_objective_aggregation: str
    reward_weights: list[float] | None
    scale_rewards: str


def settle_aggregation(args: Aggregation, shaping: Shaping, *other_weights: float) -> None:
    """Set the trainer's aggregation of rewards to what the shaping's objective needs.

    Args:
        args: the trainer's settings.
        shaping: the reward's.
        other_weights: weights of the other functions passed to ``functions``, in order. With one
            reward its own weight is 1: ``settle_aggregation(args, Shaping(), 0.1)`` sets
            ``reward_weights`` to [1.0, 0.1].

    Raises:
        ConfigError: the trainer's settings conflict with the shaping.
    """
    if shaping.objective != "separate":
        if args.multi_objective_aggregation == NORMALIZE_FIRST:
            raise ConfigError(
                f"multi_objective_aggregation is {NORMALIZE_FIRST}, but objective "
                f"{shaping.objective} is one reward: set objective to separate, which sets both"
            )
        if other_weights:
            _settle_weights(args, [1.0, *other_weights], "leave it out")
        return
    remedy = "with objective separate, set precision_weight and recall_weight instead"
    _settle_weights(args, [*shaping.weights, *other_weights], remedy)
    if args.scale_rewards != "group":
        raise ConfigError(
            f"scale_rewards is {args.scale_rewards!r}, which TRL ignores with objective separate: "
            "leave it out"
        )
    args.multi_objective_aggregation = NORMALIZE_FIRST


def _settle_weights(args: Aggregation, weights: list[float], remedy: str) -> None:
    if args.reward_weights not in (None, weights):
        raise ConfigError(
            f"reward_weights is {args.reward_weights}, but those of the shaping and of the other "
            f"functions are {weights}: {remedy}"
        )
    args.reward_weights = weights
