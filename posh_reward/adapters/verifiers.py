"""verifiers and prime-rl: tasks whose replies are descriptions.

::

    import verifiers.v1 as vf
    from posh_reward.adapters.verifiers import DescriptionData, DescriptionTask

    class Captions(vf.Taskset[DescriptionTask]):
        def load(self):
            for row in rows:
                data = DescriptionData(prompt="Describe the image.", reference=row["reference"])
                yield DescriptionTask(data)

If scoring raises, the trace counts as failed, and prime-rl leaves it out of its group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from posh_reward.adapters.completion_results import AnyReward, SampleRewards, framework

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
    _own: ClassVar[SampleRewards]

    @classmethod
    def sample_rewards(cls) -> SampleRewards:
        """Return the rewards that all tasks of this class share."""
        if "_own" not in vars(cls):
            cls._own = SampleRewards(cls.reward)
        return cls._own

    @vf.reward  # type: ignore[untyped-decorator]
    async def description(self, trace: vf.Trace) -> Mapping[str, float]:
        """Return the reward by its name; record sub-scores and elements in the trace.

        Raises:
            JudgeError: the reply could not be judged.
        """
        rewards = type(self).sample_rewards()
        columns: dict[str, Any] = dict(self.data)
        columns[rewards.reference_column] = self.data.reference
        result = await rewards.call_async(trace.last_reply, **columns)
        number = rewards.number(result)
        trace.record_metrics({k: v for k, v in result.figures.items() if v is not None})
        trace.info[f"{rewards.reward.metric.name}_elements"] = result.elements
        return {rewards.reward.__name__: number}
