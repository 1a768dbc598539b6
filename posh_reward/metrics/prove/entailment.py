"""Does the picture show it? The paper's p(I |= t') (eq. 2), by a model that sees."""

from __future__ import annotations

from collections.abc import Sequence

from posh_reward.errors import InputError
from posh_reward.metrics.prove.asking import chosen, prompted
from posh_reward.metrics.prove.records import Tuple
from posh_reward.models.ask import Asker
from posh_reward.types import Failure, Picture, Verdict

LABELS = ("no", "yes")
NO_REASON = Failure("reply", "the judge gave no probability")


class Entailment:
    """Asks a model whether pictures show what is said of them.

    The paper uses OFA, fine-tuned for visual entailment; here it is the probability of "yes" as
    opposed to "no" by any model that sees.

    Args:
        asker: asks the model.

    Raises:
        InputError: the model does not take pictures.
    """

    def __init__(self, asker: Asker) -> None:
        if not asker.model.sees:
            raise InputError(
                f"{asker.model.name} does not take pictures: entailment needs a model that sees"
            )
        self.asker = asker

    def probabilities(
        self, asked: Sequence[tuple[str, Picture | Failure]]
    ) -> list[float | Failure]:
        """The probability that each statement is true of its picture, in order.

        Args:
            asked: statements with pictures; one that could not be read is its own answer.
        """
        prompts = [
            prompted("entailment", {"statement": text}, (picture,))
            for text, picture in asked
            if isinstance(picture, Picture)
        ]
        verdicts = iter(chosen(self.asker, prompts, LABELS))
        return [
            picture if isinstance(picture, Failure) else _probability(next(verdicts))
            for _, picture in asked
        ]


def _probability(verdict: Verdict) -> float | Failure:
    if verdict.probabilities is None:
        return verdict.failure or NO_REASON
    return verdict.probabilities[LABELS.index("yes")]


def statement(parts: Tuple) -> str:
    """A tuple as a statement about a picture."""
    if len(parts) == 1:
        return f'the picture shows "{parts[0]}"'
    if len(parts) == 2:
        return f'"{parts[0]}" can be described as "{parts[1]}"'
    return f'"{parts[0]}" {parts[1]} "{parts[2]}"'
