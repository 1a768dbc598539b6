"""Parameters and files of a checkpoint that DeepSpeed's ZeRO spreads over ranks.

Names are those of DeepSpeed 0.19.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from posh_reward.training.processes import Processes

MODEL, OPTIMIZER = "mp_rank_00_model_states.pt", "mp_rank_00_optim_states.pt"


def is_partitioned(parameter: torch.Tensor) -> bool:
    """True if a parameter is empty because its values are spread over ranks.

    Small ones have a part, too, but are whole as well.
    """
    return not parameter.numel() and hasattr(parameter, "ds_tensor")


def own_part(parameter: Any, whole: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this rank's part of a partitioned parameter, and the same elements of ``whole``.

    Ranks hold consecutive parts of the flattened parameter, all of one size. What is left over at
    the end is padding, which is cut off here: a part may be empty.
    """
    import torch

    part = parameter.ds_tensor
    start = torch.distributed.get_rank(parameter.ds_process_group) * part.ds_numel
    # Comparing slices needs no gathering: each rank checks what it has, and ``of_all_ranks``
    # agrees.
    same = whole.flatten()[start : start + part.ds_numel]
    return part[: len(same)], same


def misfit(checkpoint: Path, there: Processes) -> str | None:
    """Say why DeepSpeed cannot load a checkpoint in these processes; None if it can.

    Each process reads the files that the process of its rank has written. Where one is missing,
    only its reader fails, in an assertion, and the others lose their connection to it.
    """
    if (checkpoint / "latest_universal").is_file():  # converted, so as to fit any processes
        return None
    latest = checkpoint / "latest"
    if not latest.is_file():
        return f"{checkpoint} has no file 'latest', which names the folder of DeepSpeed's states"
    folder = checkpoint / latest.read_text(encoding="utf-8").strip()
    states = {file.name.removeprefix("bf16_") for file in folder.glob("*_states.pt")}
    ranks = [f"zero_pp_rank_{rank}_" for rank in range(there.processes)]
    models = ranks if there.zero_stage == 3 else [""]
    names = {each + MODEL for each in models} | {each + OPTIMIZER for each in ranks}
    if states == names:
        return None
    problem = "lacks" if names - states else "also has"
    file = min(names - states or states - names)
    return (
        f"{folder} {problem} {file}: DeepSpeed reads the files of each process, and this run has "
        f"{there.processes}. Resume with as many processes as saved it, or from another checkpoint"
    )
