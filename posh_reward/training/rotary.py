"""Rotary frequencies in full precision.

transformers before 5.23 computes ``inv_freq`` inside DeepSpeed's ``zero.Init``, which rounds every
new tensor to bf16, and later copies the right values into the rounded buffer. A relative error of
0.4 % is a phase error of 0.4 rad at a distance of 330 tokens and 0.9 rad at 768: the trainer's
log-probabilities leave the pretrained model's, more so late in a description, and nothing fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

from posh_reward.errors import ConfigError

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

FREQUENCY_SUFFIX = "inv_freq"
"""Ending of the names of rotary buffers."""


class ExactRotary(TrainerCallback):  # type: ignore[misc]
    """Compute the rotary buffers again once a model is wrapped and its checkpoint is loaded.

    Those of the policy, and of the trainer's ``reference`` model, if it has one.
    """

    def __init__(self, reference: torch.nn.Module | None = None) -> None:
        self.reference = reference

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Make the buffers exact, or raise ConfigError on every rank."""
        for model in (kwargs.get("model"), self.reference):
            if model is not None:
                restore_rotary(model)


def restore_rotary(model: torch.nn.Module) -> None:
    """Replace a model's rotary buffers by those of a new module of the same configuration."""
    for path, module in model.named_modules():
        rotary = {}
        for name, buffer in module._buffers.items():
            if buffer is not None and name.endswith(FREQUENCY_SUFFIX):
                rotary[name] = buffer
        exact = _new_buffers(module) if rotary else {}
        for name, buffer in rotary.items():
            if name in exact:
                # Not copied into the buffer, which may be the rounded type's.
                module._buffers[name] = exact[name].to(buffer.device)
            elif buffer.dtype != torch.float32:
                raise ConfigError(
                    f"the rotary frequencies {path}.{name} are in {buffer.dtype}, and a new "
                    f"{type(module).__name__} cannot be made to compute them in float32, so the "
                    "model would train on wrong positions: use transformers 5.23 or newer, or an "
                    "accelerate configuration with zero_stage: 2"
                )


def _new_buffers(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the float32 buffers of a new module of the same configuration; none if it fails."""
    try:
        with torch.device("cpu"):
            make: Any = type(module)
            buffers = dict(make(module.config).named_buffers(recurse=False))
    except Exception:  # a class of the model's own, with other arguments or an unknown rope_type
        return {}
    return {name: buffer for name, buffer in buffers.items() if buffer.dtype == torch.float32}
