"""The arithmetic of memory: its exact part against what torch really allocates."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig, AutoModelForCausalLM

from posh_reward.training.fit import (
    GPU_GIB,
    PUBLISHED_CONFIGS,
    JudgeOnGpu,
    Parameters,
    TrainingRun,
    build_on_meta,
    build_run,
    checkpoint_size,
    count_parameters,
    describe_memory,
    estimate_activations,
    find_graders,
    fits_memory,
    load_shape,
    machine_memory,
    model_state,
    phases,
    pinned_numbers,
)
from posh_reward.training.run_settings import Processes, parse_for
from recipes import dapo_posh
from tools import fit

VISION = "Qwen/Qwen2.5-VL-7B-Instruct"
SIZES = {"q_proj": 2, "k_proj": 2, "v_proj": 3, "o_proj": 9, "norm": 4}
NODE = Processes(processes=8, zero_stage=3)
REFILL = ("--refill", "true")


def test_parameters_are_as_many_as_published() -> None:
    assert load_shape(VISION).parameters == 8_292_166_656
    assert load_shape("Qwen/Qwen3-14B").parameters == 14_768_307_200


def test_a_sleeping_tensor_is_rounded_up_to_a_power_of_two() -> None:
    layers = {name: torch.nn.Linear(1, size, bias=False) for name, size in SIZES.items()}
    pinned = pinned_numbers(torch.nn.ModuleDict(layers))
    assert pinned == 8 + 16 + 4, "2 + 2 + 3 as one, then 9 and 4"


def test_eight_judges_asleep_take_332_gib() -> None:
    [(_, judge)] = find_graders({"judge": "vllm"})
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
        assert build_run(script, args, model, NODE).generated == rows


def tiny_run() -> TrainingRun:
    """A 7B on a node, with a 14B judge: the shipped configuration's arithmetic."""
    shape = load_shape(VISION)
    return TrainingRun(
        layout=NODE, shape=shape, parameters=count_parameters(shape, 2, NODE), batch=8, generated=8,
        image=1280, text=832, completion=768, checkpointing=True, tiles=True, generates=False,
        share=0.35, policy_sleeps=True,
        graders=find_graders({"judge": "vllm"}), parser="embedded", coref="rules", saves=3,
        saves_only_model=False,
    )  # fmt: skip


def parts(run: TrainingRun, phase: str) -> dict[str, float]:
    """GiB of each part of a phase."""
    (found,) = (each for each in phases(run) if each.name == phase)
    return {part.name: part.gib for part in found.parts}


def packed(**settings: Any) -> list[tuple[str, JudgeOnGpu]]:
    options = {"name": "transformers", "model": "Qwen/Qwen3-1.7B", **settings}
    return find_graders({"judge": options})


def test_a_packed_judge_is_no_vllm_and_keeps_nothing_asleep() -> None:
    run = replace(tiny_run(), graders=packed(memory_gb=4))
    assert all("judge" not in name for phase in ("generate", "train") for name in parts(run, phase))
    judging = parts(run, "judge")
    assert judging["judge's cache (memory_gb)"] == 4
    assert judging["judge's weights"] == pytest.approx(2 * 1_720_574_976 / 2**30)
    assert "judge's vLLM" not in judging
    # 9,216 tokens x 10 x 2,048, 65,536 keys and values of 2,048 numbers, 9,216 x 2 x 1,024 in masks
    numbers = 9216 * 10 * 2048 + 65536 * 2048 + 9216 * 2 * 1024
    assert judging["judge's pass"] == pytest.approx(2 * numbers / 2**30)
    assert machine_memory(tiny_run()).parts[1].gib - machine_memory(run).parts[1].gib == 8 * 4

    awake = parts(replace(run, graders=packed(sleep=False)), "train")
    assert awake["judge's weights"] == judging["judge's weights"]
    assert "judge's cache (memory_gb)" not in awake, "dropped after each batch"
    assert not packed(device="cpu")


def test_a_packed_judge_without_memory_gb_takes_half_of_what_is_free() -> None:
    run = replace(tiny_run(), graders=packed())
    judging = parts(run, "judge")
    mine = [judging.pop(f"judge's {name}") for name in ("pass", "cache (memory_gb)")]
    assert mine[1] == pytest.approx((GPU_GIB - sum(judging.values())) / 2)
    [(_, judge)] = packed(model="Qwen/Qwen3-0.6B")
    assert judge.cache == 2**20 * 114_688, "at most so many tokens"


def test_what_torch_allocates_in_this_process_is_told_apart() -> None:
    (_, judge, train) = phases(replace(tiny_run(), coref="maverick"))
    others = ("CUDA and NCCL", "policy's vLLM asleep", "judge asleep", "maverick", "gaps")
    assert {part.name for part in train.parts if not part.ours} == set(others)
    assert judge.allocated == pytest.approx(sum(part.gib for part in judge.parts if part.ours))
    assert all("judge" not in part.name for part in judge.parts if part.ours)


def shipped(*flags: str) -> TrainingRun:
    """The shipped 7B on a node, with other settings."""
    config = ["--config", "configs/dapo/qwen2_5_vl_7b.yaml"]
    script, args, model = parse_for(dapo_posh.SETTINGS, [*config, *flags], NODE)
    return build_run(script, args, model, NODE)


def test_only_without_vllm_a_trainer_generates() -> None:
    own, elsewhere = ["--use_vllm", "false"], ["--vllm_mode", "server"]
    for flags, generates, colocated in (([], False, True), (elsewhere, False, False),
                                        (own, True, False)):  # fmt: skip
        run = shipped(*flags)
        assert (run.generates, run.share is not None) == (generates, colocated)
        assert run.completion == 768


def test_processes_that_read_texts_take_the_hosts_memory(tmp_path: Path) -> None:
    assert shipped().workers == 0, "its parser is on the GPU"
    for line, workers in (("", 16), ("processes: 1", 0), ("processes: 5", 5)):
        metric = tmp_path / "metric.yaml"
        metric.write_text(f"judge: embedded\n{line}\n")
        assert shipped("--metric", str(metric)).workers == workers
        metric.write_text(f"parser: en_core_web_trf\nparser_device: cpu\n{line}\n")
        assert shipped("--metric", str(metric)).workers == workers
    few = replace(shipped(), parser="embedded", workers=5)
    none, many = replace(few, workers=0), replace(few, parser="en_core_web_trf")
    assert machine_memory(few).gib - machine_memory(none).gib == pytest.approx(8 * 5 * 0.4)
    assert machine_memory(many).gib - machine_memory(few).gib == pytest.approx(8 * 5 * 2.6)


def test_adapters_leave_the_head_alone() -> None:
    run = tiny_run()
    adapted = replace(run, parameters=Parameters(1, 4, run.shape.parameters, 2))
    tile, states = 4096 * 32768 * 2, 8 * 832 * 3584 * 6
    assert parts(adapted, "train")["logits"] == (tile + states) / 2**30
    assert parts(run, "train")["logits"] == (tile + states + 152_064 * 3584 * 6) / 2**30
    assert parts(replace(run, tiles=False), "train")["logits"] == 4.2, "a student's: assumed"


def alone(model: str = VISION, **changes: Any) -> TrainingRun:
    """One GPU whose trainer generates without vLLM: 64 rows of 1,344 tokens, in bfloat16."""
    shape = load_shape(model)
    run = replace(tiny_run(), layout=Processes(), parameters=Parameters(shape.parameters, 2))
    return replace(run, share=None, policy_sleeps=False, generates=True, generated=64, **changes)


def test_a_trainer_that_generates_reads_all_images_at_once() -> None:
    seeing, patches = alone(), 64 * 1280 * 4
    generating = parts(seeing, "generate")
    layer, seen = 64 * 1344 * (8 * 3584 + 6 * 18944), 64 * 1280 * 2 * (2 * 3584 + 4 * 1280)
    assert generating["prompts"] == pytest.approx((layer + seen) / 2**30)
    assert generating["cache of keys and values"] == pytest.approx(64 * 1344 * 57_344 / 2**30)
    assert generating["pixels"] == pytest.approx(patches * 1176 * 4 / 2**30)
    narrow = replace(seeing, shape=replace(seeing.shape, inner=3584))
    looking = parts(narrow, "generate")
    assert looking["images"] == pytest.approx(patches * (34 * 1280 + 2 * 1176) / 2**30)
    assert "cache of keys and values" not in looking, "nothing is cached yet"

    long = parts(alone(image=0, text=20 + 4000, completion=4000), "generate")
    assert long["cache of keys and values"] == pytest.approx(64 * 4020 * 57_344 / 2**30)
    assert long["a token drawn"] == pytest.approx(64 * 152_064 * 36 / 2**30)
    served = replace(alone(), generates=False)
    assert set(parts(served, "generate")) == {"model state", "CUDA and NCCL", "pixels"} | {
        "judge asleep"
    }
    assert "parameters gathered by ZeRO-3" in parts(replace(alone(), layout=NODE), "generate")


def test_what_does_not_fit_is_told_with_a_remedy_that_works() -> None:
    run = tiny_run()
    assert fits_memory(run)
    greedy = replace(run, share=0.9)
    (generate, judge, train) = phases(greedy)
    assert generate.gib > GPU_GIB > judge.gib > train.gib
    text = "\n".join(describe_memory(greedy))
    assert "DOES NOT FIT" in text
    wanted = text.partition("set vllm_gpu_memory_utilization to ")[2].partition(" ")[0]
    assert fits_memory(replace(run, share=float(wanted) - 0.01))

    assert "set vllm_gpu_memory_utilization to 0.2" in "\n".join(
        describe_memory(replace(run, share=0.1))
    )
    assert "halve per_device_train_batch_size" in "\n".join(describe_memory(replace(run, batch=64)))
    big = replace(run, graders=[("judge", JudgeOnGpu(weights=60e9, cache=8e9, sleeps=True))])
    assert "on a node of its own" in "\n".join(describe_memory(big))
    seen = replace(run, graders=[*run.graders, ("witness", JudgeOnGpu(50e9, 8e9, sleeps=True))])
    assert "witness asleep" in "\n".join(describe_memory(seen))
    assert machine_memory(seen).gib > machine_memory(run).gib
    alone = replace(run, layout=Processes(8))
    assert "zero3_8gpu.yaml" in "\n".join(describe_memory(alone))


def test_a_checkpoint_of_the_node_is_133_gigabytes_and_of_the_model_alone_17() -> None:
    run = tiny_run()
    assert round(checkpoint_size(run)) == 133
    assert round(checkpoint_size(replace(run, saves_only_model=True))) == 17
    assert machine_memory(run).gib > 8 * 27.5, "eight judges sleep in the machine's memory"


def text_model(*, width: int, inner: int, layers: int) -> Any:
    """A random Qwen3 in bfloat16."""
    config = AutoConfig.for_model(
        "qwen3", vocab_size=2048, hidden_size=width, intermediate_size=inner, head_dim=64,
        num_hidden_layers=layers, num_attention_heads=width // 64,
        num_key_value_heads=width // 128, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


def peak(call: Callable[[], object]) -> int:
    """Most bytes that torch allocates on the CPU at a time during a call."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    result: Any = profiler.profiler
    events = [each for each in result.kineto_results.events() if each.name() == "[memory]"]
    sizes = (each.nbytes() for each in sorted(events, key=lambda each: each.start_ns()))
    return int(max(accumulate(sizes)))


@pytest.mark.parametrize("adapts", [False, True])
def test_estimates_are_near_what_torch_allocates(adapts: bool, tmp_path: Path) -> None:
    """Of prompts read by ``generate``, and of a training pass with checkpointing."""
    base = model = text_model(width=256, inner=1024, layers=3)
    if adapts:
        model = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear"))
    base.config.save_pretrained(tmp_path)
    shape, count = load_shape(str(tmp_path)), sum(each.numel() for each in base.parameters())
    run = TrainingRun(
        layout=Processes(), shape=shape,
        parameters=Parameters(1, 4, count, 2) if adapts else Parameters(count, 2), batch=4,
        generated=4, image=0, text=512, completion=0, checkpointing=True, tiles=True,
        generates=True, share=None, policy_sleeps=False, graders=[], parser="embedded",
        coref="rules", saves=0, saves_only_model=False,
    )  # fmt: skip
    tokens = torch.randint(5, 2000, (4, 512))
    attended = torch.ones_like(tokens)
    attended[0, 0] = 0  # padding: attention gets a mask, as in training
    with torch.no_grad():
        reads = peak(lambda: model.generate(tokens, attention_mask=attended, max_new_tokens=1))
    (generate, *_) = phases(run)
    state = generate.parts[0].gib
    assert (generate.allocated - state) * 2**30 == pytest.approx(reads, rel=0.15)

    base.gradient_checkpointing_enable()
    base.enable_input_require_grads()
    model.train()

    def train() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            states = base.base_model(tokens, attention_mask=attended).last_hidden_state
            states.sum().backward()

    train()  # makes the gradients, which are part of the model's state
    assert estimate_activations(run) == pytest.approx(peak(train), rel=0.15)


def tiny_model(dtype: torch.dtype) -> Any:
    published = PUBLISHED_CONFIGS[VISION]
    text = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 512}
    text |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    vision = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2}
    shape = {"text_config": published["text_config"] | text}
    shape["vision_config"] = published["vision_config"] | vision | {"out_hidden_size": 64}
    config = AutoConfig.for_model(**published | shape)
    model = build_on_meta(config).to(dtype).to_empty(device="cpu")
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
