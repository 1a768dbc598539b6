"""Memory of a machine, and the disk that checkpoints take."""

from __future__ import annotations

from posh_reward.training.fit.phases import GIB
from posh_reward.training.fit.run import Run
from posh_reward.training.fit.states import MASTER, MOMENTS, states

PROCESS = 12.0
"""GiB of one trainer: Python, CUDA's libraries, two workers that decode images."""
ENGINE = 4.0
"""GiB of a process with an engine, besides the weights that sleep there."""
READER = 3.0
"""GiB of Maverick's process."""
GB = 1e9
"""Disks are sold in powers of ten."""


def memory(run: Run) -> float:
    """GiB that a machine needs at most: sleeping judges, offloaded states, a model being saved."""
    each = PROCESS + states(run.parameters, run.there).on_host / GIB
    for _, grader in run.graders:
        each += ENGINE + (grader.weights / GIB if grader.sleeps else 0.0)
    if run.coref == "maverick":
        each += READER
    saved = run.shape.parameters * 2 / GIB
    return each * run.there.on_one_machine + saved


def checkpoint(run: Run) -> float:
    """GB of one checkpoint."""
    model = run.parameters
    weights = model.trained * model.trained_bytes
    if run.saves_only_model:
        return weights / GB
    if not run.there.zero_stage:
        return (weights + 2 * model.trained * model.trained_bytes) / GB
    # DeepSpeed's own files, and the model for others to load
    own = model.trained * (MASTER + MOMENTS + model.trained_bytes)
    return (own + weights) / GB


def disk(run: Run) -> float:
    """GB of all checkpoints, and of the model at the end."""
    model = run.parameters
    return run.saves * checkpoint(run) + model.trained * model.trained_bytes / GB
