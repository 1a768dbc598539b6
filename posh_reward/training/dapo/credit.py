"""Span credit: what the judge thought of each detail lands on the tokens that say it.

A completion's advantage A is one number: all of its tokens are pushed the same way, those of a
truthful detail and those of an invented one. POSH grades each detail of a generation and knows its
characters, so each token t gets A + strength * c(t): c is how much better (at most 1) or worse (at
least -1) the details said by t were graded than the completion's other details. Recall has no
place in the generation, so it stays in A alone.

The c of a completion sum to 0, so its mean advantage is A: credit does not make longer or shorter
completions pay more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from operator import eq
from statistics import fmean
from typing import TYPE_CHECKING, Any

from posh_reward.errors import ConfigError
from posh_reward.reward.texts import unjoined
from posh_reward.types import HIGHEST_GRADE, LOWEST_GRADE, Scores, Span

if TYPE_CHECKING:
    from trl import GRPOTrainer

Decode = Callable[[Sequence[int]], str]
"""Ids to text, special tokens skipped."""

UNFINISHED = "\ufffd"
"""What a decoder writes for bytes that are not yet, or never will be, a character."""

LOSSES = ("dapo", "grpo", "bnpo", "dr_grpo")
"""TRL's losses in which a token's advantage acts on that token alone."""


def credits(ids: Sequence[int], scores: Scores, decode: Decode) -> list[float] | None:
    """How much better or worse than the others each token of a completion was graded: c above.

    Args:
        ids: the completion's tokens, without padding.
        scores: of the text that they decode to, stripped.
        decode: the tokenizer's.

    Returns:
        One value a token, in [-1, 1], which sum to 0; None if there are no scores, or only of
        another text.
    """
    if scores.failure is not None:
        return None
    text = unjoined(decode(ids))  # as the reward scores it; places stay the same
    start = text.rfind(scores.generation)  # the answer is what comes last, after any thoughts
    if start < 0:
        return None
    qualities = token_qualities(token_spans(ids, decode), graded_spans(scores, start), text)
    return centred(qualities)


def graded_spans(scores: Scores, start: int) -> list[tuple[Span, float]]:
    """Where each detail is said, and how well it was graded, 0 (absent) to 1 (explicit).

    Args:
        scores: of a generation.
        start: of the generation in the text that the spans are to point into.
    """
    return [
        ((start + first, start + end), quality(element.grade))
        for element in scores.elements
        if element.direction == "precision" and element.grade is not None
        for first, end in element.spans
    ]


def quality(grade: float) -> float:
    """A grade of 1-5 as 0-1."""
    return (grade - LOWEST_GRADE) / (HIGHEST_GRADE - LOWEST_GRADE)


def token_qualities(
    tokens: Sequence[Span], details: Sequence[tuple[Span, float]], text: str
) -> list[float | None]:
    """Mean quality of the details that each token says some of; None where it says none.

    White space around a token's text does not count, so a token of white space says nothing.
    """
    return [
        fmean(found) if (found := list(_said(_trimmed(token, text), details))) else None
        for token in tokens
    ]


def _said(token: Span, details: Sequence[tuple[Span, float]]) -> Iterator[float]:
    first, end = token
    return (value for (begin, stop), value in details if max(first, begin) < min(end, stop))


def _trimmed(span: Span, text: str) -> Span:
    """A span without the white space at its ends; empty if there is nothing else."""
    said = text[slice(*span)]
    first = span[0] + len(said) - len(said.lstrip())
    return first, first + len(said.strip())


def centred(qualities: Sequence[float | None]) -> list[float]:
    """Qualities minus their mean; 0 where there is none."""
    known = [value for value in qualities if value is not None]
    mean = fmean(known) if known else 0.0
    return [0.0 if value is None else value - mean for value in qualities]


def token_spans(ids: Sequence[int], decode: Decode) -> list[Span]:
    """The characters of ``decode(ids)`` that each token contributes to.

    A special token has an empty span. Each token of a character that is split over several has
    that character.

    The text of a token can depend on its neighbours, so it is read off the decoded text as it
    grows. What is settled is not decoded again, unless the tokenizer decodes a part differently
    from the whole (SentencePiece drops a leading space).
    """
    text = decode(ids)
    spans = list(_growing(ids, decode, text, settles=True))
    whole = max((end for _, end in spans), default=0) == len(text)
    return spans if whole else list(_growing(ids, decode, text, settles=False))


def _growing(ids: Sequence[int], decode: Decode, text: str, *, settles: bool) -> Iterator[Span]:
    anchor = settled = 0  # the tokens before ``anchor`` are the first ``settled`` characters
    start = 0
    for index in range(len(ids)):
        piece = decode(ids[anchor : index + 1])
        end = min(settled + len(piece), len(text))
        yield min(start, end), end
        said = text[settled:end]
        start = settled + sum(takewhile(bool, map(eq, piece, said)))
        if settles and piece == said and not piece.endswith(UNFINISHED):
            anchor, settled = index + 1, end


def check_settings(span_credit: float, args: Any) -> None:
    """Checks span credit against a trainer's settings.

    Args:
        span_credit: its size; 0 is off.
        args: the settings, or a trainer with them.

    Raises:
        ConfigError: it is negative, or a setting takes a completion's advantage for one number.
    """
    if span_credit < 0:
        raise ConfigError(f"span_credit is {span_credit:g}: give 0 (off) or more")
    if not span_credit:
        return
    if args.off_policy_mask_threshold is not None:
        raise ConfigError(
            "span credit does not go with off_policy_mask_threshold, which keeps or drops whole "
            "completions by the sign of their advantage: unset one of the two"
        )
    if args.loss_type not in LOSSES:
        raise ConfigError(
            f"span credit is not tested with loss_type {args.loss_type!r}: choose one of "
            f"{', '.join(LOSSES)}, or leave it off"
        )


def check_credit(trainer: GRPOTrainer, observed: Sequence[object]) -> None:
    """Checks that tokens of a trainer can have advantages of their own.

    Args:
        trainer: with its settings.
        observed: what tells the scores behind its rewards.

    Raises:
        ConfigError: a setting takes a completion's advantage for one number, or no reward function
            tells its scores.
    """
    check_settings(1.0, trainer)
    if not observed:
        raise ConfigError(
            "span credit needs the scores behind a reward, and no reward function tells them: use "
            "PoshReward, or name one as scored_by"
        )
