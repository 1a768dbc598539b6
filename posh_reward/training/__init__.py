"""The surroundings of a trainer, for the recipes and for scripts of your own.

::

    from posh_reward.training import StopWithCheckpoint, finish, load_processor, train

    trainer = GRPOTrainer(..., processing_class=load_processor(name),
                          callbacks=[StopWithCheckpoint(reward), RefuseLostWeights()])
    train(trainer)   # resumes as ``resume_from_checkpoint`` says, with the checkpoint's weights
    finish(trainer)  # at the very end: closes trackers and the process group

Importing this package loads neither torch nor transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posh_reward.training.dapo.sampling import DynamicSampling
    from posh_reward.training.dapo.trainer import DapoTrainer
    from posh_reward.training.generation import GenerationSettings, generate
    from posh_reward.training.launch import finish, run, show_headlines, train
    from posh_reward.training.processors import load_processor
    from posh_reward.training.resume import RefuseLostWeights, last_checkpoint, load_weights
    from posh_reward.training.stopping import StoppedEarlyError, StopWithCheckpoint

__all__ = [
    "DapoTrainer",
    "DynamicSampling",
    "GenerationSettings",
    "RefuseLostWeights",
    "StopWithCheckpoint",
    "StoppedEarlyError",
    "finish",
    "generate",
    "last_checkpoint",
    "load_processor",
    "load_weights",
    "run",
    "show_headlines",
    "train",
]

_LAZY = {
    "DapoTrainer": "dapo.trainer",
    "DynamicSampling": "dapo.sampling",
    "GenerationSettings": "generation",
    "RefuseLostWeights": "resume",
    "StopWithCheckpoint": "stopping",
    "StoppedEarlyError": "stopping",
    "finish": "launch",
    "generate": "generation",
    "last_checkpoint": "resume",
    "load_processor": "processors",
    "load_weights": "resume",
    "run": "launch",
    "show_headlines": "launch",
    "train": "launch",
}
"""Name -> the module that has it, imported when asked for."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
