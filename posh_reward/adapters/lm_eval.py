"""lm-evaluation-harness: figures of each document that could be judged.

::

    # posh.py, next to the task
    from posh_reward.adapters.lm_eval import process_results

    # captions.yaml
    output_type: generate_until
    doc_to_target: reference
    process_results: !function posh.process_results
    metric_list:
      - {metric: posh_f1, aggregation: mean, higher_is_better: true}
      - {metric: failed, aggregation: mean, higher_is_better: false}

The harness scores documents one by one, so a language-model judge gets one at a time.
``document_scorer`` takes another reward.
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
    """Make a task's ``process_results``.

    Args:
        reward: as for ``reward_of``; its metric scores replies unchanged.

    Returns:
        A function: document and replies -> figures, and ``failed`` (0 or 1). A failed document has
        no figures, so the harness's means leave it out.
    """
    metric_reward = reward_of(reward)

    def process(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, float]:
        columns = {name: [value] for name, value in doc.items()}
        [result] = results(metric_reward, replies[:1], columns, raw=True)
        figures = {k: float(v) for k, v in result.figures.items() if v is not None}
        return {**figures, "failed": float(result.failure is not None)}

    return process


_cached_scorer = cache(document_scorer)


def process_results(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, float]:
    """Score a document by the reward of ``POSH_REWARD_SETTINGS``, or ``PoshReward()``."""
    return _cached_scorer()(doc, replies)
