"""``posh-reward packets`` from rows of generations to a page of results."""

import csv
import json
import re
import socket
from pathlib import Path

import pytest

from posh_reward.cli import EXIT_UNUSABLE, main
from posh_reward.datasets.load_dataset import load_images
from posh_reward.study.packets.make import read_key
from posh_reward.study.packets.study_plan import fit_opinions
from tests.cli.running import rows_in, write_rows
from tools.simulate_study import Crowd, answer_file

AXES = ("mistakes", "omissions", "overall")


@pytest.fixture
def generations(tmp_path: Path) -> list[Path]:
    """Two models' rows as generate.py writes them; the second has one more."""
    paths = []
    for model, color, count in (("sft", "red", 6), ("dapo", "brown", 7)):
        rows = [
            {"id": f"p{n}", "image": n, "generation": f"A {color} dog with {n} spots.",
             "reference": f"A brown dog with {n} spots sleeps."}
            for n in range(count)
        ]  # fmt: skip
        paths.append(write_rows(tmp_path / f"{model}.jsonl", rows))
    return paths


def packets(*arguments: object) -> int:
    return main(["packets", *map(str, arguments)])


def make(generations: list[Path], folder: Path, *more: object) -> int:
    plain = ("--no-images", "--coarse", 2, "--repeated", 1, "--times", 2)
    return packets("make", *generations, "-o", folder, *plain, *more)


def answered(tmp_path: Path, *names: str) -> Path:
    """A folder with the files of simulated raters who prefer the second model."""
    key = read_key(tmp_path / "out.key.json")
    marks = dict.fromkeys(key.models, 0.1)
    crowd = Crowd(dict.fromkeys(AXES, 1.5), fit_opinions(0.5), marks)
    folder = tmp_path / "answers"
    folder.mkdir()
    for name in names or key.raters:
        (folder / f"{name}.json").write_bytes(answer_file(key, name, crowd))
    return folder


def test_links_are_printed_only_where_they_can_be_served(
    generations: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(generations, tmp_path / "out") == 0
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        key = tmp_path / "out.key.json"
        assert packets("serve", key, tmp_path / "out", "--port", port) == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert f"port {port}" in said
    assert "rater-01 " not in said


def test_from_generations_to_a_page(
    generations: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(generations, tmp_path / "out") == 0
    said = capsys.readouterr().err
    assert "6 items of 'sft', 'dapo'" in said
    assert "left out 1 id that not all models describe" in said
    # Six times 19 words at 150 a minute, and a minute to judge: 6.8 minutes.
    assert "rater-01: 6 tasks, about 7 min: Compare two descriptions of an image" in said
    key = tmp_path / "out.key.json"
    outputs = {name: tmp_path / f"o.{name}" for name in ("html", "json", "csv")}
    status = packets("read", key, answered(tmp_path), "--packet", tmp_path / "out",
                     "--page", outputs["html"], "--json", outputs["json"], "-o", outputs["csv"],
                     "--title", "<b>Us & them</b>")  # fmt: skip
    assert status == 0
    said = capsys.readouterr().out
    assert "dapo against sft: 6 items" in said
    assert "&lt;b&gt;Us &amp; them" in outputs["html"].read_text("utf-8")
    figures = json.loads(outputs["json"].read_text("utf-8"))
    assert figures["comparisons"][0]["axes"][0]["mean"]["mean"] > 0
    with outputs["csv"].open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 36
    assert {row["later"] for row in rows} == {"dapo"}
    for row in rows:
        sign = 1 if row["first"] == "dapo" else -1
        assert int(row["preference"]) == sign * int(row["choice"])


def test_a_packet_comes_from_one_spreadsheet_and_a_folder_of_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Semicolons as from Excel; names with and without an ending; a model without a text once."""
    pillow = pytest.importorskip("PIL.Image")
    (tmp_path / "photos").mkdir()
    for name, color in (("dog.png", "brown"), ("cat.png", "grey"), ("owl.png", "white")):
        pillow.new("RGB", (8, 8), color).save(tmp_path / "photos" / name)
    sheet = tmp_path / "paintings.csv"
    sheet.write_text(
        "picture;reference;Model A;Model B\ndog.png;A brown dog.;A dog.;A red dog.\n"
        "cat;A grey cat.;;A cat.\nowl;A white owl.;An owl.;A white owl.\n",
        "utf-8",
    )
    columns = ("--image", "picture", "--generation", "Model A", "--generation", "Model B")
    plain = ("--images", tmp_path / "photos", "--coarse", 2, "--repeated", 1)
    assert packets("make", sheet, *columns, *plain, "-o", tmp_path / "out") == 0
    assert "left out 1 id that not all models describe: 'cat'" in capsys.readouterr().err
    key = read_key(tmp_path / "out.key.json")
    assert key.models == ("Model A", "Model B")
    assert key.items["dog.png"].texts == {"Model A": "A dog.", "Model B": "A red dog."}
    assert key.items["owl"].image == str(tmp_path / "photos" / "owl.png")
    assert key.incomplete == ("cat",)
    assert packets("make", sheet, *columns[2:], *plain, "-o", tmp_path / "other") == EXIT_UNUSABLE
    assert "has no column 'image'" in capsys.readouterr().err


def wide_sheet(folder: Path, *rows: str) -> Path:
    sheet = folder / "paintings.csv"
    sheet.write_text("\n".join(["photo;reference;plain;long", *rows]), "utf-8")
    return sheet


WIDE = ("--image", "photo", "--generation", "plain", "--generation", "long", "--coarse", 1,
        "--repeated", 0)  # fmt: skip


def test_rows_are_numbered_as_the_spreadsheet_shows_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line 1 has the columns' names, so the third image is in line 4."""
    rows = ("a;A dog.;A dog.;A red dog.", "b;A cat.;A cat.;A red cat.", "a;An owl.;An owl.;A bird.")
    sheet = wide_sheet(tmp_path, *rows)
    assert packets("make", sheet, *WIDE, "--no-images", "-o", tmp_path / "out") == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert "paintings.csv', line 4, id 'a': the id 'a' occurs twice" in said
    assert "paintings.csv', line 2" in said


def test_all_missing_images_are_counted_and_the_first_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pillow = pytest.importorskip("PIL.Image")
    pillow.new("RGB", (8, 8)).save(tmp_path / "Dog.PNG")
    rows = [f"{name};A dog.;A dog.;A red dog {name}." for name in ("dog.png", "", "x", "y")]
    sheet = wide_sheet(tmp_path, *rows)
    folder = ("--images", tmp_path)
    assert packets("make", sheet, *WIDE, *folder, "-o", tmp_path / "out") == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert "4 of 4 images cannot be found" in said
    assert "dog.png' (did you mean 'Dog.PNG'?)" in said
    assert "the cell is empty" in said
    assert "paintings.csv', line 3" in said
    assert "and 1 more" in said
    assert "--dataset" not in said


def test_a_text_that_names_its_model_is_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ("a;A dog.;A Plain dog.;A red dog.", "b;A cat.;A cat.;A plain cat along a wall.")
    sheet = wide_sheet(tmp_path, *rows)
    assert packets("make", sheet, *WIDE, "--no-images", "-o", tmp_path / "out") == 0
    said = capsys.readouterr().err
    assert "texts contain their model's name: 'plain' (" in said
    assert "line 2)" in said
    assert "line 3)" not in said  # the other model's name, and one within a word


@pytest.mark.parametrize("columns", ["image;reference", "photo;truth"])
def test_tables_of_practice_have_the_usual_columns_or_the_studys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    pillow = pytest.importorskip("PIL.Image")
    pillow.new("RGB", (8, 8)).save(tmp_path / "a.png")
    sheet = tmp_path / "paintings.csv"
    sheet.write_text("photo;truth;plain;long\na.png;A dog.;A dog.;A red dog.\n", "utf-8")
    known = tmp_path / "known.csv"
    known.write_text(f"{columns};better;worse\na.png;A dog.;A dog.;A cat.\n", "utf-8")
    made = ("make", sheet, *WIDE, "--reference", "truth", "--practice", known)
    assert packets(*made, "-o", tmp_path / "out") == 0
    known.write_text(f"{columns};beter;worse\na.png;A dog.;A dog.;A cat.\n", "utf-8")
    capsys.readouterr()
    assert packets(*made, "-o", tmp_path / "other") == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert "--practice " in said
    assert "has no column 'better' (did you mean 'beter'?)" in said
    assert "--generation" not in said


def test_practice_and_attention_come_from_tables(
    generations: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = tmp_path / "known.csv"
    known.write_text("reference,better,worse,why\nA dog.,A dog.,A cat.,It barks.\n", "utf-8")
    tables = ("--practice", known, "--attention", known)
    assert make(generations, tmp_path / "out", *tables) == 0
    assert (
        "rater-01: 7 tasks, about 9 min" in capsys.readouterr().err
    )  # six pairs and an attention task
    assert packets("read", tmp_path / "out.key.json", answered(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "dapo against sft: 6 items" in said
    assert "attention" not in said
    more = (*tables, "--coarse", 0, "--granular", 2)
    assert make(generations, tmp_path / "marks", *more) == EXIT_UNUSABLE
    assert "--practice is for raters who compare" in capsys.readouterr().err


@pytest.mark.slow
def test_a_refused_file_and_a_missing_rater_are_named(
    generations: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(generations, tmp_path / "out")
    folder = answered(tmp_path, "rater-01")
    (folder / "bad.json").write_text("{")
    assert packets("read", tmp_path / "out.key.json", folder) == 3
    said = capsys.readouterr().err
    assert "bad.json: not a file of answers: not JSON" in said
    assert "nothing counts yet from rater-02" in said
    (folder / "rater-01.json").unlink()
    assert packets("read", tmp_path / "out.key.json", folder) == 2
    assert "no file of answers counts" in capsys.readouterr().err
    assert packets("read", tmp_path / "out.key.json", folder, "--leave-out", "x") == 2
    assert "unknown rater 'x'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--coarse", "13"), "only 12 tasks for 13 raters"),
        (("--times", "3"), "3 raters cannot share a task if there are only 2"),
        (("--reference", "truth"), "sft.jsonl' has no column 'truth', but 'id', 'image'"),
        (("--key", "{out}/key.json"), "would be handed over"),
    ],
)
def test_what_cannot_be_made_is_said(
    generations: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    more: tuple[str, str], why: str,
) -> None:  # fmt: skip
    out = tmp_path / "out"
    assert make(generations, out, *(each.format(out=out) for each in more)) == 2
    assert why in capsys.readouterr().err
    assert not out.exists()


def test_images_come_from_the_rows_of_the_dataset_that_was_described(
    generations: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("datasets")
    references = load_images("scenes:heldout=7", "test")["reference"]
    for path in generations:
        write_rows(path, [{**row, "reference": references[row["image"]]} for row in rows_in(path)])
    flags = ("-o", tmp_path / "out", "--coarse", 2, "--repeated", 0, "--dataset")
    assert packets("make", *generations, *flags, "scenes:heldout=7:seed=5") == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert re.search(r"'p(\d)' is not about image \1 of 'scenes:heldout=7:seed=5'", said)
    assert not (tmp_path / "out").exists()
    assert packets("make", *generations, *flags, "scenes:heldout=7") == 0
    assert b"data:image/jpeg;base64," in (tmp_path / "out" / "rater-01.html").read_bytes()


def test_a_study_in_ones_own_words_without_references(
    generations: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    for path in generations:
        rows = [{"id": row["id"], "generation": row["generation"], "image": "a.png"}
                for row in rows_in(path)]  # fmt: skip
        write_rows(path, rows)
    own = tmp_path / "texts.yaml"
    assert packets("texts", "--language", "de", "-o", own) == 0
    own.write_text(own.read_text("utf-8").replace("Bewertende", "Ehrenamtliche")
                   .replace('contact: ""', "contact: Fragen an Anna"), "utf-8")  # fmt: skip
    flags = ("-o", tmp_path / "out", "--coarse", 2, "--repeated", 0, "--no-reference")
    assert packets("make", *generations, *flags, "--texts", own) == 0
    page = (tmp_path / "out" / "rater-01.html").read_text("utf-8")
    assert "Fragen an Anna" in page
    assert "Welche Beschreibung hätten Sie lieber anstelle des Bildes?" in page
    assert "Richtige Beschreibung" not in page
    capsys.readouterr()
    assert packets("make", *generations, *flags, "--language", "xx") == EXIT_UNUSABLE
    assert "no texts in 'xx': choose one of en, nl, de, fr, es" in capsys.readouterr().err


def test_a_rater_set_aside_is_in_no_table_and_readings_are_counted(
    generations: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(generations, tmp_path / "out") == 0
    folder = answered(tmp_path, "rater-01")
    rows = tmp_path / "rows.csv"
    key = tmp_path / "out.key.json"
    assert packets("read", key, folder) == 0
    assert "were read" not in capsys.readouterr().out
    crowd = Crowd(dict.fromkeys(AXES, 1), fit_opinions(0.5), {})
    (folder / "rater-02.json").write_bytes(answer_file(read_key(key), "rater-02", crowd))
    left_out = ("--leave-out", "rater-01", "-o", rows, "--delimiter", ";")
    assert packets("read", key, folder, *left_out) == 0
    said = capsys.readouterr()
    assert "New answers were read 2 times" in said.out
    assert said.out.startswith("1 rater of 2 answered 6 tasks. Set aside on request: rater-01.")
    assert f"wrote {str(rows)!r} (18 rows)" in said.err
    with rows.open(newline="", encoding="utf-8-sig") as file:
        written = list(csv.DictReader(file, delimiter=";"))
    assert {row["rater"] for row in written} == {"rater-02"}
    assert all("," in row["seconds"] for row in written)  # as in a German Excel
    assert packets("read", key, folder, "-o", tmp_path / "rows.xlsx") == EXIT_UNUSABLE
    assert capsys.readouterr().out == ""
    assert len((tmp_path / "out.readings.jsonl").read_text().splitlines()) == 2


def test_people_and_metric_on_the_same_items(
    generations: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two raters of each pair prefer the later model, which has the right colour, as POSH does."""
    assert make(generations, tmp_path / "out", "--granular", 2) == 0
    pairs, spans = tmp_path / "pairs.csv", tmp_path / "spans.jsonl"
    key = tmp_path / "out.key.json"
    tables = ("--pairs", pairs, "--spans", spans)
    assert packets("read", key, answered(tmp_path), *tables) == 0
    with pairs.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert {row["raters"] for row in rows} == {"2"}
    figures, page = tmp_path / "a.json", tmp_path / "a.html"
    outputs = ("--page", page, "--json", figures, "--resamples", 0, "-q", "--title", "Dogs")
    assert main(["agreement", "pairs", *map(str, (pairs, *outputs))]) == 0
    lines = {line["name"]: line for line in json.loads(figures.read_text("utf-8"))["metrics"]}
    assert set(lines) == {"POSH", "POSH entities", "POSH attributes", "POSH relations"}
    assert lines["POSH"]["figures"]["mistakes rho"]["rows"] == 12
    assert lines["POSH"]["figures"]["mistakes rho"]["value"] > 0.5
    html = page.read_text("utf-8")
    assert html.count("<article>") == 6  # both raters' answers about a pair are together
    assert '<mark class="absent"' in html
    capsys.readouterr()
    quick = ["agreement", "spans", str(spans), "--resamples", "0", "-q", "--page", f"{page}l"]
    assert main(quick) == 0
    assert "24 marked pairs, 6 images" in capsys.readouterr().out
    html = Path(f"{page}l").read_text("utf-8")
    assert html.count("<article>") == 12  # six texts of each model
    assert '<mark class="people">' in html
    assert main([*quick, "--no-posh", "--random"]) == EXIT_UNUSABLE
    assert "--page shows POSH's marks" in capsys.readouterr().err


def test_a_table_of_what_nobody_answered_is_not_written(
    generations: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(generations, tmp_path / "out") == 0
    spans = tmp_path / "spans.csv"
    key = tmp_path / "out.key.json"
    assert packets("read", key, answered(tmp_path), "--spans", spans) == EXIT_UNUSABLE
    assert "--pairs takes comparisons, --spans marked texts" in capsys.readouterr().err
    assert not spans.exists()


def test_what_pushing_needs_is_said_before_anything_is_sent(
    generations: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert make(generations, tmp_path / "out") == 0
    push = ("push", tmp_path / "out.key.json", tmp_path / "out", "--url", "http://127.0.0.1:9")
    monkeypatch.delenv("LABEL_STUDIO_API_KEY", raising=False)
    assert packets(*push) == EXIT_UNUSABLE
    assert "LABEL_STUDIO_API_KEY is not set" in capsys.readouterr().err
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "secret")
    assert packets(*push) == EXIT_UNUSABLE  # no client, or no server
    said = capsys.readouterr().err
    assert "[labelstudio]" in said or "cannot reach Label Studio" in said
    assert "secret" not in said
