"""Files of ranks under the names of DeepSpeed 0.19.8; ``test_zero3.py`` has the real one."""

from pathlib import Path

import pytest

from posh_reward.training.resume import deepspeed_misfit
from posh_reward.training.run_settings import Processes

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
