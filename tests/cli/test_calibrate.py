"""``calibrate`` as people run it: from files of judgments to settings that score and train."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posh_reward.cli import INCOMPLETE, OK, UNUSABLE
from posh_reward.metrics.load_metric import load_metric
from posh_reward.reward.instance import make_reward
from posh_reward.settings import read_settings
from posh_reward.study.calibration.fit import EQUAL
from posh_reward.study.calibration.settings_output import save
from posh_reward.study.packets.rater_answers import with_checksum
from tests.cli.running import Row, rows_in, run, write_rows
from tests.study.agreement.judgment_rows import docent_rows
from tests.study.calibration.simulated import simulated, written
from tests.study.packets.studies import coarse, content, packet, saved

QUICK = ("--resamples", 20, "--quiet")
AXES = tuple(
    word for axis in ("mistakes", "omissions", "overall") for word in ("--rating", f"{axis}={axis}")
)


def fitted(folder: Path, *arguments: object) -> int:
    rows, scores = simulated(30)
    ratings, scored = written(folder, rows, scores)
    return run("calibrate", "ratings", ratings, "--scores", scored, *AXES, *QUICK, *arguments)


def test_settings_are_saved_that_the_metric_and_the_reward_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fitted.yaml"
    assert fitted(tmp_path, "-o", out, "--json") == OK
    said = capsys.readouterr()
    found = json.loads(said.out)["calibration"]
    assert found["settled"]
    assert "--precision_weight" in said.err
    metric = load_metric(out)
    weights = found["weights"]
    assert weights["relation"] > 1 > weights["attribute"]
    assert f"|weights:1,{weights['attribute']:g},{weights['relation']:g}|" in metric.signature
    assert metric.judge.name.startswith("fake")
    reward = make_reward(**read_settings(tmp_path / "fitted.reward.yaml"))
    assert reward.shaping.weights == (found["precision_weight"], found["recall_weight"])
    assert reward.shaping.precision_weight > 1
    assert reward.metric.signature == metric.signature
    head = out.read_text("utf-8").splitlines()
    assert head[0].startswith("# posh-reward score")
    assert any(line.startswith("# Gain in rho") for line in head)


@pytest.mark.parametrize("there", ["fitted.yaml", "fitted.reward.yaml"])
def test_settings_are_not_replaced_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], there: str
) -> None:
    target = tmp_path / "precious.txt"
    target.write_text("precious")
    (tmp_path / there).symlink_to(target)
    out = tmp_path / "fitted.yaml"
    assert fitted(tmp_path, "-o", out) == UNUSABLE
    assert f"{there}' already exists: choose another output, or pass --overwrite" in (
        capsys.readouterr().err
    )
    assert fitted(tmp_path, "-o", out, "--overwrite") == OK
    assert target.read_text() == "precious", "a link is replaced, not what it leads to"
    assert load_metric(out)
    assert not list(tmp_path.glob("*.part"))


def test_no_name_adds_a_setting(tmp_path: Path) -> None:
    out = tmp_path / "fitted.yaml"
    name = "a.jsonl\nwitness: {name: server}\x85x: 1\u2028y: 2\x1b[31m"
    save(EQUAL, {"judge": "embedded"}, out, [f"{name}: 30 ratings"])
    assert read_settings(out).keys() == {"judge", "weights"}
    assert "\x1b" not in out.read_text("utf-8")


def test_a_gain_that_is_not_settled_saves_nothing_unless_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ratings, scored = written(tmp_path, *simulated(20, EQUAL, noise=0.2))
    out = tmp_path / "fitted.yaml"
    call = ("calibrate", "ratings", ratings, "--scores", scored, *AXES, *QUICK, "-o", out)
    assert run(*call) == INCOMPLETE
    said = capsys.readouterr()
    assert f"did not write {str(out)!r}: the gain is not settled" in said.err
    assert "Gain in rho (mean of mistakes, omissions, overall), out of fold:" in said.out
    assert not out.exists()
    assert run(*call, "--anyway") == OK
    assert load_metric(out)


def test_an_inverted_scale_saves_nothing_unless_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, scores = simulated(30)
    inverted = [row | {"rating": 1 - row["overall"]} for row in rows]
    ratings, scored = written(tmp_path, inverted, scores)
    out = tmp_path / "fitted.yaml"
    call = ("calibrate", "ratings", ratings, "--scores", scored, *QUICK, "-o", out)
    assert run(*call, "--rating", "overall=rating") == INCOMPLETE
    assert "the metric disagrees with these judgments" in capsys.readouterr().err
    assert not out.exists()
    assert run(*call, "--rating", "overall=rating", "--anyway") == OK
    assert out.exists()


def test_it_says_which_column_each_score_is_held_against(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, scores = simulated(12)
    ratings, scored = written(tmp_path, [r | {"rating": r["overall"]} for r in rows], scores)
    call = ("calibrate", "ratings", ratings, "--scores", scored, *QUICK)
    assert run(*call) == OK
    said = " ".join(capsys.readouterr().out.split())
    assert "mistakes, omissions, overall: column 'rating'" in said
    assert "to use them: --rating mistakes=mistakes" in said
    assert "mean of mistakes" not in said
    assert run(*call, *AXES) == OK
    said = " ".join(capsys.readouterr().out.split())
    assert "mistakes: column 'mistakes'; omissions: column 'omissions'" in said


def test_texts_are_judged_once_and_kept_for_the_next_fit(tmp_path: Path) -> None:
    rows = docent_rows(12)
    source, kept = write_rows(tmp_path / "docent.jsonl", rows), tmp_path / "kept.jsonl"
    call = ("calibrate", "docent", source, "--scores", kept, "--folds", 2, *QUICK)
    assert run(*call) == OK
    scored = rows_in(kept)
    texts = {(row[f"model{n}_generation"], row["reference"]) for row in rows for n in (1, 2)}
    assert {(row["generation"], row["reference"]) for row in scored} == texts
    assert all(row["elements"] for row in scored)
    before = kept.read_bytes()
    assert run(*call) == OK
    assert kept.read_bytes() == before
    kept.write_bytes(b"".join(before.splitlines(keepends=True)[:-3]))  # as after a kill
    assert run(*call) == OK
    assert len(rows_in(kept)) == len(scored)


def test_answers_to_a_packet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = packet(6, coarse=2, repeated=1, times=2)
    key = tmp_path / "packet.key.json"
    key.write_bytes(made.key_file)
    (tmp_path / "answers").mkdir()
    for rater, preference in (("rater-01", 2), ("rater-02", -1)):
        answers = [coarse(made.key, task, preference) for task in made.key.raters[rater].tasks]
        (tmp_path / "answers" / f"{rater}.json").write_bytes(saved(made.key, rater, answers))
    call = ("calibrate", "packets", key, tmp_path / "answers", "--folds", 2, *QUICK)
    assert run(*call) == OK
    said = " ".join(capsys.readouterr().out.split())
    assert "6 pairs, 6 images" in said
    assert "not settled" in said
    older = {**content(made.key, "rater-01"), "saved": "2026-11-21T10:00:00.000Z"}
    token = made.key.raters["rater-01"].token
    (tmp_path / "answers" / "older.json").write_bytes(with_checksum(older, token))
    assert run(*call) == OK
    note = capsys.readouterr().err
    assert "not counted" in note
    assert "older.json: superseded by" in note
    assert run(*call, "--leave-out", "nobody") == UNUSABLE
    both = ("--leave-out", "rater-01", "--leave-out", "rater-02")
    assert run(*call, *both) == UNUSABLE


def without_elements(row: Row) -> Row:
    return {key: value for key, value in row.items() if key != "elements"}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("-o", "fitted.csv"), "'fitted.csv' does not end in .yaml or .yml"),
        (("--folds", 1), "1 folds of 12 images"),
        (("--plot", "a.gif"), "'a.gif' does not end in .png"),
        (("--preset", "mended", "-o", "a.yaml"), "but the flags describe posh|preset:mended"),
    ],
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], why: str
) -> None:
    ratings, scored = written(tmp_path, *simulated(12))
    call = ("calibrate", "ratings", ratings, "--scores", scored, *QUICK, *AXES, *arguments)
    assert run(*call) == UNUSABLE
    assert why in capsys.readouterr().err


def test_scored_rows_need_their_elements_and_one_signature(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ratings, scored = written(tmp_path, *simulated(12))
    call = ("calibrate", "ratings", ratings, "--scores", scored, *QUICK, *AXES)
    rows = rows_in(scored)
    write_rows(scored, [*rows[:3], without_elements(rows[3])])
    assert run(*call) == UNUSABLE
    assert "row 4: it has no elements: score with --elements" in capsys.readouterr().err
    write_rows(scored, [rows[0], {**rows[1], "signature": "posh|judge:other"}])
    assert run(*call) == UNUSABLE
    assert "row 2: it was scored as posh|judge:other, earlier rows as" in capsys.readouterr().err
    table = tmp_path / "scored.csv"
    assert run("score", scored, "-o", table, "--elements", "-q", "--overwrite") in (OK, INCOMPLETE)
    assert run(*call, "--scores", table) == UNUSABLE
    assert "rows are added to .jsonl only" in capsys.readouterr().err
