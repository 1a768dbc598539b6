"""Every configuration loads as in a run, up to where weights would be read, or says why not."""

from __future__ import annotations

import inspect
import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from posh_reward.errors import ConfigError
from posh_reward.metrics.load_metric import read_metric
from posh_reward.metrics.posh.judges.cascade import Cascade
from posh_reward.metrics.posh.judges.load_judge import JUDGES, load_judge
from posh_reward.metrics.posh.judges.prompt_judge import PromptJudge
from posh_reward.models.model import MODELS
from posh_reward.settings import check_settings as fits_the_class
from posh_reward.training.doctor.diagnosis import recipe_settings
from posh_reward.training.fit.fit_report import fits
from posh_reward.training.processes import Processes, read_processes
from posh_reward.training.run_check import check_lines, check_run, parse_settings
from posh_reward.training.run_settings import parse_for, read_config
from recipes import dapo_posh, sft

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
EVERY = sorted(path for path in CONFIGS.rglob("*") if path.suffix in (".yaml", ".yml", ".json"))
TRAINING = [path for path in EVERY if path.parent.name in ("sft", "dapo", "distill", "smoke")]
ACCELERATE = sorted((CONFIGS / "accelerate").glob("*.yaml"))

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning")


def name(path: Path) -> str:
    return path.relative_to(CONFIGS.parent).as_posix()


def launch_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0]


def test_every_configuration_is_loaded_by_a_test() -> None:
    by_folder = {path.parent.name for path in EVERY}
    assert by_folder == {"accelerate", "dapo", "distill", "judge", "metric", "sft", "smoke"}


@pytest.mark.parametrize("path", EVERY, ids=name)
def test_the_first_comment_is_its_launch_line(path: Path) -> None:
    line = launch_line(path)
    assert line.startswith("# ")
    assert name(path) in line
    for word in line.split():
        if word.endswith((".py", ".yaml")):
            assert (CONFIGS.parent / word).is_file(), word


@pytest.mark.parametrize("path", sorted((CONFIGS / "judge").glob("*.yaml")), ids=name)
def test_a_judge_is_made_of_it(path: Path) -> None:
    made = load_judge(str(path))
    asked = made.judge if isinstance(made, Cascade) else made
    assert isinstance(asked, PromptJudge), "nothing is loaded before it is asked"


@pytest.mark.parametrize("which", ["cascade", "server", "transformers", "vllm"])
def test_its_file_explains_every_setting_of_a_judge(which: str) -> None:
    """A setting that is neither set nor commented out there could be found only in the code."""
    module, _, name = (JUDGES | MODELS)[which].partition(":")
    settings = set(inspect.signature(getattr(import_module(module), name)).parameters)
    text = (CONFIGS / "judge" / f"{which}.yaml").read_text(encoding="utf-8")
    assert settings - set(re.findall(r"^(?:# )?(\w+): .*", text, re.MULTILINE)) == set()


@pytest.mark.parametrize("path", sorted((CONFIGS / "metric").glob("*.yaml")), ids=name)
def test_a_metric_and_its_judge_take_it(path: Path) -> None:
    from posh_reward.metrics.posh.posh import PoSh

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
        assert fits(found.run)
    else:
        assert "memory: no GPU, the run is on the CPU" in list(check_lines(found))


@pytest.mark.parametrize("path", ACCELERATE, ids=name)
def test_accelerate_and_deepspeed_take_it(path: Path) -> None:
    layout = read_processes(path)
    assert layout.processes >= layout.machines >= 1
    assert layout.gathers_on_save


@pytest.mark.parametrize("path", sorted((CONFIGS.parent / "slurm").glob("*.sh")), ids=name)
def test_a_slurm_script_is_bash_and_its_files_are_there(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True)
    for word in path.read_text(encoding="utf-8").split():
        if word.endswith((".py", ".yaml", ".sh")):
            assert (CONFIGS.parent / word).is_file(), word


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


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("dapo/qwen2_5_vl_7b_2_nodes.yaml", {"output_dir", "per_device_train_batch_size"}),
        (
            "dapo/qwen2_5_vl_7b_served.yaml",
            {"output_dir", "judge", "vllm_gpu_memory_utilization"},
        ),
    ],
)
def test_a_variant_changes_these_lines_of_the_papers(path: str, changes: set[str]) -> None:
    paper = read_config(CONFIGS / "dapo" / "qwen2_5_vl_7b.yaml")
    variant = read_config(CONFIGS / path)
    assert {key for key in variant if variant[key] != paper.get(key)} == changes
    assert paper.keys() <= variant.keys()


def test_reading_can_be_embedded_by_one_line() -> None:
    config = str(CONFIGS / "dapo" / "qwen2_5_vl_7b.yaml")
    found = check_run(dapo_posh.SETTINGS, ["--config", config, "--metric", "embedded_graphs"])
    assert found.run is not None
    assert (found.run.parser, found.run.coref) == ("embedded", "rules")
    assert [role for role, _ in found.run.graders] == ["judge"]
    assert not any("en_core_web_trf" in line or "Maverick" in line for line in found.missing)


def test_a_configuration_of_ones_own_is_launched_like_the_one_it_inherits_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"like: {CONFIGS / 'dapo' / 'qwen2_5_vl_7b.yaml'}\nobjective: separate\n")
    with pytest.raises(SystemExit):
        parse_settings(dapo_posh.SETTINGS, ["--config", str(mine), "--check"])
    output = capsys.readouterr().out
    assert "processes: 8 on 1 machine(s), ZeRO-3" in output
    assert "reward: objective separate\n" in output
    assert recipe_settings(mine)[0].__name__ == dapo_posh.SETTINGS[0].__name__


def test_a_configuration_cannot_be_like_itself(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("like: b.yaml\n")
    (tmp_path / "b.yaml").write_text("like: a.yaml\n")
    with pytest.raises(ConfigError, match="inherits from itself"):
        read_config(tmp_path / "a.yaml")


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


def test_flash_attention_is_offered_with_its_estimate() -> None:
    config = CONFIGS / "dapo" / "qwen2_5_vl_7b.yaml"
    flags = ["--config", str(config)]
    lines = [*check_lines(check_run(dapo_posh.SETTINGS, flags))]
    assert any("an estimated 4 to 6 s a step, not measured" in line for line in lines)
    flags += ["--attn_implementation", "flash_attention_2"]
    lines = [*check_lines(check_run(dapo_posh.SETTINGS, flags))]
    assert not any("estimated 4 to 6 s" in line for line in lines)
