"""The folder of a distilled judge: it loads as one, and its card says what it is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("torch")
pytest.importorskip("transformers")

import numpy as np

from posh_reward import PoSh
from posh_reward.distill import ship_judge
from posh_reward.distill.judge_runs import judge_choice
from posh_reward.distill.question_set import QuestionSet
from posh_reward.distill.ship_judge import choose_doubt, measure_judge, save_judge, write_card
from posh_reward.errors import InputError
from posh_reward.posh.cascade import Cascade, measure_uncertainty
from posh_reward.posh.load_judge import load_judge, load_witness
from posh_reward.types import Verdict
from tests.models.tiny import byte_tokenizer, tiny_model

COUNTS = {"grade": 8, "rewrite": 1}
QUESTIONS = QuestionSet(
    1, "embedded", "posh|judge:embedded-5", "prefix-first", "0123456789abcdef", {"honest": 2},
    {"train": COUNTS, "validation": COUNTS, "test": COUNTS}, 0, 0.5,
)  # fmt: skip
SURE, ABSENT = [0.0, 0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0]


def rows() -> list[dict[str, Any]]:
    graded = [
        {"task": "grade", "prefix": f"A {thing}.\n", "suffix": f"Is {asked} there?", "reply": None,
         "probabilities": SURE if thing == asked else ABSENT, "kind": "entity",
         "direction": "recall", "origin": "honest", "reference": thing}
        for thing in ("dog", "cat", "cow") for asked in ("dog", "cat")
    ]  # fmt: skip
    phrase = {"task": "rewrite", "prefix": "", "suffix": "Rewrite: dog red", "reply": "the red dog",
              "probabilities": None, "kind": "attribute", "direction": "", "origin": "",
              "reference": ""}  # fmt: skip
    return [*graded, phrase]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("run") / "tiny-judge"
    tokenizer = byte_tokenizer()
    settings = save_judge(tiny_model(tokenizer), tokenizer, made, QUESTIONS)
    fidelity = measure_judge(settings, rows(), rows())
    write_card(made, fidelity, QUESTIONS, "tiny")
    return made


def test_it_loads_as_a_judge_with_its_folders_name_in_the_signature(folder: Path) -> None:
    posh = PoSh(str(folder / "judge.yaml"), preset="prefix-first")
    assert "judge:transformers-" in posh.signature
    assert "tiny-judge@" in posh.signature
    [scores] = posh.score(["A red dog."], ["A dog sleeps."])
    assert scores.f1 is not None


def test_another_preset_than_the_one_it_has_learned_is_refused(folder: Path) -> None:
    for file in ("judge.yaml", "cascade.yaml"):
        with pytest.raises(InputError, match="'prefix-first', not of 'released': set preset to"):
            PoSh(str(folder / file))
    assert judge_choice(str(folder / "judge.yaml")).preset == "prefix-first"
    with pytest.raises(InputError, match="has learned the wording"):
        load_witness(str(folder / "judge.yaml"))


def test_its_cascade_passes_on_to_the_teacher(folder: Path) -> None:
    judge = load_judge(str(folder / "cascade.yaml"), "prefix-first")
    assert isinstance(judge, Cascade)
    assert judge.judge.name.startswith("embedded-")
    assert "tiny-judge@" in judge.name


@pytest.mark.parametrize("teacher", ["/a b/fake: 1.yaml", {"name": "fake-model"}])
def test_a_teacher_may_be_a_file_or_settings(
    folder: Path, tmp_path: Path, teacher: str | dict[str, str]
) -> None:
    questions = replace(QUESTIONS, judge=teacher)
    text = ship_judge.fill_template(
        ship_judge.CASCADE_TEMPLATE, folder, questions, doubt=0.5, handed=0.3
    )
    assert yaml.safe_load(text)["judge"] == teacher


def test_the_threshold_of_a_cascade_by_hand() -> None:
    # Sure and right, sure and right, unsure and wrong about presence.
    verdicts = [Verdict((0.0, 0.0, 0.0, 0.0, 1.0)), Verdict((1.0, 0.0, 0.0, 0.0, 0.0)),
                Verdict((0.4, 0.0, 0.0, 0.0, 0.6))]  # fmt: skip
    assert choose_doubt(verdicts, np.array([5.0, 1.0, 1.0])) == pytest.approx((0, 1 / 3))
    doubt, handed_on = choose_doubt(verdicts, np.array([5.0, 1.0, 5.0]))
    assert doubt == measure_uncertainty(verdicts[2])
    assert handed_on == 0
    assert choose_doubt(verdicts[:2], np.array([1.0, 5.0])) == (0, 1)
