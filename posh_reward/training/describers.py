"""Models that describe images: transformers in this process, or vLLM in a separate one.

Both get one image, sized as in training, with one prompt, and decode greedily.
"""

from __future__ import annotations

import gc
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from posh_reward.datasets.load_dataset import PROMPT
from posh_reward.datasets.sources import check_name_of_hub
from posh_reward.errors import ConfigError, MissingDependencyError, install
from posh_reward.models.prompt_images import resize_for_model
from posh_reward.models.vllm.vllm_environment import set_vllm_defaults
from posh_reward.training.processors import load_processor, sizes_of
from posh_reward.training.rollouts import PromptMismatchError, collapse, placeholder_ids

if TYPE_CHECKING:
    from PIL.Image import Image
    from transformers import PreTrainedModel, ProcessorMixin

Engine = Literal["transformers", "vllm"]
BATCH: dict[Engine, int] = {"transformers": 32, "vllm": 128}
"""Images per call. vLLM starts new ones as others finish, so only the end of a batch is slow."""
NO_VLLM = f"--engine vllm needs vLLM: {install('vllm')}, or leave out --engine to use transformers"


NEW_TOKENS = 768
"""Default limit of a description's length: ``max_completion_length`` of the paper's DAPO."""


@dataclass(frozen=True)
class Greedy:
    """The prompt, and settings of greedy decoding."""

    prompt_text: str = PROMPT
    max_new_tokens: int = NEW_TOKENS
    repetition_penalty: float = 1.0
    """1 is off. Overrides the model's generation_config.json (Qwen2.5-VL: 1.05)."""


class DescribedImage(NamedTuple):
    """A model's text, and whether it was cut at ``max_new_tokens``."""

    text: str
    truncated: bool


class Describer(Protocol):
    """A loaded model."""

    def describe(self, images: Sequence[Image]) -> list[DescribedImage]:
        """Describe each image."""
        ...

    def close(self) -> None:
        """Free the memory; the model cannot be used afterwards."""
        ...


def load_describer(
    engine: Engine, model: str, greedy: Greedy, max_pixels: int | None = None
) -> Describer:
    """Load a model, on a GPU in bfloat16 if there is one.

    Raises:
        MissingDependencyError: the engine is not installed.
        ConfigError: the model cannot be loaded.
    """
    kind = VllmDescriber if engine == "vllm" else TransformersDescriber
    if not Path(model).exists():
        check_name_of_hub(model)
    try:
        return kind(model, greedy, max_pixels)
    except (MissingDependencyError, ConfigError):
        raise
    except Exception as error:  # libraries raise all kinds of errors for a folder without a model
        raise ConfigError(f"cannot load {model!r}: {type(error).__name__}: {error}") from error


class TransformersDescriber:
    """A model in this process."""

    def __init__(self, model: str, greedy: Greedy, max_pixels: int | None = None) -> None:
        import torch
        from transformers import AutoModelForImageTextToText

        processor = load_processor(model, max_pixels=max_pixels)
        self._prompt = ImagePrompt(processor, greedy.prompt_text)
        self._greedy = greedy
        device, dtype = ("cuda", torch.bfloat16) if has_card() else ("cpu", torch.float32)
        loaded = AutoModelForImageTextToText.from_pretrained(model, dtype=dtype)
        self._model: PreTrainedModel | None = loaded.to(device).eval()

    def describe(self, images: Sequence[Image]) -> list[DescribedImage]:
        """Describe the images in one padded batch."""
        import torch

        model, processor = self._model, self._prompt.processor
        assert model is not None, "closed"
        inputs = processor(
            images=[[image] for image in self._prompt.settle(images)],
            text=[self._prompt.text] * len(images),
            padding=True,
            padding_side="left",
            return_tensors="pt",
        ).to(model.device, model.dtype)
        with torch.inference_mode():
            ids = model.generate(
                **inputs,
                do_sample=False,
                max_new_tokens=self._greedy.max_new_tokens,
                repetition_penalty=self._greedy.repetition_penalty,
            )
        replies = ids[:, inputs["input_ids"].shape[1] :].tolist()
        ends = model.generation_config.eos_token_id
        ended = {ends} if isinstance(ends, int) else set(ends or ())
        # The batch's longest reply sets its length: shorter ones have an end token, then padding.
        cut = [
            len(reply) == self._greedy.max_new_tokens and not ended & set(reply)
            for reply in replies
        ]
        return self._prompt.read(replies, cut)

    def close(self) -> None:
        """Free the model's memory."""
        import torch

        self._model = None
        gc.collect()  # modules form reference cycles
        if has_card():
            torch.cuda.empty_cache()


class VllmDescriber:
    """A model in vLLM, which runs it in a separate process."""

    def __init__(self, model: str, greedy: Greedy, max_pixels: int | None = None) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise MissingDependencyError(NO_VLLM)
        set_vllm_defaults(os.environ)
        import vllm
        from transformers.utils.peft_utils import find_adapter_config_file

        if find_adapter_config_file(model) is not None:
            raise ConfigError(
                f"{model!r} is a LoRA adapter, which vLLM cannot load alone: merge it into its "
                "model (peft's merge_and_unload), or leave out --engine"
            )
        processor = load_processor(model, max_pixels=max_pixels)
        self._prompt = ImagePrompt(processor, greedy.prompt_text)
        # One placeholder per image: vLLM expands it itself, and would expand expanded ones again.
        self._ids: list[int] = self._prompt.processor.tokenizer(self._prompt.text)["input_ids"]
        self._params: Any = vllm.SamplingParams(
            temperature=0.0,
            max_tokens=greedy.max_new_tokens,
            repetition_penalty=greedy.repetition_penalty,
            detokenize=False,
        )
        self._llm: Any = vllm.LLM(
            model=model,
            dtype="bfloat16" if has_card() else "float32",
            max_model_len=-1,  # the model's, or as much as fits into memory
            limit_mm_per_prompt={"image": 1, "video": 0},
        )

    def describe(self, images: Sequence[Image]) -> list[DescribedImage]:
        """Describe each image, checking the tokens of vLLM's prompt."""
        sized = self._prompt.settle(images)
        prompts = [
            {"prompt_token_ids": self._ids, "multi_modal_data": {"image": image}} for image in sized
        ]
        replies = self._llm.generate(prompts, self._params, use_tqdm=False)
        for image, reply in zip(sized, replies, strict=True):
            self._prompt.check(image, self._ids, reply.prompt_token_ids)
        outputs = [reply.outputs[0] for reply in replies]
        cut = [output.finish_reason == "length" for output in outputs]
        return self._prompt.read([list(output.token_ids) for output in outputs], cut)

    def close(self) -> None:
        """End vLLM's process, which frees its memory on the GPU."""
        self._llm.llm_engine.engine_core.shutdown()


def has_card() -> bool:
    """Return True if models run on a GPU here."""
    import torch

    return torch.cuda.is_available()


class ImagePrompt:
    """Prompt with one image, and decoding of replies; the same for every engine."""

    def __init__(self, processor: ProcessorMixin, prompt_text: str = PROMPT) -> None:
        self.processor: Any = processor
        turn = [{"type": "image"}, {"type": "text", "text": prompt_text}]
        self.text: str = self.processor.apply_chat_template(
            [{"role": "user", "content": turn}], tokenize=False, add_generation_prompt=True
        )
        self._sizes = sizes_of(processor)
        self._pads = placeholder_ids(processor)

    def settle(self, images: Sequence[Image]) -> list[Image]:
        """Convert images to RGB and, for Qwen's models, resize them as in training."""
        if self._sizes is None:
            return [image.convert("RGB") for image in images]
        return [resize_for_model(image, *self._sizes) for image in images]

    def read(self, ids: Sequence[Sequence[int]], cut: Sequence[bool]) -> list[DescribedImage]:
        """Decode the token ids of completions, with those marked that were cut."""
        texts: list[str] = self.processor.batch_decode(ids, skip_special_tokens=True)
        return [DescribedImage(text.strip(), each) for text, each in zip(texts, cut, strict=True)]

    def check(self, image: Image, prompt: Sequence[int], ids: Sequence[int]) -> None:
        """Raise PromptMismatchError if an engine's ``ids`` are not those of transformers."""
        if self._sizes is None:  # not a model of Qwen's: the expected number is unknown
            return
        tokens = sum(token in self._pads for token in ids)
        expected = self._sizes.tokens(*image.size)
        if tokens != expected or collapse(ids, self._pads) != list(prompt):
            raise PromptMismatchError(
                f"vLLM sees an image of {image.width} x {image.height} pixels as {tokens} "
                f"tokens, and transformers as {expected}: if --max_pixels is larger than what "
                "preprocessor_config.json allows, lower it; otherwise leave out --engine, since "
                "this version of vLLM prepares prompts in a new way"
            )
