"""inspect_ai: a scorer; samples without a score are left out and counted.

::

    from posh_reward.adapters.inspect_ai import text_scorer

    Task(dataset=[Sample(input=..., target=reference)], solver=generate(), scorer=text_scorer())
"""

from __future__ import annotations

from typing import Any

from posh_reward.adapters.completion_results import AnyReward, SampleRewards, framework

with framework("inspect-ai==0.3.285"):
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import TaskState


@scorer(metrics={"*": [mean(), stderr()]})  # type: ignore[untyped-decorator]
def text_scorer(reward: AnyReward | str | None = None) -> Scorer:
    """Score outputs unchanged; samples of an epoch are scored together.

    A score's value has the metric's figures (``posh_f1``, ...); its metadata has the signature and
    the graded elements with their spans in the output.

    Args:
        reward: as for ``reward_of``; inspect logs its name. The target is the reference (several
            form one text); other columns, such as ``image``, are read from a sample's metadata.
    """
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
