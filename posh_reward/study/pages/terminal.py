"""One scored pair -> text for a terminal, with colours or brackets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby

from posh_reward.errors import safe
from posh_reward.metrics.metric import field_of
from posh_reward.study.pages.element_marks import (
    GLOSS,
    TITLES,
    Stretch,
    figures_of,
    level_of,
    question_about,
    stretches,
    worst_first,
)
from posh_reward.study.pages.html import number
from posh_reward.study.rows.scored_rows import EXPLANATION
from posh_reward.types import Direction, Scores

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
    text = safe(stretch.text)
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
        question = safe(question_about(element, scores.signature).replace("\n", " "))
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
    return 0, [(f"No score: {safe(str(scores.failure))}", COLORS["failed"])]


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
    """Yield words, which stay on one line, and the spaces between them."""
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
