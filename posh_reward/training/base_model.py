"""The model that a run starts from: a full one, or an adapter merged into its own model.

TRL and vLLM load full models. So an adapter, such as ``sft.py --use_peft`` writes, is merged once,
into a folder of the new run; whether that trains all parameters or a new adapter is another matter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from posh_reward.datasets.load_dataset import check_name_of_hub
from posh_reward.errors import ConfigError
from posh_reward.models.hub import (
    MERGED_MODEL_PREFIX,
    UNKNOWN_IDENTITY,
    adapter_base,
    find_identity,
    find_missing_file,
    weights_fingerprint,
)
from posh_reward.process.child import run_command
from posh_reward.process.python import python_module
from posh_reward.run_record import read_run
from posh_reward.training.processors import load_processor

LAUNCHER_PREFIXES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_",
    "GROUP_",
    "MASTER_",
    "ACCELERATE_",
    "TORCHELASTIC_",
)
"""Prefixes of a launcher's variables: the merging process is none of its ranks."""


def find_base_model(name: str) -> str | None:
    """Return the model that an adapter's folder was trained on; None for any other name.

    Raises:
        ConfigError: it is not here, and no name on the hub either; it has other weights than those
            that the adapter's run began from; or no model is named.
    """
    base = adapter_base(Path(name))
    if base is None:
        return None
    if not Path(base).exists():
        try:
            check_name_of_hub(base)
        except ConfigError as error:
            raise ConfigError(
                f"{name} is an adapter of {base!r}, which is not here: copy that model there, or "
                f"correct base_model_name_or_path in its adapter_config.json ({error})"
            ) from None
    run = read_run(Path(name))
    if run is not None and run.model == base and Path(base).is_dir():
        learned, now = run.model_weights, find_identity(base)
        if learned not in (None, UNKNOWN_IDENTITY, now):
            raise ConfigError(
                f"{name} is an adapter of {base} when its weights were {learned}, and they are "
                f"{now} now: restore that model, or train the adapter again"
            )
    return base


def starting_model(name: str, output: Path) -> str:
    """Return a folder or name that transformers and vLLM load; every rank has to call this.

    Of an adapter that is a merged copy in ``output``, which the first rank makes once. Its name has
    the adapter's fingerprint, so that an adapter that was trained again is merged again.
    """
    from accelerate import PartialState

    base = find_base_model(name)
    if base is None:
        return name
    weights = weights_fingerprint(Path(name))
    if weights is None:
        raise ConfigError(f"{name} has no adapter_model.safetensors: save the adapter in that form")
    folder = output / f"{MERGED_MODEL_PREFIX}_{weights}"
    with PartialState().main_process_first():
        if not (folder / "config.json").is_file() or find_missing_file(folder):
            _merge_in_subprocess(name, base, folder)
    return str(folder)


def _merge_in_subprocess(adapter: str, base: str, folder: Path) -> None:
    """Merge in a process of its own: in a rank of ZeRO-3 loading is collective, and partial."""
    print(f"merging the adapter {adapter} into {base}, once: {folder}", flush=True)
    command = python_module(__name__, adapter, base, str(folder))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_PREFIXES)}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    result = run_command(command, env=environment, **pipes)
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["it was killed"])[-1]
        raise ConfigError(f"the adapter {adapter} cannot be merged into {base}: {reason}")


def merge_adapter(adapter: str, base: str, folder: Path) -> None:
    """Write the merged model, in the type of the base, and the processor that the adapter has."""
    import torch
    from peft import PeftModel
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    config: Any = AutoConfig.from_pretrained(base)
    model_class: Any = AutoModelForCausalLM
    if getattr(config, "vision_config", None) is not None:
        model_class = AutoModelForImageTextToText
    # In float32, so that the sum is rounded once.
    model = model_class.from_pretrained(base, dtype=torch.float32)
    merged = PeftModel.from_pretrained(model, adapter).merge_and_unload()
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    merged.to(config.dtype or torch.float32).save_pretrained(part)
    load_processor(adapter).save_pretrained(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


if __name__ == "__main__":
    merge_adapter(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
