"""What a launcher and a batch script learn from a recipe's end, and what ranks do not share."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
import torch
from transformers import AutoModelForImageTextToText

from posh_reward.errors import ConfigError, JudgeError, PoshError
from posh_reward.models.vllm.vllm_model import (
    VLLM_DEFAULTS,
    child_environment,
    separate_vllm_caches,
)
from posh_reward.training.launch import run
from posh_reward.training.rotary import restore_rotary
from posh_reward.training.stopping import StoppedEarlyError


def raises(error: PoshError) -> Callable[[], None]:
    def main() -> None:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "status"),
    [(StoppedEarlyError("stopped after step 3"), 75), (JudgeError("it is gone"), 4),
     (ConfigError("no such judge"), 1)],
)  # fmt: skip
def test_the_exit_status_is_also_left_in_a_file(
    error: PoshError, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Launchers make 1 of it."""
    monkeypatch.setenv("POSH_STATUS_FILE", str(tmp_path / "status"))
    with pytest.raises(SystemExit) as ended:
        run(raises(error))
    assert ended.value.code == status
    assert (tmp_path / "status").read_text() == str(status)
    assert str(error) in capsys.readouterr().err


def test_a_recipe_that_ends_well_leaves_no_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSH_STATUS_FILE", str(tmp_path / "status"))
    run(lambda: None)
    assert not list(tmp_path.iterdir())


TOGETHER = [
    *({"LOCAL_RANK": str(rank)} for rank in (1, 2)),  # torchrun
    {"CUDA_VISIBLE_DEVICES": "4"},  # two commands typed by hand
    {"CUDA_VISIBLE_DEVICES": "5"},
    *({"LOCAL_RANK": str(rank), "CUDA_VISIBLE_DEVICES": "6,7"} for rank in (0, 1)),
    # One job of each kind on a host, with GPUs that Slurm numbers from 0 in every job.
    *({"SLURM_LOCALID": "0", "SLURM_JOB_GPUS": gpu, "CUDA_VISIBLE_DEVICES": "0"} for gpu in "01"),
    *(
        {"SLURM_LOCALID": rank, "SLURM_STEP_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "0"}
        for rank in "01"
    ),
    *(
        {"SLURM_LOCALID": "0", "SLURM_JOB_GPUS": "8,9", "CUDA_VISIBLE_DEVICES": each}
        for each in "01"
    ),
    *({"SLURM_LOCALID": "0", "SLURM_ARRAY_TASK_ID": task} for task in "78"),  # on CPUs
    {},
]
"""Environments of engines that may start at the same moment on one host."""


def cache_of(variables: dict[str, str]) -> str:
    own = dict(variables)
    for _ in range(2):  # a child repeats it
        separate_vllm_caches(own)
    judge = child_environment(own, sys.executable, "model")["VLLM_CACHE_ROOT"]
    assert judge == own["VLLM_CACHE_ROOT"]
    # As ``posh-reward score`` does, whose own process sets nothing.
    assert child_environment(variables, sys.executable, "model")["VLLM_CACHE_ROOT"] == judge
    return judge


def test_engines_that_start_together_compile_into_folders_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders = [cache_of(each) for each in TOGETHER]
    assert len(set(folders)) == len(TOGETHER)
    assert folders == [cache_of(each) for each in TOGETHER], "the next run finds them again"
    monkeypatch.setattr("posh_reward.models.vllm.vllm_model.gethostname", lambda: "other.example")
    assert not set(folders) & {cache_of(each) for each in TOGETHER}, "of a shared home"


@pytest.mark.parametrize(
    ("variables", "root"),
    [
        ({"VLLM_CACHE_ROOT": "/cache"}, "/cache"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/vllm"),
        ({}, str(Path.home() / ".cache" / "vllm")),
    ],
)
def test_vllms_own_variables_say_where_it_caches(variables: dict[str, str], root: str) -> None:
    host = gethostname().partition(".")[0]
    assert cache_of({**variables, "LOCAL_RANK": "3"}) == f"{root}/{host}-gpu-3"


def test_a_recipes_own_vllm_compiles_no_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VLLM_DEFAULTS:
        monkeypatch.setenv(name, "1")  # so that it is put back
        monkeypatch.delenv(name)
    handed: dict[str, str] = {}
    run(lambda: handed.update(os.environ))
    assert VLLM_DEFAULTS.items() <= handed.items()


@pytest.fixture
def rounded(tiny: Path) -> Any:
    """A model whose buffers were cast too, as by ``zero.Init``."""
    return AutoModelForImageTextToText.from_pretrained(tiny).to(torch.bfloat16)


def test_rounded_frequencies_become_those_of_a_plain_model(rounded: Any, tiny: Path) -> None:
    plain = AutoModelForImageTextToText.from_pretrained(tiny, dtype=torch.bfloat16)
    ids = {"input_ids": (torch.arange(800) % 200 + 10)[None]}
    assert (rounded(**ids).logits - plain(**ids).logits).abs().max() > 0.1
    restore_rotary(rounded)
    assert torch.equal(rounded(**ids).logits, plain(**ids).logits)
    buffers = dict(rounded.named_buffers())
    frequencies = [name for name in buffers if name.endswith("inv_freq")]
    assert len(frequencies) == 4, "text and vision, in use and original"
    for name, exact in plain.named_buffers():
        assert buffers[name].dtype == exact.dtype, name
        assert torch.equal(buffers[name], exact), name
    assert set(rounded.state_dict()) == set(plain.state_dict()), "they are not saved"


def test_frequencies_that_cannot_be_computed_are_refused_if_rounded(rounded: Any) -> None:
    rotary = rounded.model.language_model.rotary_emb
    rotary.config.rope_parameters["rope_type"] = "unheard-of"
    with pytest.raises(ConfigError, match=r"rotary_emb\.inv_freq are in torch\.bfloat16.*zero_"):
        restore_rotary(rounded)
    rotary.float()
    restore_rotary(rounded)  # nothing says that they are wrong
