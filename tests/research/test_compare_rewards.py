"""What rewards pay, and the tables of the runs that they made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow.parquet import write_table

from posh_reward import PoSh
from posh_reward.reward.shaping import WORST
from research.compare_rewards.__main__ import PLAIN
from research.compare_rewards.pays import SETTINGS, Payment, cases, pays, read_items
from research.compare_rewards.report import SPREADS
from research.compare_rewards.runs import AXES, spreads

HONEST, MISTAKEN = "honest rewording", "the same with five planted mistakes"
HALF, SENTENCE = "first half of the rewording", "one true sentence"
LIST = 'list: "There is a X." of 100 nouns'
NOTHING = ("gibberish", "thoughts alone", "zero-width characters", "punctuation", "empty")
THRICE, PADDED = "the rewording three times", "the rewording, then the list"
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
