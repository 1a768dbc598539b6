"""What a prompt is, and what answers it. Implementations are named in ``models/load.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from posh_reward.types import Picture, Reply, Usage, Verdict


class Prompt(NamedTuple):
    """A user message in two parts: what many questions share, and what is this one's own.

    Prompts sort by what they share first. Those about one pair hold one and the same prefix, so
    that thousands are hashed and compared without reading the descriptions each time. Two prompts
    with the same words and different pictures are different prompts.
    """

    prefix: str
    suffix: str
    pictures: tuple[Picture, ...] = ()
    """Shown before the text, in this order."""

    @property
    def text(self) -> str:
        """The message as one string."""
        return self.prefix + self.suffix

    @property
    def key(self) -> str:
        """What an answer is stored under: the text, and the digests of the pictures if any."""
        return "\0".join((self.text, *(picture.digest for picture in self.pictures)))


class Model(Protocol):
    """Answers user messages, thinking off. One bad prompt never spoils its neighbours."""

    sees: bool
    """Whether it takes prompts with pictures."""

    @property
    def name(self) -> str:
        """Model, revision and whatever else its answers depend on, for signatures and stores."""
        ...

    @property
    def usage(self) -> Usage:
        """A running total. Models count tokens; ``models.ask`` counts the rest."""
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

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
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
