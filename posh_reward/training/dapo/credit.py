"""Span credit: the grade of each detail lands on the tokens that say it.

A completion's advantage A is one number, which pushes the tokens of a true detail and those of an
invented one the same way. POSH grades each detail and knows its characters, so token t gets
A + strength * c(t), where c, in [-1, 1], is the grade of the details said by t less that of the
completion's other details. Recall has no place in the generation: it stays in A alone.

The c of a completion sum to 0, so its mean advantage is A: credit pays neither longer nor shorter
completions.
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

Decode = Callable[[Sequence[int]], str]  # ids to text, special tokens skipped

UNFINISHED = "\ufffd"  # a decoder's sign for bytes that are not yet, or never will be, a character

LOSSES = ("dapo", "grpo", "bnpo", "dr_grpo")
"""TRL's losses in which a token's advantage acts on that token alone."""


def credits(ids: Sequence[int], scores: Scores, decode: Decode) -> list[float] | None:
    """Return the credit of each token of a completion: c above.

    Args:
        ids: the completion's tokens, without padding.
        scores: of the text that they decode to, stripped.
        decode: the tokenizer's.

    Returns:
        Values in [-1, 1] that sum to 0, shape (tokens,); None without scores of this text.
    """
    if scores.failure is not None:
        return None
    text = unjoined(decode(ids))  # as the reward scores it; places stay the same
    start = text.rfind(scores.generation)  # the answer is what comes last, after any thoughts
    if start < 0:
        return None
    # Both in characters of the decoded text: tokens and details have nothing else in common.
    qualities = token_qualities(token_spans(ids, decode), graded_spans(scores, start), text)
    return centre(qualities)


def graded_spans(scores: Scores, start: int) -> list[tuple[Span, float]]:
    """Return span and quality, 0 (absent) to 1 (explicit), of each detail, shifted by ``start``."""
    return [
        ((start + first, start + end), quality(element.grade))
        for element in scores.elements
        if element.direction == "precision" and element.grade is not None
        for first, end in element.spans
    ]


def quality(grade: float) -> float:
    """Scale a grade of 1-5 to 0-1."""
    return (grade - LOWEST_GRADE) / (HIGHEST_GRADE - LOWEST_GRADE)


def token_qualities(
    tokens: Sequence[Span], details: Sequence[tuple[Span, float]], text: str
) -> list[float | None]:
    """Return the mean quality of the details that each token overlaps; None where there is none."""
    # Tokens begin with the space before their word: trimmed, or a word would get credit for its
    # neighbour, and a token of white space for both.
    return [
        fmean(values) if (values := list(_overlapping(_trim(token, text), details))) else None
        for token in tokens
    ]


def _overlapping(token: Span, details: Sequence[tuple[Span, float]]) -> Iterator[float]:
    first, end = token
    return (value for (begin, stop), value in details if max(first, begin) < min(end, stop))


def _trim(span: Span, text: str) -> Span:
    part = text[slice(*span)]
    first = span[0] + len(part) - len(part.lstrip())
    return first, first + len(part.strip())  # empty for white space


def centre(qualities: Sequence[float | None]) -> list[float]:
    """Subtract the mean of the qualities there are; 0 where there is none."""
    # Tokens of no detail ("the", "and") stay out of the mean: counted as 0, they would lift every
    # detail above it.
    values = [value for value in qualities if value is not None]
    mean = fmean(values) if values else 0.0
    return [0.0 if value is None else value - mean for value in qualities]


def token_spans(ids: Sequence[int], decode: Decode) -> list[Span]:
    """Return the characters of ``decode(ids)`` that each token contributes to, shape (tokens, 2).

    A special token has an empty span. A character that is split over tokens belongs to each.
    """
    # A token's text can depend on its neighbours, so it is read off the decoded text as it grows.
    # Settled text is not decoded again (linear, not quadratic), unless the tokenizer decodes a
    # part differently from the whole: SentencePiece drops a leading space.
    text = decode(ids)
    spans = list(_growing(ids, decode, text, settles=True))
    whole = max((end for _, end in spans), default=0) == len(text)
    return spans if whole else list(_growing(ids, decode, text, settles=False))


def _growing(ids: Sequence[int], decode: Decode, text: str, *, settles: bool) -> Iterator[Span]:
    anchor = offset = 0  # the tokens before ``anchor`` are the first ``offset`` characters
    start = 0
    for index in range(len(ids)):
        piece = decode(ids[anchor : index + 1])
        end = min(offset + len(piece), len(text))
        yield min(start, end), end
        final = text[offset:end]
        # The next token starts where this piece stops agreeing with the final text: before a
        # character whose bytes are not complete yet.
        start = offset + sum(takewhile(bool, map(eq, piece, final)))
        if settles and piece == final and not piece.endswith(UNFINISHED):
            anchor, offset = index + 1, end


def check_settings(span_credit: float, args: Any) -> None:
    """Check span credit, 0 for off, against the settings of a trainer.

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


def check_credit(trainer: GRPOTrainer, sources: Sequence[object]) -> None:
    """Check that a trainer's tokens can have advantages of their own, by scores of ``sources``.

    Raises:
        ConfigError: a setting takes a completion's advantage for one number, or no reward function
            tells its scores.
    """
    check_settings(1.0, trainer)
    if not sources:
        raise ConfigError(
            "span credit needs the scores behind a reward, and no reward function tells them: use "
            "PoshReward, or name one as scored_by"
        )
