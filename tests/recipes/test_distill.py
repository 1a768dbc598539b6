"""The recipe of a distilled judge, from a question set to a folder that scores."""

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("trl")
pytest.importorskip("pyarrow")

from posh_reward import PoSh
from posh_reward.distill.judge_runs import RunSettings, judge_choice
from posh_reward.distill.question_set import collect_answers
from posh_reward.errors import ConfigError
from posh_reward.models.hub import weights_fingerprint
from posh_reward.run_record import read_run
from recipes import distill_judge
from recipes.demo import tiny_judge

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "smoke" / "distill.yaml"
THINGS = ("dog", "cat", "horse", "cow", "sheep", "bird", "boat", "tree", "chair", "lamp")
COLORS = ("red", "blue", "green", "black", "white")


def questions(folder: Path, seen: int) -> Path:
    """The embedded judge's answers about things of a color in a place."""
    rng = random.Random(0)
    rows = []
    for color in COLORS:
        for thing in THINGS:
            others = [f"A {rng.choice(COLORS)} {rng.choice(THINGS)} stands." for _ in range(seen)]
            rows += [(text, f"A {color} {thing} stands.") for text in others]
    settings = RunSettings(quiet=True)
    collect_answers(judge_choice("embedded@prefix-first"), rows, folder, settings, perturbations=1)
    return folder


def questions_and_judge(folder: Path) -> None:
    """Make the data set, and an untrained tiny judge, that ``flags`` names."""
    questions(folder / "questions", 1)
    tiny_judge.main(
        ["--dataset", str(folder / "questions"), "--output", str(folder / "tiny"),
         "--width", "32", "--steps", "0"]
    )  # fmt: skip


def flags(tmp_path: Path, **settings: object) -> list[str]:
    usual = {
        "model_name_or_path": tmp_path / "tiny", "dataset_name": tmp_path / "questions",
        "output_dir": tmp_path / "run", "disable_tqdm": True, **settings,
    }  # fmt: skip
    given = (part for k, v in usual.items() for part in (f"--{k}", str(v)))
    return ["--config", str(CONFIG), *given]


def test_adapters_are_trained_merged_and_shipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions_and_judge(tmp_path)
    given = flags(
        tmp_path, max_steps=2, eval_steps=1, save_steps=1, use_peft=True, lora_r=4,
        lora_target_modules="all-linear", gradient_checkpointing=True, held_out_rows=40,
    )  # fmt: skip
    trainer = distill_judge.main(given)
    assert trainer.state.global_step == 2
    folder = tmp_path / "run" / "tiny-judge"
    assert not (folder / "adapter_config.json").exists(), "they are merged"
    shown = capsys.readouterr().out
    assert "0 too long and left out" in shown
    assert "(majority answer: " in shown
    figures = json.loads((folder / "fidelity.json").read_text("utf-8"))
    assert figures["agreement"]["count"] > 10
    posh = PoSh(str(folder / "judge.yaml"), preset="prefix-first")
    assert posh.score(["A red dog."], ["A red dog stands."])[0].f1 is not None
    with pytest.raises(SystemExit):
        distill_judge.main(given)
    assert "is finished" in capsys.readouterr().out
    others, latest = questions(tmp_path / "others", 2), {"resume_from_checkpoint": "latest"}
    with pytest.raises(ConfigError, match="has learned other questions"):
        distill_judge.main(flags(tmp_path, dataset_name=others, max_steps=3, **latest))


def test_the_judge_is_the_best_checkpoint_also_after_a_kill(tmp_path: Path) -> None:
    questions_and_judge(tmp_path)
    given = flags(
        tmp_path, max_steps=3, eval_steps=1, save_steps=1, save_total_limit=3, held_out_rows=40,
        learning_rate=10, warmup_steps=1, lr_scheduler_type="constant_with_warmup",
        resume_from_checkpoint="latest",
    )  # fmt: skip
    run = tmp_path / "run"
    for _ in range(2):
        distill_judge.main(given)
        record = read_run(run)
        assert record is not None
        assert (record.state, record.steps, record.checkpoint) == ("finished", 3, "checkpoint-1")
        judge = weights_fingerprint(run / "tiny-judge")
        assert judge == record.weights == weights_fingerprint(run / "checkpoint-1")
        assert judge != weights_fingerprint(run / "checkpoint-3")
        (run / "trainer_state.json").unlink()  # as if killed while the judge was written


def test_a_run_without_questions_says_how_to_collect_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="judges collect"):
        distill_judge.main(flags(tmp_path))


@pytest.mark.slow
def test_a_tiny_student_learns_its_teacher(tmp_path: Path) -> None:
    """Minutes. Always giving the majority answer has a kappa of exactly 0, whatever the seeds.

    Runs of one seed differ, since the order of sums depends on threads: .56, .59 and above .6 were
    seen. The interval over the few references of the test split tells learning from chance.
    """
    questions(tmp_path / "questions", 12)
    tiny_judge.main(["--dataset", str(tmp_path / "questions"), "--output", str(tmp_path / "tiny")])
    distill_judge.main(flags(tmp_path, max_steps=1000))
    path = tmp_path / "run" / "tiny-judge" / "fidelity.json"
    figures = json.loads(path.read_text("utf-8"))
    whole = figures["agreement"]
    print(whole, figures["majority"])
    assert whole["present"]["value"] > figures["majority"]
    assert whole["kappa"]["low"] > 0
