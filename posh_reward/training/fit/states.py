"""Bytes of a model's state in one process: parameters, gradients, optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from posh_reward.training.processes import Processes

MASTER, MOMENTS = 4, 8
"""Bytes that DeepSpeed keeps of a trained parameter in single precision: its own copy, and Adam's
two moments."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """A model's parameters: how many, and how many bytes each has."""

    trained: int
    trained_bytes: int
    frozen: int = 0
    frozen_bytes: int = 2


@dataclass(frozen=True, slots=True)
class States:
    """Bytes on the card of one process, and in its host's memory."""

    parameters: float
    gradients: float
    optimizer: float
    """Adam's moments; under DeepSpeed also its copy of the parameters in single precision."""
    on_host: float = 0.0

    @property
    def on_card(self) -> float:
        """All that is on the card."""
        return self.parameters + self.gradients + self.optimizer


def states(model: Parameters, there: Processes) -> States:
    """The state of a model that is trained by Adam.

    Without DeepSpeed Adam's moments have the type of the parameters that they are for
    (``torch.optim.AdamW``). DeepSpeed keeps them, and a copy of the parameters, in single
    precision. Adam's step counters, four bytes a tensor, are left out, and so is padding of
    partitions, less than a kilobyte a process.
    """
    own = model.trained * model.trained_bytes + model.frozen * model.frozen_bytes
    gradients = model.trained * model.trained_bytes
    if not there.zero_stage:
        return States(own, gradients, 2 * gradients)
    share = there.processes
    parameters = own / share if there.zero_stage == 3 else own
    optimizer = model.trained * (MASTER + MOMENTS) / share
    on_host = 0.0
    if there.offloads_optimizer:
        optimizer, on_host = 0.0, optimizer
    if there.offloads_parameters:
        parameters, on_host = 0.0, on_host + parameters
    return States(
        parameters=parameters,
        gradients=gradients / share if there.zero_stage >= 2 else gradients,
        optimizer=optimizer,
        on_host=on_host,
    )
