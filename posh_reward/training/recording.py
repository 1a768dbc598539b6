"""Write ``run.json``, the record of a run, as the run goes."""

from __future__ import annotations

import sys
from dataclasses import asdict, fields, replace
from importlib import metadata
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from posh_reward.models.hub import identity
from posh_reward.reward.objectives import metrics_behind
from posh_reward.run_record import RunRecord, read_run, write_run
from posh_reward.training.learning import read_progress
from posh_reward.training.run_settings import metric_of

if TYPE_CHECKING:
    from transformers import Trainer

LIBRARIES = (
    "posh-reward",
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "peft",
    "deepspeed",
    "vllm",
)


def begin_record(trainer: Trainer, script: Any, model: Any) -> None:
    """Write what the run starts from and is asked for, to ``run.json`` in its folder.

    Args:
        trainer: with its dataset; its rewards, if it has any, have signatures.
        script: the recipe's own settings.
        model: TRL's ``ModelConfig``.
    """
    if not trainer.args.should_save:
        return
    rewards = [r for each in getattr(trainer, "reward_funcs", ()) for r in metrics_behind(each)]
    signatures = dict.fromkeys(r.signature for r in rewards if hasattr(r, "signature"))
    dataset: Any = trainer.train_dataset
    record = RunRecord(
        recipe=Path(sys.argv[0]).name,
        state="running",
        reason=None,
        model=str(model.model_name_or_path),
        model_weights=identity(str(model.model_name_or_path), model.model_revision),
        data={
            "name": script.dataset_name,
            "split": script.dataset_train_split,
            "rows": len(dataset) if hasattr(dataset, "__len__") else None,
            "fingerprint": getattr(dataset, "_fingerprint", None),
        },
        prompt=getattr(script, "prompt_text", None),
        metric=metric_of(script) if hasattr(script, "metric") else None,
        reward="; ".join(signatures) or None,
        settings={**changed(script), **changed(model), **changed(trainer.args)},
        versions={name: version for name in LIBRARIES if (version := installed(name))},
    )
    write_run(Path(trainer.args.output_dir), record)


def end_record(trainer: Trainer, *, reason: str | None = None, **saved: str | None) -> None:
    """Add how far the run came and what it saved; with a ``reason`` it has stopped early."""
    output, state = Path(trainer.args.output_dir), trainer.state
    record = read_run(output) if trainer.args.should_save else None
    if record is None:
        return
    if saved and state.global_step < state.max_steps:
        reason = "a callback ended the training"
    record = replace(
        record,
        state="finished" if saved else "stopped",
        reason=reason,
        steps_asked=state.max_steps,
        steps=state.global_step,
        figures=asdict(read_progress(state)),
        **saved,  # type: ignore[arg-type]
    )
    write_run(output, record)


def changed(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass whose values are not the defaults, but no keys."""
    plain = (str, int, float, list, dict, NoneType)
    return {
        each.name: value
        for each in fields(settings)
        if isinstance(value := getattr(settings, each.name), plain)
        and value != each.default
        and not each.name.endswith("_token")
    }


def installed(package: str) -> str | None:
    """Return the version of a package that is installed here."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
