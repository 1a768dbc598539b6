"""Parts of parameters and files of ranks without DeepSpeed, under the names of DeepSpeed 0.19.8.

``test_zero3.py`` has the real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.testing._internal.distributed.fake_pg import FakeStore

from posh_reward.training.resume import deepspeed_misfit, lost_weights
from posh_reward.training.run_settings import Processes

WHOLE = torch.arange(1.0, 16.0).reshape(3, 5)
"""Fifteen elements: of two ranks, the second has seven and a padding of one."""


@pytest.fixture(params=[0, 1])
def rank(request: pytest.FixtureRequest) -> Iterator[int]:
    """The rank of this process, of two; the other one does not exist."""
    torch.distributed.init_process_group(
        "fake", rank=request.param, world_size=2, store=FakeStore()
    )
    yield request.param
    torch.distributed.destroy_process_group()


def parameter_in_parts(part: torch.Tensor) -> torch.nn.Parameter:
    """A parameter of ``WHOLE``'s shape as ZeRO-3 leaves it."""
    parameter: Any = torch.nn.Parameter(torch.empty(0))
    parameter.ds_shape, parameter.ds_tensor = WHOLE.shape, part
    parameter.ds_tensor.ds_numel, parameter.ds_process_group = part.numel(), None
    result: torch.nn.Parameter = parameter
    return result


def model(weight: torch.Tensor, **others: torch.Tensor) -> torch.nn.Module:
    module = torch.nn.Module()
    for name, value in {"weight": weight, **others}.items():
        parameter = value if isinstance(value, torch.nn.Parameter) else torch.nn.Parameter(value)
        module.register_parameter(name, parameter)
    return module


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    save_file({"weight": WHOLE, "scale": torch.ones(2)}, tmp_path / "model.safetensors")
    return tmp_path


def test_each_rank_compares_its_part(rank: int, checkpoint: Path) -> None:
    padded = torch.cat([WHOLE.flatten(), torch.full((1,), torch.nan)])
    part = padded.chunk(2)[rank].clone()
    whole = torch.ones(2)
    assert lost_weights(model(parameter_in_parts(part), scale=whole), checkpoint) == []
    part[-2] += 1
    assert lost_weights(model(parameter_in_parts(part), scale=whole), checkpoint) == ["weight"]


def test_the_other_ranks_part_is_not_this_ranks(rank: int, checkpoint: Path) -> None:
    padded = torch.cat([WHOLE.flatten(), torch.zeros(1)])
    part = padded.chunk(2)[1 - rank]
    assert lost_weights(model(parameter_in_parts(part), scale=torch.ones(2)), checkpoint) == [
        "weight"
    ]


STAGE_3 = [
    f"{name}_mp_rank_00_{kind}_states.pt"
    for rank in (0, 1)
    for name, kind in (
        (f"zero_pp_rank_{rank}", "model"),
        (f"bf16_zero_pp_rank_{rank}", "optim"),
    )
]
STAGE_2 = ["mp_rank_00_model_states.pt", *(name for name in STAGE_3 if "optim" in name)]


def saved_by_two(folder: Path, files: list[str]) -> Path:
    (folder / "global_step3").mkdir()
    (folder / "latest").write_text("global_step3")
    for name in files:
        (folder / "global_step3" / name).touch()
    return folder


@pytest.mark.parametrize(("stage", "files"), [(2, STAGE_2), (3, STAGE_3)])
def test_a_checkpoint_fits_the_processes_that_saved_it(
    tmp_path: Path, stage: int, files: list[str]
) -> None:
    folder = saved_by_two(tmp_path, files)
    assert deepspeed_misfit(folder, Processes(2, zero_stage=stage)) is None
    fewer = deepspeed_misfit(folder, Processes(1, zero_stage=stage))
    more = deepspeed_misfit(folder, Processes(3, zero_stage=stage))
    assert fewer is not None
    assert more is not None
    assert "also has zero_pp_rank_1_" in fewer
    assert "lacks zero_pp_rank_2_" in more
    (folder / "latest_universal").write_text("global_step3_universal")
    assert deepspeed_misfit(folder, Processes(3, zero_stage=stage)) is None


@pytest.mark.parametrize("name", STAGE_3)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = saved_by_two(tmp_path, [each for each in STAGE_3 if each != name])
    complaint = deepspeed_misfit(folder, Processes(2, zero_stage=3))
    assert complaint is not None
    assert f"lacks {name.removeprefix('bf16_')}" in complaint
