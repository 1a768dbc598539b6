"""Several reward functions that share one scoring call, one for each objective.

TRL calls every reward function with the same completions, one function after the other. With
``multi_objective_aggregation="normalize_then_sum"`` it normalises each function's rewards within
their group before it adds them (GRPOTrainer of TRL 1.16, ``_generate_and_score_completions``). So
an axis counts by where a completion is among its siblings, not by how much the axis varies.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from inspect import iscoroutinefunction, signature
from typing import Any, Protocol, cast

from posh_reward.errors import ConfigError
from posh_reward.reward.shaping import Shaping

NORMALIZE_FIRST = "normalize_then_sum"
"""TRL's name for normalising each function within its group before adding them."""

Rewards = list[float | None]


class Objectives(Protocol):
    """One or more rewards of one scoring call, such as ``MetricReward``."""

    @property
    def objectives(self) -> Mapping[str, float | None]:
        """Names of the rewards with their weights; None leaves a weight to the trainer."""

    def batch(self, completions: Sequence[object], columns: Mapping[str, Any]) -> tuple[Any, ...]:
        """Texts and columns from TRL's arguments."""

    def rewards(
        self, *batch: Any, log_metric: Any, log_extra: Any, trl_columns: Mapping[str, Any]
    ) -> dict[str, Rewards]:
        """Rewards by name."""


def together(*rewards: Objectives | Callable[..., Any]) -> list[Callable[..., Any]]:
    """Make ``reward_funcs`` that fail together: one per objective, then the plain functions.

    A completion that a metric cannot judge gets ``None`` from all of them, and so advantage 0. TRL
    skips a completion only if every function returns ``None`` (``grpo_trainer.py:2756`` in 1.16). A
    single ``None`` would count as 0 in the sum, or as average if normalised first, and a run whose
    judge is gone would train on the other functions alone.

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
    objectives: list[tuple[str, float | None]] = []
    for member in members:
        objectives += member.objectives.items()
    names = [*(name for name, _ in objectives), *map(_find_name, others)]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"two rewards have the same name: {', '.join(names)}; set the __name__ of one of them, "
            "as for a lambda or a second partial of one function"
        )

    def score(*batches: tuple[Any, ...], **logs: Any) -> dict[str, Rewards]:
        """Rewards by name, None where any is; for the plain functions, None or 1."""
        found: dict[str, Rewards] = {}
        for member, batch in zip(members, batches, strict=True):
            found |= member.rewards(*batch, **logs)
        mask: Rewards = [None if None in row else 1.0 for row in zip(*found.values(), strict=True)]
        return {name: _mask_rewards(mask, found.get(name, mask)) for name in names}

    call = SharedCall(score, members)
    functions = [_make_function(call, name, weight) for name, weight in objectives]
    functions += [_make_function(call, _find_name(other), None, other) for other in others]
    return functions


class SharedCall:
    """One scoring call for several functions that TRL calls one after the other.

    Each function takes its rewards of a scoring once, and only for the same texts and columns.
    Anything else is scored again: equal texts in a later call, or a call after an interrupted one.
    """

    def __init__(
        self, score: Callable[..., dict[str, Rewards]], members: Sequence[Any] = ()
    ) -> None:
        self.members = members
        self._score = score
        self._lock = threading.Lock()
        self._values: list[Any] = []
        self._untaken: dict[str, Rewards] = {}

    def take(self, function: str, *batch: Sequence[Any], **logs: Any) -> Rewards:
        """Take the rewards of one function; scores first, and logs, if none are left for it."""
        with self._lock:
            values = _flatten_values(batch)
            # TRL calls the functions in turn with the same lists, so the first call scores for all;
            # taken rewards are gone, so that a second round scores again.
            if function not in self._untaken or not _are_same(self._values, values):
                self._untaken = {}  # scoring may raise
                self._untaken = self._score(*batch, **logs)
                self._values = values
            return self._untaken.pop(function)


def _flatten_values(batch: Sequence[Any]) -> list[Any]:
    # Flattens lists in nested tuples.
    values: list[Any] = []
    for each in batch:
        values += _flatten_values(each) if isinstance(each, tuple) else each or ()
    return values


def _are_same(some: list[Any], others: list[Any]) -> bool:
    # Strings by content, anything else by identity: arrays, for example, do not compare to a bool.
    if len(some) != len(others):
        return False
    for a, b in zip(some, others, strict=True):
        if a is not b and not (isinstance(a, str) and isinstance(b, str) and a == b):
            return False
    return True


def _make_function(
    call: SharedCall, name: str, weight: float | None, own: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Make the reward function of an objective, or of ``own``, which is None where judging failed.

    The trainer's ``reward_weights`` must have ``weight``; None leaves it to the trainer.
    """

    def function(prompts: Any = None, completions: Sequence[object] = (), **columns: Any) -> Any:
        logs = {key: columns.get(key) for key in ("log_metric", "log_extra")}
        trainer = find_trainer(logs["log_metric"])
        check_shared(trainer, lambda each: getattr(each, "call", None) is call)
        if weight is not None:
            _check_addition(trainer, function, name, weight)
        data = {key: values for key, values in columns.items() if key not in logs}
        batches = [member.batch(completions, data) for member in call.members]
        judged = call.take(name, *batches, **logs, trl_columns=data)
        if own is None:
            return judged
        values = own(prompts=prompts, completions=completions, **columns)
        if _is_async(own):
            return _mask_awaited_rewards(name, judged, values)
        return _mask_rewards(judged, _check_rewards(name, values, len(judged)))

    async def waiting(**columns: Any) -> Rewards:
        rewards: Rewards = await function(**columns)
        return rewards

    # TRL runs the functions that are declared ``async`` together, after all others.
    made: Any = waiting if _is_async(own) else function
    # An axis has a weight and is logged as "precision_reward"; other rewards keep their own names.
    made.__name__ = name if weight is None else f"{name}_reward"
    made.call = call
    return cast(Callable[..., Any], made)


def metrics_behind(function: Any) -> Sequence[Any]:
    """Return the metrics' rewards that a trainer's reward function asks; itself if it is one."""
    call = getattr(function, "call", None)
    if isinstance(call, SharedCall):
        return call.members
    return [function]


def find_metrics(trainer: Any) -> list[Any]:
    """Return the metrics' rewards behind all reward functions of a trainer; none in SFT."""
    rewards: list[Any] = []
    for function in getattr(trainer, "reward_funcs", ()):
        rewards += metrics_behind(function)
    return rewards


def _is_async(function: Any) -> bool:
    function = _unwrap_partial(function)
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def _unwrap_partial(function: Any) -> Any:
    """Return what a ``functools.partial`` calls, as TRL does for a name and ``async``."""
    while isinstance(function, partial):
        function = function.func
    return function


def _check_rewards(name: str, values: Any, expected: int) -> Sequence[float | None]:
    """Check a plain function's rewards, as TRL does with those that it calls itself."""
    try:
        rewards = None if isinstance(values, str | Mapping) else list(values)
    except TypeError:  # None, or a single number
        rewards = None
    if rewards is None or len(rewards) != expected:
        what = repr(values) if rewards is None else f"{len(rewards)} rewards"
        raise ConfigError(
            f"the reward function {name!r} returned {what}, and {expected} were expected: return a "
            "list with one number, or None, for each completion"
        )
    return rewards


def _mask_rewards(mask: Rewards, values: Sequence[float | None]) -> Rewards:
    return [None if judged is None else value for judged, value in zip(mask, values, strict=True)]


async def _mask_awaited_rewards(name: str, mask: Rewards, values: Awaitable[Any]) -> Rewards:
    return _mask_rewards(mask, _check_rewards(name, await values, len(mask)))


def _find_name(function: Any) -> str:
    own = getattr(function, "__name__", None)  # set on a partial, too
    inner = _unwrap_partial(function)
    return str(own or getattr(inner, "__name__", type(inner).__name__))


def find_trainer(log_metric: object) -> Any:
    """Return the trainer whose method ``log_metric`` is (``grpo_trainer.py:1594``), or None."""
    return getattr(log_metric, "__self__", None)


def check_shared(trainer: Any, shares: Callable[[Any], bool]) -> None:
    """Refuse a trainer whose reward functions do not all fail together.

    After a judge's death it would train on the others alone, and save the result. If none of its
    functions is ours, users call the reward from functions of their own, and are responsible.
    """
    functions = getattr(trainer, "reward_funcs", ())
    alone = [each for each in functions if not shares(each)]
    if 0 < len(alone) < len(functions):
        names = ", ".join(map(_find_name, alone))
        if any("environments" in signature(each).parameters for each in alone if callable(each)):
            raise ConfigError(
                f"the environment's get_reward ({names}) would still pay "
                "where the judge fails: call the method otherwise, such as _score (without the "
                "underscore it would be a tool of the policy's), and pass reward.functions(own) "
                "with def own(environments, **columns): return [e._score() for e in environments]"
            )
        raise ConfigError(
            f"{names} would still pay where the judge fails: "
            "set reward_funcs=reward.functions(other, ...), or "
            "posh_reward.reward.objectives.together(reward, other, ...)"
        )


def _check_addition(trainer: Any, function: Any, name: str, weight: float) -> None:
    # No logged figure would show that a trainer sums the axes, or weights them differently.
    functions = getattr(trainer, "reward_funcs", None)
    if functions is None:
        return
    if not hasattr(trainer, "multi_objective_aggregation"):
        raise ConfigError(
            f"objective is separate, but {type(trainer).__name__} only adds rewards: use "
            'Shaping("weighted") or "f1" with precision_weight and recall_weight, or a GRPOTrainer'
        )
    aggregation = trainer.multi_objective_aggregation
    if aggregation != NORMALIZE_FIRST:
        raise ConfigError(
            f"objective is separate, but this trainer adds precision and recall by "
            f"{aggregation}: call settle_aggregation(args, reward.shaping) before you create "
            f"the GRPOTrainer, or set multi_objective_aggregation to {NORMALIZE_FIRST}"
        )
    actual = weight
    for other, each in zip(functions, trainer.reward_weights, strict=True):
        if other is function:
            actual = float(each)
            break
    if not math.isclose(actual, weight, rel_tol=1e-6):
        axis = name.rpartition("_")[2]
        raise ConfigError(
            f"{axis}_weight is {weight:g}, but the trainer's reward_weights have "
            f"{actual:g}: call settle_aggregation(args, reward.shaping), or set both the same"
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
    aggregation = getattr(args, "multi_objective_aggregation", None)  # RLOO has none: it adds
    if shaping.objective != "separate":
        if aggregation == NORMALIZE_FIRST:
            raise ConfigError(
                f"multi_objective_aggregation is {NORMALIZE_FIRST}, but objective "
                f"{shaping.objective} is one reward: set objective to separate, which sets both"
            )
        if other_weights:
            _settle_weights(args, [1.0, *other_weights], "leave it out")
        return
    if aggregation is None:
        raise ConfigError(
            f"objective is separate, but trainers with {type(args).__name__} only add rewards: use "
            'Shaping("weighted") or "f1" with precision_weight and recall_weight'
        )
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
