"""A loaded model: its weights on a device, its tokenizer, and a check of what it answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from posh_reward.errors import JudgeError
from posh_reward.models.asker import BLIND
from posh_reward.models.chat import Chat
from posh_reward.models.model import Prompt
from posh_reward.models.packed.checkpoint import free_memory
from posh_reward.models.packed.packing import ImageEncoder, PromptTokens, prompt_tokens
from posh_reward.models.packed.runner import Runner
from posh_reward.types import Failure, PromptImage

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


class LoadedModel:
    """A model on its device, with its tokenizer and, if it takes images, their processor.

    Raises:
        JudgeError: packed prompts do not get the answers that they would get alone.
    """

    def __init__(
        self, model: PreTrainedModel, chat: Chat, images: Any, budget: int, max_pixels: int
    ) -> None:
        self.model = model.eval()
        self.chat = chat
        encoder = None if images is None else ImageEncoder(model, images, max_pixels)
        self.runner = Runner(model, budget, encoder)
        context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._context = context if isinstance(context, int) else math.inf
        self.per_token = self._check()  # bytes of a token's states
        self._device = model.device
        self._copies: list[torch.Tensor] = []  # of the parameters, in host memory

    @property
    def stops(self) -> set[int]:
        """Tokens that end a reply."""
        ends = getattr(self.model.generation_config, "eos_token_id", None)
        several = ends if isinstance(ends, list) else [ends]
        stops = {*several, self.chat.tokenizer.eos_token_id, self.chat.turn_end}
        return {token for token in stops if token is not None}

    def encode(self, prompts: Sequence[Prompt], reply: int) -> list[PromptTokens | Failure]:
        """Tokenise prompts; fail those with unusable images, or too long with ``reply`` tokens."""
        encoder, limit = self.runner.encoder, self._context
        why = f"the prompt is longer than the model's context of {limit} tokens"
        # A text-only model's template cannot render images.
        texts = prompts if encoder else [each._replace(images=()) for each in prompts]
        starts: dict[bytes, bytes] = {}
        encoded: list[PromptTokens | Failure] = []
        for prompt, (ids, shared) in zip(prompts, self.chat.split(texts), strict=True):
            blind = prompt.images and encoder is None
            tokens = BLIND if blind else prompt_tokens(prompt, ids, shared, encoder)
            if isinstance(tokens, PromptTokens):
                if len(tokens) + reply > limit:
                    tokens = Failure("prompt", why)
                else:  # one object for the start that thousands of questions share
                    start = starts.setdefault(tokens.start, tokens.start)
                    tokens = PromptTokens(start, tokens.own, tokens.images)
            encoded.append(tokens)
        return encoded

    def put_away(self) -> None:
        """Move the weights off the GPU; do nothing on a CPU."""
        if self._device.type == "cpu":
            return
        # The weights never change, so one copy suffices.
        parameters = list(self.model.parameters())
        self._copies = self._copies or [each.data.cpu() for each in parameters]
        for parameter, copy in zip(parameters, self._copies, strict=True):
            parameter.data = copy
        torch.cuda.empty_cache()

    def bring_back(self, memory_gb: float | None) -> None:
        """Undo ``put_away``; make room for states: ``memory_gb``, or a share of what is free."""
        try:
            for parameter in self.model.parameters():
                if parameter.device != self._device:
                    parameter.data = parameter.data.to(self._device)
        except torch.OutOfMemoryError as error:
            self.put_away()
            raise JudgeError(
                f"the judge's weights no longer fit on {self._device} ({error}): leave it more "
                "memory, or use the judge 'server'"
            ) from error
        if not self.runner.states.layers:  # it was asleep: the GPU's free memory may have changed
            space = CPU_BYTES if self._device.type == "cpu" else 0.0
            if memory_gb is not None:
                space = memory_gb * 2**30
            elif self._device.type == "cuda":
                space = CUDA_SHARE * (free_memory(self._device) or 0)
            self.runner.clear(max(min(int(space / self.per_token), MOST_TOKENS), 1))

    @torch.inference_mode()
    def _check(self) -> int:
        """Compare packed prompts with a plain pass for each; return bytes of a token's states."""
        prompts, encoder = SAMPLE, self.runner.encoder
        if encoder is not None:
            from PIL import Image

            side = encoder.sizes.factor  # wider than high, since positions depend on the shape
            image = Image.linear_gradient("L").resize((3 * side, 2 * side))
            seeing = (PromptImage("sample", image),)
            prompts = [*SAMPLE, *(each._replace(images=seeing) for each in SAMPLE)]
        sample: list[Any] = self.encode(prompts, 0)
        try:
            failure = next((each for each in sample if isinstance(each, Failure)), None)
            if failure is None:
                plain = torch.stack([self._plain(each) for each in sample]).cpu()
                self.runner.clear(sum(map(len, sample)))
                packed: list[Any] = self.runner.read(sample, torch.Tensor.float)
                states = self.runner.states
                failure = next((each for each in packed if isinstance(each, Failure)), None)
        except JudgeError:
            raise
        except (torch.OutOfMemoryError, TypeError, ValueError, AttributeError, LookupError,
                RuntimeError) as error:  # fmt: skip
            raise self._unfit(f"{type(error).__name__}: {error}") from error
        if failure is not None:
            raise self._unfit(str(failure))
        layers, used = self.model.config.get_text_config().num_hidden_layers, len(states.layers)
        if used != layers:
            raise self._unfit(f"{used} of its {layers} layers use the common attention")
        unlike = (torch.tensor(packed) - plain).square().mean().sqrt()
        if not unlike <= TOLERANCE * plain.std():  # also if they are NaN
            raise self._unfit("its answers differ")
        self.runner.computed = 0
        per_token = states.bytes_per_slot
        self.runner.clear(0)
        return per_token

    def _plain(self, tokens: PromptTokens) -> torch.Tensor:
        """Logits (vocabulary) after a prompt, by transformers alone."""
        model: Any = self.model
        ids, options = tokens.ids, {}
        if tokens.images and self.runner.encoder is not None:
            patches = self.runner.encoder.patches(tokens.images[0].image)
            assert not isinstance(patches, Failure), patches
            ids = np.where(ids < 0, self.runner.encoder.placeholder, ids)
            kinds = torch.from_numpy(tokens.ids < 0).int()[None].to(model.device)
            names = ("pixel_values", "image_grid_thw", "mm_token_type_ids")
            options = dict(zip(names, (*patches, kinds), strict=True))
        with torch.autocast(model.device.type, enabled=False):
            logits: torch.Tensor = model(
                input_ids=torch.from_numpy(ids)[None].to(model.device), use_cache=False, **options
            ).logits
        return logits[0, -1].float()

    def _unfit(self, reason: str) -> JudgeError:
        return JudgeError(
            f"{type(self.model).__name__} cannot answer packed prompts ({reason}): serve it with "
            "vLLM and use the judge 'server'"
        )
