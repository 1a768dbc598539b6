"""Dynamic sampling: groups whose rewards hardly differ teach nothing, and are replaced.

DAPO (arXiv 2503.14476, section 3.2) drops groups whose rewards are all equal. A reward as
continuous as POSH is hardly ever exactly equal, so what counts here is a group's *spread*: the
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

MIN_SPREAD = 0.01  # a group below this spread is replaced, by default


@dataclass(frozen=True, slots=True)
class DynamicSampling:
    """Settings of the choice among groups.

    Raises:
        ConfigError: ``oversample`` is below 2, or ``min_spread`` is not above 0.
    """

    oversample: int = 2
    """Groups that are generated and judged for each group that is trained on: its cost."""
    min_spread: float = MIN_SPREAD
    """Groups of at least this spread (in units of the reward) are kept in the order of the data,
    and narrower ones, widest first, where those are too few. ``inf`` keeps the widest."""
    refill: bool = False
    """Generate as many groups as are trained on, and further ones only as long as too few of them
    are wide; ``oversample`` is then the bound. The images that are not needed are left out."""

    def __post_init__(self) -> None:
        if self.oversample < 2:
            raise ConfigError(
                f"oversample is {self.oversample}: give 2 or more groups for each that is trained "
                "on, or leave dynamic sampling off"
            )
        if not self.min_spread > 0:
            raise ConfigError(f"min_spread is {self.min_spread:g}: give a spread above 0")


def spreads(rewards: Tensor, weights: Tensor, *, each_normalised: bool = False) -> Tensor:
    """Return the standard deviation of each group's rewards, in units of the reward.

    Completions without a reward are left out; a group with fewer than two judged completions has
    no spread.

    Args:
        rewards: shape (groups, completions of a group, reward functions); NaN where a function
            gave None.
        weights: of the reward functions, shape (reward functions,).
        each_normalised: TRL's ``normalize_then_sum``. Each function is then scaled to the same
            spread, so what counts is the weighted mean of their standard deviations. Otherwise it
            is the standard deviation of the weighted sum, as in TRL's ``reward_std``.

    Returns:
        Shape (groups,), never NaN.
    """
    from trl.trainer.utils import nanstd

    if each_normalised:
        each = torch.nan_to_num(nanstd(rewards, dim=1))
        spread: Tensor = each @ weights.abs() / weights.abs().sum()
        return spread
    # nansum: a function without an answer adds nothing, as in TRL; where all have none, NaN is put
    # back, lest the failure count as a reward of 0.
    sums = (rewards * weights).nansum(dim=-1)
    sums[rewards.isnan().all(dim=-1)] = torch.nan
    return torch.nan_to_num(nanstd(sums, dim=1))


def choose_groups(spread: Tensor, count: int, min_spread: float) -> Tensor:
    """Choose ``count`` groups of each rank, all of at least ``min_spread`` being as good.

    Returns their indices, ascending: (ranks, groups) -> (ranks, count).
    """
    # Clamped, all groups that are wide enough tie, and a stable sort leaves ties in the order of
    # the data: choosing the widest would train on other images than the epoch's.
    order = spread.clamp(max=min_spread).argsort(dim=1, descending=True, stable=True)
    return order[:, :count].sort(dim=1).values


def figures(spread: Tensor, groups: Tensor, min_spread: float) -> dict[str, float]:
    """Return the figures of one choice, over all ranks.

    ``spread`` is (ranks, groups); ``groups`` are the indices of those kept, (ranks, kept groups).
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
    """Check that each rank generates whole groups.

    Raises:
        ConfigError: a group would straddle ranks.
    """
    rows = args.per_device_train_batch_size * args.steps_per_generation
    if rows % group:
        raise ConfigError(
            f"dynamic sampling keeps whole groups on each rank, but a rank generates {rows} "
            f"completions (per_device_train_batch_size {args.per_device_train_batch_size} x "
            f"steps_per_generation {args.steps_per_generation}) in groups of {group}: make that a "
            "multiple of num_generations"
        )


def check_sampling(trainer: GRPOTrainer, sampling: DynamicSampling) -> None:
    """Check that a trainer's batches can be chosen from.

    Raises:
        ConfigError: a group would straddle ranks, the dataset streams or is too small, or
            completions come from tools, environments or a rollout function.
    """
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
