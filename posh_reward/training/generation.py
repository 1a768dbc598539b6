"""Describe a split's images greedily with any number of models, one after the other.

The rows are what ``posh-reward score`` reads.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from posh_reward.datasets.load_dataset import PAPER_PROMPT, check_name_of_hub, load_images, prompt
from posh_reward.errors import (
    ConfigError,
    InputError,
    MissingDependencyError,
    escape_controls,
    install_command,
    installed_version,
    on_one_line,
)
from posh_reward.models.hub import UNKNOWN_IDENTITY, config_digest, find_identity
from posh_reward.models.prompt_images import resize_for_model
from posh_reward.models.vllm.vllm_model import set_vllm_defaults
from posh_reward.process.progress import progress_bar
from posh_reward.provenance import ORIGIN_COLUMN, Origin, Origins, prompt_digest
from posh_reward.run_record import read_run
from posh_reward.settings import shorten_list
from posh_reward.tables.dataset_images import OTHER_IMAGES_SUFFIX
from posh_reward.tables.item_ids import ItemIds
from posh_reward.tables.tables import Journal
from posh_reward.training.base_model import find_base_model
from posh_reward.training.launch import learned_prompt, warn_of_other_prompt
from posh_reward.training.processors import load_processor, read_size_limits
from posh_reward.training.resume import parse_checkpoint_step
from posh_reward.training.rollouts import (
    PromptMismatchError,
    collapse_placeholders,
    placeholder_ids,
)
from posh_reward.training.saving import compare_with_best

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL.Image import Image
    from transformers import PreTrainedModel, ProcessorMixin

logger = logging.getLogger(__name__)

Engine = Literal["transformers", "vllm"]
IMAGES_PER_CALL: dict[Engine, int] = {"transformers": 32, "vllm": 128}
"""Images per call. vLLM starts new ones as others finish, so only the end of a batch is slow."""
DEFAULT_MAX_NEW_TOKENS = 768
"""Default limit of a description's length: ``max_completion_length`` of the paper's DAPO."""


@dataclass(frozen=True)
class GenerationSettings:
    """The images to describe, the models, and the output file."""

    models: Mapping[str, str]  # name in the rows -> directory, or name on the hub
    output: Path
    dataset: str = "scenes"
    split: str = "test"
    reference: str = "reference"  # of the dataset
    engine: Engine = "transformers"
    shuffle_images: bool = False  # show the next row's image, and mark the model's name
    limit: int | None = None  # describe only the first so many rows
    shard: int = 0  # describe only this part of the rows, counted from 0 ...
    shards: int = 1  # ... of this many parts of neighbouring rows, of equal size but for one row
    batch: int | None = None  # images per call; None: the engine's default
    max_new_tokens: int = DEFAULT_MAX_NEW_TOKENS
    prompt_text: str = PAPER_PROMPT
    max_pixels: int | None = None  # larger images are shrunk; None: to the models' smallest cap
    repetition_penalty: float = 1.0  # 1 is off; overrides a model's own (Qwen2.5-VL: 1.05)

    def build_origin(self, model: str) -> Origin:
        """Return what a model's descriptions depend on besides the image."""
        run = read_run(Path(model))
        return Origin(
            weights=find_identity(model),
            config=config_digest(model),
            engine=f"{self.engine} {installed_version(self.engine)}",
            dtype="bfloat16" if _has_gpu() else "float32",
            max_new_tokens=str(self.max_new_tokens),
            repetition_penalty=f"{self.repetition_penalty:g}",
            max_pixels=str(self.max_pixels or _load_pixel_cap(model)),
            prompt=prompt_digest(self.prompt_text),
            model=model,
            unchecked=bool(run and run.unchecked),
        )

    def name_in_rows(self, name: str) -> str:
        """Return a model's name as its rows have it."""
        return name + OTHER_IMAGES_SUFFIX if self.shuffle_images else name

    def __post_init__(self) -> None:
        """Raise InputError for a number out of range, or an empty prompt."""
        prompt(self.prompt_text)
        for name in ("shards", "batch", "limit", "max_new_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}: use 1 or more")
        if not 0 <= self.shard < self.shards:
            raise InputError(
                f"shard is {self.shard} of {self.shards} shards: use 0 to {self.shards - 1}"
            )

    def shard_rows(self, rows: int) -> range:
        """Return this shard's part of so many rows."""
        return range(rows * self.shard // self.shards, rows * (self.shard + 1) // self.shards)


Described = list[tuple[str, bool]]
"""Texts of a model, each with True if it was cut at ``max_new_tokens``."""


def models_by_name(models: Sequence[str]) -> dict[str, str]:
    """Map names to models, directories or names on the hub.

    Of ``NAME=MODEL``, or of a model alone, which is named after its folder: ``dapo``, or
    ``dapo/checkpoint-100`` for a checkpoint.
    """
    by_name: dict[str, str] = {}
    for text in models:
        name, separator, model = text.partition("=")
        if not separator or Path(text).exists():
            path, model = Path(os.path.abspath(text)), text
            is_checkpoint = parse_checkpoint_step(path) is not None
            name = f"{path.parent.name}/{path.name}" if is_checkpoint else path.name
        if not name or not model:
            raise InputError(f"{text!r} is not a model: write NAME=MODEL, or the model alone")
        if name in by_name:
            raise InputError(
                f"{by_name[name]!r} and {model!r} are both called {name!r}: name one "
                f"of them differently, such as other={model}"
            )
        by_name[name] = model
    return by_name


def recorded_prompt(models: Iterable[str]) -> str:
    """Return the prompt that these models were trained with; the paper's if none is recorded.

    Raises:
        InputError: they were trained with different ones.
    """
    prompts = dict.fromkeys(filter(None, map(learned_prompt, models)))
    if len(prompts) > 1:
        raise InputError(
            f"the models were trained with different prompts, {shorten_list(prompts)}: choose one "
            "for all with --prompt-text"
        )
    return next(iter(prompts), PAPER_PROMPT)


def generate(settings: GenerationSettings) -> dict[str, int]:
    """Append to the output a description of each image that it does not describe yet.

    A model that cannot be loaded is skipped, and reported after the others are done.

    Returns:
        The number of new descriptions, by the model's name in the rows.

    Raises:
        ConfigError: the dataset, or a model, cannot be loaded.
        InputError: the output has other content.
        MissingDependencyError: the engine is not installed.
    """
    dataset = load_images(settings.dataset, settings.split, settings.reference)
    rows = settings.shard_rows(min(len(dataset), settings.limit or len(dataset)))
    uuids = dataset["uuid"][: rows.stop]
    if settings.max_pixels is None and len(settings.models) > 1:
        settings = replace(settings, max_pixels=_common_cap(settings.models))
    counts: dict[str, int] = {}
    failed: list[str] = []
    with closing(Journal(settings.output)) as journal:
        earlier = list(journal.rows())
        journal.append([])  # drops what a kill cut short, even if no row is missing
        done = {(row["model"], row["id"]) for row in earlier}
        _check_items(settings, earlier, dataset.select_columns(["uuid", "reference"])[: rows.stop])
        origins = _build_origins(settings, earlier)
        for name, origin in origins.items():
            label = settings.name_in_rows(name)
            undescribed = [row for row in rows if (label, uuids[row]) not in done]
            try:
                cut = _describe_all(settings, dataset, undescribed, label, origin, journal)
            except ConfigError as error:
                logger.warning("%s", escape_controls(str(error)))
                failed.append(name)
                continue
            counts[label] = len(undescribed)
            if cut:
                logger.warning(
                    "%d of %d descriptions by %s were cut at max_new_tokens, so their omissions "
                    "are overstated: raise it", cut, len(undescribed), escape_controls(label),
                )  # fmt: skip
    if failed:
        raise ConfigError(
            f"{len(failed)} of {len(settings.models)} models could not be loaded (see above): "
            f"{', '.join(failed)}; the others are done, and the same command tries these again"
        )
    return counts


def _check_items(
    settings: GenerationSettings, earlier: Iterable[Mapping[str, Any]], items: Mapping[str, Any]
) -> None:
    """Raise InputError if earlier rows have these ids and other references."""
    ids = ItemIds()
    try:
        for row in earlier:
            ids.check_reference(row["id"], row.get("reference"))
        for uuid, reference in zip(items["uuid"], items["reference"], strict=True):
            ids.check_reference(uuid, reference)
    except InputError as error:
        raise InputError(f"{settings.output} and {settings.dataset}: {error}") from None


def _build_origins(
    settings: GenerationSettings, earlier: Iterable[Mapping[str, Any]]
) -> dict[str, Origin]:
    """Return the origin of each model's new rows, by the model's name in the settings.

    Raises:
        InputError: other weights or settings made earlier rows of a model; the message has the
            remedies.
    """
    output, before, new = settings.output, Origins(), dict[str, Origin]()
    for row in earlier:
        before.add(row)
    for name, model in settings.models.items():
        warn_of_other_prompt(model, settings.prompt_text)
        label, new[name] = settings.name_in_rows(name), settings.build_origin(model)
        if count := before.unnamed[label]:
            logger.warning(
                "%s does not say which weights made %d rows of %s: they are kept as they are",
                output, count, escape_controls(label),
            )  # fmt: skip
        known = before.known.get(label)
        if known is not None and (differences := new[name].differences(known)):
            raise InputError(
                f"{output} has descriptions by {label!r} that this model would not write "
                f"({'; '.join(differences)}): call it otherwise (OTHER={model}), write to another "
                "--output, or delete these rows"
            )
        if known is not None and UNKNOWN_IDENTITY in known.weights:
            logger.warning(
                "whether the weights of %s are those of its rows in %s is unknown: name a folder, "
                "or connect to the hub", escape_controls(label), output,
            )  # fmt: skip
    labelled = {settings.name_in_rows(name): origin for name, origin in new.items()}
    everything = Origins({**before.by_model, **labelled})
    for line in everything.unlike():
        logger.warning(
            "models in %s are not described alike, so not to be compared (%s)", output, line
        )
    for line in everything.unchecked():
        logger.warning("%s", line)
    return new


def _common_cap(models: Mapping[str, str]) -> int | None:
    """Return the smallest pixel cap of the models' processors; None if none is known.

    A model from the hub has a larger cap than one that was trained from it with ``max_pixels``: its
    images would be larger, and the comparison unfair.
    """
    caps = {}
    for name, model in models.items():
        cap = _load_pixel_cap(model)
        if cap is not None:
            caps[name] = cap
    if len(set(caps.values())) > 1:
        listed = ", ".join(f"{name} {cap:,}" for name, cap in caps.items())
        logger.warning(
            "the models cap images at different numbers of pixels (%s): all use %s now; "
            "--max_pixels sets another", escape_controls(listed), f"{min(caps.values()):,}",
        )  # fmt: skip
    return min(caps.values(), default=None)


def _load_pixel_cap(model: str) -> int | None:
    """Return the pixel cap of a model's processor; None if it is unknown."""
    with suppress(Exception):  # a model that cannot be loaded is reported when its turn comes
        sizes = read_size_limits(load_processor(model))
        if sizes is not None:
            return sizes.max_pixels
    return None


def _describe_all(
    settings: GenerationSettings,
    dataset: Dataset,
    undescribed: list[int],
    label: str,
    origin: Origin,
    journal: Journal,
) -> int:
    """Append rows; return the number of descriptions that were cut."""
    if not undescribed:
        return 0
    cut = 0
    size = settings.batch or IMAGES_PER_CALL[settings.engine]
    with (
        closing(_load_describer(origin.model, settings)) as describer,
        progress_bar(on_one_line(label), len(undescribed), "text") as bar,
    ):
        for start in range(0, len(undescribed), size):
            batch = undescribed[start : start + size]
            rows = list(_description_rows(settings, dataset, batch, label, str(origin), describer))
            cut += sum("truncated" in row for row in rows)
            journal.append(rows)
            bar.update(len(batch))
    return cut


def _description_rows(
    settings: GenerationSettings,
    dataset: Dataset,
    rows: list[int],
    label: str,
    origin: str,
    describer: TransformersDescriber | VllmDescriber,
) -> Iterator[dict[str, Any]]:
    images = [(row + settings.shuffle_images) % len(dataset) for row in rows]
    described = describer.describe(dataset[images]["image"])
    items = dataset.select_columns(["uuid", "reference"])[rows]
    for image, uuid, reference, (text, truncated) in zip(
        images, items["uuid"], items["reference"], described, strict=True
    ):
        row: dict[str, Any] = {
            "id": uuid,
            "model": label,
            "image": image,
            "generation": text,
            "reference": reference,
            ORIGIN_COLUMN: origin,
        }
        if settings.max_pixels is not None:
            row["max_pixels"] = settings.max_pixels
        if settings.prompt_text != PAPER_PROMPT:
            row["prompt"] = settings.prompt_text
        if truncated:
            row["truncated"] = True
        yield row


# Engines.


def _load_describer(
    model: str, settings: GenerationSettings
) -> TransformersDescriber | VllmDescriber:
    """Load a model, on a GPU in bfloat16 if there is one."""
    kind = VllmDescriber if settings.engine == "vllm" else TransformersDescriber
    if not Path(model).exists():
        check_name_of_hub(model)
    elif problem := compare_with_best(Path(model)):
        logger.warning("%s", escape_controls(problem))
    try:
        find_base_model(model)  # says what is wrong with an adapter's own model
        return kind(model, settings)
    except (MissingDependencyError, ConfigError):
        raise
    except Exception as error:  # libraries raise all kinds of errors for a folder without a model
        raise ConfigError(f"cannot load {model!r}: {type(error).__name__}: {error}") from error


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


class TransformersDescriber:
    """A model in this process."""

    def __init__(self, model: str, settings: GenerationSettings) -> None:
        import torch
        from transformers import AutoModelForImageTextToText

        self._settings = settings
        processor = load_processor(model, max_pixels=settings.max_pixels)
        self._prompt = ImagePrompt(processor, settings.prompt_text)
        device, dtype = "cpu", torch.float32
        if _has_gpu():
            device, dtype = "cuda", torch.bfloat16
        loaded = AutoModelForImageTextToText.from_pretrained(model, dtype=dtype)
        self._model: PreTrainedModel | None = loaded.to(device).eval()

    def describe(self, images: Sequence[Image]) -> Described:
        """Describe the images in one padded batch."""
        import torch

        model, processor = self._model, self._prompt.processor
        assert model is not None, "closed"
        inputs = processor(
            images=[[image] for image in self._prompt.prepare_images(images)],
            text=[self._prompt.text] * len(images),
            padding=True,
            padding_side="left",
            return_tensors="pt",
        ).to(model.device, model.dtype)
        limit = self._settings.max_new_tokens
        with torch.inference_mode():
            ids = model.generate(
                **inputs,
                do_sample=False,
                max_new_tokens=limit,
                repetition_penalty=self._settings.repetition_penalty,
            )
        replies = ids[:, inputs["input_ids"].shape[1] :].tolist()
        ends = model.generation_config.eos_token_id
        ended = {ends} if isinstance(ends, int) else set(ends or ())
        # The batch's longest reply sets its length: shorter ones have an end token, then padding.
        cut = [len(reply) == limit and not ended & set(reply) for reply in replies]
        return self._prompt.decode_replies(replies, cut)

    def close(self) -> None:
        """Free the model's memory."""
        import torch

        self._model = None
        gc.collect()  # modules form reference cycles
        if _has_gpu():
            torch.cuda.empty_cache()


class VllmDescriber:
    """A model in vLLM, which runs it in a separate process."""

    def __init__(self, model: str, settings: GenerationSettings) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise MissingDependencyError(
                f"--engine vllm needs vLLM: {install_command('vllm')}, or leave out --engine "
                "to use transformers"
            )
        set_vllm_defaults(os.environ)
        import vllm
        from transformers.utils.peft_utils import find_adapter_config_file

        if find_adapter_config_file(model) is not None:
            raise ConfigError(
                f"{model!r} is a LoRA adapter, which vLLM cannot load alone: merge it into its "
                "model (peft's merge_and_unload), or leave out --engine"
            )
        processor = load_processor(model, max_pixels=settings.max_pixels)
        self._prompt = ImagePrompt(processor, settings.prompt_text)
        # One placeholder per image: vLLM expands it itself, and would expand expanded ones again.
        self._ids: list[int] = self._prompt.processor.tokenizer(self._prompt.text)["input_ids"]
        self._params: Any = vllm.SamplingParams(
            temperature=0.0,
            max_tokens=settings.max_new_tokens,
            repetition_penalty=settings.repetition_penalty,
            detokenize=False,
        )
        self._llm: Any = vllm.LLM(
            model=model,
            dtype="bfloat16" if _has_gpu() else "float32",
            max_model_len=-1,  # the model's, or as much as fits into memory
            limit_mm_per_prompt={"image": 1, "video": 0},
        )

    def describe(self, images: Sequence[Image]) -> Described:
        """Describe each image, checking the tokens of vLLM's prompt."""
        sized = self._prompt.prepare_images(images)
        prompts = [
            {"prompt_token_ids": self._ids, "multi_modal_data": {"image": image}} for image in sized
        ]
        replies = self._llm.generate(prompts, self._params, use_tqdm=False)
        for image, reply in zip(sized, replies, strict=True):
            self._prompt.check_tokens(image, self._ids, reply.prompt_token_ids)
        outputs = [reply.outputs[0] for reply in replies]
        ids = [list(output.token_ids) for output in outputs]
        cut = [output.finish_reason == "length" for output in outputs]
        return self._prompt.decode_replies(ids, cut)

    def close(self) -> None:
        """End vLLM's process, which frees its memory on the GPU."""
        self._llm.llm_engine.engine_core.shutdown()


class ImagePrompt:
    """Prompt with one image, and decoding of replies; the same for every engine."""

    def __init__(self, processor: ProcessorMixin, prompt_text: str = PAPER_PROMPT) -> None:
        self.processor: Any = processor
        turn = [{"type": "image"}, {"type": "text", "text": prompt_text}]
        self.text: str = self.processor.apply_chat_template(
            [{"role": "user", "content": turn}], tokenize=False, add_generation_prompt=True
        )
        self._sizes = read_size_limits(processor)
        self._pads = placeholder_ids(processor)

    def prepare_images(self, images: Sequence[Image]) -> list[Image]:
        """Convert images to RGB and, for Qwen's models, resize them as in training."""
        if self._sizes is None:
            return [image.convert("RGB") for image in images]
        return [resize_for_model(image, *self._sizes) for image in images]

    def decode_replies(self, ids: Sequence[Sequence[int]], cut: Sequence[bool]) -> Described:
        """Decode the token ids of completions, with those marked that were cut."""
        texts: list[str] = self.processor.batch_decode(ids, skip_special_tokens=True)
        return [(text.strip(), each) for text, each in zip(texts, cut, strict=True)]

    def check_tokens(self, image: Image, prompt: Sequence[int], ids: Sequence[int]) -> None:
        """Raise PromptMismatchError if an engine's ``ids`` are not those of transformers."""
        if self._sizes is None:  # not a model of Qwen's: the expected number is unknown
            return
        tokens = sum(token in self._pads for token in ids)
        expected = self._sizes.tokens(*image.size)
        if tokens != expected or collapse_placeholders(ids, self._pads) != list(prompt):
            raise PromptMismatchError(
                f"vLLM sees an image of {image.width} x {image.height} pixels as {tokens} "
                f"tokens, and transformers as {expected}: if --max_pixels is larger than what "
                "preprocessor_config.json allows, lower it; otherwise leave out --engine, since "
                "this version of vLLM prepares prompts in a new way"
            )
