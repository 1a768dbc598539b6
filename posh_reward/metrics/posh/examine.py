"""One direction of one pair: asks in three passes, and grades every element.

With an image as second witness two more passes follow (``witness``).

``examine`` is a generator: it yields what it wants a judge to do next, and is sent the answers.
So many examinations can run in lockstep and share each call to the judge, and none of this
code knows about batches.
"""

from __future__ import annotations

from dataclasses import dataclass

from posh_reward.metrics.posh import questions
from posh_reward.metrics.posh.asking import Asking, Pace, answered
from posh_reward.metrics.posh.claims import claims, questions_of, uncounted
from posh_reward.metrics.posh.questions import Finding
from posh_reward.metrics.posh.roster import Roster
from posh_reward.metrics.posh.search import Knowledge, look_for
from posh_reward.metrics.posh.witness import Look, look_at
from posh_reward.types import Description, Direction, Element, Failure


@dataclass(frozen=True, slots=True)
class Examination:
    """Every element of one description, graded against the other."""

    elements: tuple[Element, ...]
    """In the order in which the release averages them."""
    found: dict[int, Finding]
    """By entity index, what each turned out to be; those whose judgment failed are missing."""
    unparsed: int
    """Judge replies that held no label and were read as the lowest one."""

    @property
    def failure(self) -> Failure | None:
        """Why this direction has no score: the reason of its first failed judgment."""
        return next((e.failure for e in self.elements if e.grade is None), None)


Steps = Asking[Examination]


def examine(
    source: Description,
    target: Description,
    direction: Direction,
    *,
    pace: Pace = "lazy",
    mended: bool = False,
    look: Look | None = None,
) -> Steps:
    """Looks for every element of ``source`` in ``target`` (paper, section 3, step 2).

    Args:
        source: the description whose elements are asked about.
        target: the description that they are looked for in.
        direction: which of the two is the generation.
        pace: how much is asked at a time; the result does not depend on it.
        mended: without the release's clear mistakes (docs/released_quirks.md).
        look: the image that is asked about what ``target`` does not support; None for none.

    Yields:
        Rewrites or questions that can be answered in one call, and is sent their answers.

    Returns:
        The graded elements and what each entity was found to be.
    """
    roster = Roster(source.graph, mended=mended)
    viewer = questions.given(source.graph)
    # In the release the viewer has no name of its own before the second pass: "boy runs toward us".
    known = Knowledge(source, target, direction, roster, dict(viewer) if mended else {})
    yield from look_for(known, questions.wholes(roster), 1, pace)
    known.found.update(viewer)
    yield from look_for(known, questions.parts(roster), 2, pace)
    found = list(claims(known))
    asked = [claim for claim in found if claim.question is not None]
    idle = uncounted(known) if pace == "eager" else []
    verdicts = yield from answered((3, 0), questions_of(asked) + questions_of(idle))
    for claim, verdict in zip(asked, verdicts, strict=not idle):  # answers to idle ones come last
        claim.hear(verdict)
        known.unparsed += verdict.unparsed
    if look is not None:
        yield from look_at(look, known, found)
    elements = tuple([claim.element(direction) for claim in found])
    return Examination(elements, known.found, known.unparsed)
