"""HarmonicEval as a reward, alone and together with POSH."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from posh_reward import HarmonicEval, HarmonicReward, InputError, PoSh, PoshReward
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.reward.objectives import together
from posh_reward.reward.shaping import Shaping
from posh_reward.types import Failure, Question

IMAGE = Image.new("RGB", (8, 8), "red")
REFERENCE = "A tall woman in a red dress holds a basket."
TEXTS = ["A woman in a red dress.", "A man with a green hat."]
GONE = Failure("engine", "gone")


def by_text(prompt: Prompt) -> float | Failure:
    """4.5 for what is red, 2 for what is green; a blue thing breaks the judge."""
    return GONE if "blue" in prompt.suffix else 4.5 if "red" in prompt.suffix else 2.0


def reward_of(grader: Any = by_text, **settings: Any) -> HarmonicReward:
    return HarmonicReward(HarmonicEval(FakeModel(grader, sees=True)), **settings)


def call(reward: Any, texts: list[Any], **columns: Any) -> list[float | None]:
    given = {"image": [IMAGE] * len(texts), "reference": [REFERENCE] * len(texts)} | columns
    rewards: list[float | None] = reward(
        prompts=["Describe."] * len(texts),
        completions=texts,
        completion_ids=[[1]] * len(texts),
        trainer_state=None,
        **given,
    )
    return rewards


def test_the_overall_score_over_five() -> None:
    assert call(reward_of(), TEXTS) == pytest.approx([0.9, 0.4])
    turns = [[{"role": "assistant", "content": text}] for text in TEXTS]
    assert call(reward_of(), turns) == pytest.approx([0.9, 0.4])


def test_fluency_cannot_win_over_what_the_image_shows() -> None:
    """1.5 on the two criteria that look, 5 on the other three: a mean of 3.6, and 1.5 is paid."""

    def fluent_falsehood(prompt: Prompt) -> float:
        return 1.5 if prompt.images else 5.0

    even = HarmonicEval(FakeModel(fluent_falsehood, sees=True), gamma=1.0)
    assert call(HarmonicReward(even), TEXTS[:1]) == [pytest.approx(0.3)]  # 1.5 / 5
    free = HarmonicReward(even, grounded=False)
    assert call(free, TEXTS[:1]) == [pytest.approx(0.72)]  # 3.6 / 5
    assert free.signature != HarmonicReward(even).signature


def test_a_row_without_its_image_has_no_reward() -> None:
    rewards = call(reward_of(), TEXTS, image=[IMAGE, None])
    assert rewards == [pytest.approx(0.9), None]
    assert call(reward_of(), TEXTS, images=[[IMAGE, IMAGE], [IMAGE]])[0] is None


def test_questions_come_from_their_column() -> None:
    answers = reward_of(task="vqa")
    assert call(answers, TEXTS, question=["Who?"] * 2) == pytest.approx([0.9, 0.4])
    assert "|task:vqa|" in answers.signature
    with pytest.raises(InputError, match=r"no column 'question'.*question_column"):
        call(answers, TEXTS)


def broken_by_hats(request: Question) -> float | Failure:
    return GONE if "hat" in request.source.text + request.target.text else 3.0


class Both:
    """POSH and HarmonicEval as TRL calls them: one after the other."""

    def __init__(self, shaping: Shaping | None = None) -> None:
        self.posh = PoshReward(PoSh(FakeJudge(broken_by_hats)), shaping)
        self.harmonic = reward_of()
        self.functions = together(self.posh, self.harmonic)
        self.logged: Counter[str] = Counter()

    def __call__(self, texts: list[Any]) -> list[list[float | None]]:
        def log(name: str, values: object) -> None:
            self.logged[name] += 1

        return [call(f, texts, log_metric=log, log_extra=log) for f in self.functions]


def test_together_a_row_that_either_fails_has_no_reward_from_both() -> None:
    both = Both()
    assert [f.__name__ for f in both.functions] == ["posh", "harmonic"]
    texts = ["A red dress.", "A green hat.", "A blue dress."]
    posh, harmonic = both(texts)
    assert [value is None for value in posh] == [False, True, True]
    assert [value is None for value in harmonic] == [False, True, True]
    assert posh[0] == call(both.posh, texts)[0]
    assert harmonic[0] == call(both.harmonic, texts)[0]


def test_together_with_precision_and_recall_there_are_three() -> None:
    both = Both(Shaping("separate"))
    names = [f.__name__ for f in both.functions]
    assert names == ["posh_precision_reward", "posh_recall_reward", "harmonic"]
    values = both(["A red dress.", "A blue dress."])
    assert [value[1] for value in values] == [None] * 3
    assert None not in [value[0] for value in values]


def seldom_gone(prompt: Prompt) -> float | Failure:
    """Fails about one text in three, by its length."""
    return GONE if len(prompt.suffix) % 3 == 0 else 1.2 + len(prompt.suffix) % 7 / 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning")
def test_both_in_trls_trainer_with_images(tmp_path: Path) -> None:
    """TRL passes the images, leaves out what either failed, and logs both."""
    from trl import GRPOConfig, GRPOTrainer

    from posh_reward.training.processors import load_processor
    from posh_reward.training.stopping import StopWithCheckpoint
    from recipes import dapo_posh
    from recipes.demo import tiny_qwen

    tiny_qwen.build(tmp_path / "tiny", warm_up_steps=0, pretrain_steps=0)
    posh, harmonic = PoshReward(), reward_of(seldom_gone)
    trainer = GRPOTrainer(
        model=str(tmp_path / "tiny"),
        reward_funcs=together(posh, harmonic),
        callbacks=[StopWithCheckpoint(posh, harmonic)],
        args=GRPOConfig(
            output_dir=str(tmp_path / "grpo"), num_generations=4, per_device_train_batch_size=8,
            max_completion_length=12, max_steps=2, report_to="none", use_cpu=True, bf16=False,
            save_strategy="no", logging_steps=1, gradient_checkpointing=False,
            multi_objective_aggregation="normalize_then_sum",
        ),
        train_dataset=dapo_posh.prepare("scenes:train=8:heldout=4", "train"),
        processing_class=load_processor(str(tmp_path / "tiny")),
    )  # fmt: skip
    trainer.train()
    steps = [line for line in trainer.state.log_history if "reward" in line]
    assert [line["step"] for line in steps] == [1, 2]
    for line in steps:
        assert 0.2 <= line["rewards/harmonic/mean"] <= 1
        assert 0.2 <= line["rewards/posh/mean"] <= 1
        assert {"harmonic/correctness", "posh/f1"} <= set(line)
        assert math.isfinite(line["loss"])
    failed = [value for line in steps for value in [line["harmonic/failed_share"]]]
    assert max(failed) > 0
    assert harmonic.metric.usage.requests == 2 * 8 * 5
