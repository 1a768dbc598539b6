"""What the canaries compare; ``recipes/test_launch_vllm.py`` shows them fire with a real vLLM."""

import math
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from transformers import AutoModelForImageTextToText
from trl import GRPOConfig

from posh_reward.training.rollouts import find_comparable_matrix, gap_bounds

# PEFT reads, and TRL sets, what transformers 5.23 calls activation checkpointing.
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")


def bounds(**settings: Any) -> tuple[float, float]:
    shared = {"output_dir": "unused", "use_cpu": True, "bf16": False, "report_to": "none"}
    return gap_bounds(GRPOConfig(**shared, **settings))


@pytest.mark.parametrize(
    ("settings", "highest"),
    [
        ({"top_p": 1.0}, 0.0),
        ({"top_p": 0.7}, 0.3567),
        ({"top_p": 0.7, "temperature": 0.5}, 0.3567),
        ({"generation_kwargs": {"top_p": 0.5}}, 0.6931),
    ],
)
def test_the_nucleus_bounds_the_gap(settings: dict[str, Any], highest: float) -> None:
    assert bounds(**settings) == pytest.approx((0, highest), abs=1e-4)


@pytest.mark.parametrize(
    "settings", [{"top_k": 20}, {"min_p": 0.1}, {"generation_kwargs": {"temperature": 0.5}}]
)
def test_other_settings_leave_it_unbounded(
    settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert bounds(**settings) == (-math.inf, math.inf)
    assert f"since {next(iter(settings.get('generation_kwargs', settings)))} changes" in caplog.text


class Engine(nn.Module):
    """Holds some matrices of a model under vLLM's names."""

    packed_modules_mapping: ClassVar = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}

    def __init__(self, **tensors: torch.Tensor) -> None:
        super().__init__()
        for path, tensor in tensors.items():
            *modules, name = path.split("/")
            module: nn.Module = self
            for each in modules:
                if not hasattr(module, each):
                    module.add_module(each, nn.Module())
                module = getattr(module, each)
            module.register_parameter(name, nn.Parameter(tensor.clone()))


@pytest.mark.parametrize("adapted", ["q_proj", "k_proj", "v_proj", "down_proj"])
def test_the_matrix_of_an_adapter_is_found_in_vllm(tiny: Path, adapted: str) -> None:
    peft = pytest.importorskip("peft")
    plain = AutoModelForImageTextToText.from_pretrained(tiny)
    layer = plain.model.language_model.layers[2]
    attention = layer.self_attn
    own = {
        part: getattr(attention if part != "down_proj" else layer.mlp, part).weight
        for part in ("q_proj", "k_proj", "v_proj", "down_proj")
    }
    stem = "language_model/model/layers/2"
    packed = torch.cat([own["q_proj"], own["k_proj"], own["v_proj"]])
    engine = Engine(**{
        f"{stem}/self_attn/qkv_proj/weight": packed,
        f"{stem}/mlp/down_proj/weight": own["down_proj"],
        "language_model/lm_head/weight": plain.lm_head.weight,
    })  # fmt: skip
    model = peft.get_peft_model(plain, peft.LoraConfig(target_modules=[adapted]))
    name, theirs = find_comparable_matrix(model, engine)
    assert name.startswith("model.language_model.layers.2.")
    assert name.endswith(f".{adapted}.weight")
    assert theirs is not None
    assert torch.equal(theirs, own[adapted])


def test_nothing_is_compared_that_is_not_sure_to_be_the_same(tiny: Path) -> None:
    model = AutoModelForImageTextToText.from_pretrained(tiny)
    half = model.model.language_model.layers[2].mlp.down_proj.weight[:, ::2]  # tensor parallel
    assert (
        find_comparable_matrix(model, Engine(**{"layers/2/mlp/down_proj/weight": half}))[1] is None
    )
