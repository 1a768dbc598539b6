"""``report``, and what ``--help`` loads."""

import base64
import json
import re
from io import BytesIO
from pathlib import Path

import pytest

from posh_reward.cli import EXIT_OK, EXIT_UNUSABLE, main
from posh_reward.datasets.load_dataset import load_images
from posh_reward.tables.tables import find_format, write_table
from tests.cli.running import Row, run, write_rows


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_report_of_each_format(table: Path, tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    scores, page = tmp_path / f"out.{ending}", tmp_path / "pages" / "report.html"
    assert run("score", table, "--id", "id", "--elements", "-o", scores) == EXIT_OK
    assert main(["report", str(scores), "-o", str(page)]) == EXIT_OK
    assert '["p0",' in page.read_text("utf-8")
    assert '"entity"' not in page.read_text("utf-8").split("<script>")[0]


def test_a_report_replaces_a_page_and_nothing_else(table: Path, tmp_path: Path) -> None:
    scores, page = tmp_path / "out.jsonl", tmp_path / "report.html"
    assert run("score", table, "-o", scores, "--elements") == EXIT_OK
    for _ in range(2):
        assert main(["report", str(scores), "-o", str(page)]) == EXIT_OK
    before = table.read_bytes()
    assert main(["report", str(scores), "-o", str(table)]) == EXIT_UNUSABLE
    assert table.read_bytes() == before


SCORED = {
    "id": "a", "generation": "A dog.", "reference": "A cat.", "precision": 0.5, "recall": 0.5,
    "f1": 0.5, "generation_elements": 1, "reference_elements": 1,
    "failure": None, "unparsed": 0, "signature": "posh|x", "elements": [],
}  # fmt: skip
ELEMENT = {
    "direction": "precision", "kind": "entity", "text": "dog", "grade": 1.5, "spans": [[2, 5]],
    "identifier": "dog", "other": None, "direct": True, "failure": None,
}  # fmt: skip


JUNK: list[tuple[Row, str]] = [
    ({"precision": float("nan")}, "precision is"),
    ({"f1": 10**400}, "f1 is"),
    ({"unparsed": True}, "unparsed is"),
    ({"generation": {"a": 1}}, "generation is"),
    ({"failure": {"kind": "text"}}, "it lacks failure.detail"),
    ({"elements": "["}, "elements is '[', not JSON"),
    ({"elements": [7]}, "elements.0 is 7, not a record"),
    ({"elements": [{**ELEMENT, "direction": "sideways"}]}, "elements.0.direction is 'sideways'"),
    ({"elements": [{**ELEMENT, "grade": 6}]}, "elements.0.grade is 6"),
    ({"elements": [{**ELEMENT, "spans": [[1]]}]}, "it lacks elements.0.spans.0.1"),
    ({"elements": [{**ELEMENT, "image_grade": {"grade": 6, "reference_grade": 1}}]}, "grade is 6"),
]


@pytest.mark.parametrize(("change", "why"), JUNK)
def test_junk_in_a_scored_row_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Row, why: str
) -> None:
    junk = write_rows(tmp_path / "scores.jsonl", [SCORED, {**SCORED, **change}])
    assert main(["report", str(junk), "-o", str(tmp_path / "page.html")]) == EXIT_UNUSABLE
    [said] = [line for line in capsys.readouterr().err.splitlines() if "posh-reward:" in line]
    assert "row 2 is not a row of scores" in said
    assert why in said
    assert not (tmp_path / "page.html").exists()


def test_images_of_this_machine_are_shown_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = pytest.importorskip("PIL.Image")
    images.new("RGBA", (2000, 1000), "red").save(tmp_path / "red.png")
    (tmp_path / "text.png").write_text("not an image")
    names = ["red.png", str(tmp_path / "red.png"), "text.png", "https://example.org/a.png", "", 3,
             "/dev/zero", "\0"]  # fmt: skip
    rows = [{**SCORED, "id": str(i), "image": name} for i, name in enumerate(names)]
    assert main(["report", str(write_rows(tmp_path / "scores.jsonl", rows))]) == EXIT_OK
    page = capsys.readouterr().out
    assert page.count("data:image/jpeg;base64,") == 1
    assert [json.loads(found)[4] for found in re.findall(r'id="pair-\d+">(.*?)<', page)] == [
        0, 0, *[None] * 6
    ]  # fmt: skip
    data = base64.b64decode(page.partition("data:image/jpeg;base64,")[2].partition('"')[0])
    assert images.open(BytesIO(data)).size == (360, 180)
    assert len(page) < 100_000


def of_two_models(count: int = 6) -> list[Row]:
    return [
        {**SCORED, "id": str(place), "model": model, "image": place, "f1": overall}
        for model, overall in (("base", 0.4), ("tuned", 0.6))
        for place in range(count)
    ]


def test_models_are_compared_in_the_terminal_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    scores = write_rows(tmp_path / "scores.jsonl", of_two_models())
    page, plots = tmp_path / "page.html", tmp_path / "plots"
    asked = ["report", str(scores), "-o", str(page), "--against", "tuned", "--plots", str(plots)]
    assert main(asked) == EXIT_OK
    said = capsys.readouterr().err
    assert said.index("tuned  0.600 [0.600, 0.600]") < said.index("base   0.400 [0.400, 0.400]")
    assert "Differences to tuned" in said
    assert "-0.200 [-0.200, -0.200] worse" in said
    assert len(list(plots.iterdir())) == 6
    assert page.read_text("utf-8").count('<img src="data:image/svg+xml;base64,') == 3
    assert main([*asked[:4], "--against", "sft"]) == EXIT_UNUSABLE
    assert "choose the baseline from 'base', 'tuned'" in capsys.readouterr().err


def of_drawn_images(count: int) -> list[Row]:
    """Two models' rows about drawn images, as generate.py writes them; one with counted ids."""
    pytest.importorskip("datasets")
    drawn = load_images(f"scenes:heldout={count}", "test")
    names = {"base": drawn["uuid"][:], "counted": [str(n + 1) for n in range(count)]}
    rows = [
        {**SCORED, "id": name, "model": model, "image": number, "reference": reference}
        for model, ids in names.items()
        for number, (name, reference) in enumerate(zip(ids, drawn["reference"], strict=True))
    ]
    blind = [{**row, "model": "base (other images)", "image": (row["image"] + 1) % count}
             for row in rows[:count]]  # fmt: skip
    return [*rows, *blind]


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_rows_of_a_dataset_are_shown_as_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    scores, page = tmp_path / f"scores.{ending}", tmp_path / "page.html"
    write_table(of_drawn_images(3), scores, find_format(str(scores)))
    dataset = ["--dataset", "scenes:heldout=2", "--allow-differences"]
    assert main(["report", str(scores), "-o", str(page), *dataset]) == EXIT_OK
    html = page.read_text("utf-8")
    assert html.count("data:image/jpeg;base64,") == 2
    places = [json.loads(found)[4] for found in re.findall(r'id="pair-\d+">(.*?)<', html)]
    assert places == [0, 1, None] * 2 + [None] * 3  # the dataset has no third row
    said = "2 rows beyond the end of 'scenes:heldout=2', which has 2"
    assert said in capsys.readouterr().err
    assert said.replace("'", "&#39;") in html


def test_a_page_is_not_called_pdf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "scores.jsonl", "-o", str(tmp_path / "report.pdf")]) == EXIT_UNUSABLE
    assert "let it end in .html" in capsys.readouterr().err
