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
"""labels: the probability of every label is read, however small. top-20: as the release reads,
only among the twenty likeliest tokens, of which any that contains a digit counts for it (``says``);
with no label among them the reply counts as the lowest label and is marked as unparsed."""

TOP = 20  # tokens that top-20 reads

NOT_NUMBERS = Failure("reply", "the model gave probabilities that are not numbers")
NO_LABEL = Failure("reply", "the model gave no label any probability")

LONGEST_TOKEN = 8
"""A token with more characters is not a label, even with the marks that tokenizers add."""


def check_reading(reading: str) -> None:
    """Refuse what is not a ``LabelReading``.

    Raises:
        InputError: the message lists them all.
    """
    if reading not in get_args(LabelReading):
        raise InputError(
            f"no reading {reading!r}: choose one of {', '.join(get_args(LabelReading))}"
        )


def label_tokens(
    tokenizer: PreTrainedTokenizerBase, labels: Sequence[str], reading: LabelReading = "labels"
) -> tuple[tuple[int, ...], ...]:
    """Ids, for each label, of all tokens that say it under a reading (``says``).

    ``"1"`` may be there as itself, with a blank (``"Ġ1"``, ``"▁1"``) and as a byte (``"<0x31>"``).
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
    """True if a token's text counts for a label: it is the label, blanks around it or not.

    The release counts every token that *contains* a digit, once for each of its digits: "10" and
    "15" are both a 1, and "15" is a 5, too. So does ``top-20``, for labels of one digit.
    """
    if reading == "top-20" and len(label) == 1 and label.isdigit():
        return label in token
    return token.strip() == label


def no_token(labels: Sequence[str], tokens: Sequence[Sequence[int]]) -> Failure | None:
    """A failure if a label is not a single token of the model, by ``label_tokens``."""
    missing = [label for label, ids in zip(labels, tokens, strict=True) if not ids]
    if not missing:
        return None
    return Failure("prompt", f"the model has no single token for the label {missing[0]!r}")


def verdict(masses: Sequence[float], reading: LabelReading = "labels") -> Verdict:
    """The verdict for a reply that was each label with these probabilities.

    Args:
        masses: one per label, 0 where it was not read, summing to at most 1.
        reading: what it means if all are 0.
    """
    if not all(0 <= each <= 2 for each in masses):  # nor is NaN; more than 1 may be rounding
        return Verdict(None, NOT_NUMBERS)
    mass = math.fsum(masses)
    if mass > 0:
        return Verdict(tuple(each / mass for each in masses), mass=min(mass, 1.0))
    if reading == "top-20":
        lowest = (1.0, *(0.0 for _ in masses[1:]))
        return Verdict(lowest, unparsed=True, mass=0.0)
    return Verdict(None, NO_LABEL)


def distribution(verdict: Verdict) -> tuple[float, ...] | Failure:
    """The probabilities of the labels; a failure if the reply held none.

    ``top-20`` is sure that such a reply is the lowest label. POSH keeps to that, as released;
    whoever else asks would take silence for a sure answer.
    """
    if verdict.probabilities is None:
        return verdict.failure or NO_LABEL
    return NO_LABEL if verdict.unparsed else verdict.probabilities


def label_masses(
    log_probabilities: Mapping[int, float], tokens: Sequence[Collection[int]]
) -> list[float]:
    """Probability of each label: that of its tokens, added up; a missing token has none."""
    return [
        math.fsum(math.exp(log_probabilities[i]) for i in ids if i in log_probabilities)
        for ids in tokens
    ]
