"""lm-evaluation-harness: figures of each document, without those that could not be judged.

::

    # posh.py, beside the task
    from posh_reward.adapters.lm_eval import process_results

    # captions.yaml
    output_type: generate_until
    doc_to_target: reference
    process_results: !function posh.process_results
    metric_list:
      - {metric: posh_f1, aggregation: mean, higher_is_better: true}
      - {metric: failed, aggregation: mean, higher_is_better: false}

The harness asks for one document after the other, so a judge that is a language model is asked
about one at a time. ``document_scorer`` takes another reward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from posh_reward.adapters.completion_results import AnyReward, framework, results, reward_of

with framework("lm-eval==0.4.13"):
    import lm_eval  # noqa: F401

Scorer = Callable[[Mapping[str, Any], Sequence[str]], dict[str, float]]


def document_scorer(reward: AnyReward | str | None = None) -> Scorer:
    """A task's ``process_results``, for a document whose columns a reward reads.

    Args:
        reward: as for ``reward_of``; replies are scored as they are, by its metric.

    Returns:
        A function: document and replies -> figures, and ``failed`` (0 or 1). A failed document has
        no figures; the harness takes means over those that have.
    """
    metric_reward = reward_of(reward)

    def process(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, float]:
        columns = {name: [value] for name, value in doc.items()}
        [result] = results(metric_reward, replies[:1], columns, raw=True)
        figures = {k: float(v) for k, v in result.figures.items() if v is not None}
        return {**figures, "failed": float(result.failure is not None)}

    return process


@cache
def _settings_scorer() -> Scorer:
    return document_scorer()


def process_results(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, float]:
    """The same with the reward of ``POSH_REWARD_SETTINGS``, or ``PoshReward()``."""
    return _settings_scorer()(doc, replies)
