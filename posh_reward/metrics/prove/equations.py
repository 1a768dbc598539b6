"""The paper's two equations (section 3.2) over one response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum

from posh_reward.metrics.prove.likeness import Likeness
from posh_reward.metrics.prove.records import Claim, ProveScores, Tuple, Wanted
from posh_reward.metrics.prove.tuples import without
from posh_reward.types import Failure, PromptImage

Read = tuple[Tuple, ...] | Failure
"""The tuples of a text."""

NOTHING_NEW = Failure("text", "the answer says nothing that the question does not")
NO_CLAIM = Failure("text", "the response makes no claim")
NO_WITNESS = Failure("text", "there is no caption to compare the response with")


@dataclass(frozen=True, slots=True)
class Item:
    """One response with what it is measured by."""

    response: Read
    answer: Read
    question: Read
    caption: Read
    image: PromptImage | Failure | None
    """None: nobody looks."""

    def tuples(self) -> list[Tuple]:
        """All tuples of all texts."""
        texts = (self.response, self.answer, self.question, self.caption)
        return [each for read in texts for each in _of(read)]


def _of(read: Read) -> tuple[Tuple, ...]:
    return () if isinstance(read, Failure) else read


def wanted_of(item: Item, likeness: Likeness) -> tuple[Wanted, ...]:
    """Each tuple of g(A) - g(Q), with the closest one of the response (eq. 1)."""
    new = without(_of(item.answer), _of(item.question))
    return tuple(
        Wanted(each, found.similarity, found.tuple) if found else Wanted(each, 0.0, None)
        for each, found in zip(new, likeness.closest(new, _of(item.response)), strict=True)
    )


def claims_of(item: Item, likeness: Likeness) -> tuple[Claim, ...]:
    """Each tuple of the response, with the closest one of the caption (eq. 2)."""
    claimed = _of(item.response)
    return tuple(
        Claim(each, found.similarity, "caption", found.tuple, found.similarity)
        if found
        else Claim(each, None, None, None, None)
        for each, found in zip(claimed, likeness.closest(claimed, _of(item.caption)), strict=True)
    )


def needs_image(claim: Claim) -> bool:
    """Whether the image can bear a claim out better than the caption does."""
    return claim.caption is None or claim.caption < 1


def judged(claim: Claim, found: float | Failure) -> Claim:
    """A claim of which a judge has said how probably the image shows it."""
    if isinstance(found, Failure):  # the caption's similarity is only a lower bound
        return replace(claim, score=None, witness=None, failure=found)
    if claim.caption is not None and claim.caption >= found:
        return replace(claim, image=found)
    return replace(claim, score=found, witness="picture", image=found)


def scores_of(
    item: Item, wanted: Sequence[Wanted], claims: Sequence[Claim], signature: str
) -> ProveScores:
    """Both means, each with its reason if there is none."""
    unhelpful, untrue = why_no_helpfulness(item, wanted), why_no_truthfulness(item, claims)
    return ProveScores(
        helpfulness=None if unhelpful else fsum(each.score for each in wanted) / len(wanted),
        truthfulness=None if untrue else fsum(each.score or 0 for each in claims) / len(claims),
        signature=signature,
        wanted=tuple(wanted),
        claims=tuple(claims),
        failure=unhelpful or untrue,
    )


def why_no_helpfulness(item: Item, wanted: Sequence[Wanted]) -> Failure | None:
    """Why eq. 1 has no value. An empty response has one, 0: it recovers nothing."""
    for read in (item.response, item.answer, item.question):
        if isinstance(read, Failure):
            return read
    return None if wanted else NOTHING_NEW


def why_no_truthfulness(item: Item, claims: Sequence[Claim]) -> Failure | None:
    """Why eq. 2 has no value: an empty response is neither true nor false."""
    for read in (item.response, item.caption):
        if isinstance(read, Failure):
            return read
    if not claims:
        return NO_CLAIM
    if not item.caption and item.image is None:
        return NO_WITNESS
    return next((claim.failure for claim in claims if claim.failure), None)
