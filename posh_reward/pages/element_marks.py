"""Graded elements -> marked stretches of text and their questions, for pages and terminals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby, pairwise
from typing import Any, Literal

from posh_reward.errors import escape_controls
from posh_reward.metrics.metric import field_of
from posh_reward.metrics.records import fields_of_record, main_type
from posh_reward.pages.html import number, render
from posh_reward.posh.wording import PRESETS, question
from posh_reward.tables.tables import EXPLANATION
from posh_reward.types import Description, Direction, Element, Kind, Question, SceneGraph, Scores

Level = Literal["absent", "weak", "partial", "clear", "failed", "seen", "none"]

UNASKED = {
    "attribute": '"{text}" was not asked about: "{identifier}" is absent.',
    "relation": '"{text}" was not asked about: "{identifier}" or "{other}" is absent.',
}
FAILED = '"{text}" could not be judged: {failure}'
NAMES = ("text", "identifier", "other", "failure", "stated", "looked")
"""Placeholders of a wording: an element's fields, then grades by the reference and the image."""
SUPPORT = 3.0  # least grade at which a witness confirms an element, unless the signature names one
IN_IMAGE = "In the image, not in the reference (reference {stated}, image {looked}). "
IN_NEITHER = "Neither in the reference nor in the image (reference {stated}, image {looked}). "
UNCLEAR = "Not in the reference ({stated}), and the image does not settle it. "
"""Prefixes of the question about an element that the witness was asked about."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive characters covered by the same elements."""

    text: str
    elements: tuple[Element, ...]

    @property
    def lowest(self) -> float | None:
        grades = [element.grade for element in self.elements if element.grade is not None]
        return min(grades, default=None)

    @property
    def level(self) -> Level:
        if not self.elements:
            return "none"
        if self.lowest is None:
            return "failed"
        # The worst element decides the colour: a true adjective does not make up for a false noun.
        level = level_of(self.lowest)
        by_image = any(element.witness == "image" for element in self.elements)
        return "seen" if level == "clear" and by_image else level

    @property
    def has_mark(self) -> bool:
        """True for a low grade or a failure."""
        return self.level not in ("none", "clear")

    @property
    def digit(self) -> str:
        """Lowest grade rounded down: 1 absent, 2 weak, 3 partial; "*" for seen, "?" for failed."""
        if self.level == "seen":
            return "*"
        return "?" if self.lowest is None else str(int(self.lowest))


def level_of(grade: float) -> Level:
    """Name a grade: below 2 absent, below 3 weak, below 4 partial, else clear."""
    if grade < 2:
        return "absent"
    if grade < 3:
        return "weak"
    return "partial" if grade < 4 else "clear"


def worst_first(elements: Sequence[Element]) -> list[Element]:
    """Sort elements: failed ones, then by grade, lowest first."""
    return sorted(elements, key=lambda element: element.grade or 0.0)


def stretches(scores: Scores, direction: Direction) -> list[Stretch]:
    """Cut the generation (precision) or the reference (recall) where its elements change.

    The stretches' texts, joined, are the whole text again.
    """
    text = scores.generation if direction == "precision" else scores.reference
    elements = [element for element in scores.elements if element.direction == direction]
    # Spans of elements overlap ("the old man" and "old"), but marks on a page cannot: so the text
    # is cut at both ends of every span, and a stretch has all elements that cover it.
    edges = {edge for element in elements for span in element.spans for edge in span}
    cuts = sorted(edge for edge in edges | {0, len(text)} if 0 <= edge <= len(text))
    runs: list[Stretch] = []
    for start, end in pairwise(cuts):
        over = [e for e in elements if any(a <= start and end <= b for a, b in e.spans)]
        piece = Stretch(text[start:end], tuple(over))
        # White space between two words of the same elements ("carved into") belongs to them.
        between = len(runs) > 1 and not runs[-1].elements and not runs[-1].text.strip()
        if between and over and runs[-2].elements == piece.elements:
            first, space = runs[-2:]
            runs[-2:] = [Stretch(first.text + space.text + piece.text, piece.elements)]
        else:
            runs.append(piece)
    return runs


def preset_of(signature: str) -> str:
    preset = field_of(signature, "preset")
    return preset if preset in PRESETS else PRESETS[0]


def support_of(signature: str) -> float:
    try:
        return float(field_of(signature, "supported") or SUPPORT)
    except ValueError:
        return SUPPORT


def wording(element: Element, signature: str = "") -> str:
    """Return the question about an element, with placeholders as in ``NAMES``."""
    preset = preset_of(signature)
    if element.failure is not None:
        return FAILED
    if (image := element.image_grade) is not None:
        prefix = UNCLEAR
        if image.grade is not None:
            prefix = IN_IMAGE if image.grade >= support_of(signature) else IN_NEITHER
        return prefix + _question(element.kind, element.direction, preset)
    if not element.direct and element.kind in UNASKED:
        return UNASKED[element.kind]
    return _question(element.kind, element.direction, preset)


@cache
def _question(kind: Kind, direction: Direction, preset: str) -> str:
    nothing = Description("", SceneGraph((), ()))
    request = Question(
        direction, kind, "{identifier}", nothing, nothing, 0, text="{text}", other="{other}"
    )
    whole = question(request, preset)
    return whole.removeprefix("Q: ").partition("? Consider")[0] + "?"


def question_about(element: Element, signature: str = "") -> str:
    """Return the question about an element, or why there was none, in one sentence."""
    values = dict(zip(NAMES, names(element), strict=True))
    return re.sub(r"\{(\w+)\}", lambda match: values[match[1]] or "", wording(element, signature))


def names(element: Element) -> list[str | None]:
    """Return the values of a wording's placeholders, in the order of ``NAMES``."""
    failure = None if element.failure is None else str(element.failure)
    image = element.image_grade
    grades = (None, None) if image is None else (image.reference_grade, image.grade)
    numbers = [None if grade is None else f"{grade:.1f}" for grade in grades]
    return [element.text, element.identifier, element.other, failure, *numbers]


def figures_of(scores: Scores) -> dict[str, str]:
    """All numbers among the fields of a pair's scores, by name, as texts to show."""
    kinds = {name: main_type(hint) for name, hint in fields_of_record("posh").items()}
    digits = {
        name: 3 if kind is float else 0 for name, kind in kinds.items() if kind in (float, int)
    }
    return {n.replace("_", " "): number(getattr(scores, n), each) for n, each in digits.items()}


LEAD = (
    "The written text with what the reference does not support marked, next to the reference with "
    "what the text leaves out. "
    "The number after a mark is the lowest grade, rounded down, of the elements in those words. "
    "A true detail that the reference leaves out is marked, too, unless a witness saw it. Point at "
    f"a mark, or reach it with the Tab key, to see the judge's question. {EXPLANATION}."
)
TITLE = "POSH: what was not found in the other text"
TITLES: dict[Direction, str] = {"precision": "Written", "recall": "Reference"}
GLOSS = (
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
        footer=[GLOSS, *signatures],
        **PAIR,
    )


def fragment(scores: Scores) -> str:
    """Render one pair as HTML with its own style, for a notebook or another page."""
    return render(
        "notebook.html", scores=scores, has_witness=has_witness([scores.signature]), **PAIR
    )


def has_witness(signatures: Iterable[str]) -> bool:
    return any(field_of(each, "witness") is not None for each in signatures)


COLORS = {
    "absent": "31;1",
    "weak": "33",
    "partial": "36",
    "failed": "35",
    "clear": "32",
    "seen": "32",
}
"""ANSI codes by level. Each mark also has its grade, for readers who cannot see colours."""
BOLD, DIM, UNDERLINED = "1", "2", "4"
RAISED = str.maketrans("123", "¹²³")
Piece = tuple[str, str]  # text and its ANSI code, "" for none
Paragraph = tuple[int, list[Piece]]
"""Hanging indent and content."""


def explain(scores: Scores, *, color: bool = False, width: int = 80, worst: int = 10) -> str:
    """Format the pair's marked texts, its worst elements and its scores.

    Args:
        scores: with elements.
        color: True to use ANSI codes; otherwise a mark is ``[green]1``.
        width: columns of the terminal.
        worst: number of elements to list.
    """
    if scores.failure is not None and not scores.elements:  # neither text was read
        return "\n".join(_line(pieces, color) for pieces in _wrap(*_no_score(scores), width))
    sections = [
        _text(scores, "precision", "with what the reference does not support marked", color),
        _text(scores, "recall", "with what the text leaves out marked", color),
        _key(scores),
        *([_worst(scores, worst)] if scores.elements else []),
        _figures(scores),
    ]
    return "\n".join(
        _line(pieces, color)
        for section in sections
        for pieces in chain(*(_wrap(*paragraph, width) for paragraph in section), [[]])
    )


def _text(scores: Scores, direction: Direction, what: str, color: bool) -> list[Paragraph]:
    pieces = [piece for stretch in stretches(scores, direction) for piece in _mark(stretch, color)]
    lines: list[list[Piece]] = [[("  ", "")]]
    for text, code in pieces:
        first, *rest = text.split("\n")
        lines[-1].append((first, code))
        lines += [[("  ", ""), (line, code)] for line in rest]
    return [(0, [(TITLES[direction], BOLD), (f", {what}", DIM)]), *((2, line) for line in lines)]


def _mark(stretch: Stretch, color: bool) -> list[Piece]:
    text = escape_controls(stretch.text)
    if not stretch.has_mark:
        return [(text, "")]
    if not color:
        return [(f"[{text}]{stretch.digit}", "")]
    code = COLORS[stretch.level]
    return [(text, f"{code};{UNDERLINED}"), (stretch.digit.translate(RAISED), code)]


def _key(scores: Scores) -> list[Paragraph]:
    marks = {"absent": "1", "weak": "2", "partial": "3"}
    pieces: list[Piece] = [("Marks: ", DIM)]
    for level, digit in marks.items():
        pieces += [(digit, COLORS[level]), (f" {level}, ", DIM)]
    if field_of(scores.signature, "witness") is not None:
        pieces += [("*", COLORS["seen"]), (" clear in the image, not in the reference, ", DIM)]
    return [(0, [*pieces, ("unmarked: clear, or not an element", DIM)])]


def _worst(scores: Scores, count: int) -> list[Paragraph]:
    title = f"Worst {min(count, len(scores.elements))} of {len(scores.elements)} elements"
    lines: list[Paragraph] = [(0, [(title, BOLD)])]
    for element in worst_first(scores.elements)[:count]:
        level = "failed" if element.grade is None else level_of(element.grade)
        about = f"{TITLES[element.direction].lower():<9}  {element.kind:<9}  "
        grade = f"{number(element.grade, 1):>6}  "
        hang = len(grade + about)
        question = escape_controls(question_about(element, scores.signature).replace("\n", " "))
        lines += [(hang, [(grade, COLORS[level]), (about, DIM), (question, "")])]
    return [*lines, (0, [(GLOSS, DIM)])]


def _figures(scores: Scores) -> list[Paragraph]:
    pieces = [
        piece
        for name, value in figures_of(scores).items()
        for piece in ((f"{name} ", ""), (f"{value}   ", BOLD))
    ]
    lines: list[Paragraph] = [(0, pieces)]
    if scores.failure is not None:
        lines.append(_no_score(scores))
    return [*lines, (0, [(EXPLANATION, DIM)]), (0, [(scores.signature, DIM)])]


def _no_score(scores: Scores) -> Paragraph:
    return 0, [(f"No score: {escape_controls(str(scores.failure))}", COLORS["failed"])]


def _wrap(hang: int, pieces: Iterable[Piece], width: int) -> Iterator[list[Piece]]:
    """Break lines at spaces to at most ``width`` columns, unless a single word is longer."""
    hang = min(hang, width // 2)  # leaves a narrow terminal room for words
    line: list[Piece] = []
    column = 0
    for word in _words(pieces):
        length = sum(len(text) for text, _ in word)
        if column > hang and column + length > width and word[0][0].strip():
            yield line
            line, column = [(" " * hang, "")], hang
        line += word
        column += length
    yield line


def _words(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    word: list[Piece] = []
    for text, code in pieces:
        for part in re.findall(r"\s+|\S+", text):
            if part.isspace():
                yield from filter(None, (word, [(part, code)]))
                word = []
            else:
                word.append((part, code))
    if word:
        yield word


def _line(pieces: list[Piece], color: bool) -> str:
    if not color:
        return "".join(text for text, _ in pieces).rstrip()
    alike = (
        ("".join(text for text, _ in group), code)
        for code, group in groupby(pieces, lambda piece: piece[1])
    )
    return "".join(f"\x1b[{code}m{text}\x1b[0m" if code else text for text, code in alike).rstrip()
