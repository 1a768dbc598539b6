"""Load a language model, from safetensors only, without running a checkpoint's code."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.errors import (
    ConfigError,
    JudgeError,
    MissingDependencyError,
    install_command,
    on_one_line,
)
from posh_reward.models.prompt_images import VISION_MODEL_TYPES
from posh_reward.process.resources import KERNEL_ROOT, host_memory, most_host_memory

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


logger = logging.getLogger(__name__)

MEMORY_FACTOR = 1.1  # memory required to load a model, relative to its weights


def require_libraries() -> None:
    """Raise ``MissingDependencyError`` unless torch and transformers can be imported."""
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            f"the judge 'transformers' needs {error.name}: {install_command('train')}"
        ) from None


def select_device(device: str) -> torch.device:
    """The device of that name; for "auto" this process's GPU, or the CPU without one."""
    import torch

    if device == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        # A trainer sets the current GPU; a launcher only sets the rank.
        index = torch.cuda.current_device()
        rank = int(os.environ.get("LOCAL_RANK", "0"))
        if index == 0 and rank < torch.cuda.device_count():
            index = rank
        return torch.device("cuda", index)
    try:
        torch_device = torch.device(device)
        torch.empty(1, device=torch_device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"the judge cannot use the device {device!r} ({str(error).splitlines()[0]}): "
            'choose "auto", "cpu" or "cuda"'
        ) from None
    return torch_device


def select_dtype(dtype: str, config: PretrainedConfig, device: torch.device) -> torch.dtype:
    """The dtype of that name; for "auto" the checkpoint's, or float32 on a CPU."""
    import torch

    torch_dtype: Any
    if dtype != "auto":
        torch_dtype = getattr(torch, dtype, None)
    elif device.type == "cpu":
        torch_dtype = torch.float32
    else:
        torch_dtype = getattr(config, "dtype", None) or torch.float32
    if (
        not isinstance(torch_dtype, torch.dtype)
        or not torch_dtype.is_floating_point
        or torch_dtype.itemsize == 1  # float8 only stores
    ):
        raise ConfigError(
            f"the judge cannot use dtype {str(torch_dtype or dtype).removeprefix('torch.')!r}: "
            'choose "auto", "bfloat16" or "float32"'
        )
    return torch_dtype


def load_config(model: str, revision: str | None) -> PretrainedConfig:
    """A model's configuration; ``JudgeError`` if there is no such model."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(model, revision=revision, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise JudgeError(_not_loaded(model, revision, error)) from error


def find_identity(model: str, revision: str | None) -> str:
    """The commit of a model on the hub, or a folder's fingerprint."""
    from posh_reward.models.hub import find_commit, fingerprint_files

    if Path(model).is_dir():
        return f"sha256-{fingerprint_files(Path(model))}"
    try:
        return find_commit(model, revision)
    except Exception as error:  # the hub's client raises many kinds
        raise JudgeError(_not_loaded(model, revision, error)) from error


def is_vision_model(config: PretrainedConfig) -> bool:
    """True if this is a supported vision-language model."""
    return config.model_type in VISION_MODEL_TYPES


def auto_class(config: PretrainedConfig) -> Any:
    """The class of transformers that loads a model of this configuration."""
    import transformers

    which = "AutoModelForImageTextToText" if is_vision_model(config) else "AutoModelForCausalLM"
    return getattr(transformers, which)


def load_checkpoint(
    model: str, revision: str | None, device: torch.device, dtype: torch.dtype
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, Any]:
    """Load a model onto its device, its tokenizer and, for vision models, its image processor."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoTokenizer, Qwen2VLImageProcessorPil

    config = load_config(model, revision)
    check_room(model, config, device, dtype)
    source = {"revision": revision, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(model, **source)
        # Not the torchvision variant: pixels must not depend on what is installed.
        images = None
        if is_vision_model(config):
            images = Qwen2VLImageProcessorPil.from_pretrained(model, **source)
        with whole_weights():
            loaded = auto_class(config).from_pretrained(
                model, dtype=dtype, use_safetensors=True, **source
            )
        return loaded.to(device), tokenizer, images
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise JudgeError(f"{model} does not fit into the memory of {device}: {error}") from error
    except (ImportError, RuntimeError) as error:  # mostly, quantised weights need a library, a GPU
        reason = _not_loaded(model, revision, error)
        raise JudgeError(f"{reason}, or serve it with vLLM and use the judge 'server'") from error
    except (OSError, ValueError, SafetensorError) as error:  # the last: a file that was cut short
        raise JudgeError(_not_loaded(model, revision, error)) from error


def check_room(
    model: str,
    config: PretrainedConfig,
    device: torch.device,
    dtype: torch.dtype,
    root: Path = KERNEL_ROOT,
) -> None:
    """Raise ``JudgeError`` if memory is too small for the weights, before minutes of loading.

    Only warn if the host's memory may grow (``most_host_memory``, also for ``root``).
    """
    import torch

    with whole_weights(), torch.device("meta"):
        empty: Any = auto_class(config).from_config(config, trust_remote_code=False)
    needed = MEMORY_FACTOR * sum(p.numel() for p in empty.parameters()) * dtype.itemsize
    free = free_memory(device, root)
    if free is None or needed <= free:
        return
    shortage = (
        f"{model} in {str(dtype).removeprefix('torch.')} needs {needed / 1e9:.1f} GB, and "
        f"{device} has {free / 1e9:.1f} GB free"
    )
    if device.type == "cpu" and needed <= most_host_memory(root):
        logger.warning("%s now; loading it all the same, as memory may grow with its use", shortage)
        return
    raise JudgeError(
        f"{shortage}: choose a smaller model or another device, or serve it elsewhere and use the "
        "judge 'server'"
    )


@contextmanager
def whole_weights() -> Iterator[None]:
    """Inside this context, load whole models, which ZeRO-3 and FSDP would shard across ranks."""
    from transformers.integrations import deepspeed

    reference = getattr(deepspeed, "_hf_deepspeed_config_weak_ref", None)
    # transformers has only a weak reference to the trainer's DeepSpeed settings: keep a strong one
    # until they are restored.
    zero3 = reference and reference()
    fsdp = os.environ.pop("ACCELERATE_USE_FSDP", None)
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        if zero3 is not None:
            deepspeed.set_hf_deepspeed_config(zero3)
        if fsdp is not None:
            os.environ["ACCELERATE_USE_FSDP"] = fsdp


def free_memory(device: torch.device, root: Path = KERNEL_ROOT) -> float | None:
    """Free bytes on a device; None if unknown. ``root`` is as for ``host_memory``."""
    import torch

    if device.type == "cuda":
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "cpu":
        return host_memory(root)
    return None


def _not_loaded(model: str, revision: str | None, error: Exception) -> str:
    if model.lower().endswith(".gguf"):
        return f"{model} is a GGUF file: serve it with llama-server (docs/local_judge.md)"
    if (Path(model).is_absolute() or model.startswith(".")) and not Path(model).is_dir():
        return f"there is no folder {model}: use a model's folder or its name on a hub"
    at = f" at revision {revision!r}" if revision else ""
    reason = on_one_line(str(error).strip()) or type(error).__name__
    return (
        f"{model!r}{at} cannot be loaded: {reason} (use a folder with config.json, tokenizer "
        "and *.safetensors, or a name on the hub; offline it must be in the cache)"
    )
