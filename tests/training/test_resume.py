"""A resumed run has its checkpoint's weights, whoever wrote the trainer."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback
from trl import ModelConfig, SFTConfig, TrlParser

from posh_reward import ConfigError
from posh_reward.training.resume import RefuseLostWeights, load_weights, lost_weights
from recipes import sft

ROOT = Path(__file__).resolve().parents[2]


class Begun(TrainerCallback):  # type: ignore[misc]
    """Notes which of a checkpoint's tensors the model lacked when training began."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.lost: list[str] | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.lost = lost_weights(kwargs["model"], self.checkpoint)


def trainer(tiny: Path, output: Path, *flags: str) -> Any:
    """An SFT trainer as a user would make one, with a checkpoint after every step."""
    given = [
        "--config", str(ROOT / "configs/smoke/sft.yaml"), "--model_name_or_path", str(tiny),
        "--output_dir", str(output), "--dataset_name", "scenes:train=8:heldout=4",
        "--per_device_train_batch_size", "4", "--eval_strategy", "no", "--warmup_steps", "0",
        "--save_strategy", "steps", "--save_steps", "1", "--max_steps", "1", *flags,
    ]  # fmt: skip
    parser = TrlParser((sft.SFTScriptArguments, SFTConfig, ModelConfig))
    made = sft.make_trainer(*parser.parse_args_and_config(given))
    assert made.pop_callback(RefuseLostWeights) is not None, "the recipe has it"
    return made


@pytest.fixture(scope="module")
def output(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with checkpoint-1."""
    folder = tmp_path_factory.mktemp("run")
    trainer(tiny, folder).train()
    return folder


def test_a_run_without_its_checkpoints_weights_is_refused(tiny: Path, output: Path) -> None:
    checkpoint = output / "checkpoint-1"
    again = trainer(tiny, output, "--max_steps", "2")
    again.add_callback(RefuseLostWeights())
    with pytest.raises(ConfigError, match=r"checkpoint-1 without its weights.*load_weights"):
        again.train(resume_from_checkpoint=str(checkpoint))


def test_load_weights_is_the_remedy(tiny: Path, output: Path) -> None:
    checkpoint = output / "checkpoint-1"
    again, begun = trainer(tiny, output, "--max_steps", "2"), Begun(checkpoint)
    again.add_callback(RefuseLostWeights())
    again.add_callback(begun)
    load_weights(again, str(checkpoint))
    again.train(resume_from_checkpoint=str(checkpoint))
    assert (again.state.global_step, begun.lost) == (2, [])


def drop_a_tensor(file: Path) -> str:
    """Save a file again without one of its tensors; return its name."""
    tensors = load_file(file)
    name = next(name for name in tensors if "q_proj" in name)
    del tensors[name]
    save_file(tensors, file, metadata={"format": "pt"})
    return name.removeprefix("model.")


def test_a_checkpoint_without_one_tensor_is_refused(
    tiny: Path, output: Path, tmp_path: Path
) -> None:
    """transformers would fill the gap with random values."""
    checkpoint = tmp_path / "checkpoint-1"
    shutil.copytree(output / "checkpoint-1", checkpoint)
    name = drop_a_tensor(checkpoint / "model.safetensors").rpartition("layers.")[2]
    with pytest.raises(ConfigError, match=f"lacks 1 of the model's tensors.*{name}.*another"):
        load_weights(trainer(tiny, output, "--max_steps", "2"), str(checkpoint))
