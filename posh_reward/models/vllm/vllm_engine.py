"""vLLM as the child's engine. The only module here that imports it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from posh_reward.errors import MissingDependencyError
from posh_reward.models.asker import NO_IMAGES_ACCEPTED
from posh_reward.models.chat import Chat
from posh_reward.models.model import (
    TOP_TOKENS,
    LabelReading,
    Prompt,
    label_masses,
    label_tokens,
    missing_token_failure,
)
from posh_reward.models.prompt_images import NO_PLACE, SizeLimits, check_max_pixels, read_image_size
from posh_reward.models.vllm.vllm_worker import Answers, EngineReply
from posh_reward.types import Failure

PROMPTS_PER_CALL = 512
"""Prompts per call of the engine: with more, more are lost if it dies; with fewer, it idles."""
REQUIRED_FREE_GPU_SHARE = 0.01
"""Share of the GPU's memory that vLLM requires to be free, even if the cache's size is set in bytes
(vllm#39852). Its default is most of the GPU, which the trainer uses."""
MAX_IMAGES_PER_PROMPT = 8
PATCH_CACHE_GIB = 1.0
"""GiB of host memory for images as patches: forty of a megapixel. Questions about one image come
together, so vLLM's default of 4 would be a waste."""
TOO_MANY_IMAGES = Failure("prompt", f"the prompt has more than {MAX_IMAGES_PER_PROMPT} images")
UNEXPECTED_TOKENS = Failure("engine", "vLLM made an unexpected number of tokens of the images")
NOT_TOKENISED = Failure("prompt", "the prompt cannot be tokenised")
LABELS_LEFT_OUT = Failure("reply", "the engine left out requested labels")


class VllmEngine:
    """A vLLM engine on the only GPU that is visible to this process."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        import vllm

        self._reading: LabelReading = settings["reading"]
        if self._reading == "labels":
            check_scoring(vllm.SamplingParams, vllm.__version__)
        self._sleeps = bool(settings["sleep"]) and can_sleep()
        self._asleep = False
        most = settings["max_pixels"]
        self._images = most and image_inputs(settings["model"], settings["revision"], most)
        image_options = self._images.engine_options if self._images else {}
        self._params: Any = vllm.SamplingParams
        self._llm: Any = vllm.LLM(
            model=settings["model"],
            revision=settings["revision"],
            tokenizer_revision=settings["revision"],
            dtype=settings["dtype"],
            max_model_len=settings["max_model_len"],
            kv_cache_memory_bytes=settings["kv_cache_memory_bytes"],
            gpu_memory_utilization=REQUIRED_FREE_GPU_SHARE,
            enable_prefix_caching=True,
            enable_sleep_mode=self._sleeps,
            enforce_eager=settings["enforce_eager"],
            logprobs_mode="raw_logprobs",
            **image_options,
        )
        self._longest: int = settings["max_model_len"]
        why = f"the prompt is longer than max_model_len, {self._longest} tokens: raise that setting"
        self._too_long = Failure("prompt", why)
        self._tokenizer: Any = self._llm.get_tokenizer()
        self._chat = Chat(self._tokenizer)

    @property
    def sizes(self) -> SizeLimits | None:
        """Accepted sizes of images; None for a text-only model."""
        if not self._images:
            return None
        return self._images.sizes

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> Answers:
        """Probabilities of the labels as the next token, at temperature 1."""
        tokens = label_tokens(self._tokenizer, labels, self._reading)
        unreadable = missing_token_failure(labels, tokens)
        if unreadable is not None:
            failure = EngineReply(failure=unreadable)
            return iter([[(place, failure) for place in range(len(prompts))]])
        scoring: dict[str, Any] = {"logprobs": TOP_TOKENS}
        if self._reading == "labels":
            scoring = {"logprob_token_ids": list(chain.from_iterable(tokens))}
        params = self._params(max_tokens=1, temperature=1.0, detokenize=False, **scoring)

        def read_masses(output: Any) -> EngineReply:
            logprobs = output.logprobs[0]
            if self._reading == "labels":
                return read_labels(logprobs, tokens)
            return EngineReply(masses=tuple(label_masses(select_top_tokens(logprobs), tokens)))

        return self._answer_in_batches(prompts, params, read_masses)

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> Answers:
        end = self._chat.turn_end
        params = self._params(
            max_tokens=max_tokens,
            temperature=0.0,
            detokenize=False,
            stop_token_ids=[] if end is None else [end],
        )

        def read_text(output: Any) -> EngineReply:
            ids = list(output.token_ids)
            return EngineReply(text=self._tokenizer.decode(ids, skip_special_tokens=True).strip())

        return self._answer_in_batches(prompts, params, read_text)

    def sleep(self) -> None:
        """Move the weights to host memory and drop the cache, where vLLM can."""
        if self._sleeps and not self._asleep:
            self._llm.sleep(level=1)
            self._asleep = True

    def wake(self) -> None:
        if self._asleep:
            self._llm.wake_up()
            self._asleep = False

    def _answer_in_batches(
        self, prompts: Sequence[Prompt], params: Any, read: Callable[[Any], EngineReply]
    ) -> Answers:
        self.wake()
        failed: list[tuple[int, EngineReply]] = []
        sound: list[tuple[int, dict[str, Any], int]] = []
        for place, (prompt, ids) in enumerate(zip(prompts, self._token_ids(prompts), strict=True)):
            length = NOT_TOKENISED if ids is None else self._count_prompt_tokens(prompt, ids)
            if isinstance(length, int) and length + params.max_tokens > self._longest:
                length = self._too_long
            if isinstance(length, Failure):
                failed.append((place, EngineReply(failure=length)))
            else:
                assert ids is not None
                sound.append((place, build_engine_prompt(prompt, ids), length))
        yield failed
        # Batch by batch: the trainer keeps what was answered before this process died.
        for start in range(0, len(sound), PROMPTS_PER_CALL):
            part = sound[start : start + PROMPTS_PER_CALL]
            replies = self._llm.generate([each for _, each, _ in part], params, use_tqdm=False)
            answers = []
            for (place, _, length), reply in zip(part, replies, strict=True):
                answers.append((place, add_token_counts(read(reply.outputs[0]), reply, length)))
            yield answers

    def _count_prompt_tokens(self, prompt: Prompt, ids: Sequence[int]) -> int | Failure:
        """Tokens of a prompt, including its images'; a failure if it cannot be answered."""
        if not prompt.images:
            return len(ids)
        if not self._images:
            return NO_IMAGES_ACCEPTED
        failure = self._images.find_failure(prompt, ids)
        return failure or len(ids) + self._images.count_image_tokens(prompt)

    def _token_ids(self, prompts: Sequence[Prompt]) -> list[list[int] | None]:
        """Token ids of each prompt; None for text that the tokenizer refuses (lone surrogates)."""
        try:
            return [*self._chat.encode(prompts)]
        except Exception:
            if len(prompts) == 1:
                return [None]
            return [ids for prompt in prompts for ids in self._token_ids([prompt])]


def build_engine_prompt(prompt: Prompt, ids: list[int]) -> dict[str, Any]:
    """A prompt for vLLM, with one placeholder per image, which vLLM expands itself."""
    if not prompt.images:
        return {"prompt_token_ids": ids}
    return {
        "prompt_token_ids": ids,
        "multi_modal_data": {"image": [each.image for each in prompt.images]},
        "multi_modal_uuids": {"image": [each.digest for each in prompt.images]},
    }


def add_token_counts(answer: EngineReply, reply: Any, submitted: int) -> EngineReply:
    """Add token counts to an answer; fail it if vLLM read an unexpected number of tokens."""
    if len(reply.prompt_token_ids) != submitted:
        return EngineReply(failure=UNEXPECTED_TOKENS)
    computed = submitted - (reply.num_cached_tokens or 0)
    decoded = len(reply.outputs[0].token_ids)
    return replace(answer, submitted=submitted, computed=computed, decoded=decoded)


def read_labels(logprobs: Mapping[int, Any], tokens: Sequence[Sequence[int]]) -> EngineReply:
    """Masses of labels whose tokens were all requested.

    A token that is missing or minus infinity (vllm#51789) was not computed, so it may be likely.
    """
    values = {i: each.logprob for i, each in logprobs.items() if each.logprob != -math.inf}
    if not values.keys() >= set(chain.from_iterable(tokens)):
        return EngineReply(failure=LABELS_LEFT_OUT)
    return EngineReply(masses=tuple(label_masses(values, tokens)))


def select_top_tokens(logprobs: Mapping[int, Any]) -> dict[int, float]:
    """Log-probabilities of the ``TOP_TOKENS`` likeliest tokens by id; vLLM adds the sampled one."""
    return {i: each.logprob for i, each in logprobs.items() if each.rank <= TOP_TOKENS}


def check_scoring(params: Any, version: str) -> None:
    """Raise ``MissingDependencyError`` if this vLLM cannot score chosen tokens."""
    if "logprob_token_ids" not in inspect.signature(params).parameters:
        raise MissingDependencyError(
            f"vLLM {version} cannot report the probability of chosen tokens: install 0.22 or "
            "later, or set `reading: top-20`"
        )


def can_sleep() -> bool:
    """True if this vLLM can free its memory on this platform."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_sleep_mode_available())


@dataclass(frozen=True, slots=True)
class ImageInputs:
    """Sizes of images for a model in vLLM, and the token id of their placeholder."""

    sizes: SizeLimits
    placeholder: int

    @property
    def engine_options(self) -> dict[str, Any]:
        """Arguments of the engine, for images that already have their final size."""
        least, most = self.sizes.factor**2, self.sizes.max_pixels
        return {
            "limit_mm_per_prompt": {"image": MAX_IMAGES_PER_PROMPT, "video": 0},
            "mm_processor_kwargs": {"min_pixels": least, "max_pixels": most},
            "mm_processor_cache_gb": PATCH_CACHE_GIB,
        }

    def find_failure(self, prompt: Prompt, ids: Sequence[int]) -> Failure | None:
        """The reason why a prompt cannot be answered, or None."""
        if len(prompt.images) > MAX_IMAGES_PER_PROMPT:
            return TOO_MANY_IMAGES
        if ids.count(self.placeholder) != len(prompt.images):
            return NO_PLACE
        return None

    def count_image_tokens(self, prompt: Prompt) -> int:
        """Tokens that resized images add to their placeholders."""
        tokens = 0
        for image in prompt.images:
            tokens += math.prod(read_image_size(image)) // self.sizes.factor**2 - 1
        return tokens


def image_inputs(model: str, revision: str | None, max_pixels: int) -> ImageInputs:
    """Sizes and placeholder from a checkpoint's configuration, read with transformers."""
    from transformers import AutoConfig
    from transformers.image_processing_base import ImageProcessingMixin

    config = AutoConfig.from_pretrained(model, revision=revision, trust_remote_code=False)
    processor, _ = ImageProcessingMixin.get_image_processor_dict(model, revision=revision)
    least = processor.get("min_pixels") or processor["size"]["shortest_edge"]
    factor = processor["patch_size"] * processor["merge_size"]
    check_max_pixels(max_pixels, factor)
    sizes = SizeLimits(factor, min(least, max_pixels), max_pixels)
    return ImageInputs(sizes, config.image_token_id)
