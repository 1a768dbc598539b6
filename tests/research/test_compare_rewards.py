"""What rewards pay, and the tables of the runs that they made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow.parquet import write_table

from posh_reward import PoSh
from posh_reward.metrics.posh.judges.fake_judge import FakeJudge
from posh_reward.reward.shaping import WORST
from research.compare_rewards.__main__ import PLAIN, main
from research.compare_rewards.noise import NoisyJudge, noisy
from research.compare_rewards.pays import SETTINGS, Payment, cases, pays, read_items
from research.compare_rewards.report import SPREADS
from research.compare_rewards.runs import AXES, Run, in_full, spreads, true_details
from research.compare_rewards.tables import Table, write_between

HONEST, MISTAKEN = "honest rewording", "the same with five planted mistakes"
HALF, SENTENCE = "first half of the rewording", "one true sentence"
LIST = 'list: "There is a X." of 100 nouns'
NOTHING = ("gibberish", "thoughts alone", "zero-width characters", "punctuation", "empty")
THRICE, PADDED = "the rewording three times", "the rewording, then the list"
UNEVEN = f"{PLAIN}:uneven=1"
QUICK = (HONEST, "the same, after thoughts", MISTAKEN, HALF, SENTENCE, LIST, THRICE, *NOTHING)


def paid(items: list[Any], only: tuple[str, ...] | None = None) -> dict[str, Payment]:
    texts = cases(items)
    chosen = {name: texts[name] for name in only or texts}
    return {each.case: each for each in pays(PoSh(), chosen)}


def check_order(found: dict[str, Payment]) -> None:
    """Truth and completeness pay; what describes nothing does not."""
    reward = {case: each.rewards["f1"] for case, each in found.items()}
    assert reward[HONEST] > reward[MISTAKEN] > reward[HALF] > reward[SENTENCE] > reward[LIST]
    assert found[HONEST].rewards == found["the same, after thoughts"].rewards
    for case in NOTHING:
        means = [*found[case].rewards.values(), *found[case].separate]
        assert means == pytest.approx([WORST] * len(means)), case
    assert found[LIST].separate < found[SENTENCE].separate
    limited = {case: each.rewards["`repetition_limit` .15"] for case, each in found.items()}
    assert limited[THRICE] < limited[HALF] < limited[HONEST]
    for setting in SETTINGS.keys() - {"`precision_weight` 4", "no rule"}:
        assert found[HONEST].rewards[setting] == reward[HONEST], "honest texts lose nothing"
    # Three of the twelve rewordings have a loose word too many: .0031, .0005 and .0003.
    assert found[HONEST].rewards["no rule"] - reward[HONEST] == pytest.approx(0, abs=5e-4)


def test_the_order_of_what_is_paid(shared_data: Path) -> None:
    items = read_items(shared_data / "data" / "planted" / "planted_dev.json")
    check_order(paid(items[:1], QUICK))


@pytest.mark.slow
def test_the_order_of_what_is_paid_on_all_pairs(shared_data: Path) -> None:
    found = paid(read_items(shared_data / "data" / "planted" / "planted_dev.json"))
    check_order(found)
    other = found["reference of another image"].rewards["f1"]
    assert other < found[SENTENCE].rewards["f1"]
    assert found[PADDED].rewards["f1"] < found[PADDED].rewards["no rule"]


def row(reward: str, seed: int, mistakes: float) -> dict[str, Any]:
    def gain(mean: float) -> dict[str, float]:
        return {"mean": mean, "low": mean - 0.01, "high": mean + 0.01}

    return {
        "run": {"reward": reward, "seed": seed, "dataset": PLAIN, "noise": 0.0},
        "gains": {"precision": gain(mistakes), "recall": gain(0.2), "f1": gain(0.1)},
        "scores": {axis: [0.5 + mistakes, 0.7 + mistakes] * 3 for axis in AXES},
        "means": {}, "words": 27.0, "seconds": 1,
        "spreads": dict.fromkeys(SPREADS, [0.5] * 5 + [0.25] * 5),
    }  # fmt: skip


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    rows = [row("separate", 0, 0.02), row("f1", 0, -0.005), row("f1", 1, -0.03)]
    lines = "".join(json.dumps(each) + "\n" for each in rows)
    (tmp_path / "runs.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def test_the_tables_of_finished_runs(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "rewards.md"
    marks = ("rewards",)
    page.write_text(" ".join(f"<!-- {mark} -->old<!-- /{mark} -->" for mark in marks))
    main(["table", str(finished), "--page", str(page)])
    printed, written = capsys.readouterr().out, page.read_text(encoding="utf-8")
    assert "| `f1`, plain scenes | 1 | **-0.030 [-0.040, -0.020]** |" in printed
    assert "| `f1`, plain scenes | 0 | -0.005 [-0.015, +0.005] |" in printed
    assert "| `separate`, plain scenes | 0 | **+0.025 [+0.025, +0.025]** |" in printed
    assert "| 2 | -0.017 (-0.030 to -0.005) | +0.200 (+0.200 to +0.200) |" in written
    assert "| `separate`, plain scenes | 1 | +0.020 |" in printed
    assert "| `f1`, plain scenes | 2 | 1-5 | 0.500 |" in printed
    assert "| `f1`, plain scenes | 2 | 6- | 0.250 |" in printed
    assert "old" not in written
    assert (tmp_path / "spreads.png").is_file()
    assert (tmp_path / "gains.png").is_file()


def test_a_finished_run_is_not_run_again(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["train", "--model", "nowhere", "--output", str(finished), "--rewards", "f1",
          "--seeds", "0", "1"])  # fmt: skip
    assert "| `f1`, plain scenes | 1 |" in capsys.readouterr().out


def test_spreads_are_taken_within_groups_step_by_step(tmp_path: Path) -> None:
    recall = [0.1 * place for place in range(8)]
    for step in (1, 2):
        table = {
            "posh_precision": [0.5, 0.9] * 4 + [0.1, 0.5] * 4,
            "posh_recall": recall + recall,
            "advantage": recall + [each + 5 for each in recall],
        }
        write_table(pyarrow.table(table), tmp_path / f"completions_0000{step}.parquet")
    found = spreads(tmp_path)
    assert found["precision"] == pytest.approx([0.2138] * 2, abs=1e-4), "groups differ, unseen"
    assert found["recall"] == pytest.approx([0.2449] * 2, abs=1e-4)
    assert found["follows_recall"] == pytest.approx([1.0] * 2)


def test_a_reward_becomes_flags_of_the_recipe() -> None:
    run = Run("separate:precision_weight=2:mistake_floor=0.9", 3, PLAIN, 0.5)
    assert run.flags() == [
        "--objective", "separate", "--precision_weight", "2", "--mistake_floor", "0.9",
        "--seed", "3", "--dataset_name", PLAIN,
    ]  # fmt: skip
    assert run.folder == "separate_precision_weight_2_mistake_floor_0_9_noise_0_5_seed_3"


def test_a_run_s_oracle_knows_the_images_that_it_trains_on() -> None:
    flags = Run("f1:witness=oracle", 0, UNEVEN, 0.0).flags()
    assert flags[2:4] == ["--witness", UNEVEN]


def test_uneven_references_train_and_full_ones_compare() -> None:
    assert in_full(UNEVEN) == PLAIN
    seen = {"direction": "precision", "grade": 4.0}
    elements = [seen, {**seen, "grade": 2.0}, {**seen, "direction": "recall"}, seen]
    rows: list[dict[str, Any]] = [{"id": "b", "elements": elements}, {"id": "a", "elements": []}]
    assert true_details(rows) == [0.0, 2.0]


def test_a_noisy_judge_leaves_the_witness_in_place() -> None:
    assert "witness:oracle" in noisy(PoSh(witness="oracle"), 0.5).signature


def test_noise_is_the_same_for_the_same_question() -> None:
    pair = ["A woman in a red dress."], ["A tall woman in a red dress holds a basket."]
    plain = PoSh(FakeJudge()).score(*pair)
    worse = [PoSh(NoisyJudge(FakeJudge(), 0.5)).score(*pair) for _ in range(2)]
    assert worse[0] == worse[1]
    assert worse[0][0].precision != plain[0].precision
    assert "noise-0.5" in worse[0][0].signature


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing here")
    with pytest.raises(SystemExit, match="pays"):
        write_between(page, "pays", str(Table(["a"], [["1"]])))
