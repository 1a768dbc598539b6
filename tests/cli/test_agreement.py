"""``agreement`` as people run it: real files, from judgments to a table, JSON, a page, a plot."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from posh_reward.cli import EXIT_OK, EXIT_UNUSABLE, main
from tests.cli.running import run, write_rows
from tests.stores import rows_by_kind
from tests.study.agreement.judgment_rows import caparena_rows, docent_rows

QUICK = ("--resamples", 10, "--quiet")


def without_judge(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def found_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_docent_with_everything_to_compare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = docent_rows(8)
    for row in rows:
        row["mine1"], row["mine2"] = row["model1_generation"][-5:], row["model2_generation"][-5:]
    scores = write_rows(tmp_path / "scores.jsonl", [
        {"generation": row[f"model{n}_generation"], "reference": row["reference"], "score": n}
        for row in rows for n in (1, 2)
    ])  # fmt: skip
    source = write_rows(tmp_path / "docent.jsonl", rows)
    arguments = ("agreement", "docent", source, *QUICK, "--column", "mine", "--scores",
                 f"file={scores}", "--baseline", "length,cider,rouge")  # fmt: skip
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    assert run(*arguments) == EXIT_OK
    said = capsys.readouterr().out
    for words in ("docent.jsonl: 8 pairs of 4 images", "minus POSH", "ROUGE-LS: not measured",
                  "POSH (paper, Table 3)", "0.599", "Higher is better"):  # fmt: skip
        assert words in said
    assert run(*arguments, "--json", "-", "--store", tmp_path / "kept.sqlite") == EXIT_OK
    found = found_json(capsys)
    names = [metric["name"] for metric in found["metrics"]]
    kinds = ["POSH entities", "POSH attributes", "POSH relations"]
    assert names == ["POSH", "file", "length", "CIDEr", *kinds, "mine", "ROUGE-LS"]
    assert found["metrics"][7]["figures"]["overall rho"]["rows"] == 8
    assert found["metrics"][0]["signature"].startswith("posh|")
    assert found["compared_with"] == "POSH"
    # Graphs of all texts are kept, so that a run that broke off does not parse them again.
    assert rows_by_kind(tmp_path / "kept.sqlite")["graph"] == 16 + 4


def test_caparena_from_a_list_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "caparena_annots_eval.json"
    source.write_text(json.dumps(caparena_rows(30)))
    arguments = ("--no-posh", "--baseline", "length", "--paper", "6", *QUICK)
    assert run("agreement", "caparena", source, *arguments) == EXIT_OK
    said = capsys.readouterr().out
    assert "LLaVa Critic (paper, Table 6)" in said
    assert "acc in people" in said


def test_spans_with_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dog = "A dog sleeps."
    spans = [{"generation": "A red dog sleeps.", "reference": dog, "mistakes": [[2, 5]],
              "omissions": []}]  # fmt: skip
    encoder = ("--random", "--encoder", "tests.study.agreement.test_baselines:letters")
    source = write_rows(tmp_path / "spans.jsonl", spans)
    assert run("agreement", "spans", source, *encoder, *QUICK) == EXIT_OK
    said = capsys.readouterr().out
    for name in ("POSH", "random", "4GramEmbed", "SGEmbed", "held out", "POSH (paper, Table 2)"):
        assert name in said


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("pairs", "{}"), "has no column 'generation1', but 'a': name the right one with --gen"),
        (("ratings", "{}"), "has no column 'generation', but 'a': name the right one with --gener"),
        (("docent", "{}"), "has no column 'model1_generation', but 'a': rename it"),
        (("pairs", "{}", "--image", "img"), "has no column 'img', but 'a': name the right one"),
        (("caparena", "{}"), "has no column 'img', but 'a'"),
        (("spans", "{}"), "has no column 'generation', but 'a'"),
        (("pairs", "none.jsonl"), "cannot read 'none.jsonl'"),
        (("pairs", "{}", "--json", "{}"), "exists and is not a JSON file of figures"),
        (("pairs", "{}", "--label", "total=a"), "the axis 'total' is unknown: use mistakes"),
        (("pairs", "{}", "--label", "a", "--label", "overall=a"), "'overall' is named twice"),
    ],
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], why: str
) -> None:
    source = write_rows(tmp_path / "in.jsonl", [{"a": 1}])
    assert run("agreement", *(each.format(source) for each in arguments), *QUICK) == EXIT_UNUSABLE
    assert why in capsys.readouterr().err


@pytest.fixture
def seeing(tmp_path: Path) -> Path:
    model = tmp_path / "model.yaml"
    model.write_text("name: fake-model\nsees: true\n")
    return model


def test_harmonic_eval_and_figures_of_each_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seeing: Path
) -> None:
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    table = [{"image": str(tmp_path / "a.png"), "references": ["A dog."], "generation": text,
              "rating": n, "task": task} for task in ("IC", "REG")
             for n, text in enumerate(("A dog.", "A.", "Dog."))]  # fmt: skip
    of_ratings = ("agreement", "ratings", write_rows(tmp_path / "r.jsonl", table), *QUICK,
                  "--no-posh", "--harmonic-judge", seeing, "--criteria",
                  "correctness,completeness", "--gamma", "1", "--json", "-")  # fmt: skip
    assert without_judge(*of_ratings) == EXIT_OK
    [harmonic] = found_json(capsys)["metrics"]
    assert "|gamma:1.0|criteria:correctness,completeness|" in harmonic["signature"]
    assert harmonic["failures"] == {}
    by_task = (*of_ratings, "--group", "task", "--column", "rating")
    assert without_judge(*by_task) == EXIT_OK
    _, rating = found_json(capsys)["metrics"]
    assert rating["figures"]["overall IC tau_b"]["value"] == pytest.approx(1)
    assert rating["figures"]["overall REG pairs"]["value"] == 1
    assert without_judge(*by_task[:-4], "--group", "kind") == EXIT_UNUSABLE
    assert "name the right one with --group" in capsys.readouterr().err


def test_images_of_a_dataset_are_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seeing: Path
) -> None:
    from datasets import Dataset, Image
    from PIL import Image as Pillow

    rows = docent_rows(4)
    for row in rows:
        Pillow.new("RGB", (8, 8)).save(tmp_path / f"{row['uuid']}.png")
        row["image"] = str(tmp_path / f"{row['uuid']}.png")
    bare = [{k: v for k, v in row.items() if k != "image"} for row in rows]
    Dataset.from_list(rows).cast_column("image", Image()).save_to_disk(tmp_path / "docent")
    command = ("--no-posh", "--harmonic-judge", seeing, "--json", "-", *QUICK)
    assert without_judge("agreement", "docent", tmp_path / "docent", *command) == EXIT_OK
    [in_rows] = found_json(capsys)["metrics"]
    assert in_rows["failures"] == {}
    assert in_rows["figures"]["overall acc"]["rows"] == 4
    source = write_rows(tmp_path / "bare.jsonl", bare)
    assert without_judge("agreement", "docent", source, "--images", tmp_path, *command) == EXIT_OK
    assert found_json(capsys)["metrics"] == [in_rows]
    assert without_judge("agreement", "docent", source, *command) == EXIT_UNUSABLE
    assert "HarmonicEval needs images, and no row has one" in capsys.readouterr().err


def test_ratings_as_people_have_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Excel's UTF-16 with semicolons, decimal commas, and a cell that is not available."""
    path = tmp_path / "in.csv"
    path.write_text(
        "generation;reference;rating\nA dog runs.;A dog runs.;4,5\nA cat.;A dog runs.;1,0\n"
        "A bird.;A dog runs.;#N/A\n",
        "utf-16",
    )
    command = ("--no-posh", "--baseline", "words", *QUICK, "--json", "-")
    columns = ("--reference", "reference", "--delimiter", ";")
    assert without_judge("agreement", "ratings", path, *columns, *command) == EXIT_OK
    figures = found_json(capsys)["metrics"][0]["figures"]
    assert figures["overall r"]["rows"] == 2
    assert figures["overall r"]["value"] == pytest.approx(1)


def test_the_share_of_contradicted_sentences_is_a_row_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reference has a red coat: the worse the rating, the more sentences contradict it."""
    reference = "A monk in a red coat reads a letter. Two ships sail under a dark sky."
    texts = {
        3: reference,
        2: "A monk in a blue coat reads a letter. Two ships sail under a dark sky.",
        1: "A monk in a blue coat reads a letter. Six ships sail under a dark sky.",
    }
    rows = [
        {"generation": text, "references": reference, "mistakes": rating, "omissions": 2}
        for rating, text in texts.items()
    ]
    metric = tmp_path / "metric.json"
    metric.write_text(json.dumps({"reader": "judge", "processes": 1}))
    common = ["--metric", str(metric), "--json", "-", "--resamples", "0", "--quiet"]
    source = write_rows(tmp_path / "in.jsonl", rows)
    flags = ["--rating", "mistakes=mistakes", "--rating", "omissions=omissions"]
    assert main(["agreement", "ratings", str(source), *flags, *common]) == EXIT_OK
    posh, share, *_ = found_json(capsys)["metrics"]
    assert (share["name"], share["signature"]) == ("POSH contradicted", posh["signature"])
    assert share["figures"]["mistakes tau_b"]["value"] == pytest.approx(1)
    assert share["figures"]["omissions tau_b"]["rows"] == 0
    battles = tmp_path / "arena.json"
    battles.write_text(json.dumps(caparena_rows(4)))
    assert main(["agreement", "caparena", str(battles), *common]) == EXIT_OK
    assert [each["name"] for each in found_json(capsys)["metrics"]] == ["POSH"]
