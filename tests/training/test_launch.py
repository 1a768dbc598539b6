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


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"LOCAL_RANK": "3", "VLLM_CACHE_ROOT": "/cache"}, "/cache/HOST-gpu-3"),
        ({"LOCAL_RANK": "0", "HOME": "/h"}, "/.cache/vllm/HOST-gpu-0"),
        ({"LOCAL_RANK": "0", "XDG_CACHE_HOME": "/c"}, "/c/vllm/HOST-gpu-0"),
        # Two runs on one host, and two tasks of an array on one: their GPUs differ.
        ({"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "4,5"}, "/vllm/HOST-gpu-5"),
        ({"SLURM_LOCALID": "0", "SLURM_JOB_GPUS": "6"}, "/vllm/HOST-gpu-6"),
        ({"SLURM_LOCALID": "0", "SLURM_ARRAY_TASK_ID": "7"}, "/vllm/HOST-gpu-0-task-7"),
        ({}, ""),
    ],
)
def test_each_gpu_of_a_host_has_a_folder_for_what_vllm_compiles(
    variables: dict[str, str], folder: str
) -> None:
    for _ in range(2):  # a child repeats it
        separate_vllm_caches(variables)
        host = gethostname().partition(".")[0]
        assert variables.get("VLLM_CACHE_ROOT", "").endswith(folder.replace("HOST", host))
    assert ("VLLM_CACHE_ROOT" in variables) == bool(folder)
    judge = child_environment(variables, sys.executable, "model").get("VLLM_CACHE_ROOT")
    assert judge == variables.get("VLLM_CACHE_ROOT")


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
