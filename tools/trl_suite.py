"""TRL's own tests of its GRPO and RLOO trainers, with ours in their place.

    python -m tools.trl_suite CHECKOUT_OF_TRL

Each mode of ``MODES`` runs them once. The tests take models and data from the hub; here they find
random tiny models and lines of text under the same names, in a temporary folder. What needs another
model than those of ``MODELS``, or a newer TRL than the installed one, fails in every mode, so what
counts are the tests that pass with TRL's trainer and fail with ours, which are listed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

MODE = "POSH_TRL_SUITE"  # environment variable: the mode of this process
MODES = ("trl", "ours", "sampling", "credit", "both", "reward")
"""TRL's; DapoTrainer; with dynamic sampling, span credit, or both; TRL's with PoshReward."""
TESTS = ("tests/test_grpo_trainer.py", "tests/test_rloo_trainer.py")
HUB = "trl-internal-testing"
CONVERSATION = "conversational_prompt_only"
MODELS = {
    "tiny-Qwen2ForCausalLM-2.5": "Qwen2ForCausalLM",
    "tiny-Qwen3ForCausalLM": "Qwen3ForCausalLM",
    "tiny-LlamaForCausalLM-3.2": "LlamaForCausalLM",
    "tiny-Qwen2ForSequenceClassification-2.5": "Qwen2ForSequenceClassification",
    "tiny-Qwen3ForSequenceClassification": "Qwen3ForSequenceClassification",
    "tiny-LlamaForSequenceClassification-3.2": "LlamaForSequenceClassification",
}
"""Name on the hub -> class. ``tiny-Qwen2_5_VLForConditionalGeneration`` is the demo's."""
LINES = [f"Line {number} says that simple is better than complex" for number in range(19)]


def main(checkout: Path, modes: list[str]) -> int:
    """Run the modes; return 1 if a test passes with TRL's trainer but not with ours."""
    results: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(checkout / "tests", folder / "tests")
        make_hub(folder / HUB)
        for mode in modes:
            results[mode] = run(folder, mode)
            counts = [list(results[mode].values()).count(each) for each in OUTCOMES]
            words = (f"{count} {each}" for count, each in zip(counts, OUTCOMES, strict=True))
            print(f"{mode:<9} {', '.join(words)}", flush=True)
    lost = [
        f"{mode}: {test}"
        for mode, outcomes in results.items()
        for test, outcome in outcomes.items()
        if outcome == "failed" and results[modes[0]].get(test) == "passed"
    ]
    print("\n".join(lost) or f"every test that passes in mode {modes[0]} passes in all")
    return bool(lost)


OUTCOMES = ("passed", "failed", "skipped")


def run(folder: Path, mode: str) -> dict[str, str]:
    """Run TRL's tests in a mode; return each one's outcome."""
    environment = os.environ | {
        MODE: mode, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-p", "tools.trl_suite", "-q", "-rA", "--tb=line",
               "-p", "no:cacheprovider", *TESTS]  # fmt: skip
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    found = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (\S+::\S+)", done.stdout, re.MULTILINE)
    (Path(tempfile.gettempdir()) / f"trl_suite_{mode}.log").write_text(done.stdout + done.stderr)
    skipped = sum(map(int, re.findall(r"^SKIPPED \[(\d+)\]", done.stdout, re.MULTILINE)))
    outcomes = {test: "passed" if how == "PASSED" else "failed" for how, test in found}
    return outcomes | {f"skipped {number}": "skipped" for number in range(skipped)}


# As a plugin of pytest, in the process of a mode.


def pytest_configure() -> None:
    """Define what newer tests import and the installed TRL lacks: a check for joblib."""
    from trl import import_utils

    import_utils.is_joblib_available = getattr(import_utils, "is_joblib_available", bool)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put our trainers into the namespaces of TRL's tests."""
    mode = os.environ.get(MODE, MODES[0])
    for module in {item.module for item in items if isinstance(item, pytest.Function)}:
        for name in ("GRPOTrainer", "RLOOTrainer"):
            if hasattr(module, name):
                setattr(module, name, trainer_for(mode, getattr(module, name)))


def trainer_for(mode: str, original: Any) -> Any:
    """Make the class that a mode has in the place of one of TRL's trainers."""
    from posh_reward.training.dapo.sampling import DynamicSampling
    from posh_reward.training.dapo.trainer import DapoTrainer

    if mode == "reward":
        return rewarded(original)
    if mode == "trl" or original.__name__ == "RLOOTrainer":
        return original
    extras: dict[str, Any] = {}
    if mode in ("sampling", "both"):
        extras["dynamic_sampling"] = DynamicSampling(2)
    if mode in ("credit", "both"):
        extras |= {"span_credit": 0.5, "scored_by": SimpleNamespace(observer=None)}

    class Ours(DapoTrainer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs, **extras)

    return Ours


def rewarded(original: Any) -> Any:
    """Add ``PoshReward`` to a trainer's own reward functions, and references to its data."""
    from posh_reward import PoshReward

    class Rewarded(original):  # type: ignore[misc]
        def __init__(self, *args: Any, reward_funcs: Any = None, **kwargs: Any) -> None:
            functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
            if all(callable(each) and not hasattr(each, "parameters") for each in functions):
                posh = PoshReward()
                reward_funcs = posh.functions(*functions)
                for name in ("train_dataset", "eval_dataset"):
                    if hasattr(kwargs.get(name), "map"):
                        kwargs[name] = kwargs[name].map(lambda row: {"reference": LINES[0]})
            super().__init__(*args, reward_funcs=reward_funcs, **kwargs)

    return Rewarded


# What the tests load from the hub.


def make_hub(folder: Path) -> None:
    """Write tiny models and datasets with the names and columns of TRL's."""
    import torch
    import transformers
    from datasets import Dataset
    from PIL import Image

    from recipes import tiny_qwen

    tokenizer = tiny_qwen.make_tokenizer()
    sizes = {
        "vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
        "pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None, "num_labels": 1,
    }  # fmt: skip
    torch.manual_seed(0)
    for name, kind in MODELS.items():
        made = getattr(transformers, kind)
        made(made.config_class(**sizes)).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    sees = folder / "tiny-Qwen2_5_VLForConditionalGeneration"
    tiny_qwen.build(sees, warm_up_steps=0, pretrain_steps=0)

    said = [[{"role": "user", "content": line}] for line in LINES]
    pictures = [Image.new("RGB", (56, 56), (10 * number, 0, 0)) for number in range(len(LINES))]
    write(folder / "zen", "standard_prompt_only", Dataset.from_dict({"prompt": LINES}))
    write(folder / "zen", CONVERSATION, Dataset.from_dict({"prompt": said}))
    images = {"prompt": said, "image": pictures}
    write(folder / "zen-image", CONVERSATION, Dataset.from_dict(images))
    several = {"prompt": said, "images": [[each, each] for each in pictures]}
    write(folder / "zen-multi-image", CONVERSATION, Dataset.from_dict(several))


def write(folder: Path, name: str, rows: Any) -> None:
    """Write a configuration of a dataset as a repository on the hub has it."""
    (folder / name).mkdir(parents=True)
    rows.select(range(17)).to_parquet(folder / name / "train.parquet")
    rows.select(range(17, 19)).to_parquet(folder / name / "test.parquet")
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    configs = "".join(
        f"- config_name: {each}\n  data_files:\n"
        f"  - {{split: train, path: {each}/train.parquet}}\n"
        f"  - {{split: test, path: {each}/test.parquet}}\n"
        for each in names
    )
    (folder / "README.md").write_text(f"---\nconfigs:\n{configs}---\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="TRL's own tests with our trainers.")
    parser.add_argument("checkout", type=Path, help="a checkout of TRL")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    flags = parser.parse_args()
    sys.exit(main(flags.checkout.resolve(), flags.modes))
