"""The image as second witness: it is asked about what the reference does not support.

A detail may be true and missing from the reference: POSH then calls it a mistake. The larger of the
two grades counts, as in PROVE's truthfulness. First come entities, then attributes and relations of
what either witness shows, also of entities that the reference lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from posh_reward.errors import InputError
from posh_reward.metrics.posh.asking import Asking, answered
from posh_reward.metrics.posh.claims import Claim
from posh_reward.metrics.posh.questions import PRESENT
from posh_reward.metrics.posh.search import Knowledge
from posh_reward.types import HIGHEST_GRADE, LOWEST_GRADE, PromptImage, Question

SUPPORTED = 3.0
"""An element is asked of the image when the reference's grade is below this. In POSH's guide 2 is
a weak hint and 3 is partial: below 3 the reference at most hints at it."""


class Look(NamedTuple):
    """Which image is asked, and about what."""

    image: PromptImage
    below: float = SUPPORTED
    """The reference's grade below which an element is asked of the image."""


def check_supported(grade: float) -> float:
    """Returns ``grade`` if it can be the one from which on the image is not asked.

    Raises:
        InputError: it cannot.
    """
    if not LOWEST_GRADE < grade <= HIGHEST_GRADE:
        raise InputError(f"supported is {grade}: give a grade above 1, up to 5")
    return grade


def look_at(look: Look, known: Knowledge, claims: Sequence[Claim]) -> Asking[None]:
    """Asks the image about the claims that the other text does not support.

    Args:
        look: the image.
        known: what the three passes have found out.
        claims: all elements, with the other text's grades; their grades are raised in place.
    """
    entities = [claim for claim in claims if claim.kind == "entity"]
    yield from _ask(look, known, [each for each in entities if each.below(look.below)], 4)
    absent = {each.ends[0] for each in entities if each.grade is None or each.below(PRESENT)}
    yield from _ask(
        look,
        known,
        [
            each
            for each in claims
            if each.kind != "entity" and each.below(look.below) and absent.isdisjoint(each.ends)
        ],
        5,
    )


def _ask(look: Look, known: Knowledge, claims: Sequence[Claim], number: int) -> Asking[None]:
    """One pass: puts a question about each claim to the image, and hears the answers."""
    asked = [_question(look, known, claim) for claim in claims]
    verdicts = yield from answered((number, 0), asked)
    for claim, verdict in zip(claims, verdicts, strict=True):
        claim.see(verdict)
        known.unparsed += verdict.unparsed


def _question(look: Look, known: Knowledge, claim: Claim) -> Question:
    first, *others = claim.ends
    return known.question(
        claim.kind,
        first,
        claim.identifier,
        None if claim.kind == "entity" else claim.text,
        claim.other,
        others[0] if others else None,
        image=look.image,
    )
