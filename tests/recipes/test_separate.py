"""Two objectives in TRL's own trainer, by one flag of the recipe."""

from pathlib import Path

import pytest

from recipes import dapo_posh, tiny_qwen
from tests.recipes.test_smoke import flags


@pytest.mark.slow
def test_the_recipe_trains_on_two_rewards_and_evaluates(tmp_path: Path) -> None:
    tiny, output = tmp_path / "tiny", tmp_path / "dapo"
    tiny_qwen.build(tiny, warm_up_steps=0, pretrain_steps=1)
    more = ("--objective", "separate", "--precision_weight", "2", "--max_completion_length", "16",
            "--eval_strategy", "steps", "--eval_steps", "1", "--mask_truncated_completions", "0",
            "--num_generations_eval", "2", "--per_device_eval_batch_size", "4")  # fmt: skip
    trainer = dapo_posh.main(flags("dapo", tiny, output, *more))
    assert trainer.multi_objective_aggregation == "normalize_then_sum"
    assert trainer.reward_weights.tolist() == [2.0, 1.0]
    steps = [line for line in trainer.state.log_history if "reward" in line]
    evaluations = [line for line in trainer.state.log_history if "eval_reward" in line]
    assert (len(steps), len(evaluations)) == (2, 2)
    for line in steps:
        precision, recall = (line[f"rewards/posh_{axis}_reward/mean"] for axis in
                             ("precision", "recall"))  # fmt: skip
        assert line["reward"] == pytest.approx(2 * precision + recall, abs=1e-4)
        assert {"posh/precision", "posh/words", "posh/repeated_share"} <= line.keys()
    assert "eval_posh/recall" in evaluations[0]
