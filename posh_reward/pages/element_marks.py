"""Graded elements -> marked stretches of text and their questions, for pages and terminals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby, pairwise
from operator import itemgetter
from textwrap import shorten
from typing import Any, Literal

from posh_reward.errors import escape_controls
from posh_reward.metrics.metric import read_signature_field
from posh_reward.metrics.records import find_main_type, list_record_fields
from posh_reward.pages.html import number, render
from posh_reward.posh.wording import PRESETS, build_question
from posh_reward.tables.tables import SCORES_EXPLANATION
from posh_reward.types import (
    VALUES,
    Description,
    Direction,
    Element,
    Kind,
    Question,
    SceneGraph,
    Scores,
    SentenceVerdict,
)

Level = Literal["contradicted", "absent", "weak", "partial", "clear", "failed", "seen", "none"]

UNASKED_WORDINGS = {
    "attribute": '"{text}" was not asked about: "{identifier}" is absent.',
    "relation": '"{text}" was not asked about: "{identifier}" or "{other}" is absent.',
}
CONTRADICTED_WORDING = '"{text}" was not asked about: the reference contradicts its sentence.'
SUPPORTED_SENTENCE = "Graded by its sentence, which the reference supports. "
"""Prefix of the question about an element whose grade its sentence decided."""
SENTENCE_WORDING = (
    "Contradicted by the reference: probability {contradicted}; unmentioned {unmentioned}, "
    "supported {supported}. What only such a sentence says is a mistake."
)
"""About a contradicted sentence; its placeholders are the three probabilities."""
EMBEDDED_READER_NOTE = (
    "The embedded reader tells only what is contradicted: a sentence that it calls unmentioned may "
    "be stated, as its elements' grades say."
)
EMBEDDED_JUDGE_NOTE = (
    "The embedded judge is small: it gives what it does not find 1 or 2, whether hinted at or not, "
    "and in long texts it misses some mistakes."
)
CONTRADICTED_NAME = "contradicted by the reference: "
"""Read out before the sentence, where colours and underlines are not seen."""
FAILED_WORDING = '"{text}" could not be judged: {failure}'
PLACEHOLDERS = ("text", "identifier", "other", "failure", "stated", "looked")
"""Placeholders of a wording: an element's fields, then grades by the reference and the image."""
MIN_SUPPORTING_GRADE = 3.0  # by a witness, to confirm an element; a signature may name another
IN_IMAGE = "In the image, not in the reference (reference {stated}, image {looked}). "
IN_NEITHER = "Neither in the reference nor in the image (reference {stated}, image {looked}). "
IMAGE_UNCLEAR = "Not in the reference ({stated}), and the image does not settle it. "
"""Prefixes of the question about an element that the witness was asked about."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive characters covered by the same elements, or a contradicted sentence."""

    text: str
    elements: tuple[Element, ...]
    sentence: SentenceVerdict | None = None  # that the stretch is, if it is contradicted

    @property
    def lowest(self) -> float | None:
        grades = [element.grade for element in self.elements if element.grade is not None]
        return min(grades, default=None)

    @property
    def level(self) -> Level:
        if self.sentence is not None:
            return "contradicted"
        if not self.elements:
            return "none"
        if self.lowest is None:
            return "failed"
        # The worst element decides the colour: a true adjective does not make up for a false noun.
        level = name_level(self.lowest)
        if level == "clear" and any(element.witness == "image" for element in self.elements):
            return "seen"
        return level

    @property
    def has_mark(self) -> bool:
        """True for a low grade, a failure or a contradicted sentence."""
        return self.level not in ("none", "clear")

    @property
    def digit(self) -> str:
        """Lowest grade rounded down: 1 absent, 2 weak, 3 partial; "*" for seen, "?" for failed.

        "C" for a contradicted sentence.
        """
        if self.level == "contradicted":
            return "C"
        if self.level == "seen":
            return "*"
        if self.lowest is None:
            return "?"
        return str(int(self.lowest))


def name_level(grade: float) -> Level:
    """Name a grade: below 2 absent, below 3 weak, below 4 partial, else clear."""
    if grade < 2:
        return "absent"
    if grade < 3:
        return "weak"
    if grade < 4:
        return "partial"
    return "clear"


def sort_worst_first(elements: Sequence[Element]) -> list[Element]:
    """Sort elements: failed ones, then by grade, lowest first."""
    return sorted(elements, key=lambda element: element.grade or 0.0)


def cut_stretches(scores: Scores, direction: Direction) -> list[Stretch]:
    """Cut the generation (precision) or the reference (recall) where its elements change.

    A contradicted sentence stays whole. The stretches' texts, joined, are the whole text again.
    """
    text = scores.generation if direction == "precision" else scores.reference
    elements = [element for element in scores.elements if element.direction == direction]
    # Spans of elements overlap ("the old man" and "old"), but marks on a page cannot: so the text
    # is cut at both ends of every span, and a stretch has all elements that cover it.
    contradicted = {each.span: each for each in scores.contradicted if direction == "precision"}
    edges = set(chain.from_iterable(contradicted))
    for element in elements:
        edges.update(*element.spans)
    inner = {edge for edge in edges for first, last in contradicted if first < edge < last}
    cuts = {edge for edge in edges - inner if 0 <= edge <= len(text)} | {0, len(text)}
    runs: list[Stretch] = []
    covering = _sweep(elements)
    for start, end in pairwise(sorted(cuts)):
        over = covering(start)
        sentence = contradicted.get((start, end))
        if sentence is not None:
            over = [element for element in elements if _stands_in(element, start, end)]
        piece = Stretch(text[start:end], tuple(over), sentence)
        # White space between two words of the same elements ("carved into") belongs to them.
        between = len(runs) > 1 and not runs[-1].elements and not runs[-1].text.strip()
        whole = piece.sentence is not None or (between and runs[-2].sentence is not None)
        if between and piece.elements and not whole and runs[-2].elements == piece.elements:
            first, space = runs[-2:]
            runs[-2:] = [Stretch(first.text + space.text + piece.text, piece.elements)]
        else:
            runs.append(piece)
    return runs


def _sweep(elements: Sequence[Element]) -> Callable[[int], list[Element]]:
    """Return a function that finds the elements over a place; places must ascend.

    Looking through all elements at each cut would take a second for a long description.
    """
    edges = []
    for place, element in enumerate(elements):
        for begin, stop in element.spans:
            if begin < stop:
                edges += [(begin, 1, place), (stop, -1, place)]
    edges.sort()
    open_spans: Counter[int] = Counter()  # by element, whose spans may overlap each other
    passed = 0

    def find(at: int) -> list[Element]:
        nonlocal passed
        while passed < len(edges) and edges[passed][0] <= at:
            _, change, place = edges[passed]
            open_spans[place] += change
            if not open_spans[place]:
                del open_spans[place]
            passed += 1
        return [elements[place] for place in sorted(open_spans)]

    return find


def _stands_in(element: Element, start: int, end: int) -> bool:
    return any(start <= begin < end for begin, _ in element.spans)


def read_preset(signature: str) -> str:
    preset = read_signature_field(signature, "preset")
    if preset not in PRESETS:
        return PRESETS[0]
    return preset


def read_support(signature: str) -> float:
    try:
        return float(read_signature_field(signature, "supported") or MIN_SUPPORTING_GRADE)
    except ValueError:
        return MIN_SUPPORTING_GRADE


def choose_wording(element: Element, signature: str = "") -> str:
    """Return the question about an element, with placeholders as in ``PLACEHOLDERS``."""
    preset = read_preset(signature)
    if element.failure is not None:
        return FAILED_WORDING
    if element.decided_by == "contradicted":
        return CONTRADICTED_WORDING
    by_sentence = element.decided_by == "supported" and element.witness != "image"
    prefix = SUPPORTED_SENTENCE if by_sentence else ""
    if (image := element.image_grade) is not None:
        looked = IMAGE_UNCLEAR
        if image.grade is not None:
            looked = IN_IMAGE if image.grade >= read_support(signature) else IN_NEITHER
        return prefix + looked + _make_wording(element.kind, element.direction, preset)
    if not element.direct and element.kind in UNASKED_WORDINGS:
        return prefix + UNASKED_WORDINGS[element.kind]
    return prefix + _make_wording(element.kind, element.direction, preset)


@cache
def _make_wording(kind: Kind, direction: Direction, preset: str) -> str:
    nothing = Description("", SceneGraph((), ()))
    request = Question(
        direction, kind, "{identifier}", nothing, nothing, 0, text="{text}", other="{other}"
    )
    whole = build_question(request, preset)
    return whole.removeprefix("Q: ").partition("? Consider")[0] + "?"


def question_about(element: Element, signature: str = "") -> str:
    """Return the question about an element, or why there was none, in one sentence."""
    values = dict(zip(PLACEHOLDERS, list_placeholders(element), strict=True))
    return _fill(choose_wording(element, signature), values)


def describe_contradiction(sentence: SentenceVerdict) -> str:
    """Return the three probabilities of a contradicted sentence, in words."""
    return _fill(SENTENCE_WORDING, {value: number(getattr(sentence, value), 2) for value in VALUES})


def _fill(wording: str, values: Mapping[str, str | None]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: values[match[1]] or "", wording)


def list_placeholders(element: Element) -> list[str | None]:
    """Return the values of a wording's placeholders, in the order of ``PLACEHOLDERS``."""
    stated = looked = None
    if (image := element.image_grade) is not None:
        stated, looked = _format_grade(image.reference_grade), _format_grade(image.grade)
    failure = None if element.failure is None else str(element.failure)
    return [element.text, element.identifier, element.other, failure, stated, looked]


def _format_grade(grade: float | None) -> str | None:
    return None if grade is None else f"{grade:.1f}"


def list_figures(scores: Scores) -> dict[str, str]:
    """All numbers among the fields of a pair's scores, by name, as texts to show.

    The share of contradicted sentences comes last, if the sentences were read.
    """
    digits = {float: 3, int: 0}
    figures = {}
    for name, hint in list_record_fields("posh").items():
        kind = find_main_type(hint)
        if kind in digits:
            figures[name.replace("_", " ")] = number(getattr(scores, name), digits[kind])
    if scores.sentences:  # the last, so that the others are the same in every row
        figures["contradicted share"] = number(scores.contradicted_share)
    return figures


NOTHING = ("0", "0.000", "no")
"""Figures that are not worth a place on a page where they are the same everywhere."""


def list_shown_figures(figures: Iterable[Mapping[str, str]]) -> list[str]:
    """List the names of figures that are not nothing everywhere on a page."""
    shown: dict[str, bool] = {}
    for each in figures:
        for name, value in each.items():
            shown[name] = shown.get(name, False) or value not in NOTHING
    return [name for name in shown if shown[name]]


PAGE_LEAD = (
    "The written text with what the reference does not support marked, next to the reference with "
    "what the text leaves out. "
    "The number after a mark is the lowest grade, rounded down, of the elements in those words. "
    "A true detail that the reference leaves out is marked, too, unless a witness saw it. Point at "
    f"a mark, or reach it with the Tab key, to see the judge's question. {SCORES_EXPLANATION}."
)
PAGE_TITLE = "POSH: what was not found in the other text"
TEXT_TITLES: dict[Direction, str] = {"precision": "Written", "recall": "Reference"}
QUESTION_GLOSS = (
    "In a question about the written text, DESCRIPTION 1 is the reference and DESCRIPTION 2 the "
    "written text; in one about the reference, the DESCRIPTION is the written text."
)
PAIR_VALUES: dict[str, Any] = {
    "question_about": question_about,
    "contradicted_name": CONTRADICTED_NAME,
    "describe_contradiction": describe_contradiction,
    "list_figures": list_figures,
    "explanation": SCORES_EXPLANATION,
    "name_level": name_level,
    "stretches": cut_stretches,
    "titles": TEXT_TITLES,
    "values": VALUES,
    "worst_first": sort_worst_first,
}
"""Names that the macros of ``pair.html`` use."""


@dataclass(frozen=True, slots=True)
class PairCard:
    """One scored pair on a page."""

    title: str
    scores: Scores
    image: bytes | None = None  # a PNG or a JPEG, shown above the texts
    image_text: str = "The described image"


def render_pairs(
    cards: Sequence[PairCard],
    title: str = PAGE_TITLE,
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
        lead=PAGE_LEAD,
        cards=cards,
        in_pairs=in_pairs,
        figure=figure,
        figure_text=figure_text,
        has_witness=has_witness(signatures),
        has_sentences=any(card.scores.sentences for card in cards),
        shown_figures=list_shown_figures(list_figures(card.scores) for card in cards),
        footer=[QUESTION_GLOSS, *explain_stand_ins(signatures), *signatures],
        **PAIR_VALUES,
    )


def fragment(scores: Scores) -> str:
    """Render one pair as HTML with its own style, for a notebook or another page."""
    return render(
        "notebook.html",
        scores=scores,
        has_witness=has_witness([scores.signature]),
        has_sentences=bool(scores.sentences),
        shown_figures=list_shown_figures([list_figures(scores)]),
        **PAIR_VALUES,
    )


def has_witness(signatures: Iterable[str]) -> bool:
    return any(read_signature_field(each, "witness") is not None for each in signatures)


def explain_stand_ins(signatures: Sequence[str]) -> list[str]:
    """Return the notes on what an embedded judge and reader leave open, if signatures have them."""
    notes = {"judge": EMBEDDED_JUDGE_NOTE, "reader": EMBEDDED_READER_NOTE}
    return [note for part, note in notes.items() if _is_embedded(part, signatures)]


def _is_embedded(part: str, signatures: Iterable[str]) -> bool:
    return any(
        (read_signature_field(each, part) or "").startswith("embedded") for each in signatures
    )


ANSI_CODES = {
    "contradicted": "34;1",
    "absent": "31;1",
    "weak": "33",
    "partial": "36",
    "failed": "35",
    "clear": "32",
    "seen": "32",
}
"""ANSI codes by level. Each mark also has its grade, for readers who cannot see colours."""
BOLD, DIM, UNDERLINED = "1", "2", "4"
SUPERSCRIPTS = str.maketrans("123C", "¹²³ᶜ")
MAX_SENTENCE_CHARACTERS = 60  # of a sentence in the list of them; longer ones are cut
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
        lines = _wrap_line(*_format_failure(scores), width)
        return "\n".join(_format_line(line, color) for line in lines)
    sections = [
        _format_text(scores, "precision", "with what the reference does not support marked", color),
        _format_text(scores, "recall", "with what the text leaves out marked", color),
        _format_key(scores),
    ]
    if scores.sentences:
        sections.append(_format_sentences(scores))
    if scores.elements:
        sections.append(_format_worst(scores, worst))
    sections.append(_format_figures(scores))
    formatted = []
    for section in sections:
        for hang, pieces in section:
            lines = _wrap_line(hang, pieces, width)
            formatted += [_format_line(line, color) for line in lines]
        formatted.append("")
    return "\n".join(formatted)


def _format_text(scores: Scores, direction: Direction, what: str, color: bool) -> list[Paragraph]:
    indent = ("  ", "")
    lines: list[list[Piece]] = [[indent]]
    for stretch in cut_stretches(scores, direction):
        for text, code in _format_mark(stretch, color):
            first, *rest = text.split("\n")
            lines[-1].append((first, code))
            lines += [[indent, (line, code)] for line in rest]
    title: Paragraph = (0, [(TEXT_TITLES[direction], BOLD), (f", {what}", DIM)])
    return [title, *((2, line) for line in lines)]


def _format_mark(stretch: Stretch, color: bool) -> list[Piece]:
    text = escape_controls(stretch.text)
    if not stretch.has_mark:
        return [(text, "")]
    if not color:
        return [(f"[{text}]{stretch.digit}", "")]
    code = ANSI_CODES[stretch.level]
    return [(text, f"{code};{UNDERLINED}"), (stretch.digit.translate(SUPERSCRIPTS), code)]


def _format_key(scores: Scores) -> list[Paragraph]:
    marks = {"absent": "1", "weak": "2", "partial": "3"}
    pieces: list[Piece] = [("Marks: ", DIM)]
    for level, digit in marks.items():
        pieces += [(digit, ANSI_CODES[level]), (f" {level}, ", DIM)]
    if read_signature_field(scores.signature, "witness") is not None:
        pieces += [("*", ANSI_CODES["seen"]), (" clear in the image, not in the reference, ", DIM)]
    if scores.sentences:
        what = " a contradicted sentence, whose words cover nothing of the reference, "
        pieces += [("C", ANSI_CODES["contradicted"]), (what, DIM)]
    return [(0, [*pieces, ("unmarked: clear, or not an element", DIM)])]


def _format_sentences(scores: Scores) -> list[Paragraph]:
    """List the sentences, each with the probabilities of the three values."""
    title: Paragraph = (
        0,
        [("Sentences", BOLD), (f", with probabilities: {', '.join(VALUES)}", DIM)],
    )
    lines = [title]
    if _is_embedded("reader", [scores.signature]):
        lines.append((0, [(EMBEDDED_READER_NOTE, DIM)]))
    for sentence in scores.sentences:
        start, end = sentence.span
        text = shorten(escape_controls(scores.generation[start:end]), MAX_SENTENCE_CHARACTERS)
        value = f"{sentence.value:>12}  "
        shares = "  ".join(number(getattr(sentence, each), 2) for each in VALUES)
        code = ANSI_CODES["contradicted"] if sentence.value == "contradicted" else ""
        lines.append((len(value), [(value, code), (f"{shares}  ", DIM), (text, "")]))
    return lines


def _format_worst(scores: Scores, count: int) -> list[Paragraph]:
    """List the worst elements, but for those of contradicted sentences, which are all alike."""
    elements = [each for each in scores.elements if each.decided_by != "contradicted"]
    title = f"Worst {min(count, len(elements))} of {len(elements)} elements"
    if len(elements) < len(scores.elements):
        title += " outside contradicted sentences"
    lines: list[Paragraph] = [(0, [(title, BOLD)])]
    for element in sort_worst_first(elements)[:count]:
        level = "failed" if element.grade is None else name_level(element.grade)
        about = f"{TEXT_TITLES[element.direction].lower():<9}  {element.kind:<9}  "
        grade = f"{number(element.grade, 1):>6}  "
        hang = len(grade + about)
        question = escape_controls(question_about(element, scores.signature).replace("\n", " "))
        lines += [(hang, [(grade, ANSI_CODES[level]), (about, DIM), (question, "")])]
    return [*lines, (0, [(QUESTION_GLOSS, DIM)])]


def _format_figures(scores: Scores) -> list[Paragraph]:
    pieces = []
    figures = list_figures(scores)
    for name in list_shown_figures([figures]):
        pieces += [(f"{name} ", ""), (f"{figures[name]}   ", BOLD)]
    lines: list[Paragraph] = [(0, pieces)]
    if scores.failure is not None:
        lines.append(_format_failure(scores))
    return [*lines, (0, [(SCORES_EXPLANATION, DIM)]), (0, [(scores.signature, DIM)])]


def _format_failure(scores: Scores) -> Paragraph:
    return 0, [(f"No score: {escape_controls(str(scores.failure))}", ANSI_CODES["failed"])]


def _wrap_line(hang: int, pieces: Iterable[Piece], width: int) -> Iterator[list[Piece]]:
    """Break lines at spaces to at most ``width`` columns, unless a single word is longer."""
    hang = min(hang, width // 2)  # leaves a narrow terminal room for words
    line: list[Piece] = []
    column = 0
    for word in _split_words(pieces):
        length = sum(len(text) for text, _ in word)
        if column > hang and column + length > width and word[0][0].strip():
            yield line
            line, column = [(" " * hang, "")], hang
        line += word
        column += length
    yield line


def _split_words(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
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


def _format_line(pieces: list[Piece], color: bool) -> str:
    if not color:
        return "".join(text for text, _ in pieces).rstrip()
    line = ""
    for code, group in groupby(pieces, itemgetter(1)):
        text = "".join(text for text, _ in group)
        line += f"\x1b[{code}m{text}\x1b[0m" if code else text
    return line.rstrip()
