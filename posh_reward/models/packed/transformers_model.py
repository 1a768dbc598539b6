"""A language model in this process, with transformers: on one GPU, or on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from posh_reward.errors import InputError, JudgeError
from posh_reward.models.chat import Chat
from posh_reward.models.model import (
    TOP_TOKENS,
    LabelReading,
    OnAnswer,
    Prompt,
    check_reading,
    ignore_answer,
    label_masses,
    label_tokens,
    make_verdict,
    missing_token_failure,
)
from posh_reward.models.packed import checkpoint
from posh_reward.models.prompt_images import MAX_PIXELS
from posh_reward.types import Failure, Reply, Usage, Verdict

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from posh_reward.models.packed.runner import LoadedModel

    ModelParts = tuple[PreTrainedModel, PreTrainedTokenizerBase, Any]


A = TypeVar("A", Verdict, Reply)


class TransformersModel:
    """A model in this process; shared prefixes are computed once.

    All prompts of a call, whichever pair they belong to, are packed into passes of up to
    ``max_batch_tokens`` without padding (``packing``). Prefixes are cached for later calls until
    their room is needed or ``sleep`` drops them. The order of prompts does not matter; the other
    prompts of a call change only rounding: by less than 1e-5 of a probability in float32, by up to
    a few hundredths of a grade in bfloat16.

    Checkpoints of Qwen2.5-VL and Qwen3-VL accept images. An image is part of the prefix, and so
    computed once for all prompts about it.

    Args:
        model: a folder, or a name on the hub. Safetensors only; a checkpoint's code is not run.
        revision: branch, tag or commit on the hub.
        device: "auto" is this process's GPU, or the CPU without one.
        dtype: "auto" is the checkpoint's own, or float32 on a CPU.
        reading: of label probabilities; see ``models.model.LabelReading``.
        max_batch_tokens: most tokens in a forward pass; halved when memory runs out.
        memory_gb: GiB for tokens' keys and values, in addition to the weights. Default: half of
            what the weights leave free on a GPU, or 2 on a CPU.
        max_pixels: larger images are shrunk to this; each 28 x 28 (Qwen2.5-VL) or 32 x 32
            (Qwen3-VL) pixels cost a token.
        sleep: between batches, move the weights from the GPU to pinned host memory (28 GiB per
            process for 14 billion parameters in bfloat16).

    Raises:
        InputError: unknown reading, or a size that is not positive.
    """

    notes = True  # ``choose`` and ``write`` take an ``OnAnswer``

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        reading: LabelReading = "labels",
        max_batch_tokens: int = 8192,
        memory_gb: float | None = None,
        max_pixels: int = MAX_PIXELS,
        sleep: bool = True,
    ) -> None:
        check_reading(reading)
        if min(max_batch_tokens, max_pixels) < 1 or (memory_gb is not None and memory_gb <= 0):
            raise InputError("max_batch_tokens, memory_gb and max_pixels must be more than 0")
        self.usage = Usage()
        self._model = model
        self._revision = revision
        self._device = device
        self._dtype = dtype
        self._reading: LabelReading = reading
        self._budget = max_batch_tokens
        self._memory_gb = memory_gb
        self._max_pixels = max_pixels
        self._sleep = sleep
        self._from_memory = False
        self._parts: ModelParts | None = None
        self._loaded: LoadedModel | None = None
        self._label_tokens: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}

    @classmethod
    def of(
        cls,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        *,
        images: Any = None,
        **options: Any,
    ) -> TransformersModel:
        """Wrap a model that is in memory, on one device; put it into evaluation mode.

        ``name`` is for signatures and stores: different weights need different names. Without its
        image processor, ``images``, a model gets none. ``options`` are those of the class, except
        ``revision``, ``device`` and ``dtype``.
        """
        wrapper = cls(name, **options)
        wrapper._from_memory = True
        wrapper._parts = (model, tokenizer, images)
        wrapper.sees = images is not None
        return wrapper

    @cached_property
    def sees(self) -> bool:
        """True for vision-language checkpoints of ``models.prompt_images.VISION_MODEL_TYPES``."""
        checkpoint.require_libraries()
        return checkpoint.is_vision_model(checkpoint.load_config(self._model, self._commit))

    @cached_property
    def few_calls(self) -> bool:
        """True on a GPU, where a decoding step takes as long for one phrase as for hundreds."""
        device = self._parts[0].device if self._parts else checkpoint.select_device(self._device)
        return bool(device.type != "cpu")

    @cached_property
    def name(self) -> str:
        """Transformers' version, model, commit or fingerprint, dtype, reading, cap on images."""
        checkpoint.require_libraries()
        version = f"transformers-{metadata.version('transformers')}"
        options = f"{self._reading}:pixels-{self._max_pixels}" if self.sees else self._reading
        if self._from_memory:
            return f"{version}:{self._model}:{options}"
        device = checkpoint.select_device(self._device)
        config = checkpoint.load_config(self._model, self._commit)
        dtype = str(checkpoint.select_dtype(self._dtype, config, device)).removeprefix("torch.")
        folder = Path(self._model)
        model = folder.resolve().name if folder.is_dir() else self._model
        return f"{version}:{model}@{self._identity}:{dtype}:{options}"

    def choose(
        self, prompts: Sequence[Prompt], labels: Sequence[str], note: OnAnswer = ignore_answer
    ) -> list[Verdict]:
        from posh_reward.models.packed.runner import log_probabilities

        loaded, key = self._load_and_wake(), tuple(labels)
        if key not in self._label_tokens:
            self._label_tokens[key] = label_tokens(loaded.chat.tokenizer, labels, self._reading)
        tokens = self._label_tokens[key]
        if (unreadable := missing_token_failure(labels, tokens)) is not None:
            return [Verdict(None, unreadable)] * len(prompts)
        flat = list(chain.from_iterable(tokens))
        top = TOP_TOKENS if self._reading == "top-20" else 0
        read = partial(log_probabilities, tokens=flat, top=top)

        def read_masses(answer: list[float] | Failure) -> Verdict:
            if isinstance(answer, Failure):
                return Verdict(None, answer)
            masses = label_masses(dict(zip(flat, answer, strict=True)), tokens)
            return make_verdict(masses, self._reading)

        ask = partial(loaded.runner.read, read=read)
        verdicts = self._ask_runner(prompts, 0, ask, read_masses, note)
        self.usage.tokens_decoded += sum(each.failure is None for each in verdicts)
        return verdicts

    def write(
        self, prompts: Sequence[Prompt], max_tokens: int, note: OnAnswer = ignore_answer
    ) -> list[Reply]:
        loaded = self._load_and_wake()

        def decode_reply(ids: list[int] | Failure) -> Reply:
            if isinstance(ids, Failure):
                return Reply(None, ids)
            return Reply(loaded.chat.tokenizer.decode(ids, skip_special_tokens=True).strip())

        ask = partial(loaded.runner.write, max_tokens=max_tokens, stops=loaded.stops)
        return self._ask_runner(prompts, max_tokens, ask, decode_reply, note)

    def _ask_runner(
        self,
        prompts: Sequence[Prompt],
        reply_tokens: int,
        ask: Callable[..., list[Any]],
        read_value: Callable[[Any], A],
        note: OnAnswer,
    ) -> list[A]:
        """``ask`` the runner all prompts that fit with ``reply_tokens``; read each value."""
        loaded = self._load_and_wake()
        encoded = loaded.encode(prompts, reply_tokens)
        fitting = [place for place, each in enumerate(encoded) if not isinstance(each, Failure)]
        tokens: list[Any] = [encoded[place] for place in fitting]
        found = ask(tokens, note=lambda index, value: note(fitting[index], read_value(value)))
        self.usage.prompt_tokens_submitted += sum(map(len, tokens))
        self.usage.prompt_tokens_computed += loaded.runner.computed
        self.usage.tokens_decoded += loaded.runner.decoded
        loaded.runner.computed = loaded.runner.decoded = 0
        values = dict(zip(fitting, found, strict=True))
        return [read_value(values.get(place, each)) for place, each in enumerate(encoded)]

    def sleep(self) -> None:
        """Drop cached states and, on a GPU, move the weights to host memory."""
        if self._loaded is None:
            return
        self._loaded.runner.clear(0)
        if self._sleep:
            self._loaded.put_away()

    def wake(self) -> None:
        """Load the model the first time; later move its weights back to their device."""
        self._load_and_wake()

    def close(self) -> None:
        self._parts = self._loaded = None

    def _load_and_wake(self) -> LoadedModel:
        checkpoint.require_libraries()
        from posh_reward.models.packed.runner import LoadedModel

        if self._loaded is None:
            model, tokenizer, images = self._parts or self._from_checkpoint()
            chat = Chat(tokenizer)
            self._loaded = LoadedModel(model, chat, images, self._budget, self._max_pixels)
        self._loaded.bring_back(self._memory_gb)
        return self._loaded

    def _from_checkpoint(self) -> ModelParts:
        if self._from_memory:
            raise JudgeError(
                f"the judge's model {self._model!r} was passed in memory and is not pickled: "
                "make the judge again with TransformersModel.of"
            )
        device = checkpoint.select_device(self._device)
        config = checkpoint.load_config(self._model, self._commit)
        dtype = checkpoint.select_dtype(self._dtype, config, device)
        return checkpoint.load_checkpoint(self._model, self._commit, device, dtype)

    @cached_property
    def _identity(self) -> str:
        """Resolved once and pickled: a branch may move between naming and loading."""
        return checkpoint.find_identity(self._model, self._revision)

    @property
    def _commit(self) -> str | None:
        return None if Path(self._model).is_dir() else self._identity

    def __getstate__(self) -> dict[str, Any]:
        fresh: dict[str, Any] = {
            "usage": Usage(),
            "_parts": None,
            "_loaded": None,
            "_label_tokens": {},
        }
        return {**self.__dict__, **fresh}
