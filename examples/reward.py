"""Post-train a vision-language model with POSH as the reward, in your own trainer.

    make demo                    # trains the small model to start from
    python examples/reward.py    # two steps, on a CPU

Only the reward and the two callbacks are POSH's: the first stops all ranks together, with a
checkpoint, if the judge dies; the second refuses to resume without the checkpoint's weights.
"""

from __future__ import annotations

import sys

from trl import GRPOConfig, GRPOTrainer

from posh_reward import (
    PoshReward,
    RefuseLostWeights,
    Shaping,
    StopWithCheckpoint,
    finish,
    load_images,
    load_processor,
    prompt,
    train,
)
from posh_reward.training.launch import run


def main(model: str = "demo/sft", output: str = "runs/own") -> None:
    """Train two steps, and save the model."""
    reward = PoshReward(shaping=Shaping("weighted", precision_weight=2, recall_weight=1))
    reward.check()  # fails before the model is loaded if the judge cannot work
    images = load_images("scenes:train=64:plain=1")  # columns image and reference
    trainer = GRPOTrainer(
        model,
        reward_funcs=reward,
        args=GRPOConfig(output, max_steps=2, max_completion_length=64, use_cpu=True, bf16=False),
        train_dataset=images.map(lambda row: {"prompt": prompt()}),
        processing_class=load_processor(model),  # needs no torchvision
        callbacks=[StopWithCheckpoint(reward), RefuseLostWeights()],
    )
    train(trainer)  # resumes as resume_from_checkpoint says
    trainer.save_model(output)
    finish(trainer)  # closes trackers and the process group


if __name__ == "__main__":
    run(lambda: main(*sys.argv[1:]))  # prints errors that you can fix without a traceback
