"""The reward in TRL's GRPOTrainer, as its command line finds it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.groups import FAILED, REFERENCE, TEXTS, rewards, scores

pytestmark = [
    pytest.mark.adapters,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning"),
]


def tiny() -> tuple[Any, Any]:
    """A model and a tokenizer of characters, since none can be downloaded here."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    vocab = {each: i for i, each in enumerate(["<pad>", "<eos>", *map(chr, range(32, 127))])}
    characters = Tokenizer(models.WordLevel(vocab, unk_token=" "))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    characters.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=characters, pad_token="<pad>", eos_token="<eos>"
    )
    config = Qwen2Config(
        vocab_size=len(vocab), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    return Qwen2ForCausalLM(config), tokenizer


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
