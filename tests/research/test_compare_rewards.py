"""Rewards of texts, and tables of the runs that learned from them."""

from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow.parquet import write_table

from posh_reward import PoSh
from posh_reward.types import WORST_SCORE
from research.compare_rewards.pays import SETTINGS, Payment, cases, pays, read_items
from research.compare_rewards.runs import spreads

HONEST, MISTAKEN = "honest rewording", "the same with five planted mistakes"
HALF, SENTENCE = "first half of the rewording", "one true sentence"
LIST = 'list: "There is a X." of 100 nouns'
NOTHING = ("gibberish", "thoughts alone", "zero-width characters", "punctuation", "empty")
THRICE = "the rewording three times"
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
        assert means == pytest.approx([WORST_SCORE] * len(means)), case
    assert found[LIST].separate < found[SENTENCE].separate
    limited = {case: each.rewards["`repetition_limit` .15"] for case, each in found.items()}
    assert limited[THRICE] < limited[HALF] < limited[HONEST]
    for setting in SETTINGS.keys() - {"`precision_weight` 4", "no rule"}:
        assert found[HONEST].rewards[setting] == reward[HONEST], "honest texts lose nothing"
    # This one loses .0019; of all twelve five lose nothing, five .0017 to .0035, and one .0073.
    assert 0 <= found[HONEST].rewards["no rule"] - reward[HONEST] < 2e-3


def test_the_order_of_what_is_paid(shared_data: Path) -> None:
    items = read_items(shared_data / "data" / "planted" / "planted_dev.json")
    check_order(paid(items[:1], QUICK))


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
