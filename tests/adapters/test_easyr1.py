"""The reward in EasyR1's own reward manager and advantages (from its repository)."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.adapters.groups import FAILED, REFERENCE, TEXTS, rewards, scores

pytestmark = pytest.mark.adapters
REWARD_FILE = """
from posh_reward.adapters.reward_functions import easyr1_reward

REWARD_TYPE = "batch"
compute_score = easyr1_reward("tests.adapters.groups:REWARD")
"""


class Characters:
    def decode(self, ids: Any, **_: Any) -> str:
        return "".join(chr(each) for each in ids)


def test_a_failed_row_has_no_advantage(tmp_path: Path) -> None:
    function = pytest.importorskip(
        "verl.workers.reward.function", reason="EasyR1 is not on PyPI: name a checkout by --source"
    )
    import numpy as np
    import torch
    from verl.trainer.core_algos import compute_grpo_outcome_advantage

    file = tmp_path / "reward.py"
    file.write_text(REWARD_FILE)
    config = SimpleNamespace(
        reward_function=str(file),
        reward_function_name="compute_score",
        reward_function_kwargs={},
        skip_special_tokens=True,
    )
    width = max(map(len, TEXTS))
    ids = torch.tensor([[*map(ord, text)] + [0] * (width - len(text)) for text in TEXTS])
    mask = (ids != 0).long()
    columns = {"ground_truth": np.array([REFERENCE] * 4, dtype=object)}
    batch = type("Rows", (SimpleNamespace,), {"__len__": lambda self: len(TEXTS)})(
        batch={"responses": ids, "response_mask": mask}, non_tensor_batch=columns
    )
    table, logged = function.AutoRewardManager(config, Characters()).compute_reward(batch)
    for total, expected in zip(table.sum(1).tolist(), rewards(), strict=True):
        assert expected is None or total == pytest.approx(expected)
    assert logged["posh_precision"][0] == scores()[0].precision
    assert logged["failed"] == [0, 0, 1, 0]
    advantages, _ = compute_grpo_outcome_advantage(table, mask, np.array(["a"] * 4))
    assert advantages[FAILED].abs().max().item() == pytest.approx(0, abs=1e-5)
    print(f"advantages {advantages[:, 0].tolist()}")
