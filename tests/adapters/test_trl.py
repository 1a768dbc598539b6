"""The reward in TRL's GRPOTrainer, as its command line finds it."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from posh_reward.adapters.environments import DescribeEnvironment
from tests.adapters.groups import FAILED, REFERENCE, TEXTS, rewards, scores
from tests.adapters.tiny_model import PROMPT, tiny, write_describer
from tests.adapters.two_objectives import CASES, GROUPS, LENGTHS, WEIGHTS

pytestmark = [
    pytest.mark.adapters,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning"),
]


def test_a_failed_row_has_no_advantage(tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    model, tokenizer = tiny()

    def rollout(prompts: list[Any], *_: Any, **__: Any) -> dict[str, Any]:
        ids = [[*tokenizer(text)["input_ids"], 1] for text in TEXTS]
        return {
            "prompt_ids": [tokenizer(each)["input_ids"] for each in prompts],
            "completion_ids": ids,
            "logprobs": [[0.0] * len(row) for row in ids],
        }

    name = "tests.adapters.groups.REWARD"
    module, _, attribute = name.rpartition(".")  # as trl.scripts.grpo does
    args = GRPOConfig(
        str(tmp_path), num_generations=4, per_device_train_batch_size=4, max_completion_length=99,
        report_to="none", use_cpu=True, bf16=False, gradient_checkpointing=False,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model,
        reward_funcs=[getattr(importlib.import_module(module), attribute)],
        args=args,
        train_dataset=Dataset.from_list([{"prompt": "Describe.", "reference": REFERENCE}]),
        processing_class=tokenizer,
        rollout_func=rollout,
    )
    row = {"prompt": "Describe.", "reference": REFERENCE}
    output = trainer._generate_and_score_completions([dict(row) for _ in TEXTS])
    advantages = output["advantages"].tolist()
    assert advantages[FAILED] == 0
    known = [each for each in rewards() if each is not None]
    logged = trainer._metrics["train"]
    assert logged["rewards/posh/mean"][0] == pytest.approx(sum(known) / 3)
    precision = [score.precision for score in scores() if score.precision is not None]
    assert logged["posh/precision"][0] == pytest.approx(sum(precision) / 3)
    print(f"advantages {advantages}")


def test_training_raises_the_reward(tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from tests.adapters.groups import REWARD

    write_describer(tmp_path / "model")
    args = GRPOConfig(
        str(tmp_path / "out"), num_generations=8, per_device_train_batch_size=16, max_steps=10,
        max_completion_length=30, learning_rate=5e-3, lr_scheduler_type="constant", bf16=False,
        logging_steps=1, report_to="none", use_cpu=True, gradient_checkpointing=False,
        save_strategy="no",
    )  # fmt: skip
    trainer = GRPOTrainer(
        str(tmp_path / "model"),
        reward_funcs=[REWARD],
        args=args,
        train_dataset=Dataset.from_list([{"prompt": PROMPT, "reference": REFERENCE}] * 64),
    )
    trainer.train()
    steps = [each for each in trainer.state.log_history if "rewards/posh/mean" in each]
    print([round(each["rewards/posh/mean"], 3) for each in steps], steps[0])
    assert len(steps) == 10
    assert steps[0]["grad_norm"] > 0
    assert sum(each["posh/failed_share"] for each in steps) > 0, "robots"
    assert steps[-1]["rewards/posh/mean"] > steps[0]["rewards/posh/mean"] + 0.1


@pytest.mark.parametrize(("rows", "expected"), CASES)
def test_these_are_trls_advantages_of_two_objectives(
    rows: list[list[float] | None], expected: list[float], tmp_path: Path
) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    model, tokenizer = tiny()

    def rollout(prompts: list[Any], *_: Any, **__: Any) -> dict[str, Any]:
        ids = [[5] * (length - 1) + [1] for length in LENGTHS]
        logprobs = [[0.0] * len(row) for row in ids]
        prompt_ids = [tokenizer(each)["input_ids"] for each in prompts]
        return {"prompt_ids": prompt_ids, "completion_ids": ids, "logprobs": logprobs}

    def axis(place: int) -> Any:
        def reward(**_: Any) -> list[float | None]:
            return [None if row is None else row[place] for row in rows]

        return reward

    args = GRPOConfig(
        str(tmp_path), num_generations=4, per_device_train_batch_size=8, max_completion_length=99,
        report_to="none", use_cpu=True, bf16=False, gradient_checkpointing=False,
        multi_objective_aggregation="normalize_then_sum", reward_weights=WEIGHTS,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model,
        reward_funcs=[axis(0), axis(1)],
        args=args,
        train_dataset=Dataset.from_list([{"prompt": name} for name in "ab"]),
        processing_class=tokenizer,
        rollout_func=rollout,
    )
    output = trainer._generate_and_score_completions([{"prompt": name} for name in GROUPS])
    print([round(each, 4) for each in output["advantages"].tolist()])
    assert output["advantages"].tolist() == pytest.approx(expected, abs=1e-4)


class Captions(DescribeEnvironment):
    reward = "tests.adapters.groups:REWARD"


def test_an_environment_owns_its_reward(tmp_path: Path) -> None:
    """Through TRL's discovery of tools and rewards; the rollouts call the tool by hand."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
    from trl.chat_template_utils import qwen3_chat_template

    model, tokenizer = tiny()
    tokenizer.chat_template = qwen3_chat_template
    args = GRPOConfig(
        str(tmp_path), num_generations=4, per_device_train_batch_size=4, max_completion_length=4,
        report_to="none", use_cpu=True, bf16=False, gradient_checkpointing=False,
    )  # fmt: skip
    row = {"prompt": PROMPT, "reference": REFERENCE}
    trainer = GRPOTrainer(
        model,
        args=args,
        train_dataset=Dataset.from_list([row] * 4),
        processing_class=tokenizer,
        environment_factory=Captions,
    )
    assert [tool.__name__ for tool in trainer.tools] == ["describe"]
    assert trainer.reward_func_names == ["Captions"]
    [function] = trainer.reward_funcs
    environments = [Captions() for _ in range(5)]
    for environment in environments:
        environment.reset(**row)
    for environment, text in zip(environments, TEXTS, strict=False):
        assert environment.describe(text) == "done"
    assert function(environments) == [*rewards(), 0.2]  # the last one called no tool
    output = trainer._generate_and_score_completions([dict(row) for _ in TEXTS])
    assert output["advantages"].tolist() == [0] * 4  # the tiny model calls none
    assert trainer._metrics["train"]["rewards/Captions/mean"] == [pytest.approx(0.2)]
