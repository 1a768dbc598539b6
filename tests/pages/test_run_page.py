"""What a policy learns to say, from the completions that its run has logged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posh_reward.cli import EXIT_OK, EXIT_UNUSABLE, main
from posh_reward.datasets.load_dataset import load_images
from posh_reward.errors import InputError
from posh_reward.pages.run_page import (
    choose_completions,
    describe_run,
    make_curve,
    read_run,
    run_page,
)
from posh_reward.reward.completion_log import pack_scores
from posh_reward.tables.completions import Completion, find_completions, spread_evenly
from posh_reward.types import Element, Failure, Scores, SentenceVerdict
from tests.chromium import Browser
from tests.page_checks import unfilled
from tests.pages.test_report_page import EVIL, address, choose, data, names

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

CONTRADICTED = (SentenceVerdict((0, 12), 0.9, 0.05, 0.05),)


def scored(red: float, *, contradicted: bool = False) -> Scores:
    elements = (
        Element(
            "precision",
            "attribute",
            "red",
            red,
            ((2, 5),),
            "dog",
            decided_by="contradicted" if contradicted else None,
        ),
        Element("precision", "entity", "dog", 4.5, ((6, 9),), "dog"),
        Element("recall", "entity", "cat", 1.0, ((2, 5),), "cat"),
    )
    return Scores(
        0.5, 0.2, 0.3, "posh|preset:released|judge:x", elements, generation="A red dog.",
        reference="A cat.", sentences=CONTRADICTED if contradicted else (),
    )  # fmt: skip


def logged(step: int, scores: Scores, reward: float, **more: Any) -> dict[str, Any]:
    """A row as TRL logs it."""
    return {
        "step": step, "prompt": [{"role": "user", "content": "Describe."}],
        "completion": [{"role": "assistant", "content": scores.generation}],
        "posh": reward, "posh_id": "train-0-00001", "posh_step": step - 1, "posh_mode": "train",
        "posh_cut": False, "posh_f1": scores.f1, "posh_precision": scores.precision,
        "posh_recall": scores.recall, "posh_failure": "", "posh_lowered": "",
        "posh_contradicted": "", "posh_reference": scores.reference,
        "posh_scores": pack_scores(scores), "advantage": 0.0, **more,
    }  # fmt: skip


def write(folder: Path, step: int, rows: list[dict[str, Any]]) -> None:
    (folder / "completions").mkdir(parents=True, exist_ok=True)
    path = folder / "completions" / f"completions_{step:05d}.parquet"
    pandas.DataFrame(rows).to_parquet(path)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Eight steps of two texts; from step 5 on, one of them says what the reference denies."""
    for step in range(1, 9):
        first = scored(1.2 if step > 4 else 4.8, contradicted=step > 4)
        write(tmp_path, step, [
            logged(step, first, 0.3, posh_contradicted="A red dog." if step > 4 else ""),
            logged(step, scored(4.8), 0.4 + step / 20, posh_cut=True),
        ])  # fmt: skip
    return tmp_path


def test_a_detail_that_is_learned_is_counted_step_by_step(run: Path) -> None:
    contents = read_run(find_completions(run), None, 400)
    assert contents.steps == list(range(1, 9))
    assert contents.figures["posh"][0] == pytest.approx(0.375)
    assert contents.figures["cut"] == [0.5] * 8
    assert contents.figures["contradicted"] == [0.0] * 4 + [0.5] * 4
    said = describe_run(contents)
    assert "8 steps, 16 completions" in said
    assert "steps 1 to 2  steps 7 to 8" in said
    # In the last two steps, 2 of 4 texts; in all, 4 of 16.
    red = 'attribute "red": 100.0 -> 100.0 per 100 texts, unsupported 0 % -> 50 % (4 of 16, 4 con'
    assert red in said
    cat = 'entity "cat": 100.0 -> 100.0 per 100 texts, left out 100 % -> 100 % (16 of 16)'
    assert cat in said


def test_a_batch_in_several_files_counts_once(tmp_path: Path) -> None:
    """One generation for three steps is logged three times, and evaluations stand among them."""
    rows = [logged(1, scored(4.8), 0.5)]
    for step in (1, 2, 3):
        write(tmp_path, step, rows)
    write(tmp_path, 4, [logged(4, scored(4.8), 0.5), logged(4, scored(1), 0.5, posh_mode="eval")])
    contents = read_run(find_completions(tmp_path), None, 400)
    assert (contents.steps, contents.completions) == ([1, 4], 2)
    assert contents.notes == ["completions of evaluations, left out: 1"]


def test_words_that_a_policy_unlearns_are_named(tmp_path: Path) -> None:
    """Never unsupported, so only their change tells of them."""
    for step in range(1, 5):
        scores = scored(4.8)
        if step > 2:
            scores = replace(scores, elements=scores.elements[1:])
        write(tmp_path, step, [logged(step, scores, 0.5)])
    said = describe_run(read_run(find_completions(tmp_path), None, 400))
    assert "Said ever less" in said
    assert 'attribute "red": 100.0 -> 0.0 per 100 texts, unsupported 0 % -> none (0 of 2)' in said


def test_silence_has_no_precision_and_failures_are_no_texts(tmp_path: Path) -> None:
    silent = Scores(1.0, 0.2, 1 / 3, "posh|x", generation="", reference="A cat.")
    failed = Scores.failed(Failure("engine", "gone"), "posh|x")
    write(tmp_path, 1, [
        logged(1, scored(1.2), 0.3), logged(1, silent, 0.2),
        logged(1, failed, float("nan"), posh_failure="gone", posh_f1=None, posh_precision=None,
               posh_recall=None),
    ])  # fmt: skip
    contents = read_run(find_completions(tmp_path), None, 400)
    assert contents.figures["precision"] == [0.5]
    assert contents.figures["f1"] == [pytest.approx((0.3 + 0.2) / 2)]
    assert contents.figures["silent"] == [0.5]
    assert contents.figures["failed"] == [pytest.approx(1 / 3)]
    assert contents.details.texts == {0: 2}


def test_training_is_kept_where_an_evaluation_has_the_same_step(tmp_path: Path) -> None:
    write(tmp_path, 1, [logged(1, scored(4.8), 0.5)])
    kept = tmp_path / "completions" / "completions_00001.train.parquet"
    (tmp_path / "completions" / "completions_00001.parquet").rename(kept)
    write(tmp_path, 1, [logged(2, scored(1.2), 0.5, posh_mode="eval")])
    contents = read_run(find_completions(tmp_path), None, 400)
    assert (contents.steps, contents.completions, contents.evaluated) == ([1], 1, 1)
    kept.unlink()
    with pytest.raises(InputError, match="all 1 logged completions are of evaluations"):
        read_run(find_completions(tmp_path), None, 400)


def test_a_file_that_is_being_written_is_named(run: Path) -> None:
    torn = run / "completions" / "completions_00009.parquet"
    torn.write_bytes((run / "completions" / "completions_00008.parquet").read_bytes()[:500])
    contents = read_run(find_completions(run), None, 400)
    assert contents.steps == list(range(1, 9))
    assert "completions_00009.parquet" in contents.notes[0]


def test_logs_of_earlier_versions_are_shown_without_marks(tmp_path: Path) -> None:
    row = logged(3, scored(4.8), 0.5)
    earlier = {name: row[name] for name in row if name in ("step", "prompt", "completion", "posh")}
    write(tmp_path, 3, [{**earlier, "posh_f1": 0.25, "posh_failure": ""}])
    contents = read_run(find_completions(tmp_path), None, 400)
    assert contents.steps == [3]
    assert "completions without details" in contents.notes[0]
    assert data(run_page(contents), "rows")[0][2] == 3


def test_rows_of_others_are_shown_as_far_as_they_go(tmp_path: Path) -> None:
    hostile = [
        {"posh_scores": '{"elements": [[{}, [], 1, "x"]]}', "posh_step": 2.0, "completion": "a"},
        {"posh_scores": "[" * 9999, "posh_step": float("nan"), "posh_f1": float("inf")},
        {"completion": EVIL, "posh_reference": EVIL, "posh_id": EVIL, EVIL: 0.5, "posh": 0.5},
    ]
    write(tmp_path, 7, hostile)
    contents = read_run(find_completions(tmp_path), None, 400)
    assert contents.steps == [3, 7]
    html = run_page(contents)
    assert "<img src=//x" not in html
    assert data(html, "rows")[-1][0] == EVIL


def test_the_worst_and_the_best_of_a_step_are_shown() -> None:
    completions = [Completion(1, str(at), {"posh": at / 10}) for at in (5, 1, 9, 3, 7)]
    assert [each.text for each in choose_completions(completions, 3)] == ["1", "5", "9"]
    assert spread_evenly(range(100), 4) == [0, 33, 66, 99]
    assert spread_evenly([1, 2], 4) == [1, 2]


def test_a_curve_has_gaps_where_nothing_is_known() -> None:
    ends = slice(1), slice(-1, None)
    curve = make_curve("f1", [1, 2, 3, 4], [0.5, None, 1.0, 0.75], ends)
    assert (curve.low, curve.high, curve.first, curve.last) == (0.5, 1.0, 0.5, 0.75)
    assert curve.raw == ["0.0,84.0", "186.7,4.0 280.0,44.0"]


@pytest.mark.parametrize("name", ["nothing", "completions"])
def test_a_folder_without_completions_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="name one, or a file of scores"):
        find_completions(tmp_path)


def test_the_command_writes_a_page_and_figures(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, figures = tmp_path / "run.html", tmp_path / "figures.json"
    assert main(["report", str(run), "-o", str(page), "--json", str(figures)]) == EXIT_OK
    assert "8 steps, 16 completions" in capsys.readouterr().err
    html = page.read_text("utf-8")
    assert unfilled(html) == []
    assert len(data(html, "rows")) == 16
    found = json.loads(figures.read_text("utf-8"))
    assert found["figures"]["contradicted"] == [0.0] * 4 + [0.5] * 4
    red = next(each for each in found["details"] if each["text"] == "red")
    assert (red["stated"], red["contradicted"]) == ([2] * 8, [0] * 4 + [1] * 4)
    assert (red["first_share"], red["last_share"]) == (0.0, 0.5)
    assert main(["report", str(run), "--against", "x", "-o", str(page)]) == EXIT_UNUSABLE


def test_images_are_those_of_the_dataset_that_the_run_names(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from posh_reward.run_record import RunRecord, write_run

    data_name = "scenes:train=3:plain=1"
    record = RunRecord(
        "dapo_posh.py", "running", None, "m", None, {"name": data_name, "split": "train"}, None,
        None, None, {}, {},
    )  # fmt: skip
    write_run(run, record)
    assert load_images(data_name, "train")["uuid"][1] == "train-0-00001"
    page = tmp_path / "run.html"
    assert main(["report", str(run), "-o", str(page)]) == EXIT_OK
    # The logged reference is another one than the dataset's.
    assert "under their ids: it is another dataset" in capsys.readouterr().err
    true = load_images(data_name, "train")["reference"][1]
    write(run, 9, [logged(9, scored(1.2), 0.5, posh_reference=true)])
    assert main(["report", str(run), "-o", str(page)]) == EXIT_OK
    html = page.read_text("utf-8")
    assert data(html, "picture-0").startswith("data:image/jpeg;base64,")
    assert f"{run.name}: running, step 9 of 0; started from m" in html
    (run / "run.json").write_text('{"data": 5}')
    assert main(["report", str(run), "-o", str(page)]) == EXIT_OK
    assert "without images: name the run's dataset" in capsys.readouterr().err
    # A run of someone else's names what it likes.
    write_run(run, replace(record, data={"name": "someone/paintings", "split": "train"}))
    assert main(["report", str(run), "-o", str(page)]) == EXIT_OK
    assert "add --dataset someone/paintings --split train" in capsys.readouterr().err


def test_the_slider_chooses_a_step(chromium: Browser, run: Path, tmp_path: Path) -> None:
    (tmp_path / "run.html").write_text(
        run_page(read_run(find_completions(run), None, 400)), encoding="utf-8"
    )
    chromium.resize(1280, 900)
    chromium.open(tmp_path / "run.html")
    assert len(names(chromium)) == 16
    choose(chromium, step="5")
    assert len(names(chromium)) == 2
    assert address(chromium) == "#step=5"
    caption = "document.querySelector('[data-figure=contradicted] .at').textContent"
    assert chromium.run(caption) == "0.500"
    assert chromium.run("document.getElementById('step').ariaValueText") == "step 5"
    chromium.run("location.hash = '#step=6'; new Promise((it) => setTimeout(it, 100))")
    assert chromium.run("document.getElementById('step-name').textContent") == "6"
    chromium.point("#clear", click=True)
    assert chromium.run(caption) == "0.000 → 0.500"
    assert chromium.complaints() == []
