"""Memory of the GPUs and machines, and the disk, that a training run needs, with remedies.

A model's configuration gives its sizes (``load_shape``); a recipe's checked settings give a
``TrainingRun``; ``phases`` adds up a GPU's memory while it generates, judges and trains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from posh_reward.errors import ConfigError
from posh_reward.models.prompt_images import TOKEN_PIXELS
from posh_reward.posh.load_judge import list_engines
from posh_reward.posh.load_metric import metric_flags, read_metric
from posh_reward.posh.workers import MAX_DEFAULT_PROCESSES, estimate_worker_gib
from posh_reward.training.base_model import find_base_model
from posh_reward.training.run_settings import Processes, bound_prompt_tokens, strategy_name

if TYPE_CHECKING:
    from peft import PeftConfig

GIB, GB = 2**30, 10**9  # memory is counted in powers of two, disks in powers of ten
GPU_GIB = 79.0  # GiB of a GPU that is sold as 80 GB
TRAINER_CONTEXT_GIB = 1.5  # of the trainer's CUDA context and NCCL's buffers
VLLM_COUNTERS_GIB = 0.6
"""GiB of vLLM's penalty counters: one int32 for each of 1,024 requests and 152,064 tokens."""
VLLM_ASLEEP_GIB = 1.6 + VLLM_COUNTERS_GIB
"""GiB that a sleeping vLLM keeps on the GPU: context, part of its CUDA graphs, counters."""
VLLM_OVERHEAD_GIB = 3.0 + VLLM_COUNTERS_GIB
"""GiB that vLLM needs beyond weights and cache: context, graphs, activations, counters."""
PARSER_GIB, MAVERICK_GIB = 1.5, 3.0  # of en_core_web_trf and of Maverick, with their activations
STUDENT_HEAD_GIB = 4.2  # of the backward pass of a student's head
TILE_TOKENS, TILE_WORDS = 4096, 32768  # whose logits TRL computes at a time (add_fused_lm_head)
GAP_SHARE = 0.1  # of the activations: gaps that torch's allocator leaves
PREFILL_BYTES = {False: (8, 6), True: (20, 16)}
"""Bytes per token and unit of width, and of inner width, at the peak of a layer that reads prompts
in bfloat16. True: with adapters in float32, which read every input and give every output in float32
(outside of autocast, where peft generates)."""
VISION_BYTES = {False: 34, True: 53}
"""Bytes per patch and unit of width at the vision tower's peak, where it rotates in float32."""
BACKWARD_BYTES = {False: (34, 12), True: (46, 14)}
"""As ``PREFILL_BYTES``, of a layer that checkpointing computes again and then differentiates."""
KEPT_BYTES = {True: (2, 0), False: (30, 8)}
"""As ``PREFILL_BYTES``, of what a layer keeps for the backward pass. True: with checkpointing."""
SAMPLING_BYTES = 36  # per row and word of the vocabulary, to draw a token with top_p below 1
NUMBERS_PER_PATCH = 3 * 2 * 14 * 14  # colours, the image as two frames, sides
JUDGE_PROMPT_TOKENS = 1024  # of a judge's prompt, with both descriptions
ZERO3_LIVE_PARAMETERS, ZERO3_BUCKET_PARAMETERS, ZERO3_SUBGROUP_PARAMETERS = 1e9, 5e8, 1e9
"""Parameters, by DeepSpeed's defaults for ZeRO-3: gathered at a time (stage3_max_live_parameters),
in one reduction (reduce_bucket_size), in one part of the optimizer's step (sub_group_size)."""
MASTER_COPY_BYTES, ADAM_MOMENTS_BYTES = 4, 8
"""Bytes per trained parameter that DeepSpeed keeps in float32: a copy, and Adam's two moments."""
ASSUMED_ERROR_SHARE = 0.3
"""Share by which an assumed part may be off. Nothing was measured on a GPU yet."""
PATCHES_PER_TOKEN = 4  # of the vision tower, per image token
UNCAPPED_IMAGE_TOKENS = 16384  # without max_pixels: Qwen2.5-VL's own cap
REFERENCE_TOKENS = 512  # of the longest references, for SFT
PROMPTS_PER_TREE, TOKENS_PER_QUESTION = 8, 120
"""A student's prompts that share a prefix, and the tokens of each after it: the question with the
release's guide has 85 on average."""
TRAINER_HOST_GIB, VLLM_HOST_GIB, MAVERICK_HOST_GIB = 12.0, 4.0, 3.0
"""GiB of the host's memory: a trainer with two workers that decode images; vLLM's process, without
its sleeping weights; Maverick's process."""
BYTES_BY_DTYPE = {"float32": 4, "bfloat16": 2, "float16": 2, "auto": 2, None: 4}
"""Bytes of a number, by dtype. Published checkpoints are in bfloat16."""
FUSED_BY_VLLM = {
    "q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "mlp", "up_proj": "mlp",
}  # fmt: skip
"""Matrices that vLLM fuses into one."""


def _qwen3_config(width: int, inner: int, *, layers: int, heads: int, tied: bool) -> dict[str, Any]:
    """Return a configuration as in huggingface.co/Qwen/Qwen3-*, config.json."""
    return {
        "model_type": "qwen3", "vocab_size": 151936, "hidden_size": width,
        "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": tied,
    }  # fmt: skip


PUBLISHED_CONFIGS: dict[str, dict[str, Any]] = {
    # huggingface.co/Qwen/Qwen2.5-VL-7B-Instruct, config.json
    "Qwen/Qwen2.5-VL-7B-Instruct": {
        "model_type": "qwen2_5_vl",
        "tie_word_embeddings": False,
        "text_config": {
            "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
            "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
            "tie_word_embeddings": False,
        },
        "vision_config": {
            "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
            "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2,
        },
    },
    "Qwen/Qwen3-0.6B": _qwen3_config(1024, 3072, layers=28, heads=16, tied=True),
    "Qwen/Qwen3-1.7B": _qwen3_config(2048, 6144, layers=28, heads=16, tied=True),
    "Qwen/Qwen3-4B": _qwen3_config(2560, 9728, layers=36, heads=32, tied=True),
    "Qwen/Qwen3-14B": _qwen3_config(5120, 17408, layers=40, heads=40, tied=False),
}  # fmt: skip
"""Sizes of the models of the shipped configurations."""


# Models.


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a model that its memory depends on."""

    parameters: int
    adapters: int  # parameters of its LoRA adapters; 0 without
    vocabulary: int
    layers: int
    width: int
    inner: int  # width of the feed-forward network inside a layer
    cached: int  # numbers per token in the cache of keys and values
    vision_layers: int
    vision_width: int
    vision_inner: int
    pinned: int  # numbers in the host's memory while asleep: see ``pinned_numbers``


@dataclass(frozen=True, slots=True)
class Parameters:
    """Counts of a model's parameters, and the bytes of each."""

    trained: int
    trained_bytes: int
    frozen: int = 0
    frozen_bytes: int = 2


class ModelState(NamedTuple):
    """Bytes of one process's training state, on its GPU and in the host's memory."""

    parameters: float
    gradients: float
    optimizer: float  # Adam's moments; under DeepSpeed also its copy of the parameters in float32
    on_host: float = 0.0

    @property
    def on_gpu(self) -> float:
        """Bytes on the GPU."""
        return self.parameters + self.gradients + self.optimizer


def model_state(model: Parameters, layout: Processes) -> ModelState:
    """Estimate the training state of a model under Adam, in one process.

    Without DeepSpeed Adam's moments have the type of their parameters (``torch.optim.AdamW``).
    Neglected: Adam's step counters, 4 bytes a tensor, and padding of partitions, below 1 kB.
    """
    gradients: float = model.trained * model.trained_bytes
    own = gradients + model.frozen * model.frozen_bytes
    if not layout.zero_stage:
        return ModelState(own, gradients, 2 * gradients)
    parameters, on_host = own, 0.0
    optimizer = model.trained * (MASTER_COPY_BYTES + ADAM_MOMENTS_BYTES) / layout.processes
    if layout.zero_stage >= 2:
        gradients /= layout.processes
    if layout.zero_stage == 3:
        parameters /= layout.processes
    if layout.offloads_optimizer:
        optimizer, on_host = 0.0, optimizer
    if layout.offloads_parameters:
        parameters, on_host = 0.0, on_host + parameters
    return ModelState(parameters, gradients, optimizer, on_host)


def load_shape(name: str, peft: PeftConfig | None = None) -> ModelShape:
    """Return the sizes of a model: a published one, a local folder, or a name on the hub."""
    config = _load_config(name)
    model = build_on_meta(config)
    text, vision = config.get_text_config(), getattr(config, "vision_config", None)
    parameters = sum(each.numel() for each in model.parameters())  # shared ones once
    pinned, adapters = pinned_numbers(model), 0  # before peft changes the model
    if peft is not None:
        from peft import get_peft_model

        adapted = get_peft_model(model, peft, low_cpu_mem_usage=True)
        adapters = sum(each.numel() for each in adapted.parameters() if each.requires_grad)
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    vision_layers = vision_width = vision_inner = 0
    if vision:
        vision_layers, vision_width = vision.depth, vision.hidden_size
        vision_inner = vision.intermediate_size
    return ModelShape(
        parameters=parameters,
        pinned=pinned,
        adapters=adapters,
        vocabulary=text.vocab_size,
        layers=text.num_hidden_layers,
        width=text.hidden_size,
        inner=text.intermediate_size,
        cached=2 * text.num_hidden_layers * text.num_key_value_heads * head,
        vision_layers=vision_layers,
        vision_width=vision_width,
        vision_inner=vision_inner,
    )


def pinned_numbers(model: Any) -> int:
    """Sum the sizes of a model's tensors, fused as in vLLM, each rounded up to a power of two.

    A sleeping engine's weights are in one pinned buffer per allocation, and torch's allocator of
    pinned memory rounds each up (vllm#53042, #56410): Qwen3-14B takes 41.5 GiB, not 27.5.
    """
    tensors: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        fused = ".".join(FUSED_BY_VLLM.get(part, part) for part in name.split("."))
        tensors[fused] += parameter.numel()
    return sum(1 << (size - 1).bit_length() for size in tensors.values())


@lru_cache(maxsize=8)
def _load_config(name: str) -> Any:
    from transformers import AutoConfig

    name = find_base_model(name) or name
    if name in PUBLISHED_CONFIGS:
        return AutoConfig.for_model(**PUBLISHED_CONFIGS[name])
    try:
        return AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the shape of {name!r} is unknown: name a folder with its config.json, or "
            f"a model of {', '.join(PUBLISHED_CONFIGS)} ({str(error).splitlines()[0]})"
        ) from None


def build_on_meta(config: Any) -> Any:
    """Make a model without memory for its parameters."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    sees = getattr(config, "vision_config", None) is not None
    kind = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    with torch.device("meta"):
        return kind.from_config(config)


# Runs.


@dataclass(frozen=True, slots=True)
class JudgeOnGpu:
    """A language model on the trainer's GPU: the judge, or a witness of its own."""

    weights: float  # bytes
    cache: float  # bytes of keys and values, at most
    sleeps: bool
    asleep: float = 0.0  # bytes of the sleeping weights in the host's memory
    one_pass: float | None = None  # bytes of a packed judge's largest pass; None: it is a vLLM
    share: float | None = None  # of what weights leave free, for the cache; None: all of ``cache``

    @property
    def packed(self) -> bool:
        """True in the trainer's process (``transformers``); a vLLM has a process of its own."""
        return self.one_pass is not None


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Settings of a run that determine its memory and disk space."""

    layout: Processes
    shape: ModelShape
    parameters: Parameters
    batch: int  # rows per forward pass
    generated: int  # completions that a process generates at a time; 0 in SFT
    image: int  # tokens of the largest image
    text: int  # tokens of prompt and completion, or of prompt and reference
    completion: int  # tokens of ``text`` that a completion takes
    checkpointing: bool
    tiles: bool  # the head is computed in tiles, by TRL
    generates: bool  # by the trainer's own model, without vLLM
    share: float | None  # of the GPU, for the policy's vLLM; None without, or if it is elsewhere
    policy_sleeps: bool
    graders: Sequence[tuple[str, JudgeOnGpu]]  # role and size of each, if on the GPU
    parser: str
    coref: str
    saves: int  # most checkpoints on the disk at the same time
    saves_only_model: bool
    workers: int = 0  # processes that read texts, of each trainer

    @property
    def row_tokens(self) -> int:
        """Tokens of a row: the image's and the text's."""
        return self.image + self.text

    @property
    def number_size(self) -> int:
        """Bytes of one of the model's numbers."""
        model = self.parameters
        return model.frozen_bytes if model.frozen else model.trained_bytes

    @property
    def has_float32_adapters(self) -> bool:
        """True if adapters in float32 make the layers around them compute in float32."""
        return bool(self.parameters.frozen) and self.parameters.trained_bytes == 4


def build_run(script: Any, args: Any, model: Any, layout: Processes) -> TrainingRun:
    """Build a ``TrainingRun`` from a recipe's settings."""
    from trl import get_peft_config

    shape = load_shape(model.model_name_or_path, get_peft_config(model))
    generates = hasattr(args, "num_generations")
    metric: Mapping[str, Any] = {}
    rows = completion = workers = 0
    if generates:
        metric = read_metric(script.metric, **metric_flags(script))
        workers = _count_workers(metric)
        completion = int(args.max_completion_length)
        rows = args.per_device_train_batch_size * args.steps_per_generation
        if not script.refill:  # dynamic sampling, of all groups at once
            rows *= script.oversample
    colocated = generates and args.use_vllm and args.vllm_mode == "colocate"
    image = 0  # a student reads no images
    if hasattr(script, "max_pixels"):
        image = script.max_pixels // TOKEN_PIXELS if script.max_pixels else UNCAPPED_IMAGE_TOKENS
    return TrainingRun(
        layout=layout,
        shape=shape,
        parameters=count_parameters(shape, BYTES_BY_DTYPE[model.dtype], layout),
        batch=args.per_device_train_batch_size,
        generated=rows,
        image=image,
        text=_text_tokens(script, args),
        completion=completion,
        checkpointing=bool(args.gradient_checkpointing),
        tiles=not hasattr(script, "max_prompt_tokens"),  # a student's trainer is our own
        generates=generates and not args.use_vllm,
        share=args.vllm_gpu_memory_utilization if colocated else None,
        policy_sleeps=bool(colocated and args.vllm_enable_sleep_mode),
        graders=find_graders(metric),
        parser=str(metric.get("parser", "embedded")),
        coref=str(metric.get("coref", "rules")),
        saves=count_saves(args),
        saves_only_model=bool(args.save_only_model),
        workers=workers,
    )


def _count_workers(metric: Mapping[str, Any]) -> int:
    """Count the metric's worker processes, at most: a pipeline on a GPU has none."""
    on_gpu = metric.get("parser_device") != "cpu"
    if str(metric.get("parser")).endswith("_trf") and on_gpu:
        return 0
    processes = metric.get("processes") or MAX_DEFAULT_PROCESSES
    return int(processes) if processes > 1 else 0


def _text_tokens(script: Any, args: Any) -> int:
    """Return the tokens of a row besides an image's; for a student, of its longest prompt tree."""
    if hasattr(script, "max_prompt_tokens"):
        return int(script.max_prompt_tokens) + (PROMPTS_PER_TREE - 1) * TOKENS_PER_QUESTION
    completion = getattr(args, "max_completion_length", REFERENCE_TOKENS)
    return bound_prompt_tokens(script.prompt_text) + int(completion)


def count_parameters(shape: ModelShape, size: int, layout: Processes) -> Parameters:
    """Count trained and frozen parameters: all are trained, or only the adapters.

    peft makes adapters in float32; under ZeRO-3 TRL makes them in the model's dtype
    (grpo_trainer.py, ``autocast_adapter_dtype``).
    """
    if not shape.adapters:
        return Parameters(shape.parameters, size)
    adapter = size if layout.zero_stage == 3 else 4
    return Parameters(shape.adapters, adapter, shape.parameters, size)


def find_graders(metric: Mapping[str, Any]) -> list[tuple[str, JudgeOnGpu]]:
    """Return the judges, a witness or a reader of their own, on the GPU; others are left out."""
    makers = {"vllm": _vllm_grader, "transformers": _packed_grader}
    return [
        (user, makers[options["name"]](options))
        for user, options in list_engines(metric)
        if options["name"] in makers and options.get("device") != "cpu"
    ]


def _vllm_grader(options: Mapping[str, Any]) -> JudgeOnGpu:
    shape = load_shape(options["model"])
    size = BYTES_BY_DTYPE.get(options.get("dtype", "bfloat16"), 2)
    return JudgeOnGpu(
        weights=shape.parameters * size,
        cache=float(options.get("memory_gb", 8.0)) * GIB,
        sleeps=bool(options.get("sleep", True)),
        asleep=shape.pinned * size,
    )


def _packed_grader(options: Mapping[str, Any]) -> JudgeOnGpu:
    from posh_reward.models.packed.runner import CUDA_STATE_SHARE, MAX_STORED_TOKENS

    shape = load_shape(options["model"])
    size = BYTES_BY_DTYPE.get(options.get("dtype", "auto"), 2)
    weights = shape.parameters * size
    cache: float = MAX_STORED_TOKENS * shape.cached * size
    share: float | None = CUDA_STATE_SHARE
    if (given := options.get("memory_gb")) is not None:
        cache, share = float(given) * GIB, None
    return JudgeOnGpu(
        weights=weights,
        cache=cache,
        sleeps=bool(options.get("sleep", True)),
        asleep=ceil(weights / GIB) * GIB,  # in buffers of a GiB: models.packed.host_copy
        one_pass=pass_size(shape, int(options.get("max_batch_tokens", 8192)), size),
        share=share,
    )


def pass_size(shape: ModelShape, budget: int, size: int) -> float:
    """Return the bytes of a packed judge's pass of ``budget`` tokens, besides weights and cache.

    The last prompt of a pass may be beyond the budget.
    A layer has its input, residual, normalised and embedded states, and either the feed-forward
    network's gate, input and product, or queries and outputs with gathered keys and values. Each
    query that shares a key has a mask over its path. After the layers, a chunk of the head is cast
    to float32. For 8,192 tokens of Qwen3-14B, and a prompt, 9,216 x (4 x 5,120 + 3 x 17,408)
    numbers, and masks of 9,216 x 5 x 1,024, take 1.4 GB.
    """
    from posh_reward.models.packed.packing import MAX_GROUP_KEYS
    from posh_reward.models.packed.runner import HEAD_CHUNK_TOKENS

    tokens = budget + JUDGE_PROMPT_TOKENS
    kept = shape.cached / shape.layers  # numbers per token in a layer's cache
    masks = tokens * JUDGE_PROMPT_TOKENS * 2 * shape.width / kept
    feeding = tokens * (4 * shape.width + 3 * shape.inner)
    attending = tokens * 10 * shape.width + MAX_GROUP_KEYS * kept
    head = min(HEAD_CHUNK_TOKENS, shape.vocabulary) * shape.width * 4
    return max((masks + max(feeding, attending)) * size, head)


def count_saves(args: Any) -> int:
    """Count the checkpoints on the disk at most: old ones, and one being written."""
    strategy = strategy_name(args.save_strategy)
    if strategy == "no":
        return 0
    if args.save_total_limit:
        return int(args.save_total_limit) + 1
    if strategy == "epoch":
        return max(ceil(float(args.num_train_epochs)), 1)  # the last epoch may be a partial one
    if args.save_steps < 1:  # a share of all steps
        return ceil(1 / float(args.save_steps))
    if args.max_steps > 0:
        return int(max(args.max_steps / args.save_steps, 1))
    return 1


# A GPU's memory.


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A named share of a GPU's memory."""

    name: str
    gib: float
    exact: bool = False  # by arithmetic or by a setting, not assumed
    ours: bool = True  # allocated by torch in the trainer's process


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a step, with the contents of the GPU's memory."""

    name: str
    parts: Sequence[MemoryPart]

    @property
    def gib(self) -> float:
        """Sum of all parts."""
        return sum_gib(self.parts)

    @property
    def allocated(self) -> float:
        """GiB of torch's tensors in the trainer's process: no context, gaps or other processes."""
        return sum_gib(part for part in self.parts if part.ours)

    @property
    def bounds(self) -> tuple[float, float]:
        """The sum if all assumed parts are ``ASSUMED_ERROR_SHARE`` smaller, or larger."""
        margin = ASSUMED_ERROR_SHARE * sum(part.gib for part in self.parts if not part.exact)
        return self.gib - margin, self.gib + margin


def sum_gib(parts: Iterable[MemoryPart]) -> float:
    """Sum the GiB of parts."""
    return sum(part.gib for part in parts)


def phases(run: TrainingRun) -> list[Phase]:
    """Return the phases of a step on a GPU of ``GPU_GIB`` GiB; for SFT only training."""
    state = model_state(run.parameters, run.layout).on_gpu / GIB
    context = MemoryPart("CUDA and NCCL", TRAINER_CONTEXT_GIB, ours=False)
    always = [MemoryPart("model state", state, exact=True), context]
    if run.image:  # TRL keeps the pixels of all rows until they have been trained on
        patches = (run.generated or run.batch) * run.image * PATCHES_PER_TOKEN
        always.append(MemoryPart("pixels", 4 * NUMBERS_PER_PATCH * patches / GIB, exact=True))
    if not run.generated:
        return [Phase("train", [*always, *_training_parts(run)])]
    if run.parser.endswith("_trf"):
        always.append(MemoryPart(run.parser, PARSER_GIB))
    if run.coref == "maverick":
        always.append(MemoryPart("maverick", MAVERICK_GIB, ours=False))
    resting = [part for name, grader in run.graders for part in _resting_parts(name, grader)]
    policy: list[MemoryPart] = []
    generating: list[MemoryPart] = []
    if run.generates:
        generating = _generation_parts(run)
    if run.share is not None:
        policy = [MemoryPart("policy's vLLM", run.share * GPU_GIB, exact=True, ours=False)]
        generating = policy
    if run.policy_sleeps:
        policy = [MemoryPart("policy's vLLM asleep", VLLM_ASLEEP_GIB, ours=False)]
    waking = _waking_parts(run.graders, GPU_GIB - sum_gib([*always, *policy]))
    return [
        Phase("generate", [*always, *generating, *resting]),
        Phase("judge", [*always, *policy, *waking]),
        Phase("train", [*always, *policy, *resting, *_training_parts(run)]),
    ]


def _waking_parts(graders: Sequence[tuple[str, JudgeOnGpu]], free: float) -> list[MemoryPart]:
    """Return the parts of all graders, since judge and witness are awake while either is asked.

    A packed judge without ``memory_gb`` takes for its cache half of what its weights leave ``free``
    as it wakes, when the caches of other packed ones are still empty.
    """
    parts = []
    for name, grader in graders:
        cache = grader.cache / GIB
        free -= grader.weights / GIB
        if grader.share is not None:
            cache = min(cache, grader.share * max(free, 0.0))
        if not grader.packed:
            free -= cache + VLLM_OVERHEAD_GIB
        parts += _awake_parts(name, grader, cache)
    return parts


def _awake_parts(name: str, grader: JudgeOnGpu, cache: float) -> list[MemoryPart]:
    packed = grader.packed
    parts = [
        MemoryPart(f"{name}'s weights", grader.weights / GIB, exact=True, ours=packed),
        MemoryPart(f"{name}'s cache (memory_gb)", cache, exact=True, ours=packed),
    ]
    if grader.one_pass is None:
        return [*parts, MemoryPart(f"{name}'s vLLM", VLLM_OVERHEAD_GIB, ours=False)]
    return [*parts, MemoryPart(f"{name}'s pass", grader.one_pass / GIB)]


def judge_alone(grader: JudgeOnGpu) -> tuple[float, float]:
    """Return the GiB of a judge that has a GPU for itself, awake and asleep."""
    waking = _waking_parts([("judge", grader)], GPU_GIB - TRAINER_CONTEXT_GIB)
    return sum_gib(waking), sum_gib(_resting_parts("judge", grader))


def _resting_parts(name: str, grader: JudgeOnGpu) -> list[MemoryPart]:
    """Return what a grader keeps on the GPU between batches. A packed one drops its cache."""
    if grader.packed and grader.sleeps:
        return []
    if grader.packed:
        return _awake_parts(name, grader, 0.0)[:1]
    if grader.sleeps:
        return [MemoryPart(f"{name} asleep", VLLM_ASLEEP_GIB, ours=False)]
    return _awake_parts(name, grader, grader.cache / GIB)


def _generation_parts(run: TrainingRun) -> list[MemoryPart]:
    """Return what the trainer's own model needs to generate, at the largest of three moments.

    All rows are read at once, and all of their images before; of the logits, only the last token's
    are computed. For 64 rows of 1,344 tokens, 1,280 of them an image, on the 7B in bfloat16:

        vision tower    327,680 patches x (34 x 1,280 + 2 x 1,176)   15.0 GB

        a layer         86,016 tokens x (8 x 3,584 + 6 x 18,944)     12.2 GB
        its images      81,920 tokens x 2 x (2 x 3,584 + 4 x 1,280)   2.0 GB
        their cache     86,016 tokens x 2 x 28,672                    4.9 GB

        with 768 more   135,168 tokens x 2 x 28,672                   7.8 GB
        a token drawn   64 x 152,064 words x 36                       0.4 GB
    """
    shape, rows, size = run.shape, run.generated, run.number_size
    widths, inners = PREFILL_BYTES[run.has_float32_adapters]
    prompt = run.row_tokens - run.completion
    layer = rows * prompt * (widths * shape.width + inners * shape.inner) * size / 2
    seen = rows * run.image * (2 * shape.width + PATCHES_PER_TOKEN * shape.vision_width) * size
    patch = VISION_BYTES[run.has_float32_adapters] * shape.vision_width + NUMBERS_PER_PATCH * size
    drawn = rows * shape.vocabulary * SAMPLING_BYTES
    moments = [
        _with_gaps("images", rows * run.image * PATCHES_PER_TOKEN * patch),
        [_cache_part(run, prompt), *_with_gaps("prompts", layer + seen)],
        [_cache_part(run, run.row_tokens), *_with_gaps("a token drawn", drawn)],
    ]
    whole = []
    if run.layout.zero_stage == 3:
        whole = [MemoryPart("parameters gathered by ZeRO-3", shape.parameters * size / GIB)]
    return [*whole, *max(moments, key=sum_gib)]


def _cache_part(run: TrainingRun, tokens: int) -> MemoryPart:
    numbers = run.generated * tokens * run.shape.cached
    return MemoryPart("cache of keys and values", numbers * run.number_size / GIB, exact=True)


def _with_gaps(name: str, size: float) -> list[MemoryPart]:
    """Return a part of ``size`` bytes, and the gaps around its tensors."""
    return [MemoryPart(name, size / GIB), MemoryPart("gaps", GAP_SHARE * size / GIB, ours=False)]


def _training_parts(run: TrainingRun) -> list[MemoryPart]:
    """Return a forward and backward pass, or the optimizer's step, whichever takes more."""
    trained, size, stage = run.parameters.trained, run.number_size, run.layout.zero_stage
    passes = []
    if stage == 3:
        whole = min(ZERO3_LIVE_PARAMETERS, run.shape.parameters) * size
        passes.append(MemoryPart("parameters gathered by ZeRO-3", whole / GIB))
    reduced = 0.0
    if stage:  # in buckets, of which there are two
        reduced = 2 * min(ZERO3_BUCKET_PARAMETERS, trained)
    elif run.layout.processes > 1:  # by DDP, all at once
        reduced = trained
    if reduced:
        passes.append(MemoryPart("gradients in reduction", reduced * size / GIB))
    passes += _with_gaps("activations", estimate_activations(run))
    head = head_size(run) / GIB if run.tiles else STUDENT_HEAD_GIB
    passes.append(MemoryPart("logits", head))
    step: list[MemoryPart] = []
    if stage:  # DeepSpeed converts a group's gradients to single precision
        group = min(ZERO3_SUBGROUP_PARAMETERS, trained / run.layout.processes)
        step = [MemoryPart("gradients in single precision", 4 * group / GIB)]
    return max(passes, step, key=sum_gib)


def estimate_activations(run: TrainingRun) -> float:
    """Return the bytes of a forward and backward pass in bfloat16, without the head's.

    What the layers keep, and one that is differentiated: the last of the text, or later, when the
    text's are gone, the last of the vision tower. For 8 rows of 2,112 tokens, 1,280 of them an
    image, on the 7B with checkpointing:

        patches, kept    40,960 x (32 x 2 x 1,280 + 2 x 1,176)     3.5 GB
        text, kept       16,896 x 27 x 2 x 3,584                   3.3 GB
        a text layer     16,896 x (34 x 3,584 + 12 x 18,944)       5.9 GB
    """
    shape = run.shape
    tokens, patches = run.batch * run.row_tokens, run.batch * run.image * PATCHES_PER_TOKEN

    def layer_bytes(count: int, width: int, inner: int, per_unit: tuple[int, int]) -> float:
        return float(count * (per_unit[0] * width + per_unit[1] * inner))

    text = tokens, shape.width, shape.inner
    vision = patches, shape.vision_width, shape.vision_inner
    kept, working = KEPT_BYTES[run.checkpointing], BACKWARD_BYTES[run.has_float32_adapters]
    seen = shape.vision_layers * layer_bytes(*vision, kept) + patches * NUMBERS_PER_PATCH * 2
    read = (shape.layers - 1) * layer_bytes(*text, kept) + layer_bytes(*text, working)
    return seen + max(read, layer_bytes(*vision, working))


def head_size(run: TrainingRun) -> float:
    """Return the bytes of TRL's backward pass of the head, whose logits are computed in tiles.

    Gradients of the text's states and of the head are in float32, then also in bfloat16; adapters
    leave the head alone. For 8 rows with 832 tokens of text, on the 7B:

        a tile      4,096 x 32,768 x 2             0.27 GB
        states      8 x 832 x 3,584 x 6            0.14 GB
        the head    152,064 x 3,584 x 6            3.27 GB
    """
    vectors = run.batch * run.text
    if not run.parameters.frozen:
        vectors += run.shape.vocabulary
    return float(TILE_TOKENS * TILE_WORDS * 2 + vectors * run.shape.width * 6)


# A machine's memory, and the disk.


def machine_memory(run: TrainingRun) -> Phase:
    """Return a machine's peak: sleeping judges, offloaded states, a model being saved."""
    count = run.layout.on_one_machine
    state = model_state(run.parameters, run.layout).on_host / GIB
    asleep = sum(grader.asleep / GIB for _, grader in run.graders if grader.sleeps)
    vllms = sum(not grader.packed for _, grader in run.graders)
    processes = TRAINER_HOST_GIB + VLLM_HOST_GIB * vllms
    processes += estimate_worker_gib(run.parser) * run.workers
    processes += MAVERICK_HOST_GIB * (run.coref == "maverick")
    saved = run.shape.parameters * 2 / GIB
    exact = MemoryPart("weights", count * (state + asleep) + saved, exact=True)
    return Phase("machine", [exact, MemoryPart("processes", count * processes)])


def checkpoint_size(run: TrainingRun) -> float:
    """Return the GB of one checkpoint."""
    model = run.parameters
    weights = model.trained * model.trained_bytes
    if run.saves_only_model:
        return weights / GB
    if not run.layout.zero_stage:
        return (weights + 2 * model.trained * model.trained_bytes) / GB
    # DeepSpeed's own files, and the model in the usual format
    per_parameter = MASTER_COPY_BYTES + ADAM_MOMENTS_BYTES + model.trained_bytes
    return (model.trained * per_parameter + weights) / GB


def disk_size(run: TrainingRun) -> float:
    """Return the GB of all checkpoints and of the final model."""
    model = run.parameters
    return run.saves * checkpoint_size(run) + model.trained * model.trained_bytes / GB


# The report.


def describe_memory(run: TrainingRun) -> list[str]:
    """Return lines with each phase's memory, the machine's, the disk space, and remedies."""
    lines = [f"memory of each GPU, in GiB of {GPU_GIB:g}:"]
    for phase in phases(run):
        parts = ", ".join(f"{part.name} {part.gib:.1f}" for part in phase.parts)
        low, high = phase.bounds
        verdict = "DOES NOT FIT"
        if high <= GPU_GIB:
            verdict = "fits"
        elif phase.gib <= GPU_GIB:
            verdict = "fits if the estimate is right"
        lines.append(f"  {phase.name:<9}{low:.0f} to {high:.0f}  {verdict}  ({parts})")
    low, high = machine_memory(run).bounds
    workers = f"{run.workers or 'no'} worker processes for each trainer"
    lines.append(f"memory of each machine: {low:.0f} to {high:.0f} GiB, with {workers}")
    lines.append(
        f"disk: {disk_size(run):.0f} GB ({run.saves} checkpoints of "
        f"{checkpoint_size(run):.1f} GB and the model)"
    )
    advice = [f"  - {line}" for line in _find_remedies(run)]
    if advice:
        lines += ["to change:", *advice]
    return lines


def fits_memory(run: TrainingRun) -> bool:
    """Return True if every phase fits on the GPU, and vLLM into its share."""
    return not list(_find_remedies(run))


def _find_remedies(run: TrainingRun) -> Iterator[str]:
    needed = _least_share(run)
    for phase in phases(run):
        excess = phase.gib - GPU_GIB
        if excess <= 0:
            continue
        ways = PHASE_REMEDIES[phase.name]
        left = (run.share or 0.0) - excess / GPU_GIB
        if phase.name == "generate" and run.share is not None and left >= needed:
            ways = f"set vllm_gpu_memory_utilization to {left:.2f} or less; or {ways}"
        if run.layout.zero_stage < 3 and run.layout.processes > 1:
            ways += "; or shard the model over the GPUs (configs/accelerate/zero3_8gpu.yaml)"
        yield f"{phase.name} is {excess:.1f} GiB over: {ways}"
    if run.share is not None and run.share < needed:
        yield (
            f"the policy's vLLM has {run.share * GPU_GIB:.1f} GiB, too few for its weights and one "
            f"round of replies: set vllm_gpu_memory_utilization to {needed:.2f} or more"
        )


def _least_share(run: TrainingRun) -> float:
    """Return the share of the GPU that vLLM needs: weights, up to 4 GiB of cache, the engine."""
    size = 2
    cache = run.generated * run.row_tokens * run.shape.cached * size
    return (run.shape.parameters * size / GIB + min(cache / GIB, 4.0) + VLLM_OVERHEAD_GIB) / GPU_GIB


PHASE_REMEDIES = {
    "generate": "generate fewer at a time (per_device_train_batch_size, or steps_per_generation); "
    "or let the judge sleep between batches (sleep: true)",
    "judge": "let the policy's vLLM sleep while judging (vllm_enable_sleep_mode: true); or lower "
    "memory_gb, or a packed judge's max_batch_tokens; or put judge or witness on a node of its own "
    "(configs/judge/node.yaml)",
    "train": "halve per_device_train_batch_size and double gradient_accumulation_steps; or set "
    "gradient_checkpointing: true; or lower max_pixels (1003520 are 1,280 tokens); or train "
    "adapters only (use_peft: true)",
}
"""Settings that lower each phase's memory."""
ASSUMPTIONS = [
    "assumed, not measured on a GPU:",
    f"  the ranges hold if everything below is at most {ASSUMED_ERROR_SHARE:.0%} smaller or larger",
    f"  80 GB are {GPU_GIB:g} GiB; the trainer's context and NCCL take {TRAINER_CONTEXT_GIB}",
    f"  vLLM needs {VLLM_OVERHEAD_GIB:g} GiB beyond weights and cache, and {VLLM_ASLEEP_GIB:g} "
    "while asleep",
    "  a packed judge (transformers) needs a pass of max_batch_tokens, which it halves when memory "
    f"runs out, with prompts of {JUDGE_PROMPT_TOKENS:,}; asleep it keeps nothing; without "
    "memory_gb its cache takes half of what weights leave free",
    f"  on the GPU the parser takes {PARSER_GIB} GiB and Maverick {MAVERICK_GIB}",
    "  activations: what the layers keep, and one at work, per token as on a CPU; no attention "
    f"scores; {GAP_SHARE:.0%} more for gaps",
    "  without vLLM, all prompts and images of a generation are read at once",
    f"  TRL computes the head's backward pass in tiles; a student's takes {STUDENT_HEAD_GIB} GiB",
    f"  an image has max_pixels / 784 tokens ({UNCAPPED_IMAGE_TOKENS:,} without a cap); a "
    f"reference has {REFERENCE_TOKENS} at most",
    "  ZeRO: DeepSpeed's default bucket sizes; Adam and a copy of the parameters in float32",
    f"  a machine's memory: {TRAINER_HOST_GIB:g} GiB per trainer, {MAVERICK_HOST_GIB:g} for "
    f"Maverick, {VLLM_HOST_GIB:g} per vLLM judge plus its sleeping weights, each tensor rounded up "
    "to a power of two",
    f"  and {estimate_worker_gib('embedded'):g} per worker process of the metric, "
    f"{estimate_worker_gib('_trf'):g} with a parser *_trf on the CPU; none with one on the GPU; "
    "without the setting processes, the most that there may be, "
    f"{MAX_DEFAULT_PROCESSES} for each trainer",
]
