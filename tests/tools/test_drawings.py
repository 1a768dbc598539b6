"""The committed drawings show what their sources say."""

import html
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).resolve().parents[2] / "docs" / "drawings").glob("*.dot"))


def labels(source: Path) -> set[str]:
    """Every line of every label of nodes, edges and clusters."""
    text = html.unescape(source.read_text(encoding="utf-8"))
    found = re.findall(r'label=(?:"(.*?)"|<<b>(.*?)</b>>)', text)
    return {line.strip() for label in found for line in "".join(label).split(r"\n")}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_drawing_was_rendered_after_its_source_changed(source: Path) -> None:
    svg = ET.parse(source.with_suffix(".svg"))
    texts = {(each.text or "").strip() for each in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert labels(source) == texts, "render it again: python -m tools.drawings docs/drawings"
