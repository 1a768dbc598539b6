"""The worked example in the documentation shows what the metric says today."""

import html
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_page_and_its_drawing_are_up_to_date(tmp_path: Path) -> None:
    names = ("how_a_score_comes_about.md", "worked_example.svg")
    for name in names:
        shutil.copy(CHECKOUT / "docs" / name, tmp_path)
    command = [sys.executable, "-m", "tools.worked_example", str(tmp_path)]
    subprocess.run(command, cwd=CHECKOUT, check=True)
    for name in names:
        redrawn = (tmp_path / name).read_text(encoding="utf-8")
        committed = (CHECKOUT / "docs" / name).read_text(encoding="utf-8")
        assert redrawn == committed, "redraw it: python -m tools.worked_example docs"


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
