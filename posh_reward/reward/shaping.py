"""POSH's scores -> one reward, or one for each axis.

A model tuned on POSH as published trades mistakes for coverage: against SFT, on a scale of -2 to 2
(higher is better), people gave it -0.243 for mistakes and +0.432 for omissions (paper, Table 7).
``Shaping`` changes that balance, and has the guards that keep a policy from being paid for texts
that score without describing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Literal, get_args

from posh_reward.errors import ConfigError
from posh_reward.posh.means import EQUAL_WEIGHTS, Weights, mean_score
from posh_reward.reward.guards import (
    Guards,
    add_mistakes,
    cap_grade,
    kept_shares,
    list_active_guards,
)
from posh_reward.settings import check_settings
from posh_reward.types import WORST_SCORE, Scores

SCORE_AXES = ("precision", "recall")
REWARD_VERSION = 13
"""Version of the rules that turn scores into rewards, here, in ``guards`` and in ``texts``."""
GUARD_SETTINGS = tuple(each.name for each in fields(Guards))
MAX_UNREPORTED_LOSS = 0.1  # from a reward by guards; of a larger one, the run warns

WEIGHT_SETTINGS = ("precision_weight", "recall_weight")
Objective = Literal["f1", "weighted", "separate"]
Switch = Literal["on", "off"]
SWITCHES: dict[Switch, Guards] = {"on": Guards(), "off": Guards.off()}


def weight_field(help: str) -> Any:
    return field(default=1.0, metadata={"help": help})


@dataclass(frozen=True, slots=True)
class Shaping:
    """What turns precision (few mistakes) and recall (few omissions) into rewards.

    Rewards are in [0.2, 1]; higher is better. ``Shaping(guards="off")`` is the paper's reward: f1,
    here of texts without markup and thoughts (``texts.clean_output``).
    """

    objective: Objective = field(
        default="f1",
        metadata={
            "help": "f1, as in the paper; weighted; or separate: precision and recall are each "
            "normalised within the group, then added (sets multi_objective_aggregation)."
        },
    )
    """f1: the weighted harmonic mean, as in the paper. weighted: the weighted arithmetic mean.
    separate: two rewards, each normalised within its group before the trainer adds them."""
    precision_weight: float = weight_field("Higher: fewer mistakes.")
    recall_weight: float = weight_field("Higher: fewer omissions.")
    unmentioned_weight: float = weight_field(
        "Weight in precision of what the reference neither supports nor contradicts; needs a "
        "metric with a reader of sentences."
    )
    """Weight in precision of an element that is neither supported nor in a contradicted sentence.
    Below 1, a text may tell more of what experts leave out (docs/sentences.md)."""
    guards: Guards | Switch = field(
        default="on",
        kw_only=True,
        metadata={"help": "off: only the objective, as in the paper."},
    )
    """Limits of the guards: the default ones, none, or your own ``Guards``."""

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            raise ConfigError(
                f"objective is {self.objective!r}: choose {', '.join(get_args(Objective))}"
            )
        if not isinstance(self.guards, Guards) and self.guards not in tuple(SWITCHES):
            raise ConfigError(f"guards is {self.guards!r}: use on, off, or Guards(...)")
        for switch, limits in SWITCHES.items():
            if self.guards == limits:  # one value for one meaning: ranks compare signatures
                object.__setattr__(self, "guards", switch)
        for name in WEIGHT_SETTINGS:
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 <= value < math.inf):
                raise ConfigError(f"{name} is {value!r}: use a number from 0")
        value = self.unmentioned_weight
        if not (isinstance(value, int | float) and 0 < value < math.inf):
            raise ConfigError(f"unmentioned_weight is {value!r}: use a number above 0")
        if not sum(self.weights):
            raise ConfigError("the weights of precision and recall are both 0: set one above 0")

    @property
    def weights(self) -> tuple[float, float]:
        """Weights of precision and of recall."""
        return self.precision_weight, self.recall_weight

    @property
    def limits(self) -> Guards:
        """Limits of the guards."""
        return self.guards if isinstance(self.guards, Guards) else SWITCHES[self.guards]

    @property
    def changed(self) -> dict[str, Any]:
        """Settings that are not the default, those of the guards among them."""
        found = _list_changed(self, ("objective", *WEIGHT_SETTINGS, "unmentioned_weight"))
        if self.guards == "off":
            return {**found, "guards": "off"}
        return found | _list_changed(self.limits, GUARD_SETTINGS)


def _list_changed(settings: Shaping | Guards, names: Sequence[str]) -> dict[str, Any]:
    """List those of some settings that are not the default."""
    defaults = {each.name: each.default for each in fields(settings)}
    values = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in values.items() if value != defaults[name]}


def read_shaping(settings: Mapping[str, Any], what: str = "shaping") -> Shaping:
    """Make a shaping from settings in which the guards' limits stand beside the others.

    Raises:
        ConfigError: a setting is unknown, does not fit, or has no effect since the guards are off.
    """
    limits, others = _split_settings(settings)
    return _make_shaping(
        check_settings(Guards, limits, what), check_settings(Shaping, others, what)
    )


def build_shaping(flags: object) -> Shaping:
    """Make a shaping from parsed flags, of which unused ones leave the default.

    Raises:
        ConfigError: as ``read_shaping``.
    """
    values = {each.name: getattr(flags, each.name, None) for each in fields(ShapingSettings)}
    used = {name: value for name, value in values.items() if value is not None}
    return _make_shaping(*_split_settings(used))


def _split_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the limits of guards, and the other settings."""
    limits = {name: settings[name] for name in GUARD_SETTINGS if name in settings}
    others = {name: value for name, value in settings.items() if name not in limits}
    return limits, others


def _make_shaping(limits: Mapping[str, Any], others: Mapping[str, Any]) -> Shaping:
    if not limits:
        return Shaping(**others)
    if others.get("guards", "on") != "on":
        raise ConfigError(f"{next(iter(limits))} has no effect with guards {others['guards']}")
    return Shaping(**{**others, "guards": Guards(**limits)})


FLAG_TYPES: dict[str, Any] = {"objective": str, "guards": Switch}  # all others are numbers


def _list_flags() -> list[tuple[str, Any, Any]]:
    """List the fields of both dataclasses that have a help; None if the flag is not used."""
    found: list[tuple[str, Any, Any]] = []
    for each in (*fields(Shaping), *fields(Guards)):
        if each.metadata["help"] is not None:
            kind = FLAG_TYPES.get(each.name, float)
            shown = "off" if each.default is None else each.default
            help = f"{each.metadata['help'].rstrip('.')} (default: {shown})."
            found.append((each.name, kind | None, field(default=None, metadata={"help": help})))
    return found


ShapingSettings: Any = make_dataclass("ShapingSettings", _list_flags())
"""Settings that recipes offer as flags, with their help; None leaves one to its default."""


@dataclass(frozen=True, slots=True)
class GuardedScores:
    """A generation's scores after the guards."""

    precision: float
    recall: float
    kept: float  # share of its distance from the worst that each reward keeps
    shares: dict[str, float]  # what each guard left, by its name

    @property
    def axes(self) -> tuple[float, float]:
        """Rewards for precision and recall."""
        return _towards_worst(self.precision, self.kept), _towards_worst(self.recall, self.kept)


def guard_scores(
    scores: Scores, shaping: Shaping, weights: Weights = EQUAL_WEIGHTS
) -> GuardedScores | None:
    """Apply the guards; None if a score is missing.

    Args:
        scores: of the generation.
        shaping: objective, weights of the axes, guards.
        weights: the metric's, of kinds of elements.
    """
    precision = weigh_precision(scores, shaping, weights)
    if precision is None or scores.recall is None:
        return None
    shares = kept_shares(scores, shaping.limits)
    of_precision: list[float] = []
    of_both: list[float] = []
    for guard in list_active_guards(shaping.limits):
        kept = of_precision if guard.lowers == "precision" else of_both
        kept.append(shares[guard.name])
    precision = _towards_worst(precision, add_mistakes(of_precision))
    # Factors, not differences: two faults cost more than one, and none goes below the worst.
    return GuardedScores(precision, scores.recall, math.prod(of_both), shares)


def weigh_precision(scores: Scores, shaping: Shaping, weights: Weights) -> float | None:
    """Return precision with capped grades of the image, and weighted unmentioned elements."""
    own = [element for element in scores.elements if element.direction == "precision"]
    capped = [cap_grade(element, shaping.limits.image_cap) for element in own]
    if scores.precision is None or (capped == own and shaping.unmentioned_weight == 1):
        return scores.precision
    return mean_score(capped, weights, shaping.unmentioned_weight) or WORST_SCORE


def shape_reward(
    scores: Scores, shaping: Shaping, weights: Weights = EQUAL_WEIGHTS
) -> float | None:
    """Return the reward of one generation; None without scores. Arguments as ``guard_scores``."""
    guarded = guard_scores(scores, shaping, weights)
    if guarded is None:
        return None
    return _towards_worst(_combine_axes(guarded.precision, guarded.recall, shaping), guarded.kept)


def shape_axes(
    scores: Scores, shaping: Shaping, weights: Weights = EQUAL_WEIGHTS
) -> tuple[float, float] | None:
    """Return a generation's rewards for precision and recall; None without scores."""
    guarded = guard_scores(scores, shaping, weights)
    return None if guarded is None else guarded.axes


def is_lowered(scores: Scores, guarded: GuardedScores) -> bool:
    """Return True if guards other than that of silence take more than 0.1 from a reward."""
    if guarded.shares.get("silence") == 0:
        return False
    assert scores.precision is not None, "there would be no guarded scores"
    assert scores.recall is not None, "there would be no guarded scores"
    precision, recall = guarded.axes
    return max(scores.precision - precision, scores.recall - recall) > MAX_UNREPORTED_LOSS


def _combine_axes(precision: float, recall: float, shaping: Shaping) -> float:
    p, r = shaping.weights
    if shaping.objective == "f1":
        # Harmonic: the weaker axis counts most. Neither can be 0, since grades begin at 1.
        mean = (p + r) * precision * recall / (p * recall + r * precision)
    else:
        mean = (p * precision + r * recall) / (p + r)
    return max(min(precision, recall), min(mean, max(precision, recall)))  # despite rounding


def _towards_worst(reward: float, kept: float) -> float:
    """Move a reward towards the worst one: of 0.72, half is kept as 0.2 + 0.52 / 2."""
    if kept >= 1:
        return reward
    return WORST_SCORE + (reward - WORST_SCORE) * kept
