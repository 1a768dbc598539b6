"""Build a tiny Qwen2.5-VL that can be trained on two cores, for smoke runs.

    python recipes/demo/tiny_qwen.py --output runs/tiny

It differs from the real one in size (1.1 M parameters; patches of 28 pixels, so that a slot of a
drawn scene is one image token), in its byte-level BPE, trained on the fly, and in its pretraining,
which takes a minute. First the vision tower learns to name the content of each slot, through linear
probes that are then discarded; then the whole model learns to caption images of one subject,
without a prompt. Without these two stages, or with the usual initialisation of 0.02, a model of
this size writes fluent captions for hundreds of steps before it uses the image; without the second
it still cannot tell colours apart after 700 steps of SFT.
"""

from __future__ import annotations

import argparse
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import posh_reward.training.extra  # noqa: F401
from posh_reward.datasets.load_dataset import PAPER_PROMPT
from posh_reward.datasets.scenes import (
    COLORS,
    HANDHELD,
    MAX_BIRDS,
    PEOPLE,
    SIZES,
    SLOTS_PER_SCENE,
    THINGS,
    Scene,
    caption,
    draw_scene,
    generate_scenes,
    isolate_subjects,
)
from posh_reward.process.progress import progress_bar
from posh_reward.training.processors import has_torchvision, image_processor_with

if TYPE_CHECKING:
    import torch
    from transformers import (
        BatchFeature,
        PreTrainedTokenizerBase,
        ProcessorMixin,
        Qwen2_5_VLForConditionalGeneration,
    )

HIDDEN_SIZE = 96
NUM_LAYERS = 3
NUM_HEADS = 4
PATCH_SIZE = 28
MERGE_SIZE = 2
INITIALIZER_RANGE = 0.08
MIN_SCHEDULE_STEPS = 20  # of fewer, the shares of a schedule's phases would round to none
TOKENIZER_CAPTIONS = 1000  # that the tokenizer is trained on
SPECIAL_TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
    "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip

PROBES: dict[str, tuple[object, ...]] = {
    "noun": (None, *PEOPLE, *THINGS),
    "color": (None, *COLORS),
    "held": (None, *HANDHELD),
    "held_color": (None, *COLORS),
    "size": (None, *SIZES),
    "count": (None, *range(1, MAX_BIRDS + 1)),
}
"""Property of a slot that a probe predicts -> its classes; None if the slot does not have it."""


def make_tokenizer() -> PreTrainedTokenizerBase:
    """Train a byte-level BPE in which every word of the captions and of the prompt is one token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    from trl.chat_template_utils import qwen2_5_vl_chat_template

    texts = [caption(scene) for scene in generate_scenes("train", TOKENIZER_CAPTIONS)]
    chat = "system\nYou are a helpful assistant.\nuser\nassistant\n" + PAPER_PROMPT
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator([*texts, chat, " " + chat], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=list(SPECIAL_TOKENS[1:]),
        chat_template=qwen2_5_vl_chat_template,
        padding_side="left",
    )


def make_processor(tokenizer: PreTrainedTokenizerBase) -> ProcessorMixin:
    """Make the stock processor if torchvision is installed, else one without video."""
    from transformers import Qwen2VLImageProcessorPil

    side = PATCH_SIZE * MERGE_SIZE
    images = Qwen2VLImageProcessorPil(
        patch_size=PATCH_SIZE, merge_size=MERGE_SIZE, min_pixels=side**2, max_pixels=16 * side**2
    )
    if not has_torchvision():
        return image_processor_with(tokenizer, images)
    from transformers import Qwen2_5_VLProcessor, Qwen2VLVideoProcessor

    videos = Qwen2VLVideoProcessor(patch_size=PATCH_SIZE, merge_size=MERGE_SIZE)
    return Qwen2_5_VLProcessor(images, tokenizer, videos, chat_template=tokenizer.chat_template)


def make_model(
    tokenizer: PreTrainedTokenizerBase, seed: int = 0
) -> Qwen2_5_VLForConditionalGeneration:
    """Make the model with random weights."""
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL_TOKENS}
    rotary = HIDDEN_SIZE // NUM_HEADS // 2  # half a head: a third each for time, height and width
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": HIDDEN_SIZE, "intermediate_size": 3 * HIDDEN_SIZE,
        "num_hidden_layers": NUM_LAYERS,
        "num_attention_heads": NUM_HEADS, "num_key_value_heads": NUM_HEADS,
        "max_position_embeddings": 1024, "initializer_range": INITIALIZER_RANGE,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 1e6, "mrope_section": [rotary // 3] * 3,
        },
        "bos_token_id": None, "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|endoftext|>"],
    }  # fmt: skip
    vision = {
        "depth": 1, "num_heads": NUM_HEADS,
        "hidden_size": HIDDEN_SIZE, "intermediate_size": 2 * HIDDEN_SIZE,
        "patch_size": PATCH_SIZE, "spatial_merge_size": MERGE_SIZE, "out_hidden_size": HIDDEN_SIZE,
        "fullatt_block_indexes": [0], "initializer_range": INITIALIZER_RANGE,
        "window_size": 4 * PATCH_SIZE * MERGE_SIZE,
    }  # fmt: skip
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.generation_config.pad_token_id = ids["<|endoftext|>"]
    return model


def find_slot_classes(batch: list[Scene]) -> dict[str, torch.Tensor]:
    """Return each probe's target classes for every slot of every scene, (scenes x slots,)."""
    import torch

    slots = list(chain.from_iterable(scene.slots for scene in batch))
    targets = {}
    for probe, classes in PROBES.items():
        numbers = [classes.index(getattr(slot, probe, None)) for slot in slots]
        targets[probe] = torch.tensor(numbers)
    return targets


def warm_up(
    model: Qwen2_5_VLForConditionalGeneration,
    processor: ProcessorMixin,
    steps: int,
    seed: int = 0,
    batch_size: int = 64,
) -> dict[str, float]:
    """Teach the vision tower to name the content of each slot, through temporary probes.

    Returns:
        The accuracy of each probe on the last batch, whose images are new.
    """
    import torch

    visual = model.model.visual
    probes = torch.nn.ModuleDict()
    for probe, classes in PROBES.items():
        probes[probe] = torch.nn.Linear(HIDDEN_SIZE, len(classes))
    parameters = [*visual.parameters(), *probes.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 3e-3, total_steps=max(steps, MIN_SCHEDULE_STEPS)
    )
    stream = generate_scenes("train", steps * batch_size, seed + 1, plain=True)
    accuracy: dict[str, float] = {}
    for _ in progress_bar(
        "naming what a slot holds", steps, "step", quiet=not steps, iterable=range(steps)
    ):
        batch = list(islice(stream, batch_size))
        images = processor.image_processor(
            [draw_scene(scene) for scene in batch], return_tensors="pt"
        )
        features = visual(images["pixel_values"], grid_thw=images["image_grid_thw"]).pooler_output
        # The text model normalises its input, so the probes get it normalised too.
        features = torch.nn.functional.rms_norm(features, (HIDDEN_SIZE,))
        targets = find_slot_classes(batch)
        logits = {probe: probes[probe](features) for probe in PROBES}
        losses = [torch.nn.functional.cross_entropy(logits[p], targets[p]) for p in PROBES]
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        accuracy = {p: (logits[p].argmax(-1) == targets[p]).float().mean().item() for p in PROBES}
    return accuracy


def pretrain(
    model: Qwen2_5_VLForConditionalGeneration,
    processor: ProcessorMixin,
    steps: int,
    seed: int = 0,
    batch_size: int = 32,
) -> float:
    """Teach the model to caption images of one subject, without a prompt.

    Returns:
        The loss of the last batch, in nats per token; NaN without a step.
    """
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        1.5e-3,
        total_steps=max(steps, MIN_SCHEDULE_STEPS),
        pct_start=0.1,
        cycle_momentum=False,
    )
    stream = generate_scenes("train", steps * batch_size, seed + 1, plain=True)
    subjects = chain.from_iterable(map(isolate_subjects, stream))
    last = float("nan")
    for _ in progress_bar(
        "captioning one subject", steps, "step", quiet=not steps, iterable=range(steps)
    ):
        loss = model(**_encode_captions(processor, list(islice(subjects, batch_size)))).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        last = loss.item()
    return last


def _encode_captions(processor: ProcessorMixin, batch: list[Scene]) -> BatchFeature:
    """Encode image, caption and end of turn, with the loss on the caption and the end."""
    texts = [
        f"<|vision_start|><|image_pad|><|vision_end|>{caption(scene)}<|im_end|>" for scene in batch
    ]
    images = [[draw_scene(scene)] for scene in batch]
    inputs = processor(
        images=images, text=texts, padding=True, padding_side="right", return_tensors="pt"
    )
    labels = inputs["input_ids"].clone()
    labels[inputs["attention_mask"] == 0] = -100  # ignored by the loss
    labels[:, : SLOTS_PER_SCENE + 2] = -100  # the image: one token a slot, between two marks
    return inputs | {"labels": labels}


def build(
    output: str | Path, *, seed: int = 0, warm_up_steps: int = 80, pretrain_steps: int = 250
) -> tuple[dict[str, float], float]:
    """Build, pretrain and save a model with its processor.

    Args:
        output: for the model; afterwards a ``model_name_or_path`` like any other.
        seed: of the weights and the images.
        warm_up_steps: batches of 64 images for the vision tower.
        pretrain_steps: batches of 32 captioned images of one subject for the whole model.

    Returns:
        The accuracy of each probe at the end of the warm-up, and the last loss.
    """
    tokenizer = make_tokenizer()
    processor = make_processor(tokenizer)
    model = make_model(tokenizer, seed)
    accuracy = warm_up(model, processor, warm_up_steps, seed)
    loss = pretrain(model, processor, pretrain_steps, seed)
    model.save_pretrained(output)
    processor.save_pretrained(output)
    return accuracy, loss


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Build a tiny Qwen2.5-VL for smoke runs.")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--warm-up-steps", type=int, default=80)
    parser.add_argument("--pretrain-steps", type=int, default=250)
    args = parser.parse_args(argv)
    accuracy, loss = build(**vars(args))
    print(f"tiny Qwen2.5-VL in {args.output}")
    if accuracy:
        shares = ", ".join(f"{probe} {share:.3f}" for probe, share in accuracy.items())
        print(f"share of slots named correctly, higher is better: {shares}")
    if args.pretrain_steps:
        print(f"captions of one subject: loss {loss:.3f}, lower is better")


if __name__ == "__main__":
    main()
