"""Every configuration loads as in a run, up to where weights would be read, or says why not."""

from pathlib import Path

import pytest

from posh_reward.metrics.metric import read_metric
from posh_reward.metrics.posh.judges.judge import Cascade, PromptJudge, load_judge
from posh_reward.settings import check_settings as fits_the_class
from posh_reward.training.doctor.diagnosis import recipe_settings
from posh_reward.training.fit import fits
from posh_reward.training.launch import parse_settings
from posh_reward.training.run_check import check_lines, check_run
from posh_reward.training.run_settings import Processes, parse_for
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
