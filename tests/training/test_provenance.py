"""Every number leads back to the weights behind it, and a broken step shows."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from posh_reward.cli import main
from posh_reward.datasets.load_dataset import PAPER_PROMPT
from posh_reward.errors import InputError
from posh_reward.models.hub import weights_fingerprint
from posh_reward.training.generation import GenerationSettings, generate, recorded_prompt

SCENES = "scenes:heldout=3:plain=1"


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def other_weights(folder: Path) -> None:
    [file] = folder.glob("*model.safetensors")
    tensors = load_file(file)
    save_file({n: v + torch.rand_like(v) for n, v in tensors.items()}, file, {"format": "pt"})


@pytest.fixture
def model(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "model"))


@pytest.fixture
def how(model: Path, tmp_path: Path) -> GenerationSettings:
    return GenerationSettings(
        {"model": str(model)}, tmp_path / "said.jsonl", SCENES, max_new_tokens=4
    )


CHANGES: dict[str, Callable[[GenerationSettings], GenerationSettings]] = {
    "max new tokens 4 before and 8 now": lambda how: replace(how, max_new_tokens=8),
    "repetition penalty 1 before and 1.1 now": lambda how: replace(how, repetition_penalty=1.1),
    "prompt": lambda how: replace(how, prompt_text="What is there?"),
    "max pixels": lambda how: replace(how, max_pixels=3136),
    r"engine transformers 5\.[\d.]+ before and vllm \S+ now": lambda how: replace(
        how, engine="vllm"
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_descriptions_of_other_settings_are_not_kept(how: GenerationSettings, change: str) -> None:
    assert generate(how) == {"model": 3}
    before = how.output.read_bytes()
    assert generate(how) == {"model": 0}
    with pytest.raises(InputError, match=rf"would not write \(.*{change}.*another --output"):
        generate(CHANGES[change](how))
    assert how.output.read_bytes() == before


def test_descriptions_of_other_weights_are_not_kept(how: GenerationSettings, model: Path) -> None:
    generate(replace(how, limit=2))
    other_weights(model)
    with pytest.raises(InputError, match=r"would not write \(weights \w{16} before and \w{16} now"):
        generate(how)
    before = how.output.read_bytes()
    with pytest.raises(InputError, match="descriptions by 'model' that this model would not"):
        generate(replace(how, models={"first": str(model), "model": str(model)}))
    assert how.output.read_bytes() == before, "checked before any model describes"
    assert generate(replace(how, models={"new": str(model)})) == {"new": 3}


def test_a_copied_model_and_a_second_one_may_go_on(
    how: GenerationSettings, model: Path, tiny: Path
) -> None:
    generate(replace(how, limit=2))
    moved = model.rename(model.with_name("moved"))
    assert generate(replace(how, models={"model": str(moved), "tiny": str(tiny)})) == {
        "model": 1, "tiny": 3,
    }  # fmt: skip


def test_rows_of_before_are_read_and_named(
    how: GenerationSettings, caplog: pytest.LogCaptureFixture
) -> None:
    generate(replace(how, limit=2))
    old = [{k: v for k, v in row.items() if k != "origin"} for row in rows_of(how.output)]
    how.output.write_text("".join(json.dumps(row) + "\n" for row in old))
    assert generate(how) == {"model": 1}
    for _ in range(2):  # also once the file has rows that do say it
        assert "does not say which weights made 2 rows of model" in caplog.text
        caplog.clear()
        assert generate(how) == {"model": 0}


def test_a_mixture_is_refused_by_those_who_read_it(
    how: GenerationSettings, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(replace(how, limit=2))
    other_weights(model)
    parts = [how.output, tmp_path / "more.jsonl"]
    generate(replace(how, output=parts[1]))
    both = tmp_path / "both.jsonl"
    both.write_text(parts[0].read_text() + "".join(parts[1].read_text().splitlines(True)[2:]))
    assert main(["score", str(both), "-o", str(tmp_path / "scores.jsonl"), "--id", "id"]) == 2
    assert "rows of 'model' are of different models or settings (weights" in capsys.readouterr().err
    assert main(["trace", str(both)]) == 2
    assert "BROKEN: rows of 'model' are of different" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_scores_lead_back_to_the_weights(
    how: GenerationSettings, model: Path, tmp_path: Path, ending: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    generate(how)
    scores = str(tmp_path / f"scores.{ending}")
    score = ["score", str(how.output), "-o", scores, "--id", "id", "--quiet"]
    assert main(score) in (0, 3)
    assert main(score) in (0, 3), "it resumes"
    assert main(["trace", scores]) == 0
    said = capsys.readouterr().out
    assert f"weights: {weights_fingerprint(model)}" in said
    assert "run: not recorded" in said
    other_weights(model)
    assert main(["trace", scores]) == 2
    printed = capsys.readouterr()
    assert "BROKEN: the step before used weights" in printed.out
    assert f"are broken: weights {model}" in printed.err


def test_a_column_of_that_name_may_have_something_else(tmp_path: Path) -> None:
    table, scores = tmp_path / "museum.csv", tmp_path / "scores.jsonl"
    table.write_text("generation,reference,origin\nA dog.,A dog runs.,Delft\nA cat.,A cat.,Rome\n")
    assert main(["score", str(table), "-o", str(scores), "--quiet"]) == 0
    assert "origin" not in rows_of(scores)[0]
    assert main(["trace", str(scores)]) == 0


def test_a_study_leads_back_to_its_weights_and_raters_see_none_of_it(
    how: GenerationSettings, model: Path, tiny: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    other_weights(model)
    generate(replace(how, models={"first": str(tiny), "second": str(model)}))
    packet, key = tmp_path / "packet", tmp_path / "packet.key.json"
    make = ["packets", "make", str(how.output), "-o", str(packet), "--no-images"]
    assert main([*make, "--coarse", "2", "--times", "2"]) == 0
    origins = json.loads(key.read_text())["origins"]
    fingerprints = [weights_fingerprint(folder) or "" for folder in (tiny, model)]
    assert [origins[name].split("|")[0] for name in ("first", "second")] == [
        f"weights:{each}" for each in fingerprints
    ]
    handed_out = b"".join(file.read_bytes() for file in packet.rglob("*") if file.is_file())
    for hidden in (*fingerprints, str(model), str(tiny), "origin"):
        assert hidden.encode() not in handed_out
    assert main(["trace", str(key)]) == 0
    said = capsys.readouterr().out
    assert [said.count(each) for each in fingerprints] == [2, 2], "as recorded, and as they are"
    generate(replace(how, models={"third": str(tiny)}))
    assert main(["trace", str(key)]) == 0
    assert "changed; they have all of its texts" in capsys.readouterr().out


def scored(rows: Path) -> Path:
    scores = rows.with_suffix(".scores.jsonl")
    score = ["score", str(rows), "-o", str(scores), "--id", "id", "--quiet"]
    assert main([*score, "--judge", "fake"]) in (0, 3)
    return scores


def test_models_are_compared_only_if_described_alike(
    how: GenerationSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(how)
    [(name, folder)] = how.models.items()
    others = replace(how, models={"other": folder}, output=tmp_path / "others.jsonl")
    generate(replace(others, max_new_tokens=6))
    said = tmp_path / "both.jsonl"
    said.write_text(how.output.read_text() + others.output.read_text())
    page = ["-o", str(tmp_path / "page.html")]
    pages = ["-o", str(tmp_path / "packet"), "--no-images", "--coarse", "2", "--times", "2"]
    for asked in (["report", str(scored(said)), *page], ["packets", "make", str(said), *pages]):
        assert main(asked) == 2
        assert f"max new tokens: {name} 4, other 6" in capsys.readouterr().err
        assert main([*asked, "--allow-differences"]) == 0
        assert f"warning: max new tokens: {name} 4, other 6" in capsys.readouterr().err


def test_a_report_names_its_origins_and_takes_no_mixture(
    how: GenerationSettings, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(how)
    scores, page = scored(how.output), tmp_path / "page.html"
    assert main(["report", str(scores), "-o", str(page)]) == 0
    assert re.search(
        rf"weights:{weights_fingerprint(model)}\|config:\w+\|engine:transf", page.read_text("utf-8")
    )
    first, *others = rows_of(scores)
    for change in ({"signature": "posh|other"}, {"origin": first["origin"].replace("4", "5")}):
        rows = [{**first, **change}, *others]
        scores.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert main(["report", str(scores), "-o", str(page), "--allow-differences"]) == 2
        assert "rows of 'model' are of different models or settings" in capsys.readouterr().err
    other = {**first, "model": "other", "signature": "posh|other"}
    scores.write_text("".join(json.dumps(row) + "\n" for row in (first, *others, other)))
    assert main(["report", str(scores), "-o", str(page)]) == 2
    assert "scored as: model posh|preset:released|" in capsys.readouterr().err


def test_one_model_with_two_names_is_said(
    how: GenerationSettings, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(replace(how, models={"seed0": str(model), "seed1": str(model)}))
    assert main(["report", str(scored(how.output)), "-o", str(tmp_path / "page.html")]) == 0
    assert "warning: seed1 and seed0 are one model: the same" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_another_configuration_is_another_model(
    how: GenerationSettings, model: Path, file: str
) -> None:
    generate(replace(how, limit=1))
    settings = json.loads((model / file).read_text())
    (model / file).write_text(json.dumps(settings | {"rms_norm_eps": 3.0}))
    with pytest.raises(InputError, match=r"would not write \(config \w+ before and \w+ now\)"):
        generate(how)


def test_an_id_is_one_item(
    how: GenerationSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(how)
    with pytest.raises(InputError, match=r"as its reference, and another one in an earlier row"):
        generate(replace(how, dataset="scenes:heldout=3", models={"b": "other"}))
    first, *others = rows_of(scores := scored(how.output))
    for change, why in (
        ({"model": "other", "reference": "A cow."}, "has 'A cow.' as its reference, and another"),
        ({}, "occurs twice for the model 'model': keep one of these rows"),
    ):
        rows = [first, *others, {**first, **change}]
        scores.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert main(["report", str(scores), "-o", str(tmp_path / "page.html")]) == 2
        assert why in (said := capsys.readouterr().err)
        assert "is not a row of scores" not in said
    said_file = tmp_path / "two.jsonl"
    other = {**rows_of(how.output)[0], "model": "other", "reference": "A cow."}
    said_file.write_text(how.output.read_text() + json.dumps(other) + "\n")
    asked = ["score", str(said_file), "-o", str(tmp_path / "s.jsonl"), "--id", "id"]
    assert main([*asked, "--judge", "fake"]) == 2
    assert "has 'A cow.' as its reference" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_texts_by_people_take_no_record_from_those_of_models(
    how: GenerationSettings, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(how)
    people = [
        {"id": row["id"], "model": "people", "generation": "A cat.", "reference": row["reference"]}
        for row in rows_of(how.output)
    ]
    rows = [*people, *rows_of(how.output)]
    said = tmp_path / "all.jsonl"
    said.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = str(tmp_path / f"scores.{ending}")
    assert main(["score", str(said), "-o", scores, "--id", "id", "--quiet"]) in (0, 3)
    assert main(["trace", scores]) == 0
    assert "weights and settings: not recorded" in (traced := capsys.readouterr().out)
    assert rows[-1]["origin"].split("|")[0].replace(":", ": ") in traced
    assert main(["report", scores, "-o", str(tmp_path / "page.html")]) == 0


def test_models_trained_on_several_prompts_need_one(tiny: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b" / "checkpoint-1"]
    for folder, text in zip(folders, ("What?", "Where?"), strict=True):
        folder.mkdir(parents=True)
        (tmp_path / folder.relative_to(tmp_path).parts[0] / "prompt.txt").write_text(text)
    assert recorded_prompt([str(tiny)]) == PAPER_PROMPT
    assert recorded_prompt([str(tiny), str(folders[1])]) == "Where?"
    with pytest.raises(InputError, match=r"'What\?', 'Where\?': choose one .* --prompt-text"):
        recorded_prompt(map(str, folders))
