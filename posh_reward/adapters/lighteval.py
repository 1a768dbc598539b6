"""lighteval: a group of metrics for free-text tasks.

::

    from posh_reward.adapters.lighteval import text_metrics

    LightevalTaskConfig(..., metrics=[text_metrics()], prompt_function=...)

``Doc.choices[doc.gold_index]`` is the reference; other columns are read from ``Doc.specific``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from posh_reward.adapters.completion_results import AnyReward, framework, results, reward_of
from posh_reward.reward.trl import figure_names

with framework("lighteval==0.13.0"):
    from lighteval.metrics.metrics_sample import SampleLevelComputation
    from lighteval.metrics.utils.metric_utils import SampleLevelMetricGrouping
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc, SamplingMethod


class TextFigures(SampleLevelComputation):  # type: ignore[misc]
    """Figures of one reply, scored unchanged by a reward (``reward_of``); NaN if not judged."""

    def __init__(self, reward: AnyReward | str | None = None) -> None:
        self.reward = reward_of(reward)

    @property
    def names(self) -> list[str]:
        """Names of the metrics in the group."""
        return [*figure_names(self.reward), "failed"]

    def compute(self, doc: Doc, model_response: ModelResponse, **_: Any) -> dict[str, float]:
        """Return the figures, and ``failed`` (0 or 1)."""
        golds = doc.get_golds()
        columns = {**(doc.specific or {}), "images": doc.images}
        columns[self.reward.reference_column] = golds[0] if len(golds) == 1 else golds
        texts, rows = model_response.final_text[:1], {k: [v] for k, v in columns.items()}
        [result] = results(self.reward, texts, rows, raw=True)
        return result.row


def text_metrics(reward: AnyReward | str | None = None) -> SampleLevelMetricGrouping:
    """Group a reward's figures as metrics; means are over replies that could be judged."""
    figures = TextFigures(reward)
    return SampleLevelMetricGrouping(
        metric_name=figures.names,
        higher_is_better={name: name != "failed" for name in figures.names},
        category=SamplingMethod.GENERATIVE,
        sample_level_fn=figures,
        corpus_level_fn=dict.fromkeys(figures.names, np.nanmean),
    )
