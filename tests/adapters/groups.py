"""A group of completions, one of which cannot be judged, for the tests of every framework.

``REWARD`` is a module's, so that frameworks can load it by name in processes of their own.
"""

from collections.abc import Sequence

from posh_reward import PoSh, PoshReward, Scores
from posh_reward.embedded.judge.embedded_judge import EmbeddedJudge
from posh_reward.types import Failure, Question, Verdict

REFERENCE = "A tall woman in a red dress holds a basket."
TEXTS = [
    "A woman in a red dress.",
    "A tall woman in a red dress holds a basket.",
    "A robot in a green hat.",
    "A man with a dog.",
]
"""Siblings; the third fails."""
FAILED = 2
REASON = "the judge is gone"


class DyingJudge(EmbeddedJudge):
    """The embedded judge, except that it fails at every question about a text with a robot."""

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        verdicts = super().grade(questions)
        return [
            Verdict(None, Failure("engine", REASON))
            if "robot" in each.source.text + each.target.text
            else verdict
            for each, verdict in zip(questions, verdicts, strict=True)
        ]


METRIC = PoSh(DyingJudge())
REWARD = PoshReward(METRIC)


def scores() -> list[Scores]:
    """The scores of ``TEXTS`` by a direct call of the metric."""
    return METRIC.score(TEXTS, [REFERENCE] * len(TEXTS))


def rewards() -> list[float | None]:
    """Their rewards by a direct call of the reward."""
    return PoshReward(METRIC)(completions=TEXTS, reference=[REFERENCE] * len(TEXTS))
