"""Places: "the left" says nothing by itself; what counts is what stands there.

A side is confirmed if the target puts the things that stand there on the same side, and denied
if it puts them on the other.
"""

from __future__ import annotations

from posh_reward.metrics.posh.judges.embedded.attachment import BESIDE, SAME_SENTENCE
from posh_reward.metrics.posh.judges.embedded.likeness import conflict
from posh_reward.metrics.posh.judges.embedded.matching import Matching
from posh_reward.metrics.posh.judges.embedded.meaning import Term

OPEN = 0.5
"""Value of a place of which nothing that stands there can be found."""
SAME_PLACE = 0.7
"""Likeness of words for the same place."""
SENTENCE = 0.05
"""What being in one sentence says: "To our right, ..." may hold for all of it."""
HARDLY = 0.27
"""Value of a place where the target puts its things on the other side."""


def place_value(matching: Matching, entity: int, term: Term) -> float:
    """Whether the target has the same things at a place, 0 to 1."""
    against = [other for other in matching.target.places if conflict(term, other)]
    same = [o for o, alike in matching.words(term).items() if alike >= SAME_PLACE]
    here = there = 0.0
    for thing, weight in standing_at(matching, entity):
        for other, sureness in matching.cast(thing)[:1]:
            sure = weight * sureness * (1 - matching.doubt(thing))
            said = matching.target.said_of
            here += sure * max((firm(said[o].get(other, 0.0)) for o in same), default=0.0)
            there += sure * max((firm(said[o].get(other, 0.0)) for o in against), default=0.0)
    if not here and not there:
        return OPEN
    return HARDLY + (1 - HARDLY) * here / (here + there)


def firm(attachment: float) -> float:
    """What an attachment says beyond being in the same sentence, which says a little."""
    return max(0.0, attachment - SAME_SENTENCE + SENTENCE)


def standing_at(matching: Matching, place: int) -> list[tuple[int, float]]:
    """Things of the source that hang on a place, with attachment."""
    source = matching.source
    tokens = source.mentions[place]
    found = []
    for thing in range(len(source.mentions)):
        if thing != place:
            held = source.attached(thing)
            weight = max((held.get(token, 0.0) for token in tokens), default=0.0)
            if weight >= BESIDE:
                found.append((thing, weight))
    return found
