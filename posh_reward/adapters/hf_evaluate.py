"""Hugging Face's evaluate: a metric as a module.

::

    metric = TextModule()                      # POSH; or TextModule(HarmonicReward(...))
    metric.compute(predictions=texts, references=references)
"""

from __future__ import annotations

from typing import Any

from posh_reward.adapters.completion_results import AnyReward, framework, results, reward_of
from posh_reward.metrics.metric import mean
from posh_reward.reward.trl import figure_names

with framework("evaluate==0.4.6"):
    import datasets
    import evaluate

DESCRIPTION = "POSH and its siblings: detailed image descriptions, judged element by element."


class TextModule(evaluate.Metric):  # type: ignore[misc]
    """Means of a metric's figures over the texts that it could judge, and the number of others.

    Args:
        reward: as for ``reward_of``; its metric scores texts unchanged, and gets only references.
        **options: options of ``evaluate.Metric``.
    """

    def __init__(self, reward: AnyReward | str | None = None, **options: Any) -> None:
        self.reward = reward_of(reward)
        super().__init__(**options)

    def _info(self) -> Any:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="https://arxiv.org/abs/2510.19060",
            inputs_description="predictions and references: texts",
            features=datasets.Features({"predictions": text, "references": text}),
        )

    def _compute(
        self, predictions: list[str | None], references: list[str | None], *, rows: bool = False
    ) -> dict[str, Any]:
        column = self.reward.reference_column
        outcomes = results(self.reward, predictions, {column: references}, raw=True)
        failures = [str(each.failure) for each in outcomes if each.failure is not None]
        columns = {
            name: [each.figures[name] for each in outcomes] for name in figure_names(self.reward)
        }
        means: dict[str, Any] = {name: mean(values) for name, values in columns.items()}
        means |= {"failed": len(failures), "failures": sorted(set(failures))}
        return means | ({"rows": columns} if rows else {}) | {"signature": self.reward.signature}
