"""A model's weights on a device, the memory left for states, and a check of packing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from posh_reward.errors import JudgeError
from posh_reward.models.chat import Chat
from posh_reward.models.model import Prompt
from posh_reward.models.packed.checkpoint import free_memory
from posh_reward.models.packed.packing import Pack, SlotStates, packed_attention, segments
from posh_reward.models.packed.slots import Ints, TextTokens, common

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CPU_BYTES = 2 * 2**30  # default memory for states on a CPU
CUDA_SHARE = 0.5  # default share for states of the memory that the weights leave free on a GPU
MOST_TOKENS = 2**20  # cap on stored states
SAMPLE = [Prompt("A dog and a cat sleep.\n\n", f'Q: Is "{word}" there?') for word in ("dog", "it")]
"""Two prompts with a common prefix."""
TOLERANCE = 0.1
"""Maximal RMS difference of packed and plain logits, relative to their standard deviation. Rounding
in bfloat16 causes a few hundredths; seeing another prompt's token about 1."""


class PlacedWeights:
    """A frozen model's weights, on its device or, put away, in host memory."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._parameters = list(model.parameters())
        self._device = model.device
        self._copies: list[torch.Tensor] = []

    def put_away(self) -> None:
        """Move the weights off the GPU; do nothing on a CPU."""
        if self._device.type == "cpu":
            return
        # The weights never change, so one copy suffices.
        self._copies = self._copies or [each.data.cpu() for each in self._parameters]
        for parameter, copy in zip(self._parameters, self._copies, strict=True):
            parameter.data = copy
        torch.cuda.empty_cache()

    def bring_back(self) -> None:
        """Undo ``put_away``; ``JudgeError`` if memory no longer suffices."""
        try:
            for parameter in self._parameters:
                if parameter.device != self._device:
                    parameter.data = parameter.data.to(self._device)
        except torch.OutOfMemoryError as error:
            self.put_away()
            raise JudgeError(
                f"the judge's weights no longer fit on {self._device} ({error}): leave it more "
                "memory, or use the judge 'server'"
            ) from error


def context_of(model: PreTrainedModel) -> float:
    """Length of the model's context in tokens; infinity if unknown."""
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return context if isinstance(context, int) else math.inf


def states_room(device: torch.device, per_token: int, memory_gb: float | None) -> int:
    """Number of tokens whose states, of ``per_token`` bytes, fit into memory or ``memory_gb``."""
    if memory_gb is not None:
        room: float = memory_gb * 2**30
    elif device.type == "cuda":
        room = CUDA_SHARE * (free_memory(device) or 0)
    else:
        room = CPU_BYTES
    return max(min(int(room / per_token), MOST_TOKENS), 1)


@torch.inference_mode()
def check_packing(model: PreTrainedModel, chat: Chat) -> int:
    """Compare two packed prompts with a plain pass for each; return bytes of a token's states.

    Raises:
        JudgeError: answers differ, so the model's attention does not support packing.
    """
    prompts = [TextTokens.of(ids, shared) for ids, shared in chat.split(SAMPLE)]
    try:
        plain = torch.cat([_plain(model, prompt.ids) for prompt in prompts])
        packed, states = _packed_logits(model, *prompts)
        alike = bool((packed - plain).square().mean().sqrt() <= TOLERANCE * plain.std())
    except JudgeError:
        raise
    except torch.OutOfMemoryError as error:
        raise JudgeError(f"the judge's model leaves no memory to run it: {error}") from error
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, RuntimeError) as error:
        raise _unfit(model, f"{type(error).__name__}: {error}") from error
    layers = model.config.get_text_config().num_hidden_layers
    if states.layers != layers:
        raise _unfit(model, f"{states.layers} of its {layers} layers use the common attention")
    if not alike:  # also if they are NaN
        raise _unfit(model, "its answers differ")
    return states.bytes_per_slot


def _plain(model: PreTrainedModel, ids: Ints) -> torch.Tensor:
    tokens = torch.from_numpy(ids)[None].to(model.device)
    with torch.autocast(model.device.type, enabled=False):
        logits: torch.Tensor = model(input_ids=tokens, use_cache=False).logits
    return logits[0, -1:].float()


def _packed_logits(
    model: PreTrainedModel, first: TextTokens, second: TextTokens
) -> tuple[torch.Tensor, SlotStates]:
    """Logits after both prompts, with their common prefix computed once."""
    # Slots 0..len(first)-1 belong to the first prompt; the second uses the shared ones of these,
    # then slots of its own.
    shared = common(first.key, second.key)
    own = np.arange(len(first), len(first) + len(second) - shared)
    paths = np.arange(len(first)), np.concatenate([np.arange(shared), own])
    rows = segments(first.ids, paths[0], 0, 0) + segments(second.ids, paths[1], shared, 1)
    states = SlotStates(len(first) + len(own))
    pack = Pack(rows, states, model.device)
    with packed_attention(model):
        logits = pack.run(model)
    return logits.float(), states


def _unfit(model: PreTrainedModel, reason: str) -> JudgeError:
    return JudgeError(
        f"{type(model).__name__} cannot answer packed prompts ({reason}): serve it with vLLM and "
        "use the judge 'server'"
    )
