"""torchmetrics: a metric as a module, in batches and over ranks.

::

    metric = TextMetric()                      # POSH; or TextMetric(HarmonicReward(...))
    metric.update(texts, reference=references)
    metric.compute()                           # {"posh_precision": ..., "failed_share": ...}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from posh_reward.adapters.completion_results import AnyReward, framework, results, reward_of
from posh_reward.reward.trl import figure_names

with framework("torchmetrics==1.9.0"):
    from torchmetrics import Metric


class TextMetric(Metric):  # type: ignore[misc]
    """Means of a metric's figures over all texts it could judge, and the share of the others.

    Args:
        reward: as for ``reward_of``; its metric scores texts unchanged.
        **options: options of ``torchmetrics.Metric``.
    """

    higher_is_better = True
    is_differentiable = False
    full_state_update = False
    sums: torch.Tensor
    counts: torch.Tensor
    failed: torch.Tensor
    total: torch.Tensor

    def __init__(self, reward: AnyReward | str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.reward = reward_of(reward)
        self.names = figure_names(self.reward)
        for state in ("sums", "counts"):
            zeros = torch.zeros(len(self.names), dtype=torch.float64)
            self.add_state(state, default=zeros, dist_reduce_fx="sum")
        for state in ("failed", "total"):
            self.add_state(state, default=torch.tensor(0), dist_reduce_fx="sum")

    def update(self, preds: str | Sequence[str | None], target: Any = None, **columns: Any) -> None:
        """Score texts.

        Args:
            preds: texts, or one text.
            target: their references, each a text or a list of texts.
            columns: other columns of the reward, or references by its own name for them.
        """
        if target is not None:
            columns[self.reward.reference_column] = target
        if isinstance(preds, str):
            preds, columns = [preds], {name: [value] for name, value in columns.items()}
        for result in results(self.reward, preds, columns, raw=True):
            values = torch.tensor(list(result.row.values())[:-1], dtype=torch.float64).to(self.sums)
            self.sums += values.nan_to_num(0.0)
            self.counts += ~values.isnan()
            self.failed += result.failure is not None
            self.total += 1

    def compute(self) -> dict[str, torch.Tensor]:
        """Return means by TRL's names, such as ``posh_f1`` (NaN if none), and ``failed_share``."""
        means = dict(zip(self.names, self.sums / self.counts, strict=True))
        return {**means, "failed_share": self.failed / self.total}
