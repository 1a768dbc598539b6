"""Scores -> HTML without scripts: mistakes marked in the generation, omissions in the reference.

Texts are untrusted: all of them are escaped, and a page's content policy allows neither scripts nor
network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from posh_reward.metrics.metric import field_of
from posh_reward.study.pages.element_marks import level_of, question_about, stretches, worst_first
from posh_reward.study.pages.html import render
from posh_reward.study.rows.score_axes import AXES, EXPLANATION, SCALE
from posh_reward.types import Direction, Scores

LEAD = (
    "What was written, with its mistakes marked, next to the reference, with its omissions "
    "marked. The number after a mark is the lowest grade, rounded down, among the elements that "
    "rest on those words. A true detail that the reference leaves out is marked, too, unless a "
    "witness saw it. Point at a mark, or reach it with the Tab key, to see what the judge was "
    f"asked. {EXPLANATION}."
)
TITLES: dict[Direction, str] = {"precision": "Written", "recall": "Reference"}
NAMES = (
    "In a question about what was written, DESCRIPTION 1 is the reference and DESCRIPTION 2 what "
    "was written; in one about the reference, the DESCRIPTION is what was written."
)
PAIR: dict[str, Any] = {
    "question_about": question_about,
    "axes": AXES,
    "explanation": EXPLANATION,
    "level_of": level_of,
    "scale": SCALE,
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
    image_text: str = "The image that is described"


def page(
    cards: Sequence[PairCard],
    title: str = "POSH: mistakes and omissions",
    *,
    in_pairs: bool = False,
    figure: bytes | None = None,
    figure_text: str = "",
) -> str:
    """One HTML document that shows every pair, one below the other, without other files.

    ``in_pairs`` puts two in a row, where the window is wide enough. A ``figure``, PNG or JPEG,
    stands above them, with ``figure_text`` for those who cannot see it.
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
    """Return HTML with its own style: one pair in a notebook, or inside another page."""
    return render(
        "notebook.html", scores=scores, has_witness=has_witness([scores.signature]), **PAIR
    )


def has_witness(signatures: Iterable[str]) -> bool:
    """Return True if there was a witness, so that the key explains its marks."""
    return any(field_of(each, "witness") is not None for each in signatures)
