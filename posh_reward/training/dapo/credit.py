"""Span credit: assign the grade of each detail to the tokens that express it.

A completion's advantage A is one number, which pushes the tokens of a true detail and those of an
invented one the same way. POSH grades each detail and knows its span of characters. So token t gets
A + strength * c(t), where c, in [-1, 1], is the mean quality of the details that t expresses minus
the mean over all such tokens. Omissions have no span in the generation: recall enters through A.

Over a completion c sums to 0, so the mean advantage stays A: credit favours neither longer nor
shorter completions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from operator import eq
from statistics import fmean
from typing import Any

from posh_reward.errors import ConfigError
from posh_reward.reward.texts import clean_output, without_thoughts
from posh_reward.types import HIGHEST_GRADE, LOWEST_GRADE, Scores, Span

Decode = Callable[[Sequence[int]], str]  # ids to text, special tokens skipped

REPLACEMENT_CHARACTER = "\ufffd"
"""Of a decoder, for bytes that are not a complete character."""
TOKEN_LOSSES = ("dapo", "grpo", "bnpo", "dr_grpo")
"""TRL's losses in which a token's advantage acts on that token alone."""


def compute_credits(ids: Sequence[int], scores: Scores, decode: Decode) -> list[float] | None:
    """Return the credit c of each token of a completion, (tokens,): in [-1, 1], with the sum 0.

    ``ids`` are without padding; ``scores`` are of the stripped text that they decode to. None
    without scores of this text. Of a true detail of 3 tokens and an invented one of 4, each of the
    3 gets 1 - 3/7 and each of the 4 gets 0 - 3/7.
    """
    if scores.failure is not None:
        return None
    text = decode(ids)
    answer = without_thoughts(text)
    # The answer comes last, after any reasoning.
    cleaned, places = clean_output(answer)
    start, within = text.rfind(answer), cleaned.find(scores.generation)
    if min(start, within) < 0:
        return None
    # Tokens and details meet in the characters of the decoded text. A detail's quality is its
    # grade, scaled to 0 (absent) to 1 (explicit).
    scale = HIGHEST_GRADE - LOWEST_GRADE
    details: list[tuple[Span, float]] = []
    for element in scores.elements:
        if element.direction == "precision" and element.grade is not None:
            quality = (element.grade - LOWEST_GRADE) / scale
            for first, end in element.spans:
                span = places[within + first], places[within + end - 1] + 1
                details.append(((start + span[0], start + span[1]), quality))
    spans = [_strip_span(span, text) for span in token_spans(ids, decode)]
    qualities = [_mean_quality(span, details) for span in spans]
    # Tokens without a detail ("the", "and") stay out of the mean: counted as 0, they would lift
    # every detail above it.
    present = [quality for quality in qualities if quality is not None]
    mean = fmean(present) if present else 0.0
    return [0.0 if quality is None else quality - mean for quality in qualities]


def _mean_quality(token: Span, details: Sequence[tuple[Span, float]]) -> float | None:
    """Average the qualities of the details that a token overlaps; None without any."""
    first, end = token
    values = [value for (begin, stop), value in details if max(first, begin) < min(end, stop)]
    return fmean(values) if values else None


def _strip_span(span: Span, text: str) -> Span:
    """Strip white space, such as the space before a token's word: it belongs to no detail."""
    part = text[slice(*span)]
    first = span[0] + len(part) - len(part.lstrip())
    return first, first + len(part.strip())  # empty for white space


def token_spans(ids: Sequence[int], decode: Decode) -> list[Span]:
    """Return the characters of ``decode(ids)`` that each token contributes to, shape (tokens, 2).

    A special token has an empty span. A character that is split over tokens belongs to each.
    """
    # A token's text can depend on its neighbours, so it is read off the decoded text as it grows.
    # Final text is not decoded again (linear, not quadratic), unless the tokenizer decodes a part
    # differently from the whole: SentencePiece drops a leading space.
    text = decode(ids)
    spans = list(_decode_spans(ids, decode, text, advances=True))
    complete = max((end for _, end in spans), default=0) == len(text)
    return spans if complete else list(_decode_spans(ids, decode, text, advances=False))


def _decode_spans(
    ids: Sequence[int], decode: Decode, text: str, *, advances: bool
) -> Iterator[Span]:
    anchor = offset = 0  # the tokens before ``anchor`` decode to the first ``offset`` characters
    start = 0
    for index in range(len(ids)):
        piece = decode(ids[anchor : index + 1])
        end = min(offset + len(piece), len(text))
        yield min(start, end), end
        final = text[offset:end]
        # The next token starts where this piece stops agreeing with the final text: before a
        # character whose bytes are incomplete.
        start = offset + sum(takewhile(bool, map(eq, piece, final)))
        if advances and piece == final and not piece.endswith(REPLACEMENT_CHARACTER):
            anchor, offset = index + 1, end


def check_span_credit(span_credit: float, args: Any) -> None:
    """Check span credit, 0 for off, against the settings of a trainer."""
    if span_credit < 0:
        raise ConfigError(f"span_credit is {span_credit:g}: use 0 (off) or more")
    if not span_credit:
        return
    for name, why, remedy in _find_conflicts(args):
        raise ConfigError(
            f"span credit does not work with {name} {getattr(args, name)!r}, {why}: {remedy}, or "
            "leave span credit off"
        )


def _find_conflicts(args: Any) -> Iterator[tuple[str, str, str]]:
    """Yield settings with which credit would do nothing or not what it promises, and remedies."""
    drops = "which drops single tokens, and the credits of the others do not sum to 0"
    if args.loss_type not in TOKEN_LOSSES:
        yield "loss_type", "which is not tested", f"use one of {', '.join(TOKEN_LOSSES)}"
    if args.importance_sampling_level != "token":
        why = "which gives a completion's tokens one ratio, so that their credits cancel out"
        yield "importance_sampling_level", why, "set it to token"
    if args.scale_rewards == "none":
        why = "which leaves advantages in units of the reward, not of a standard deviation of 1"
        yield "scale_rewards", why, "set it to group or batch"
    if args.off_policy_mask_threshold is not None:
        why = "which keeps or drops whole completions by the sign of their advantage"
        yield "off_policy_mask_threshold", why, "unset it"
    if args.top_entropy_quantile < 1:
        yield "top_entropy_quantile", drops, "set it to 1"
    corrects = args.use_vllm and args.vllm_importance_sampling_correction
    if corrects and args.vllm_importance_sampling_mode == "token_mask":
        yield "vllm_importance_sampling_mode", drops, "use another mode"
