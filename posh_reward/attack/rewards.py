"""Rewards to audit: POSH and its siblings from settings, or any function of the user's own."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from inspect import getsourcefile
from pathlib import Path
from typing import Any

from posh_reward.attack.climb import RewardFunction
from posh_reward.errors import ConfigError
from posh_reward.reward.instance import make_reward
from posh_reward.reward.trl import MetricReward
from posh_reward.settings import check_settings, make, read_settings

PARTS = {
    "harmonic": ("metrics.harmonic.harmonic_eval:HarmonicEval",
                 "reward.harmonic_reward:HarmonicReward"),
    "rubric": ("metrics.rubric.rubric_judge:RubricJudge", "reward.rubric_reward:RubricReward"),
}  # fmt: skip
"""Metric -> its class and its reward's."""
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Reward:
    """Functions to audit."""

    functions: Sequence[RewardFunction]
    column: str
    """Column of the true texts."""
    signature: str
    requests: Callable[[], int] | None = None
    """Questions that a language model was asked so far; None if nobody counts them."""


def open_reward(which: str | None, metric: str, column: str | None) -> Reward:
    """Open a reward by ``MODULE:attribute`` or a settings file.

    Settings are those of ``make_reward``, or of ``HarmonicReward`` or ``RubricReward`` with the
    metric's own in ``metric``.

    Raises:
        ConfigError: it cannot be imported, is no function, or a setting is unusable.
    """
    if which and FUNCTION.fullmatch(which):
        return _own(which, column or "reference")
    settings = read_settings(Path(which)) if which else {}
    reward: MetricReward[Any]
    if metric == "posh":
        reward = make_reward(**check_settings(make_reward, settings, "reward"))
    else:
        inner = settings.pop("metric", {})
        if not isinstance(inner, Mapping):
            raise ConfigError(f"metric is {inner!r}: use a mapping of {metric}'s settings")
        table = {metric: f"posh_reward.{PARTS[metric][0]}"}
        settings[metric if metric == "harmonic" else "judge"] = make(
            table, {**inner, "name": metric}, "metric"
        )
        reward = make(
            {metric: f"posh_reward.{PARTS[metric][1]}"}, {**settings, "name": metric}, "reward"
        )

    def requests() -> int:
        usage = reward.metric.usage
        return usage.requests + usage.rewrites if usage.prompt_tokens_submitted else 0

    name = column or reward.reference_column
    return Reward(reward.functions(), name, reward.signature, requests)


def _own(which: str, column: str) -> Reward:
    module, _, name = which.partition(":")
    here = os.getcwd()
    if here not in sys.path:  # as with `python -m`, but last, so that nothing is shadowed
        sys.path.append(here)
    try:
        function = getattr(import_module(module), name)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f"the reward {which!r} cannot be imported ({why})") from error
    if not callable(function):
        raise ConfigError(
            f"{which!r} is {function!r}: name a function f(prompts, completions, ...)"
        )
    # Another version of the code is another reward, whose texts have to be paid again.
    source = getsourcefile(import_module(module))
    code = Path(source).read_bytes() if source else b""
    return Reward([function], column, f"{which}|code:{sha256(code).hexdigest()[:8]}")
