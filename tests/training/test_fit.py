"""The arithmetic of memory: its exact part against what torch really allocates."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig

from posh_reward.training.fit import (
    GPU_GIB,
    PUBLISHED,
    JudgeOnGpu,
    Parameters,
    TrainingRun,
    checkpoint_size,
    fits,
    graders_of,
    machine_memory,
    model_state,
    on_meta,
    parameters_of,
    phases,
    pinned_numbers,
    report,
    run_of,
    shape_of,
)
from posh_reward.training.run_settings import Processes, parse_for
from recipes import dapo_posh
from tools import fit

VISION = "Qwen/Qwen2.5-VL-7B-Instruct"
SIZES = {"q_proj": 2, "k_proj": 2, "v_proj": 3, "o_proj": 9, "norm": 4}
NODE = Processes(processes=8, zero_stage=3)
REFILL = ("--refill", "true")


def test_parameters_are_as_many_as_published() -> None:
    assert shape_of(VISION).parameters == 8_292_166_656
    assert shape_of("Qwen/Qwen3-14B").parameters == 14_768_307_200


def test_a_sleeping_tensor_is_rounded_up_to_a_power_of_two() -> None:
    layers = {name: torch.nn.Linear(1, size, bias=False) for name, size in SIZES.items()}
    pinned = pinned_numbers(torch.nn.ModuleDict(layers))
    assert pinned == 8 + 16 + 4, "2 + 2 + 3 as one, then 9 and 4"


def test_eight_judges_asleep_take_332_gib() -> None:
    [(_, judge)] = graders_of({"judge": "vllm"}, "judge")
    assert round(8 * judge.asleep / 2**30) == 332
    assert round(8 * judge.weights / 2**30) == 220, "awake"


def test_zero_spreads_sixteen_bytes_a_parameter() -> None:
    model = Parameters(trained=8_000, trained_bytes=2)
    by_stage = [model_state(model, replace(NODE, zero_stage=stage)) for stage in (1, 2, 3)]
    assert [each.parameters for each in by_stage] == [16_000, 16_000, 2_000]
    assert [each.gradients for each in by_stage] == [16_000, 2_000, 2_000]
    assert [each.optimizer for each in by_stage] == [12_000] * 3
    offloaded = model_state(model, replace(NODE, offloads_optimizer=True))
    assert (offloaded.on_gpu, offloaded.on_host) == (4_000, 12_000)


def test_groups_that_dynamic_sampling_generates_at_once_are_counted() -> None:
    config = ["--config", "configs/dapo/qwen2_5_vl_7b.yaml"]
    for flags, rows in (([], 8), (["--oversample", "2"], 16), (["--oversample", "2", *REFILL], 8)):
        script, args, model = parse_for(dapo_posh.SETTINGS, [*config, *flags], NODE)
        assert run_of(script, args, model, NODE).generated == rows


def tiny_run() -> TrainingRun:
    """A 7B on a node, with a 14B judge: the shipped configuration's arithmetic."""
    shape = shape_of(VISION)
    return TrainingRun(
        layout=NODE, shape=shape, parameters=parameters_of(shape, 2, NODE), batch=8, generated=8,
        image=1280, text=832, checkpointing=True, share=0.35, policy_sleeps=True,
        graders=graders_of({"judge": "vllm"}, "judge"), parser="embedded", coref="rules", saves=3,
        saves_only_model=False,
    )  # fmt: skip


def test_what_does_not_fit_is_told_with_a_remedy_that_works() -> None:
    run = tiny_run()
    assert fits(run)
    greedy = replace(run, share=0.9)
    (generate, judge, train) = phases(greedy)
    assert generate.gib > GPU_GIB > judge.gib > train.gib
    text = "\n".join(report(greedy))
    assert "DOES NOT FIT" in text
    wanted = text.partition("set vllm_gpu_memory_utilization to ")[2].partition(" ")[0]
    assert fits(replace(run, share=float(wanted) - 0.01))

    assert "set vllm_gpu_memory_utilization to 0.2" in "\n".join(report(replace(run, share=0.1)))
    assert "halve per_device_train_batch_size" in "\n".join(report(replace(run, batch=64)))
    big = replace(run, graders=[("judge", JudgeOnGpu(weights=60e9, cache=8e9, sleeps=True))])
    assert "on a node of its own" in "\n".join(report(big))
    seen = replace(run, graders=[*run.graders, ("witness", JudgeOnGpu(50e9, 8e9, sleeps=True))])
    assert "witness asleep" in "\n".join(report(seen))
    assert machine_memory(seen).gib > machine_memory(run).gib
    alone = replace(run, layout=Processes(8))
    assert "zero3_8gpu.yaml" in "\n".join(report(alone))


def test_a_checkpoint_of_the_node_is_133_gigabytes_and_of_the_model_alone_17() -> None:
    run = tiny_run()
    assert round(checkpoint_size(run)) == 133
    assert round(checkpoint_size(replace(run, saves_only_model=True))) == 17
    assert machine_memory(run).gib > 8 * 27.5, "eight judges sleep in the machine's memory"


def tiny_model(dtype: torch.dtype) -> Any:
    published = PUBLISHED[VISION]
    text = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 512}
    text |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    vision = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2}
    shape = {"text_config": published["text_config"] | text}
    shape["vision_config"] = published["vision_config"] | vision | {"out_hidden_size": 64}
    config = AutoConfig.for_model(**published | shape)
    model = on_meta(config).to(dtype).to_empty(device="cpu")
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    return model


def measured(model: Any) -> tuple[int, int, int]:
    """Bytes of parameters, gradients and Adam's moments after one step on all of them."""
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained)
    loss: Any = torch.stack([each.float().pow(2).sum() for each in trained]).sum()
    loss.backward()
    optimizer.step()
    moments = [
        value for state in optimizer.state.values() for key, value in state.items() if key != "step"
    ]
    gradients = [each.grad for each in trained if each.grad is not None]
    parts = ([*model.parameters()], gradients, moments)
    bytes_of = [sum(each.numel() * each.element_size() for each in part) for part in parts]
    return bytes_of[0], bytes_of[1], bytes_of[2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_of_one_process_are_what_torch_allocates(dtype: torch.dtype) -> None:
    model = tiny_model(dtype)
    count = sum(each.numel() for each in model.parameters())
    computed = model_state(Parameters(count, dtype.itemsize), Processes())
    assert measured(model) == (computed.parameters, computed.gradients, computed.optimizer)


@pytest.mark.slow
def test_the_documented_table_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fit.ROOT)
    assert fit.main(["--table"]) == 0
    printed = capsys.readouterr().out
    assert printed in (fit.ROOT / "research/results/performance.md").read_text(encoding="utf-8")


def test_what_is_no_configuration_of_a_recipe_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text("seed: 1\n")
    for argv, message in (
        ([], "name a configuration"),
        (["nowhere.yaml"], "no file 'nowhere.yaml'"),
        ([str(tmp_path / "mine.yaml")], "names no recipe: begin it with"),
    ):
        assert fit.main(argv) == 2
        assert message in capsys.readouterr().err
