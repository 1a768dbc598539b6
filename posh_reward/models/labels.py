"""Next-token probabilities -> verdicts (paper, section 3, step 2)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from posh_reward.errors import InputError
from posh_reward.types import Failure, Verdict

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LabelReading = Literal["labels", "top-20"]
"""labels: the probability of every label, however small. top-20: the released code's reading, only
the twenty likeliest tokens, where any token that contains a digit counts for that digit (``says``);
with no label among them, the reply counts as the lowest label and is marked as unparsed."""

TOP = 20  # tokens read by top-20

NOT_NUMBERS = Failure("reply", "the model gave probabilities that are not numbers")
NO_LABEL = Failure("reply", "the model gave no label any probability")

DOUBTFUL = 0.5  # a reply is doubtful if the labels' total probability is below this
LONGEST_TOKEN = 8  # characters of a label's token at most, with the marks that tokenizers add


def check_reading(reading: str) -> None:
    """Raise ``InputError`` unless ``reading`` is a ``LabelReading``."""
    if reading not in (readings := get_args(LabelReading)):
        raise InputError(f"unknown reading {reading!r}: choose one of {', '.join(readings)}")


def label_tokens(
    tokenizer: PreTrainedTokenizerBase, labels: Sequence[str], reading: LabelReading = "labels"
) -> tuple[tuple[int, ...], ...]:
    """For each label, the ids of all tokens that count for it (``says``).

    ``"1"`` may occur alone, after a space (``"Ġ1"``, ``"▁1"``) and as a byte (``"<0x31>"``).
    """
    ids: dict[str, list[int]] = {label: [] for label in labels}
    for token, index in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        likely = len(token) <= LONGEST_TOKEN or reading == "top-20"
        if likely and any(label in token for label in labels):
            text = tokenizer.decode([index])
            for label in ids:
                if says(text, label, reading):
                    ids[label].append(index)
    return tuple(tuple(ids[label]) for label in labels)


def says(token: str, label: str, reading: LabelReading) -> bool:
    """True if a token's text counts for a label: it is the label, up to surrounding whitespace.

    The released code counts every token that *contains* a digit, once for each of its digits: "10"
    and "15" both count for 1, and "15" also for 5. So does ``top-20``, for one-digit labels.
    """
    if reading == "top-20" and len(label) == 1 and label.isdigit():
        return label in token
    return token.strip() == label


def no_token(labels: Sequence[str], tokens: Sequence[Sequence[int]]) -> Failure | None:
    """Return a failure if ``label_tokens`` found no token for some label."""
    missing = [label for label, ids in zip(labels, tokens, strict=True) if not ids]
    if not missing:
        return None
    return Failure("prompt", f"the model has no single token for the label {missing[0]!r}")


def verdict(masses: Sequence[float], reading: LabelReading = "labels") -> Verdict:
    """The verdict for these label probabilities, renormalised."""
    if not all(0 <= each <= 2 for each in masses):  # refuses NaN, too; above 1 may be rounding
        return Verdict(None, NOT_NUMBERS)
    mass = math.fsum(masses)
    if mass > 0:
        return Verdict(tuple(each / mass for each in masses), mass=min(mass, 1.0))
    if reading == "top-20":
        lowest = (1.0, *(0.0 for _ in masses[1:]))
        return Verdict(lowest, unparsed=True, mass=0.0)
    return Verdict(None, NO_LABEL)


def not_grades(doubtful: float) -> str | None:
    """Give the reason why replies are no judgments, with the remedy; None if most are."""
    if doubtful <= 0.5:
        return None
    return (
        f"does not answer with a grade: in {doubtful:.0%} of its replies the labels have less than "
        "half of the probability, as if it wanted to think first, or to chat. Turn thinking off at "
        "its server (llama-server --reasoning off; vllm serve --default-chat-template-kwargs "
        "'{\"enable_thinking\": false}'), or choose a larger, instruction-tuned model"
    )


def distribution(verdict: Verdict) -> tuple[float, ...] | Failure:
    """The probabilities of the labels; a failure if the reply contained no label.

    ``top-20`` turns such a reply into the lowest label with certainty. POSH follows the release in
    that; other metrics must not mistake a missing answer for a certain one.
    """
    if verdict.probabilities is None:
        return verdict.failure or NO_LABEL
    return NO_LABEL if verdict.unparsed else verdict.probabilities


def label_masses(
    log_probabilities: Mapping[int, float], tokens: Sequence[Collection[int]]
) -> list[float]:
    """Probability of each label: the sum over its tokens; missing tokens count as 0."""
    return [
        math.fsum(math.exp(log_probabilities[i]) for i in ids if i in log_probabilities)
        for ids in tokens
    ]
