"""TRL's own tests of its GRPO and RLOO trainers, with ours in their place.

    python -m tools.trl_suite CHECKOUT_OF_TRL

Each mode of ``MODES`` runs them once, for ``STEPS_OF_A_TEST`` steps where they set no number. The
tests take models and data from the hub; here they find random tiny models and lines of text under
the same names, in a temporary folder. What needs another model than those of ``MODELS``, or another
version of TRL than the installed one, fails in every mode, so what counts are the tests that pass
with TRL's trainer and fail with ours. A test that ends with one of our own errors was refused: it
is listed with the message, which has to name a setting that this mode cannot combine. Tests of
tools want jmespath.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

MODE = "POSH_TRL_SUITE"  # environment variable: the mode of this process
OUTCOMES = "POSH_TRL_OUTCOMES"  # environment variable: the file that gets a line for each test
GRPO, RLOO = "tests/test_grpo_trainer.py", "tests/test_rloo_trainer.py"
BASELINE = "trl"
MODES = {
    BASELINE: (GRPO, RLOO),
    "ours": (GRPO,),  # DapoTrainer
    "sampling": (GRPO,),  # with dynamic sampling
    "credit": (GRPO,),  # with span credit
    "both": (GRPO,),  # with both
    "reward": (GRPO, RLOO),  # TRL's trainers with PoshReward
}
STEPS_OF_A_TEST = 3
"""Where a test sets none. With one, no step would begin from weights that another has updated."""
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
"""Name on the hub -> class; and the demo's model:"""
SEES = "tiny-Qwen2_5_VLForConditionalGeneration"
LINES = [f"Line {number} says that simple is better than complex" for number in range(19)]


def main(checkout: Path, modes: list[str]) -> int:
    """Run the modes; return 1 if a test passes with TRL's trainer but not with ours."""
    results: dict[str, dict[str, list[str]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(checkout / "tests", folder / "tests")
        make_hub(folder / HUB)
        for mode in modes:
            results[mode] = run(folder, mode)
            counts = Counter(outcome for outcome, _ in results[mode].values())
            words = (f"{count} {outcome}" for outcome, count in sorted(counts.items()))
            print(f"{mode:<9} {', '.join(words)}", flush=True)
    passes = [test for test, (outcome, _) in results[BASELINE].items() if outcome == "passed"]
    lost: list[tuple[str, str, str, str]] = []
    for mode, outcomes in results.items():
        for test in filter(outcomes.__contains__, passes):
            outcome, why = outcomes[test]
            if outcome != "passed":
                lost.append((outcome, mode, test, why))
    for outcome, mode, test, why in sorted(lost):
        print(f"{outcome} in mode {mode}: {test}\n    {why}")
    failed = sum(outcome != "refused" for outcome, *_ in lost)
    print(
        f"of {len(passes)} tests that pass in mode {BASELINE}, lost in a later one: "
        f"{failed}; refused: {len(lost) - failed}"
    )
    return bool(failed)


def run(folder: Path, mode: str) -> dict[str, list[str]]:
    """Run TRL's tests in a mode; return each one's outcome, and why if it did not pass."""
    outcomes = folder / f"{mode}.jsonl"
    paths = [str(Path.cwd()), os.environ.get("PYTHONPATH")]
    environment = os.environ | {
        MODE: mode, OUTCOMES: str(outcomes), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-p", "tools.trl_suite", "-q", "--tb=no",
               "-p", "no:cacheprovider", *MODES[mode]]  # fmt: skip
    if mode == "reward":
        command += ["-k", "not all_rewards_none"]  # PoshReward adds its own
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False)
    lines = outcomes.read_text(encoding="utf-8").splitlines()
    return {test: [outcome, why] for test, outcome, why in map(json.loads, lines)}


# As a plugin of pytest, in the process of a mode.


def pytest_configure() -> None:
    """Fit the installed libraries to tests of another version, and to models without a hub."""
    from transformers import AutoProcessor
    from trl import import_utils

    from posh_reward.training.processors import load_processor

    import_utils.is_joblib_available = getattr(import_utils, "is_joblib_available", bool)
    stock = AutoProcessor.from_pretrained

    def load(name: str, *args: Any, **kwargs: Any) -> Any:
        """Load the demo's processor without torchvision, which the stock one wants for video."""
        return load_processor(name) if name.endswith(SEES) else stock(name, *args, **kwargs)

    AutoProcessor.from_pretrained = load


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put our trainers, and shorter runs where none is set, into the namespaces of TRL's tests."""
    mode = os.environ.get(MODE, BASELINE)
    for module in {item.module for item in items if isinstance(item, pytest.Function)}:
        for name in ("GRPOTrainer", "RLOOTrainer"):
            if hasattr(module, name):
                setattr(module, name, trainer_for(mode, getattr(module, name)))
        for name in ("GRPOConfig", "RLOOConfig"):
            if hasattr(module, name):
                setattr(module, name, partial(getattr(module, name), max_steps=STEPS_OF_A_TEST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    """Write the outcome of each test."""
    from posh_reward.errors import PoshError, on_one_line

    report = yield
    if report.when == "call" or report.outcome != "passed":
        error = call.excinfo.value if call.excinfo else None
        outcome = "refused" if isinstance(error, PoshError) else report.outcome
        why = "" if error is None else on_one_line(f"{type(error).__name__}: {error}")
        with Path(os.environ[OUTCOMES]).open("a", encoding="utf-8") as file:
            file.write(json.dumps([item.nodeid, outcome, why]) + "\n")
    return report


def trainer_for(mode: str, original: Any) -> Any:
    """Make the class that a mode has in the place of one of TRL's trainers."""
    from posh_reward.training.dapo.sampling import DynamicSampling
    from posh_reward.training.dapo.trainer import DapoTrainer

    if mode == "reward":
        return rewarded(original)
    if mode == BASELINE or original.__name__ == "RLOOTrainer":
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
                reward_funcs = PoshReward().functions(*functions)
                weights = getattr(kwargs.get("args"), "reward_weights", None)
                if weights is not None and len(weights) == len(functions):
                    # These tests compute the sum by hand.
                    kwargs["args"].reward_weights = [0.0, *weights]
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

    from recipes.demo import tiny_qwen

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
    tiny_qwen.build(folder / SEES, warm_up_steps=0, pretrain_steps=0)

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
    sys.exit(main(flags.checkout.resolve(), [BASELINE, *filter(BASELINE.__ne__, flags.modes)]))
