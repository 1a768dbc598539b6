"""Processors of several families of models, and what the recipes make of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    Idefics3ImageProcessorPil,
    Idefics3Processor,
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessorPil,
)

from posh_reward.datasets.load_dataset import load_images
from posh_reward.errors import ConfigError
from posh_reward.training.processors import load_processor, read_size_limits, settle_images
from recipes import dapo_posh, sft
from recipes.demo import tiny_qwen

TEMPLATE = (
    "{% for turn in messages %}{{ turn.role }}:{% if turn.content is string %}{{ turn.content }}"
    "{% else %}{% for part in turn.content %}{{ '<image>' if part.type == 'image' else part.text }}"
    "{% endfor %}{% endif %}<end>{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)
MARKERS = ("<pad>", "<end>", "<fake_token_around_image>", "<image>", "<global-img>")
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
ONE_STEP = (
    "--dataset_name", "scenes:train=8:heldout=4", "--max_steps", "1", "--warmup_steps", "0",
    "--per_device_train_batch_size", "8",
)  # fmt: skip


@pytest.fixture
def idefics(tmp_path: Path) -> Path:
    """A random Idefics3, whose images of any size are four tokens."""
    words = tiny_qwen.make_tokenizer().backend_tokenizer
    names = {
        "end_of_utterance_token": MARKERS[1], "fake_image_token": MARKERS[2],
        "image_token": MARKERS[3], "global_image_token": MARKERS[4],
    }  # fmt: skip
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token=MARKERS[0], eos_token=MARKERS[1],
        extra_special_tokens=names,
    )  # fmt: skip
    size = {"longest_edge": 56}
    images = Idefics3ImageProcessorPil(size=size, max_image_size=size, do_image_splitting=False)
    processor = Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=TEMPLATE)
    pad, end, _, image, _ = tokenizer.convert_tokens_to_ids(MARKERS)
    text = {"model_type": "llama", "vocab_size": len(tokenizer), "hidden_size": 32,
            "bos_token_id": None, "eos_token_id": end, "pad_token_id": pad}  # fmt: skip
    config = AutoConfig.for_model(
        "idefics3",
        text_config=text | LAYERS,
        vision_config={"hidden_size": 32, "image_size": 56, "patch_size": 14} | LAYERS,
        image_token_id=image,
        pad_token_id=pad,
        scale_factor=2,
    )
    torch.manual_seed(0)
    folder = tmp_path / "idefics"
    AutoModelForImageTextToText.from_config(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def test_a_cap_leaves_the_models_own_minimum(tmp_path: Path) -> None:
    """Qwen3-VL's: an image below it would be enlarged by vLLM and not in training."""
    processor = tiny_qwen.make_processor(tiny_qwen.make_tokenizer())
    processor.image_processor = Qwen2VLImageProcessorPil(
        patch_size=16, size={"shortest_edge": 65_536, "longest_edge": 16_777_216}
    )
    processor.save_pretrained(tmp_path)
    capped = read_size_limits(load_processor(str(tmp_path), max_pixels=100_000))
    assert capped == (32, 65_536, 100_000)


def test_a_processor_of_another_family_is_its_own(idefics: Path) -> None:
    processor: Any = load_processor(str(idefics), max_pixels=10**6)
    assert isinstance(processor, Idefics3Processor)
    assert read_size_limits(processor) is None
    with pytest.raises(ConfigError, match=r"generate without vLLM \(--use_vllm false\)"):
        settle_images(load_images("scenes:train=1", "train"), processor)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["sft", "dapo"])
def test_another_family_is_trained(idefics: Path, tmp_path: Path, stage: str) -> None:
    own = ("--watch_grounding", "false", "--eval_strategy", "no")
    if stage == "dapo":
        own = ("--max_completion_length", "8", "--mask_truncated_completions", "false")
    flags = ["--config", f"configs/smoke/{stage}.yaml", "--model_name_or_path", str(idefics)]
    output = tmp_path / "trained"
    recipe = {"sft": sft, "dapo": dapo_posh}[stage]
    recipe.main([*flags, "--output_dir", str(output), *ONE_STEP, *own])
    before, after = (load_file(each / "model.safetensors") for each in (idefics, output))
    assert before.keys() == after.keys()
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert len(moved) > len(before) / 2
