"""Every configuration loads into what its recipe parses, and says how it is launched."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from trl import GRPOConfig, ModelConfig, SFTConfig, TrlParser

from posh_reward.metrics.posh.judges.cascade import Cascade
from posh_reward.metrics.posh.judges.load import load_judge
from posh_reward.metrics.posh.judges.prompted import PromptJudge
from recipes.dapo_posh import DapoScriptArguments, make_reward
from recipes.sft import SFTScriptArguments

TRAINING = ("sft", "dapo", "smoke")
CONFIGS = Path(__file__).resolve().parents[2] / "configs"
EVERY = sorted(path for path in CONFIGS.rglob("*") if path.suffix in (".yaml", ".yml", ".json"))
RECIPES = {
    "recipes/sft.py": (SFTScriptArguments, SFTConfig, ModelConfig),
    "recipes/dapo_posh.py": (DapoScriptArguments, GRPOConfig, ModelConfig),
}


def name(path: Path) -> str:
    return path.relative_to(CONFIGS.parent).as_posix()


def launch_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0]


def test_there_are_configs() -> None:
    assert EVERY


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


@pytest.mark.parametrize("path", [p for p in EVERY if p.parent.name in TRAINING], ids=name)
@pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning")
def test_a_recipe_parses_it(path: Path) -> None:
    (recipe,) = (recipe for recipe in RECIPES if recipe in launch_line(path))
    parser = TrlParser(RECIPES[recipe])
    # There may be no GPU here, which bf16 would ask for.
    script, args, model = parser.parse_args_and_config(["--config", str(path), "--use_cpu"])
    assert model.model_name_or_path
    if isinstance(args, GRPOConfig):
        assert args.loss_type == "dapo"
        make_reward(script)


@pytest.mark.parametrize("path", sorted((CONFIGS.parent / "slurm").glob("*.sh")), ids=name)
def test_a_slurm_script_is_bash_and_its_files_are_there(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True)
    for word in path.read_text(encoding="utf-8").split():
        if word.endswith((".py", ".yaml", ".sh")):
            assert (CONFIGS.parent / word).is_file(), word


@pytest.mark.parametrize("path", sorted((CONFIGS / "accelerate").glob("*.yaml")), ids=name)
def test_accelerate_loads_it(path: Path) -> None:
    assert load_config_from_file(str(path)).num_processes >= 1


@pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning")
def test_the_papers_settings() -> None:
    sft, dapo = (
        TrlParser(RECIPES[recipe]).parse_args_and_config(
            ["--config", str(CONFIGS / stage / "qwen2_5_vl_7b.yaml"), "--use_cpu"]
        )[1]
        for stage, recipe in (("sft", "recipes/sft.py"), ("dapo", "recipes/dapo_posh.py"))
    )
    gpus = 8
    assert (sft.learning_rate, sft.num_train_epochs, sft.warmup_steps) == (1e-5, 5, 0.1)
    assert sft.per_device_train_batch_size * sft.gradient_accumulation_steps * gpus == 64
    assert sft.metric_for_best_model == "eval_right_loss"
    assert not (sft.save_only_model and sft.load_best_model_at_end), "refused under ZeRO-3"
    assert (dapo.learning_rate, dapo.num_train_epochs, dapo.warmup_steps) == (1e-6, 1, 20)
    assert dapo.per_device_train_batch_size * dapo.gradient_accumulation_steps * gpus == 64
    assert (dapo.num_generations, dapo.temperature, dapo.top_p) == (8, 1.0, 0.7)
    assert (dapo.epsilon, dapo.epsilon_high, dapo.beta) == (0.2, 0.28, 0.0)
