"""Scores -> HTML without scripts, with the elements marked that the other text lacks.

Texts are untrusted: all are escaped, and the page's content policy allows neither scripts nor
network access.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from posh_reward.metrics.metric import field_of
from posh_reward.study.pages.element_marks import (
    figures_of,
    level_of,
    question_about,
    stretches,
    worst_first,
)
from posh_reward.study.pages.html import render
from posh_reward.study.rows.score_axes import EXPLANATION
from posh_reward.types import Direction, Scores

LEAD = (
    "The written text with what the reference does not support marked, next to the reference with "
    "what the text leaves out. "
    "The number after a mark is the lowest grade, rounded down, of the elements in those words. "
    "A true detail that the reference leaves out is marked, too, unless a witness saw it. Point at "
    f"a mark, or reach it with the Tab key, to see the judge's question. {EXPLANATION}."
)
TITLE = "POSH: what was not found in the other text"
TITLES: dict[Direction, str] = {"precision": "Written", "recall": "Reference"}
NAMES = (
    "In a question about the written text, DESCRIPTION 1 is the reference and DESCRIPTION 2 the "
    "written text; in one about the reference, the DESCRIPTION is the written text."
)
PAIR: dict[str, Any] = {
    "question_about": question_about,
    "figures_of": figures_of,
    "explanation": EXPLANATION,
    "level_of": level_of,
    "stretches": stretches,
    "titles": TITLES,
    "worst_first": worst_first,
}
"""Names that the macros of ``pair.html`` use."""


@dataclass(frozen=True, slots=True)
class PairCard:
    """One scored pair on a page."""

    title: str
    scores: Scores
    image: bytes | None = None  # a PNG or a JPEG, shown above the texts
    image_text: str = "The described image"


def page(
    cards: Sequence[PairCard],
    title: str = TITLE,
    *,
    in_pairs: bool = False,
    figure: bytes | None = None,
    figure_text: str = "",
) -> str:
    """Render all pairs, one below the other, as one HTML document that needs no other file.

    ``in_pairs`` puts two in a row if the window is wide enough. A ``figure``, PNG or JPEG, is shown
    above them, with ``figure_text`` as its alternative text.
    """
    signatures = list(dict.fromkeys(card.scores.signature for card in cards))
    return render(
        "pair_page.html",
        title=title,
        lead=LEAD,
        cards=cards,
        in_pairs=in_pairs,
        figure=figure,
        figure_text=figure_text,
        has_witness=has_witness(signatures),
        footer=[NAMES, *signatures],
        **PAIR,
    )


def fragment(scores: Scores) -> str:
    """Render one pair as HTML with its own style, for a notebook or another page."""
    return render(
        "notebook.html", scores=scores, has_witness=has_witness([scores.signature]), **PAIR
    )


def has_witness(signatures: Iterable[str]) -> bool:
    """Return True if any signature names a witness, whose marks need a key."""
    return any(field_of(each, "witness") is not None for each in signatures)
