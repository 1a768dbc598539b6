"""Every configuration loads as in a run, up to where weights would be read, or says why not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from posh_reward.errors import ConfigError, PoshError
from posh_reward.posh.cascade import Cascade
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.load_judge import load_judge
from posh_reward.posh.load_metric import read_metric
from posh_reward.reward.shaping import Shaping, Switch, build_shaping
from posh_reward.settings import check_settings as fits_the_class
from posh_reward.training.doctor.diagnosis import recipe_settings
from posh_reward.training.fit import fits_memory
from posh_reward.training.launch import parse_settings
from posh_reward.training.run_check import check_lines, check_run
from posh_reward.training.run_settings import Processes, parse_for, read_processes
from recipes import dapo_posh, sft

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
EVERY = sorted(path for path in CONFIGS.rglob("*") if path.suffix in (".yaml", ".yml", ".json"))
TRAINING = [path for path in EVERY if path.parent.name in ("sft", "dapo", "distill", "smoke")]


def name(path: Path) -> str:
    return path.relative_to(CONFIGS.parent).as_posix()


@pytest.mark.parametrize("path", sorted((CONFIGS / "judge").glob("*.yaml")), ids=name)
def test_a_judge_is_made_of_it(path: Path) -> None:
    made = load_judge(str(path))
    asked = made.judge if isinstance(made, Cascade) else made
    assert isinstance(asked, PromptJudge), "nothing is loaded before it is asked"


@pytest.mark.parametrize("path", sorted((CONFIGS / "metric").glob("*.yaml")), ids=name)
def test_a_metric_and_its_judge_take_it(path: Path) -> None:
    from posh_reward.posh.posh import PoSh

    settings = read_metric(path)
    assert fits_the_class(PoSh, settings, "metric") == settings
    assert isinstance(load_judge(settings["judge"]), PromptJudge)


@pytest.mark.parametrize("path", TRAINING, ids=name)
def test_a_run_of_it_would_start_and_fit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CONFIGS.parent)
    found = check_run(recipe_settings(path), ["--config", str(path)])
    assert found.launcher is not None, "without it the number of processes would be a guess"
    if path.parent.name != "smoke":
        args = found.args
        rows = args.per_device_train_batch_size * args.gradient_accumulation_steps
        if path.parent.name != "distill":
            assert rows * found.layout.processes == 64, "the paper's batch"
        assert found.run is not None
        assert fits_memory(found.run)
    else:
        assert "memory: no GPU, the run is on the CPU" in list(check_lines(found))


def test_the_papers_settings() -> None:
    layout = Processes(processes=8, zero_stage=3)
    one, other = (
        parse_for(kinds, ["--config", str(CONFIGS / stage / "qwen2_5_vl_7b.yaml")], layout)[1]
        for stage, kinds in (("sft", sft.SETTINGS), ("dapo", dapo_posh.SETTINGS))
    )
    assert (one.learning_rate, one.num_train_epochs, one.warmup_steps) == (1e-5, 5, 0.1)
    assert one.metric_for_best_model == "eval_right_loss"
    assert one.completion_only_loss
    assert (other.learning_rate, other.num_train_epochs, other.warmup_steps) == (1e-6, 1, 20)
    assert (other.num_generations, other.temperature, other.top_p) == (8, 1.0, 0.7)
    assert (other.epsilon, other.epsilon_high, other.beta) == (0.2, 0.28, 0.0)


def test_a_configuration_of_ones_own_is_launched_like_the_one_it_inherits_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"like: {CONFIGS / 'dapo' / 'qwen2_5_vl_7b.yaml'}\nobjective: separate\n")
    with pytest.raises(SystemExit):
        parse_settings(dapo_posh.SETTINGS, ["--config", str(mine), "--check"])
    output = capsys.readouterr().out
    assert "processes: 8 on 1 machine(s), ZeRO-3" in output
    node = "accelerate launch --config_file configs/accelerate/zero3_8gpu.yaml"
    assert f"launch: {node} recipes/dapo_posh.py --config {mine}\n" in output
    assert "reward: objective separate\n" in output
    assert recipe_settings(mine)[0].__name__ == dapo_posh.SETTINGS[0].__name__


def test_the_served_judge_reads_as_the_published_metric() -> None:
    """The engine's name differs in the signature; what is asked and how it is read does not."""
    published = read_metric("published")
    served = load_judge(str(CONFIGS / "judge" / "node.yaml"), published["preset"])
    ours = load_judge(published["judge"], published["preset"])
    assert isinstance(served, PromptJudge)
    assert isinstance(ours, PromptJudge)
    assert served.model.name.endswith(":top-20")
    assert published["judge"]["reading"] == "top-20"
    assert (published["judge"]["model"], ours.preset) == ("Qwen/Qwen3-14B", served.preset)


ROOT = Path(__file__).resolve().parents[2]
NODE = Processes(processes=8, zero_stage=3)
ONE = Processes()
BASE = "model_name_or_path: runs/tiny\noutput_dir: runs/x\nuse_cpu: true\nbf16: false\n"


def write(folder: Path, text: str) -> list[str]:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return ["--config", str(path)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max_pixel: 3", r"mine.yaml: unknown setting 'max_pixel' \(did you mean 'max_pixels'"),
        ("learning_rat: 0.1", "did you mean 'learning_rate'"),
        ("seed: 1\nseed: 2", "'seed' is set twice"),
        ("num_generations: 8.5", "num_generations is 8.5: use a whole number"),
        ("max_pixels: many", "max-pixels: invalid int value: 'many'"),
        ("eval_strategy: no", "eval_strategy is False: use a list or use a text"),
        ("save_steps: [1]", "save_steps is .*use a number"),
        ("env: 3", "env is 3: it sets environment variables"),
        ("like: nowhere.yaml", "cannot be read: .*nowhere.yaml"),
        ("num_generations: 3", "must be divisible by num_generations"),
        ("objective: sum", "objective is 'sum': choose f1, weighted, separate"),
        ("length_limit: 0", "length_limit is 0"),
        ("objective: separate\nreward_weights: [2, 1]", "precision_weight and recall_weight"),
        ("multi_objective_aggregation: normalize_then_sum", "set objective to separate"),
        ("oversample: 0", "oversample is 0"),
        (
            "oversample: 2\nper_device_train_batch_size: 4\nnum_generations: 8\n"
            "steps_per_generation: 1\ngradient_accumulation_steps: 2",
            "divisible|whole groups",
        ),
        ("refill: true", "refill and min_spread have no effect with oversample 1"),
        ("min_spread: 0.1", "refill and min_spread have no effect with oversample 1"),
        ("image_cap: 4", "image_cap is 4, but nothing looks at the image"),
        ("span_credit: -1", "span_credit is -1"),
        ("span_credit: 1\nloss_type: vespo", "loss_type 'vespo', which is not tested"),
        ("oversample: 2\nrefill: true\nmin_spread: .inf", "refill has no effect with min_spread"),
        ("max_failed_calls: 0", "max_failed_calls is 0"),
    ],
)
def test_at_the_start_of_a_run(line: str, message: str, tmp_path: Path) -> None:
    flags = write(tmp_path, BASE + line + "\n")
    with pytest.raises(ConfigError, match=message):
        parse_settings(dapo_posh.SETTINGS, flags)
    with pytest.raises(ConfigError, match=message):
        parse_settings(dapo_posh.SETTINGS, [*flags, "--check"])


@pytest.mark.parametrize(
    ("line", "flags", "guards"),
    [("guards: off", [], "off"), ("guards: on", [], "on"), ("", ["--guards", "off"], "off")],
)
def test_guards_are_switched_by_words(
    line: str, flags: list[str], guards: Switch, tmp_path: Path
) -> None:
    """YAML reads ``off`` and ``on`` as booleans."""
    script, *_ = parse_settings(dapo_posh.SETTINGS, [*write(tmp_path, BASE + line + "\n"), *flags])
    assert build_shaping(script) == Shaping(guards=guards)


def test_a_cap_that_is_the_default_needs_no_witness(tmp_path: Path) -> None:
    script, *_ = parse_settings(dapo_posh.SETTINGS, write(tmp_path, BASE + "image_cap: 3\n"))
    assert build_shaping(script) == Shaping()


def test_a_mistyped_flag() -> None:
    flags = ["--max_pixles", "3", "--use_cpu", "--bf16", "false"]
    with pytest.raises(ConfigError, match=r"flag --max_pixles \(did you mean '--max_pixels'"):
        parse_settings(dapo_posh.SETTINGS, flags)
    with pytest.raises(ConfigError, match="name a file"):
        parse_settings(dapo_posh.SETTINGS, ["--config"])


def test_variables_under_env_are_set_if_the_file_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSH_TEST_VARIABLE", "old")
    flags = write(tmp_path, BASE + "env: {POSH_TEST_VARIABLE: 7}\n")
    with pytest.raises(ConfigError, match=r"env is .*only with --trust-settings"):
        parse_settings(dapo_posh.SETTINGS, flags)
    monkeypatch.setenv("POSH_TRUST_SETTINGS", "")  # restored after the test
    parse_settings(dapo_posh.SETTINGS, [*flags, "--trust-settings"])
    assert os.environ["POSH_TEST_VARIABLE"] == "7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("save_only_model: true\nload_best_model_at_end: true\neval_strategy: epoch\n"
         "save_strategy: epoch", "exclude each other under DeepSpeed"),
        ("max_length: 1024", "tokens would be cut off"),
        ("metric_for_best_model: eval_loss\neval_strategy: epoch\nwatch_grounding: true",
         "with watch_grounding there is eval_right_loss"),
        ("metric_for_best_model: eval_right_loss\neval_strategy: epoch",
         "without watch_grounding there is eval_loss"),
        ("metric_for_best_model: eval_loss", "nothing is evaluated"),
    ],
)  # fmt: skip
def test_sft_settings_that_stop_a_run_later_are_refused(
    text: str, message: str, tmp_path: Path
) -> None:
    text = text if "max_length" in text else f"{text}\nmax_length: null"
    flags = write(tmp_path, f"{BASE}{text}\n")
    with pytest.raises(ConfigError, match=message):
        parse_for(sft.SETTINGS, flags, NODE)


def test_the_same_may_be_fine_on_one_gpu(tmp_path: Path) -> None:
    text = "save_only_model: true\nload_best_model_at_end: true\neval_strategy: epoch\n"
    flags = write(tmp_path, f"{BASE}{text}save_strategy: epoch\nmax_length: null\n")
    assert parse_for(sft.SETTINGS, flags, ONE)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "auto"])
def test_16_bit_weights_need_something_that_keeps_their_float32_copies(
    tmp_path: Path, dtype: str
) -> None:
    flags = write(tmp_path, f"{BASE}dtype: {dtype}\nmax_length: null\n")
    for layout in (ONE, Processes(processes=8), Processes(processes=8, has_fsdp=True)):
        with pytest.raises(ConfigError, match=rf"dtype is {dtype}.*float32 copies.*dtype: float32"):
            parse_for(sft.SETTINGS, flags, layout)
    assert parse_for(sft.SETTINGS, flags, NODE)
    assert parse_for(sft.SETTINGS, [*flags, "--use_peft"], ONE)
    assert parse_for(sft.SETTINGS, [*flags, "--dtype", "float32"], ONE)


def test_the_shipped_configuration_without_its_launcher_is_refused() -> None:
    config = str(CONFIGS / "dapo" / "qwen2_5_vl_7b.yaml")
    with pytest.raises(ConfigError, match=r"float32 copies.*--config_file"):
        parse_for(dapo_posh.SETTINGS, ["--config", config], ONE)


def test_vllm_must_have_room_for_image_and_reply(tmp_path: Path) -> None:
    text = "use_vllm: true\nvllm_max_model_length: 2048\nmax_pixels: 1003520\n"
    flags = write(tmp_path, f"{BASE}{text}max_completion_length: 768\n")
    with pytest.raises(ConfigError, match=r"vllm_max_model_length is 2048.*set it to 2112 or more"):
        parse_for(dapo_posh.SETTINGS, flags, NODE)


def test_the_batch_is_that_of_all_processes(tmp_path: Path) -> None:
    flags = write(tmp_path, f"{BASE}per_device_train_batch_size: 4\nnum_generations: 8\n")
    with pytest.raises(ConfigError, match="divisible by num_generations"):
        parse_for(dapo_posh.SETTINGS, flags, ONE)
    assert parse_for(dapo_posh.SETTINGS, flags, NODE)[1].generation_batch_size == 32


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("num_procesess: 8", "'num_procesess'"),
        ("num_machines: two", "'two'"),
        ("deepspeed_config: {zero_stag: 3}", "did you mean 'zero_stage'"),
        ("deepspeed_config: 3", "deepspeed_config is 3: use a mapping"),
    ],
)
def test_accelerates_file(line: str, message: str, tmp_path: Path) -> None:
    name = line.partition(":")[0]
    base = {"distributed_type": "DEEPSPEED", "num_processes": "8", "mixed_precision": "bf16"}
    base |= {"num_machines": "1"}
    lines = [f"{key}: {value}" for key, value in base.items() if key != name]
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join([*lines, line]) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_processes(path)


def test_a_model_that_zero3_could_not_save_is_refused(tmp_path: Path) -> None:
    layout = Processes(processes=8, zero_stage=3, gathers_on_save=False)
    with pytest.raises(ConfigError, match="zero3_save_16bit_model: true"):
        parse_for(sft.SETTINGS, write(tmp_path, f"{BASE}max_length: null\n"), layout)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dataset_name: scenes:trian=3", "not an option"),
        ("dataset_name: ./nowhere/at_all", "neither a file nor a valid name"),
        ("dataset_name: scenes\njudge: vlm", "no judge 'vlm'"),
        ("dataset_name: scenes\nmetric: publishd", "unknown settings 'publishd'"),
        ("dataset_name: scenes\npreset: realeased", "realeased"),
        ("dataset_name: scenes\nwitness: nowhere.yaml", "nowhere.yaml"),
        ("dataset_name: scenes\nwitness: embedded", "no witness 'embedded'"),
        ("dataset_name: scenes\nwitness: fake-model", "does not take images"),
        ("dataset_name: scenes\nwitness: judge", "does not take images"),
    ],
)
def test_names_are_looked_up(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PoshError, match=message):
        check_run(dapo_posh.SETTINGS, write(tmp_path, f"{BASE}{line}\n"))


def test_the_help_names_a_default_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        parse_settings(dapo_posh.SETTINGS, ["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert "Higher: fewer mistakes (default: 1.0)." in map(str.strip, lines)
    assert not [line for line in lines if line.count("(default") > 1]


@pytest.mark.slow
def test_check_ends_a_recipe_with_a_report_and_one_line_for_a_mistake() -> None:
    command = [sys.executable, "recipes/dapo_posh.py", "--check", "--config"]
    command.append("configs/dapo/qwen2_5_vl_7b.yaml")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 3, "it fits, but vLLM and others are not here"
    assert "not here: vllm, for use_vllm" in done.stdout
    assert "not here: en_core_web_trf" in done.stdout
    assert "each step: 64 completions" in done.stdout
    assert "ZeRO-3" in done.stdout
    assert "DOES NOT FIT" not in done.stdout
    command += ["--gradient_accumulation_steps", "3", "--num_generations", "7"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "dapo_posh.py: generation_batch_size (192) must be divisible" in done.stderr
    assert "Traceback" not in done.stderr
