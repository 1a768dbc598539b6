"""A judge's answers as a dataset: no prompt twice, no reference in two splits."""

import json
from pathlib import Path
from shutil import copytree

import pytest

pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from posh_reward.distill import judge_runs, question_set
from posh_reward.distill.judge_runs import JudgeChoice, RunSettings, judge_choice
from posh_reward.errors import ConfigError, InputError
from posh_reward.posh.fake_judge import fake_model
from posh_reward.posh.judge import PromptJudge

THINGS = ("dog", "cat", "horse", "cow", "sheep", "bird", "boat", "tree", "chair", "lamp")
ROWS = [
    (f"A red {thing} stands.", f"A {color} {thing} stands near a wooden table.")
    for thing in THINGS
    for color in ("red", "blue", "green", "black")
]
QUIET = RunSettings(quiet=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("questions")
    question_set.collect_answers(
        judge_choice("embedded@prefix-first"), ROWS, made, QUIET, perturbations=1
    )
    return made


def rows(folder: Path, split: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pq.read_table(folder / f"{split}.parquet").to_pylist()
    return found


def test_no_reference_is_in_two_splits_and_no_prompt_twice(folder: Path) -> None:
    by_split = {split: rows(folder, split) for split in question_set.SPLITS}
    references = [
        {row["reference"] for row in some if row["task"] == "grade"} for some in by_split.values()
    ]
    assert all(references)
    assert not references[0] & references[1] | references[0] & references[2]
    prompts = [(row["prefix"], row["suffix"]) for some in by_split.values() for row in some]
    assert len(prompts) == len(set(prompts))
    assert {row["origin"] for row in by_split["train"] if row["task"] == "grade"} == {
        "honest", "perturbed", "policy",
    }  # fmt: skip


def test_a_row_is_the_prompt_of_its_preset_with_the_judges_distribution(folder: Path) -> None:
    graded = [row for row in rows(folder, "train") if row["task"] == "grade"]
    for row in graded:
        assert str(row["prefix"]).startswith("Answer the question about what is described below.")
        assert str(row["suffix"]).startswith("Q: Is")
        probabilities = row["probabilities"]
        assert isinstance(probabilities, list)
        assert sum(probabilities) == pytest.approx(1)
    rewrites = [row for row in rows(folder, "train") if row["task"] == "rewrite"]
    assert all(str(row["reply"]).startswith("the ") for row in rewrites)


def test_the_summary_has_the_teachers_signature_and_the_counts(folder: Path) -> None:
    summary = question_set.read_question_set(folder)
    assert summary.judge == "embedded"
    assert "judge:embedded-" in summary.teacher
    assert "preset:prefix-first" in summary.teacher
    for split in question_set.SPLITS:
        assert summary.rows[split]["grade"] + summary.rows[split]["rewrite"] == len(
            rows(folder, split)
        )
    assert summary.texts == {"policy": 40, "honest": 40, "perturbed": 40}
    assert "40 perturbed" in question_set.describe_summary(summary)
    edits = [json.loads(line) for line in (folder / "texts.jsonl").read_text("utf-8").splitlines()]
    assert all(bool(row["edits"]) is (row["origin"] == "perturbed") for row in edits)


def test_a_second_run_asks_nothing_and_gives_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = []

    def load(judge: str, preset: str, store: object) -> PromptJudge:
        models.append(fake_model())
        return PromptJudge(models[-1], preset, store)  # type: ignore[arg-type]

    monkeypatch.setattr(judge_runs, "load_judge", load)
    choice = JudgeChoice("a", "a", "released")
    first = question_set.collect_answers(choice, ROWS, tmp_path, QUIET, perturbations=1)
    again = question_set.collect_answers(choice, ROWS, tmp_path, QUIET, perturbations=1)
    assert models[0].prompts
    assert not models[1].prompts
    assert first == again


def test_too_few_references_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more references"):
        question_set.collect_answers(judge_choice("fake"), ROWS[:1], tmp_path / "none", QUIET)
    assert not (tmp_path / "none").exists()


def test_files_of_another_question_set_are_refused(folder: Path, tmp_path: Path) -> None:
    copytree(folder, tmp_path, dirs_exist_ok=True)
    question_set.read_question_set(tmp_path)
    path = tmp_path / "train.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata({"question_set": "{}"}), path)
    with pytest.raises(ConfigError, match="files of different question sets"):
        question_set.read_question_set(tmp_path)
