"""``score`` as people run it: real files."""

import csv
import json
from pathlib import Path

import pytest

from posh_reward import PoSh
from posh_reward.cli import EXIT_INCOMPLETE, EXIT_OK, EXIT_UNUSABLE, main
from posh_reward.datasets.load_dataset import load_images
from posh_reward.datasets.scenes import caption, draw_scene, generate_scenes
from posh_reward.metrics.records import find_failure_reason
from posh_reward.tables.reading import open_rows
from posh_reward.tables.tables import find_format, read_scores_of_row, read_table, write_table
from posh_reward.types import Failure
from tests.cli.running import GENERATION, REFERENCE, Row, pairs, rows_in, run, write_rows


def test_each_pair_becomes_one_row(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("score", table, "-o", tmp_path / "out.jsonl", "--id", "id") == EXIT_OK
    rows = rows_in(tmp_path / "out.jsonl")
    assert [row["id"] for row in rows] == ["p0", "p1", "p2", "p3", "p4"]
    assert all(0.2 <= row[axis] <= 1 for row in rows for axis in ("precision", "recall"))
    assert rows[0]["signature"].startswith("posh|preset:released|judge:fake")
    assert rows[0]["generation_elements"] > 0
    assert "elements" not in rows[0]
    said = capsys.readouterr()
    assert "scored 5 of 5 pairs; means: precision" in said.err
    assert not said.out


@pytest.mark.parametrize(
    ("flags", "ids"), [((), ["p0", "p1", "p2", "p3", "p4"]), (("--number-rows",), [1, 2, 3, 4, 5])]
)
def test_rows_are_piped_with_their_ids(
    table: Path, capsysbinary: pytest.CaptureFixture[bytes], flags: list[str], ids: list[object]
) -> None:
    assert run("score", table, "--elements", "--quiet", *flags) == EXIT_OK
    said = capsysbinary.readouterr()
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert [row["id"] for row in rows] == ids
    assert {element["kind"] for element in rows[0]["elements"]} >= {"entity", "relation"}
    assert not said.err


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_tables_say_what_json_lines_say(table: Path, tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    lines, other, again = (tmp_path / name for name in ("a.jsonl", f"b.{ending}", "c.jsonl"))
    assert run("score", table, "--id", "id", "-o", lines) == EXIT_OK
    assert run("score", table, "--id", "id", "-o", other) == EXIT_OK
    assert run("score", other, "--id", "id", "-o", again) == EXIT_OK
    assert rows_in(again) == rows_in(lines)
    assert {*tmp_path.iterdir()} == {table, lines, other, again}


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_finished_output_is_not_scored_again(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    out, whole = tmp_path / f"out.{ending}", tmp_path / f"whole.{ending}"
    flags = ("score", table, "--id", "id", "--elements", "-o")
    assert run(*flags, out) == EXIT_OK
    written = out.read_bytes()
    assert run(*flags, out) == EXIT_OK
    assert "5 of 5 pairs were scored before" in capsys.readouterr().err
    assert out.read_bytes() == written
    write_rows(table, pairs(7))
    for path in (out, whole):
        assert run(*flags, path) == EXIT_OK
    assert out.read_bytes() == whole.read_bytes()
    write_rows(table, pairs(8)[1:])
    assert run(*flags, out) == EXIT_UNUSABLE
    assert "does not match row 1 of the input" in capsys.readouterr().err
    assert out.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("*.journal.jsonl"))


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_rows_without_the_column_sentences_are_gone_on_with_unless_sentences_are_read(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    out, whole = tmp_path / f"out.{ending}", tmp_path / "whole.jsonl"
    flags = ("score", table, "--id", "id", "--elements", "-o")
    assert run(*flags, whole) == EXIT_OK
    earlier = rows_in(whole)[:3]
    for row in earlier:
        assert row.pop("sentences") == []
    write_table(earlier, out, find_format(out.name))
    written = out.read_bytes()
    assert run(*flags, out, "--reader", "embedded") == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert "was scored as posh|" in said
    assert "|reader:embedded-" in said.partition("not as posh|")[2]
    assert out.read_bytes() == written
    assert run(*flags, out) == EXIT_OK
    assert "3 of 5 pairs were scored before" in capsys.readouterr().err
    with open_rows(str(out)) as rows:
        found = list(map(read_scores_of_row, rows))
    expected = list(map(read_scores_of_row, rows_in(whole)))
    assert [each.sentences for each in found] == [()] * 5
    for kept, whole_row in zip(found, expected, strict=True):
        assert kept.f1 == pytest.approx(whole_row.f1, abs=1e-6)


def test_columns_are_named_by_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "in.csv"
    table.write_text(f"caption,truth\n{GENERATION},{REFERENCE}\n")
    assert run("score", table) == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert "no column 'generation', but 'caption', 'truth': name the right one" in said
    assert run("score", table, "--generation", "Capton", "--reference", "truth") == EXIT_UNUSABLE
    assert "no column 'Capton' (did you mean 'caption'?), but 'caption'" in capsys.readouterr().err
    out = tmp_path / "out.jsonl"
    assert (
        run("score", table, "--generation", "caption", "--reference", "truth", "-o", out) == EXIT_OK
    )
    assert rows_in(out)[0]["generation"] == GENERATION


def test_a_missing_text_fails_its_own_row_only(tmp_path: Path) -> None:
    nothing: list[Row] = [
        {"generation": GENERATION, "reference": REFERENCE},
        {"generation": None, "reference": REFERENCE},
        {"generation": GENERATION},
        {"generation": " \n", "reference": REFERENCE},
        {"generation": 7, "reference": REFERENCE},
        {"generation": "\ud83d half", "reference": REFERENCE},
    ]
    out = tmp_path / "out.jsonl"
    assert run("score", write_rows(tmp_path / "in.jsonl", nothing), "-o", out) == EXIT_INCOMPLETE
    assert [find_failure_reason(row) for row in rows_in(out)] == [
        None,
        "the generation is missing",
        "the reference is missing",
        None,  # an empty generation is scored: it makes no mistake, and leaves everything out
        "the generation is not a text but a value of type int",
        "the generation holds half a surrogate pair, which is not Unicode text",
    ]
    empty = rows_in(out)[3]
    assert (empty["precision"], empty["generation_elements"]) == (1.0, 0)
    assert empty["f1"] == PoSh("fake").score([""], [REFERENCE])[0].f1
    assert {row["failure"] and row["failure"]["kind"] for row in rows_in(out)} == {None, "text"}
    assert run("score", tmp_path / "in.jsonl", "-o", out) == EXIT_INCOMPLETE  # nothing left to do


def test_formulas_are_disarmed_in_csv_and_come_back(tmp_path: Path) -> None:
    texts = ["=cmd|' /C calc'!A0", "+1 dog", "-1 dog", "@SUM(A1)", "\tdog", "'=1", "'a dog'"]
    rows = [{"generation": text, "reference": REFERENCE} for text in texts]
    out, again = tmp_path / "out.csv", tmp_path / "again.jsonl"
    assert run("score", write_rows(tmp_path / "in.jsonl", rows), "-o", out) == EXIT_OK
    with out.open(newline="", encoding="utf-8-sig") as file:
        written = [row["generation"] for row in csv.DictReader(file)]
    assert written == [*("'" + text for text in texts[:-1]), "'a dog'"]
    assert run("score", out, "-o", again) == EXIT_OK
    assert [row["generation"] for row in rows_in(again)] == texts


@pytest.mark.parametrize(
    ("name", "content", "remedy"),
    [
        ("in.jsonl", b'{"generation": 1, "reference": 2}\nnonsense', "line 2: not JSON"),
        ("in.jsonl", b"[1]\n", "item 1: not a JSON object"),
        ("in.jsonl", b"\xff\n", "line 1: not JSON"),
        ("in.jsonl", b"", "has no rows"),
        ("in.csv", b"generation,reference\na dog, a cat, a bird\n", "that contain ',' in quotes"),
        ("in.csv", b"generation,reference\na caf\xe9,a dog\n", "save it as UTF-8"),
        ("in.txt", b"a\nb\n", "has no column 'generation', but 'a'"),
        ("in.csv.gz", b"\x1f\x8b", "is compressed: unpack it"),
        ("in.jsonl", b'{"generation": "a", "generation": "b"}\n', "'generation' occurs twice"),
        ("in.parquet", b"PAR1 not really", "not Parquet"),
        ("in.csv", b"\x89PNG\r\n\x1a\n", "is an image, not a table: name one with the texts"),
        ("in.jsonl", b"%PDF-1.7\n%\xe2\xe3", "is a PDF, not a table"),
    ],
)
def test_an_unusable_input_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, remedy: str
) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    assert run("score", tmp_path / name) == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert name in said
    assert remedy in said


@pytest.mark.parametrize(
    ("argument", "remedy"),
    [
        (".", "it is a folder; name a file in it, such as 'pairs.csv'"),
        ("pars.csv", "there is no such file (did you mean 'pairs.csv'?)"),
        ("A red dog sleeps.", "for two texts: posh-reward explain TEXT REFERENCE"),
    ],
)
def test_what_is_no_file_is_answered_with_what_was_meant(
    argument: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("pairs.csv").write_text("generation,reference\n")
    assert run("score", argument) == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert said.startswith(f"posh-reward: cannot read {argument!r}: ")
    assert said.endswith(f"{remedy}\n")
    assert said.count("\n") == 1


def test_a_split_without_its_dataset_is_refused(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("score", table, "--split", "trian") == EXIT_UNUSABLE
    assert "--split trian is a split of --dataset" in capsys.readouterr().err
    assert (
        run("score", table, "--witness", "oracle", "--dataset", "scenes", "--split", "trian") == 2
    )
    assert "no split 'trian' (did you mean 'train'?)" in capsys.readouterr().err


def test_scores_that_say_little_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    references = (REFERENCE, "Ein brauner Hund schläft auf dem Rasen im Garten.", "...", "茶色い犬")
    rows: list[Row] = [
        {"id": f"p{n}", "generation": GENERATION, "reference": text}
        for n, text in enumerate(references)
    ]
    rows += [{"id": "p4", "generation": " ", "reference": REFERENCE}]
    table = write_rows(tmp_path / "in.jsonl", rows)
    assert run("score", table, "--id", "id", "-o", tmp_path / "out.jsonl") == EXIT_OK
    said = capsys.readouterr().err
    assert "do not rely on 2 (ids 'p1', 'p3'): the reference does not read like English" in said
    assert "the only supported language, such as 'Ein brauner Hund schläft auf dem Rasen" in said
    assert "茶色い犬" not in said, "one example is enough"
    assert "do not rely on 1 (id 'p2'): the reference names nothing to look for" in said
    assert "do not rely on 1 (id 'p4'): the generation is empty, so nothing in it is wrong" in said


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_semicolons_are_seen_and_come_out_where_they_are_named(
    tmp_path: Path, encoding: str
) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    text = f"id;generation;reference\r\n1;{GENERATION};{REFERENCE}\r\n"
    source.write_bytes(text.encode(encoding))
    assert run("score", source, "-o", tmp_path / "out.jsonl") == EXIT_OK
    assert rows_in(tmp_path / "out.jsonl")[0]["generation"] == GENERATION
    assert run("score", source, "--delimiter", ";", "-o", out, "-q") == EXIT_OK
    assert out.read_text("utf-8-sig").startswith('"id";"generation";')


@pytest.mark.parametrize("source", ["file", "stdin"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"id": "p0"}, "row 3: the id 'p0' occurs twice: make ids unique"),
        ({"id": None}, "row 3: the id is missing"),
        ({"id": float("nan")}, "row 3: the id is missing"),
        ({"id": [[1]]}, "row 3: the id is not a text or a number"),
        ({"model": {"name": "a"}}, "row 3: the model is not a text"),
    ],
)
def test_an_id_that_cannot_be_used_is_named(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, source: str, change: Row, why: str,
) -> None:  # fmt: skip
    rows = rows_in(table)
    rows[2] |= change
    write_rows(table, rows)
    out = tmp_path / "out.jsonl"
    with table.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        name = table if source == "file" else "-"
        assert run("score", name, "--id", "id", "-o", out, "--batch", 1) == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert why in said
    assert (repr(str(table)) if source == "file" else "standard input") in said
    assert len(rows_in(out) if out.exists() else []) == (2 if source == "stdin" else 0)


def test_one_id_by_two_models_is_two_rows(tmp_path: Path) -> None:
    rows = [{"id": 1, "model": m, "generation": GENERATION, "reference": REFERENCE} for m in "ab"]
    assert run("score", write_rows(tmp_path / "in.jsonl", rows), "--id", "id") == EXIT_OK


def test_the_summary_names_the_rows_without_a_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[Row] = [
        {"id": f"p{i}", "generation": GENERATION, "reference": "" if i else REFERENCE}
        for i in range(6)
    ]
    rows[5]["reference"] = None
    assert run("score", write_rows(tmp_path / "in.jsonl", rows), "--id", "id") == EXIT_INCOMPLETE
    said = " ".join(capsys.readouterr().err.split())
    assert "no score for 4 (ids 'p1', 'p2', 'p3', 'p4'): the reference is empty" in said
    assert "no score for 1 (id 'p5'): the reference is missing" in said
    assert "0.2 to 1, higher is better; precision: how much" in said


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_witness_looks_at_the_images_of_a_table(tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    scene = next(scene for scene in generate_scenes("test", 20, 7) if scene.slots[0])
    draw_scene(scene).save(tmp_path / "drawn.png")
    texts = {"generation": caption(scene), "reference": "There is a bridge."}
    table = write_rows(tmp_path / "in.jsonl", [{**texts, "image": "drawn.png"}, texts])
    out = tmp_path / f"out.{ending}"
    flags = ("--witness", "scenes:train=0:heldout=20:seed=7", "--elements", "--image", "image")
    assert run("score", table, "-o", out, *flags) == EXIT_INCOMPLETE
    with out.open("rb") as file:
        first, second = read_table(file, "out", find_format(out.name))
    assert float(first["precision"]) > 0.7
    assert "|witness:oracle-1:scenes" in first["signature"]
    assert [e.witness for e in read_scores_of_row(first).elements].count("image") > 3
    assert read_scores_of_row(second).failure == Failure("text", "there is no image")


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_witness_looks_at_the_rows_of_the_dataset_that_was_described(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    pytest.importorskip("datasets")
    described = "scenes:train=0:heldout={}:uneven=1:seed=7"
    drawn = load_images(described.format(3), "test")
    rows = [
        {"id": uuid, "image": n, "generation": f"{reference} A fan.", "reference": reference}
        for n, (uuid, reference) in enumerate(zip(drawn["uuid"], drawn["reference"], strict=True))
    ]
    table, out, name = tmp_path / f"in.{ending}", tmp_path / "out.jsonl", described.format(2)
    write_table(rows, table, find_format(str(table)))
    flags = ("score", table, "--id", "id", "-o", out, "--elements", "--overwrite")
    witness = ("--witness", name)
    assert run(*flags, "--dataset", name) == EXIT_UNUSABLE
    assert "only a witness looks at --dataset" in capsys.readouterr().err
    assert run(*flags, *witness, "--dataset", f"{name}0") == EXIT_UNUSABLE
    assert f"a text is not about image 0 of '{name}0'" in capsys.readouterr().err
    assert run(*flags, *witness) == EXIT_INCOMPLETE
    assert "the image 0 is a row of a dataset: name the" in rows_in(out)[0]["failure"]["detail"]
    assert run(*flags, *witness, "--dataset", name) == EXIT_INCOMPLETE
    *seen, beyond = rows_in(out)
    assert all(row["precision"] is not None for row in seen)
    assert any(each.image_grade for row in seen for each in read_scores_of_row(row).elements)
    assert (
        find_failure_reason(beyond) == f"its image is beyond the end of {name!r}, which has 2 rows"
    )


def test_a_witness_needs_a_column_of_images(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("score", table, "--witness", "scenes:train=0:heldout=1") == EXIT_UNUSABLE
    assert "no column 'image'" in capsys.readouterr().err


@pytest.mark.slow
def test_several_processes_write_the_same_file(tmp_path: Path) -> None:
    table = write_rows(tmp_path / "in.jsonl", pairs(7))
    for judge in ("embedded", "fake"):
        for name, count in (("one.csv", "1"), ("two.csv", "2")):
            flags = ["-o", str(tmp_path / name), "-q", "--elements", "--batch", "3", "--overwrite"]
            flags += ["--judge", judge, "--processes", count]
            assert main(["score", str(table), *flags]) == EXIT_OK
        assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_several_references_of_a_row_are_one_text(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"generation": "A red dog sleeps.", "reference": ["A dog sleeps", "It is brown."]},
        {"generation": "A red dog sleeps.", "reference": ["A dog sleeps."]},
        {"generation": "A red dog sleeps.", "reference": []},
    ]
    table, out = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    for _ in range(2):  # the second time all of it was scored before
        assert main(["score", str(table), "-o", str(out), "-q"]) == EXIT_INCOMPLETE
    several, one, none = rows_in(out)
    assert several["reference"] == "A dog sleeps. It is brown."
    assert "|references:joined" in several["signature"]
    assert one["reference"] == "A dog sleeps."
    assert "references" not in one["signature"]
    assert none["failure"]["kind"] == "text"


def test_an_id_with_a_nul_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_rows(tmp_path / "in.jsonl", [{**pairs(1)[0], "id": "a\0b"}])
    assert run("score", table, "-o", tmp_path / "out.parquet", "--id", "id") == EXIT_UNUSABLE
    assert r"the id 'a\x00b' contains a NUL" in capsys.readouterr().err


MARKED = "<think>A cat?</think>**A brown dog** sleeps on a mat.<|im_end|>"
PLAIN = "A brown dog sleeps on a mat."


def test_clean_reads_both_sides_as_a_reward_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [(MARKED, PLAIN), (PLAIN, f"<p>{PLAIN}</p>"), (PLAIN, PLAIN)]
    rows = [{"generation": said, "reference": true} for said, true in texts]
    table, out = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    flags = ["--clean", "--elements", "-o", str(out)]
    assert main(["score", str(table), *flags]) == EXIT_OK
    scored = rows_in(out)
    assert len({row["f1"] for row in scored}) == 1
    assert all(row["signature"].endswith("|texts:cleaned") for row in scored)
    for row in scored:  # marks are in the text that the row has
        [start, end] = row["elements"][0]["spans"][0]
        assert "dog" in read_scores_of_row(row).generation[start:end]
    assert main(["score", str(table), *flags]) == EXIT_OK  # resumes
    capsys.readouterr()
    assert main(["score", str(table), *flags[1:]]) == EXIT_UNUSABLE
    assert "was scored as" in capsys.readouterr().err


def test_markup_that_is_read_as_given_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_rows(tmp_path / "in.jsonl", [{"id": 7, "generation": MARKED, "reference": PLAIN}])
    assert main(["score", str(table), "-o", str(tmp_path / "out.jsonl")]) == EXIT_OK
    assert "do not rely on 1 (id 7): the generation has markup" in capsys.readouterr().err
