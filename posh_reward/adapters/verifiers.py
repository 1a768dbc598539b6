"""verifiers and prime-rl: tasks whose replies are descriptions.

If scoring raises, the trace counts as failed, and prime-rl leaves it out of its group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from posh_reward.adapters.completion_results import (
    AnyReward,
    CompletionResult,
    framework,
    shared_rewards,
)
from posh_reward.types import WORST_SCORE

with framework("verifiers==0.4.0"):
    import verifiers.v1 as vf


class DescriptionData(vf.TaskData):  # type: ignore[misc]
    """A prompt and its reference; other fields are columns, too."""

    reference: str | None = None


class DescriptionTask(vf.Task[DescriptionData]):  # type: ignore[misc]
    """Task rewarded for its reply; subclass it for tools, or another reward.

    Traces of a process that end together are scored together.
    """

    reward: ClassVar[AnyReward | str | None] = None
    """As for ``reward_of``."""

    async def _score_reply(self, text: str | None) -> CompletionResult:
        rewards = shared_rewards(self.reward)
        columns: dict[str, Any] = dict(self.data)
        columns[rewards.reference_column] = self.data.reference
        return await rewards.call_async(text, **columns)

    async def validate(self, runtime: Any) -> bool:
        """Check that the reference would be rewarded as a description (``vf-validate``)."""
        result = await self._score_reply(self.data.reference)
        return shared_rewards(self.reward).number(result) > WORST_SCORE

    @vf.reward  # type: ignore[untyped-decorator]
    async def description(self, trace: vf.Trace) -> Mapping[str, float]:
        """Return the reward by its name; record sub-scores and elements in the trace.

        Raises:
            JudgeError: the reply could not be judged.
        """
        rewards = shared_rewards(self.reward)
        result = await self._score_reply(trace.last_reply)
        number = rewards.number(result)
        trace.record_metrics({k: v for k, v in result.figures.items() if v is not None})
        trace.info[f"{rewards.reward.metric.name}_elements"] = result.elements
        return {rewards.reward.__name__: number}
