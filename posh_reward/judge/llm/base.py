"""What a language model is to a judge. Implementations are named in ``judge/load.py``.

The one protocol below ``Judge``: who renders prompts, asks each once and remembers answers
(``PromptJudge``) does not know where the model runs, and a model knows nothing of scene graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from posh_reward.judge.render import Prompt
from posh_reward.types import Rewrite, Usage, Verdict


class Model(Protocol):
    """Answers user messages, thinking off. One bad prompt never spoils its neighbours."""

    @property
    def name(self) -> str:
        """Model, revision and whatever else its answers depend on, for signatures and stores."""
        ...

    @property
    def usage(self) -> Usage:
        """A running total. Models count tokens; the judge above counts the rest."""
        ...

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        """The distribution of each prompt's next token over the labels, renormalised.

        Args:
            prompts: distinct; those with equal prefixes stand together.
            labels: one short text each, such as ``"1"``.

        Returns:
            One verdict per prompt, in order; a failure is a verdict with its reason.
        """
        ...

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Rewrite]:
        """The greedy reply to each prompt, in order, stripped; cut at ``max_tokens``."""
        ...

    def sleep(self) -> None:
        """Give back what can be given back between batches (GPU memory)."""
        ...

    def wake(self) -> None:
        """Get ready for a batch; undoes ``sleep``. The first call loads the model.

        Raises:
            JudgeError: it cannot work at all; the message names what is missing or too big.
        """
        ...

    def close(self) -> None:
        """Release everything; the model is not used again."""
        ...
