"""Evaluators: inspect_ai, lighteval, lm-evaluation-harness, capevalkit. Texts stay unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from posh_reward.adapters.completion_results import (
    FAILED,
    AnyReward,
    SampleRewards,
    framework,
    results,
    reward_of,
)
from posh_reward.errors import JudgeError
from posh_reward.reward.trl import list_figure_names

if TYPE_CHECKING:
    from inspect_ai.scorer import Score, Scorer, Target
    from inspect_ai.solver import TaskState
    from lighteval.metrics.utils.metric_utils import SampleLevelMetricGrouping

DocumentScorer = Callable[[Mapping[str, Any], Sequence[str]], dict[str, float]]


def inspect_scorer(reward: AnyReward | str | None = None) -> Scorer:
    """Make a scorer for inspect_ai; it scores samples of an epoch together.

    A score's value has the metric's figures (``posh_f1``, ...); its metadata has the signature and
    the graded elements with their spans in the output. Samples without a score are left out.

    Args:
        reward: as for ``reward_of``; inspect logs its name. The target is the reference (several
            form one text); other columns, such as ``image``, are read from a sample's metadata.
    """
    with framework("inspect-ai==0.3.285"):
        from inspect_ai.scorer import Score, mean, scorer, stderr

    def text_scorer(reward: AnyReward | str | None = None) -> Scorer:
        rewards = SampleRewards(reward, raw=True)

        async def score(state: TaskState, target: Target) -> Score:
            text = state.output.completion
            columns: dict[str, Any] = {**state.metadata}
            columns[rewards.reference_column] = target[0] if len(target) == 1 else list(target)
            result = await rewards.call_async(text, **columns)
            metadata = {"elements": result.elements, "signature": rewards.reward.signature}
            if result.failure is not None:
                # An empty output is the model's fault, any other failure the grader's or text's.
                reason = "no_response" if not text.strip() else "grader_failed"
                return Score.unscored(
                    reason=reason, answer=text, explanation=str(result.failure), metadata=metadata
                )
            return Score(value={**result.figures}, answer=text, metadata=metadata)

        return score

    return scorer(metrics={"*": [mean(), stderr()]})(text_scorer)(reward)


def lighteval_metrics(reward: AnyReward | str | None = None) -> SampleLevelMetricGrouping:
    """Group a reward's figures, and ``failed``, as metrics for lighteval.

    ``Doc.choices[doc.gold_index]`` is the reference; other columns are read from ``Doc.specific``.
    Means are over replies that could be judged.
    """
    import numpy as np

    with framework("lighteval==0.13.0"):
        from lighteval.metrics.metrics_sample import SampleLevelComputation
        from lighteval.metrics.utils.metric_utils import SampleLevelMetricGrouping
        from lighteval.tasks.requests import SamplingMethod
    metric_reward = reward_of(reward)
    names = [*list_figure_names(metric_reward), FAILED]

    class TextFigures(SampleLevelComputation):  # type: ignore[misc]
        def compute(self, doc: Any, model_response: Any, **_: Any) -> dict[str, float]:
            golds = doc.get_golds()
            columns = {**(doc.specific or {}), "images": doc.images}
            columns[metric_reward.reference_column] = golds[0] if len(golds) == 1 else golds
            batch = {name: [value] for name, value in columns.items()}
            [result] = results(metric_reward, model_response.final_text[:1], batch, raw=True)
            return result.row

    return SampleLevelMetricGrouping(
        metric_name=names,
        higher_is_better={name: name != FAILED for name in names},
        category=SamplingMethod.GENERATIVE,
        sample_level_fn=TextFigures(),
        corpus_level_fn=dict.fromkeys(names, np.nanmean),
    )


def lm_eval_scorer(reward: AnyReward | str | None = None) -> DocumentScorer:
    """Make a task's ``process_results`` for lm-evaluation-harness (tested with 0.4.13).

    The harness scores documents one by one, so a language-model judge gets one at a time.

    Returns:
        A function: document and replies -> figures, and ``failed`` (0 or 1). A failed document has
        no figures, so the harness's means leave it out.
    """
    metric_reward = reward_of(reward)

    def process(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, float]:
        columns = {name: [value] for name, value in doc.items()}
        [result] = results(metric_reward, replies[:1], columns, raw=True)
        figures = {}
        for name, value in result.figures.items():
            if value is not None:
                figures[name] = float(value)
        return {**figures, FAILED: float(result.failure is not None)}

    return process


_cached_scorer = cache(lm_eval_scorer)


def process_results(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, float]:
    """Score a document by the reward of ``POSH_REWARD_SETTINGS``, or ``PoshReward()``."""
    return _cached_scorer()(doc, replies)


def capeval_metric(
    reward: AnyReward | str | None = None, figure: str = "posh_f1", fallback: float | None = None
) -> Callable[[Sequence[Any]], dict[str, float]]:
    """Make a callable for ``capevalkit.api.evaluate_metric(metric=...)`` (tested with 0.1.3).

    Its correlations need a number for every sample.

    Args:
        reward: as for ``reward_of``; several references form one text.
        figure: a sub-score, such as ``posh_recall``.
        fallback: figure of a caption that could not be judged; otherwise ``JudgeError``.
    """
    metric_reward = reward_of(reward)

    def metric(samples: Sequence[Any]) -> dict[str, float]:
        columns = {
            metric_reward.reference_column: [each.references for each in samples],
            "image": [each.image for each in samples],
        }
        outcomes = results(metric_reward, [each.prediction for each in samples], columns, raw=True)
        figures = [each.figures[figure] for each in outcomes]
        lost = [each.failure for each in outcomes if each.failure]
        if lost and fallback is None:
            raise JudgeError(
                f"{len(lost)} captions could not be judged: {lost[0]}; name a fallback"
            )
        numbers = {}
        for sample, value in zip(samples, figures, strict=True):
            numbers[sample.id] = (fallback or 0.0) if value is None else value
        return numbers

    return metric
