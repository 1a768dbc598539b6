"""Update the worked example of docs/how_a_score_comes_about.md.

    python -m tools.worked_example docs

Rewrites the tables between the page's markers, and ``worked_example.svg``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from html import escape
from pathlib import Path

from posh_reward import PoSh, Scores
from posh_reward.pages.element_marks import question_about
from posh_reward.types import Description, Direction, Element

GENERATION = (
    "A tall woman in a green dress stands to our left. She holds a small basket. "
    "A man sleeps beside her."
)
REFERENCE = (
    "To our left stands a tall woman in a red dress, with a small basket. "
    "Beside her, an old man reads."
)
SIDES: tuple[tuple[Direction, str], ...] = (("precision", "written"), ("recall", "reference"))
WIDTH, ROW, BOX = 470, 62, 150
COLOURS = {1: "#fde4e1", 2: "#fdebd3", 3: "#fdf6d8", 4: "#e6f4e6", 5: "#e6f4e6"}


def main() -> None:
    """Score the pair and rewrite the page's tables and the drawing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("docs", type=Path, help="folder of the page")
    folder = parser.parse_args().docs
    posh = PoSh()
    scores = posh.score([GENERATION], [REFERENCE])[0]
    read = posh.graph_reader.read([GENERATION, REFERENCE])
    descriptions = [text for text in read if isinstance(text, Description)]
    page = folder / "how_a_score_comes_about.md"
    text = page.read_text(encoding="utf-8")
    text = fill_in(text, "questions", questions(scores))
    text = fill_in(text, "scores", summary(scores))
    page.write_text(text, encoding="utf-8")
    (folder / "worked_example.svg").write_text(drawing(descriptions, scores), encoding="utf-8")


def fill_in(page: str, name: str, content: str) -> str:
    """Return the page with new content between two equal markers."""
    before, mark, rest = page.partition(f"<!-- {name} -->")
    after = rest.partition(mark)[2]
    return f"{before}{mark}\n{content}\n{mark}{after}"


def questions(scores: Scores) -> str:
    """Tabulate the elements of the reference: the question about each, and its grade."""
    rows = ["| kind | asked | grade |", "|---|---|---|"]
    for element in scores.elements:
        if element.direction == "recall":
            grade = "none" if element.grade is None else f"{element.grade:.1f}"
            rows.append(f"| {element.kind} | {question_about(element)} | {grade} |")
    return "\n".join(rows)


def summary(scores: Scores) -> str:
    """Format the three scores and the signature."""
    return (
        f"```\nprecision {scores.precision:.3f}   mean of {scores.generation_elements} grades / 5\n"
        f"recall    {scores.recall:.3f}   mean of {scores.reference_elements} grades / 5\n"
        f"f1        {scores.f1:.3f}\n"
        f"{scores.signature}\n```"
    )


def drawing(descriptions: Sequence[Description], scores: Scores) -> str:
    """Draw both scene graphs side by side, elements coloured by grade."""
    height = 60 + ROW * max(len(each.graph.entities) for each in descriptions)
    columns = [
        f'<g transform="translate({20 + index * WIDTH},46)">{column(each, scores, direction)}</g>'
        f'<text class="t" x="{20 + index * WIDTH}" y="26">{name}</text>'
        for index, (each, (direction, name)) in enumerate(zip(descriptions, SIDES, strict=True))
    ]
    style = (
        "text{font:13px system-ui,sans-serif;fill:#1f2328}.t{font-weight:600}"
        ".s{font-size:12px;fill:#59636e;paint-order:stroke;stroke:#fff;stroke-width:3px}"
        "rect+text,rect~text.s{stroke-width:0}path{fill:none;stroke:#8c959f;stroke-width:1.3}"
    )
    arrow = (
        '<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" style="fill:#8c959f;stroke:none"/></marker>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH + 20} {height}" '
        f'role="img" aria-label="Two scene graphs, elements coloured by grade">'
        f"<style>{style}</style><defs>{arrow}</defs>"
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(columns)}</svg>\n'
    )


def column(description: Description, scores: Scores, direction: Direction) -> str:
    """Draw one graph: entities from top to bottom, relations as arcs on their right."""
    grade = {e.spans: e for e in scores.elements if e.direction == direction}
    parts = []
    for relation in description.graph.relations:
        element = grade.get(relation.spans)
        parts.append(arc(relation.subject, relation.object, relation.text, element))
    for index, entity in enumerate(description.graph.entities):
        y = index * ROW
        fill = colour(grade.get(entity.spans))
        parts.append(
            f'<rect x="0" y="{y}" width="{BOX}" height="42" rx="7" fill="{fill}" stroke="#d1d9e0"/>'
        )
        parts.append(f'<text class="t" x="10" y="{y + 18}">{escape(entity.head)}</text>')
        texts = "".join(
            f'<tspan dx="{6 if place else 0}" style="fill:{ink(grade.get(attribute.spans))}">'
            f"{escape(attribute.text)}</tspan>"
            for place, attribute in enumerate(entity.attributes)
        )
        parts.append(f'<text class="s" x="10" y="{y + 34}">{texts}</text>')
    return "".join(parts)


def arc(subject: int, object: int, text: str, element: Element | None) -> str:
    """Draw an arrow with a relation's text; longer ones bend out further."""
    start, end = subject * ROW + 21, object * ROW + 21
    bend = BOX + 20 + 50 * abs(subject - object)
    path = f"M{BOX} {start} C{bend} {start} {bend} {end} {BOX + 2} {end}"
    x, y = BOX + 6 + (bend - BOX) * 0.75, (start + end) / 2 + 4
    return (
        f'<path d="{path}" marker-end="url(#a)"/>'
        f'<text class="s" x="{x:.0f}" y="{y:.0f}" style="fill:{ink(element)}">{escape(text)}</text>'
    )


def colour(element: Element | None) -> str:
    """Return an element's background colour by grade; grey if it has none."""
    return "#f6f8fa" if element is None or element.grade is None else COLOURS[int(element.grade)]


def ink(element: Element | None) -> str:
    """Return an element's text colour: red if it was not found."""
    lost = element is not None and element.grade is not None and element.grade < 3
    return "#b42318" if lost else "#59636e"


if __name__ == "__main__":
    main()
