"""Dynamic sampling: replace groups whose rewards hardly differ, which teach nothing.

DAPO (arXiv 2503.14476, section 3.2) drops groups whose rewards are all equal. A reward as
continuous as POSH is hardly ever exactly equal, so the criterion here is a group's *spread*: the
standard deviation of its rewards. More groups are generated than are trained on, all at once or
(``refill``) as needed, and the groups that reach a threshold are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from posh_reward.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor
    from trl import GRPOTrainer

MIN_SPREAD = 0.01  # default: groups of less spread are replaced


@dataclass(frozen=True, slots=True)
class DynamicSampling:
    """Settings of dynamic sampling.

    Raises:
        ConfigError: ``oversample`` is below 2, ``min_spread`` is not above 0, or ``refill`` could
            not save anything.
    """

    oversample: int = 2
    """Groups generated and judged per group trained on: the cost."""
    min_spread: float = MIN_SPREAD
    """Groups of at least this spread (in units of the reward) are kept in the order of the data,
    then narrower ones, widest first, if those are too few. ``inf`` keeps the widest."""
    refill: bool = False
    """Generate only as many groups as are trained on, and more only while too few of them are wide;
    ``oversample`` is then the upper bound. Images that are not needed are skipped."""

    def __post_init__(self) -> None:
        if self.oversample < 2:
            raise ConfigError(
                f"oversample is {self.oversample}: use 2 or more groups for each that is trained "
                "on, or leave dynamic sampling off"
            )
        if not self.min_spread > 0:
            raise ConfigError(f"min_spread is {self.min_spread:g}: use a spread above 0")
        if self.refill and math.isinf(self.min_spread):
            raise ConfigError(
                "refill has no effect with min_spread inf: no group is wide enough, so all are "
                "generated anyway; leave refill out, or set a spread"
            )

    @property
    def at_once(self) -> int:
        """Groups generated at a time, per group trained on."""
        return 1 if self.refill else self.oversample


def measure_spreads(rewards: Tensor, weights: Tensor, *, each_normalised: bool = False) -> Tensor:
    """Return the standard deviation of each group's rewards, (groups,), in units of the reward.

    ``rewards`` (groups, completions, reward functions) are NaN where a function returned None;
    completions without a reward are ignored, and a group with fewer than two others has spread 0.
    It is that of the sum by ``weights``, as in TRL's ``reward_std``; or with ``each_normalised``,
    for TRL's ``normalize_then_sum``, the weighted mean of the functions' own: of rewards (.2, .4)
    and (.4, .2) the sum does not vary, but each function does, by .14.
    """
    from trl.trainer.utils import nanstd

    if each_normalised:
        each = torch.nan_to_num(nanstd(rewards, dim=1))
        spread: Tensor = each @ weights.abs() / weights.abs().sum()
        return spread
    # nansum: a function that returned None adds nothing, as in TRL. Where all did, NaN is restored,
    # or the failure would count as a reward of 0.
    sums = (rewards * weights).nansum(dim=-1)
    sums[rewards.isnan().all(dim=-1)] = torch.nan
    return torch.nan_to_num(nanstd(sums, dim=1))


def choose_groups(spread: Tensor, count: int, min_spread: float) -> Tensor:
    """Choose ``count`` groups of each rank, preferring those of at least ``min_spread``.

    Returns their indices, ascending: (ranks, groups) -> (ranks, count).
    """
    # Clamping makes all groups that are wide enough tie, and a stable sort keeps ties in the order
    # of the data. Always choosing the widest would bias which images of the epoch are trained on.
    order = spread.clamp(max=min_spread).argsort(dim=1, descending=True, stable=True)
    return order[:, :count].sort(dim=1).values


def summarise_choice(spread: Tensor, groups: Tensor, min_spread: float) -> dict[str, float]:
    """Return the logged figures of one choice, over all ranks.

    ``spread`` is (ranks, groups); ``groups`` has the indices of those kept, (ranks, kept groups).
    """
    selection = spread.gather(1, groups)
    left_out = spread.numel() - selection.numel()
    return {
        "dynamic_sampling/groups_dropped": float(left_out),
        "dynamic_sampling/narrow_generated": float((spread < min_spread).sum()),
        "dynamic_sampling/narrow_kept": float((selection < min_spread).sum()),
        "dynamic_sampling/spread_kept": selection.mean().item(),
        "dynamic_sampling/spread_dropped": (
            (spread.sum() - selection.sum()).item() / left_out if left_out else math.nan
        ),
        "dynamic_sampling/groups_generated": float(spread.numel()),
    }


def check_groups(args: Any, group: int) -> None:
    """Raise ConfigError if a group would straddle ranks."""
    rows = args.per_device_train_batch_size * args.steps_per_generation
    if rows % group:
        raise ConfigError(
            f"dynamic sampling needs whole groups on each rank, but a rank generates {rows} "
            f"completions (per_device_train_batch_size {args.per_device_train_batch_size} x "
            f"steps_per_generation {args.steps_per_generation}) in groups of {group}: make that a "
            "multiple of num_generations"
        )


def check_sampling(trainer: GRPOTrainer, sampling: DynamicSampling) -> None:
    """Raise ConfigError if groups straddle ranks, or the dataset streams or is too small."""
    args, group = trainer.args, trainer.num_generations
    check_groups(args, group)
    if not hasattr(trainer.train_dataset, "__len__"):
        raise ConfigError("dynamic sampling needs a dataset with a length: turn streaming off")
    prompts = sampling.oversample * args.generation_batch_size // group
    if len(trainer.train_dataset) < prompts:
        raise ConfigError(
            f"dynamic sampling draws {prompts} prompts at once (oversample {sampling.oversample}), "
            f"but the dataset has {len(trainer.train_dataset)}: lower oversample or the batch"
        )
