"""Judges over the same pairs: same questions, floor, store; and what is said of them."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np
import pytest

from posh_reward import PoSh
from posh_reward.distill import judge_runs
from posh_reward.distill.judge_report import (
    JudgeComparison,
    as_json,
    below_unseen,
    count_alike_pairs,
    decide_replacement,
    group_advantages,
    group_agreement,
    judge_report,
    pair_agreement,
    quadratic_kappa,
    question_agreement,
    terminal_text,
)
from posh_reward.distill.judge_runs import (
    JudgeChoice,
    QuestionLog,
    RunSettings,
    ScoredPair,
    judge_choice,
    run_judges,
)
from posh_reward.errors import ConfigError, InputError
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.posh import fake_judge
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.load_judge import load_judge
from posh_reward.tables.statistics import Estimate
from posh_reward.types import Failure, Verdict

COLORS = ("red", "blue", "green", "black", "white", "brown")
PAIRS = [
    ScoredPair(text, f"A {color} dog sleeps under a large table.")
    for color in COLORS
    for text in (f"A {color} dog sleeps.", f"A pink dog and a {color} cat sit.", "A boat.")
]
QUIET = RunSettings(quiet=True, batch=4)


def test_the_log_changes_no_score_and_no_signature() -> None:
    texts = [list(column) for column in zip(*PAIRS, strict=True)]
    plain, logged = PoSh(FakeJudge()), PoSh(QuestionLog(FakeJudge()))
    assert plain.score(*texts) == logged.score(*texts)
    assert plain.signature == logged.signature


class WaveringModel(FakeModel):
    """Its answers depend on how many prompts are in the call, as rounding does."""

    def choose(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[Verdict]:
        low = 0.3 if len(prompts) < 30 else 0.1
        return [Verdict((low, 0.0, 0.0, 0.0, 1 - low)) for _ in prompts]


def test_the_floor_shows_what_a_judge_does_not_agree_with_itself_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        judge_runs,
        "load_judge",
        lambda judge, preset, store: PromptJudge(
            WaveringModel(writer=fake_judge.raw_phrase), preset
        ),
    )
    runs = run_judges([judge_choice("a"), judge_choice("b")], PAIRS, RunSettings(quiet=True))
    report = judge_report(runs, PAIRS, resamples=0)
    assert report.floor is not None
    assert report.floor.questions["all"].difference.value > 0
    assert report.comparisons[0].questions["all"].difference.value == 0


def test_answers_in_the_store_are_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = []

    def load(judge: str, preset: str, store: object) -> PromptJudge:
        models.append(fake_judge.fake_model(name=judge))
        return PromptJudge(models[-1], preset, store)  # type: ignore[arg-type]

    monkeypatch.setattr(judge_runs, "load_judge", load)
    settings = RunSettings(quiet=True, store=tmp_path / "answers.sqlite")
    choices = [JudgeChoice("a", "a", "released"), JudgeChoice("b", "b", "prefix-first")]
    first = run_judges(choices, PAIRS, settings)
    assert all(model.prompts for model in models[:3]), "the floor is asked, not read"
    second = run_judges(choices, PAIRS, settings)
    assert not any(model.prompts for model in models[3:])
    assert [run.verdicts for run in first] == [run.verdicts for run in second]


def test_a_judge_is_named_with_its_preset_or_by_the_metrics_settings(tmp_path: Path) -> None:
    assert judge_choice("vllm@prefix-first") == JudgeChoice(
        "vllm@prefix-first", "vllm", "prefix-first"
    )
    metric = tmp_path / "metric.yaml"
    metric.write_text("judge: fake\npreset: prefix-first\n")
    assert judge_choice(str(metric)).preset == "prefix-first"
    assert judge_choice(f"{metric}@paper").judge == "fake"
    judge = tmp_path / "judge.yaml"
    judge.write_text("name: fake\n")
    assert judge_choice(str(judge)) == JudgeChoice(str(judge), str(judge), "released")
    with pytest.raises(InputError, match="unknown preset 'loud'"):
        judge_choice("vllm@loud")
    with pytest.raises(ConfigError):
        judge_choice("missing.yaml")


def test_failed_answers_are_counted_and_spoil_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(judge: str, preset: str, store: object) -> object:
        failing = FakeJudge(lambda q: Failure("engine", "gone") if "boat" in q.identifier else 3.0)
        return failing if judge == "b" else load_judge("fake")

    monkeypatch.setattr(judge_runs, "load_judge", load)
    runs = run_judges([judge_choice("fake"), judge_choice("b")], PAIRS, QUIET)
    [line] = judge_report(runs, PAIRS, resamples=20).comparisons
    assert line.failures >= len(COLORS)
    assert line.pair_failures == len(COLORS), "those that name a boat"
    assert line.groups["f1"].completions == 2 * len(COLORS)
    assert "null" not in json.dumps(as_json(judge_report(runs, PAIRS, resamples=20))["judges"])


def with_low(
    line: JudgeComparison, low: float, compared: float = 1, value: float = 1
) -> JudgeComparison:
    """The comparison as it would be with so many texts that the interval begins there."""
    groups = {
        name: replace(group, alike=replace(group.alike, low=low, value=value), compared=compared)
        for name, group in line.groups.items()
    }
    return replace(line, groups=groups)


def test_a_sentence_says_yes_no_or_not_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(judge: str, preset: str, store: object) -> object:
        contrary = FakeJudge(lambda question: 6 - fake_judge.shared_words(question), "contrary")
        return contrary if judge == "contrary" else load_judge(judge, preset)

    monkeypatch.setattr(judge_runs, "load_judge", load)
    names = ("embedded", "embedded@prefix-first", "contrary")
    report = judge_report(
        run_judges(list(map(judge_choice, names)), PAIRS, QUIET), PAIRS, resamples=100
    )
    same, contrary = (decide_replacement(line, report.floor) for line in report.comparisons)
    assert same.verdict == "not settled", "few texts"
    assert "Not settled whether embedded@prefix-first may replace embedded" in same.sentence
    assert "siblings are ordered alike in 100 % [76, 100] of pairs by f1" in same.sentence
    sure = with_low(report.comparisons[0], 0.96)
    assert decide_replacement(sure).verdict == "yes"
    assert (
        "embedded@prefix-first may replace embedded for training"
        in decide_replacement(sure).sentence
    )
    lossy = with_low(replace(sure, pair_failures=1), 0.96, compared=0.98)
    assert "Not settled" in decide_replacement(lossy).sentence, (
        "what has no score may be what differs"
    )
    assert "; 6 % of the pairs have no score from both" in decide_replacement(lossy).sentence
    assert contrary.verdict == "no"
    assert "contrary may not replace embedded" in contrary.sentence
    two = [judge_choice("fake"), judge_choice("fake@prefix-first")]
    few = judge_report(run_judges(two, PAIRS[:6], QUIET), PAIRS[:6], resamples=100)
    assert "intervals over 6 or more references" in decide_replacement(few.comparisons[0]).sentence
    lonely = judge_report(run_judges(two, PAIRS[::3], QUIET), PAIRS[::3], resamples=100)
    assert "no reference has two texts" in decide_replacement(lonely.comparisons[0]).sentence
    tied = with_low(report.comparisons[0], nan, value=nan)
    assert decide_replacement(tied).verdict == "not settled"
    assert "no reference has two texts that a judge orders" in decide_replacement(tied).sentence
    one_way = {**sure.groups, "precision and recall": tied.groups["precision and recall"]}
    assert decide_replacement(replace(sure, groups=one_way)).verdict == "not settled"


def test_the_terminal_shows_the_questions_that_differ_most() -> None:
    runs = run_judges([judge_choice("embedded"), judge_choice("fake")], PAIRS, QUIET)
    shown = terminal_text(judge_report(runs, PAIRS, resamples=20))
    assert "siblings alike" in shown
    assert re.search(r"^\d\.\d\d and \d\.\d\d: Is .*\?\n  about: A ", shown, re.MULTILINE)


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_kappa_counts_one_answer_four_labels_off() -> None:
    # Observed: one of weight 16. By chance: (2 x 1 + 2 x 3) / 4 answers of weight 16, which is 32.
    assert quadratic_kappa(array(1, 1, 5, 5), array(1, 1, 5, 1)) == pytest.approx(0.5)


def test_grades_on_both_sides_of_2_disagree_about_presence() -> None:
    grades = np.array([[1.9, 2.1], [1.0, 1.5], [5.0, 4.0], [2.0, 3.0]])
    found = question_agreement(grades, ["a", "b", "c", "d"], resamples=0)
    assert found.present.value == 0.75
    assert found.difference.value == pytest.approx((0.2 + 0.5 + 1 + 1) / 4)
    assert found.bias.value == pytest.approx((0.2 + 0.5 - 1 + 1) / 4)
    assert found.count == 4


def test_a_judge_that_is_always_a_tenth_higher_has_bias_and_no_spread() -> None:
    first = array(0.3, 0.5, 0.9)
    found = pair_agreement(np.stack([first, first + 0.1], axis=1), list("abc"), resamples=0)
    assert found.bias.value == pytest.approx(0.1)
    assert found.spread.value == pytest.approx(0, abs=1e-12)
    assert found.rank.value == pytest.approx(1)


def test_advantages_are_those_of_trl() -> None:
    # Of 0 and 1: mean 1/2, standard deviation of a sample 1/sqrt(2).
    assert group_advantages(array(0, 1)[None]) == pytest.approx([-0.707, 0.707], abs=1e-3)
    assert group_advantages(np.array([[0, 1], [1, 0]])) == pytest.approx([0, 0])
    assert group_advantages(array(0.4, 0.4)[None]) == pytest.approx([0, 0])


def test_siblings_in_the_same_order_by_hand() -> None:
    # Pairs: (0, 1) alike, (0, 2) opposite, (1, 2) opposite.
    assert count_alike_pairs(array(1, 2, 3), array(2, 3, 1)) == (1, 3)
    # A tie of one side alone counts half, one of both is no pair.
    assert count_alike_pairs(array(1, 2), array(1, 1)) == (0.5, 1)
    assert count_alike_pairs(array(1, 1), array(1, 1)) == (0, 0)


def test_what_grpo_sees_of_two_groups_by_hand() -> None:
    first = array(0.2, 0.4, 0.6, 0.1, 0.2)
    other = array(0.2, 0.4, 0.6, 0.2, 0.1)
    found = group_agreement(np.stack([first, other], axis=1)[None], list("aaabb"), resamples=0)
    assert found is not None
    assert (found.groups, found.completions) == (2, 5)
    assert found.alike.value == 3 / 4
    assert found.flips.value == 2 / 5
    assert found.cosine.value == pytest.approx(1 / 3, abs=1e-3)  # (2 - 1) / 3


def test_a_text_without_a_score_is_left_out_of_its_group() -> None:
    scores = np.array([[0.2, 0.2], [0.4, 0.4], [nan, 0.1], [0.5, 0.5]])
    found = group_agreement(scores[None], ["a", "a", "a", "b"])
    assert found is not None
    assert (found.groups, found.completions) == (1, 2)
    assert found.compared == 1 / 3, "of the three pairs of siblings"
    assert group_agreement(scores[None], list("abcd")) is None


def test_many_siblings_do_not_stand_for_references_that_nobody_saw() -> None:
    # If a tenth of all references were ordered by a coin, 35 would hide it in one of forty studies.
    sure = Estimate(1.0, 1.0, 1.0, nan)
    assert below_unseen(sure, 34).low < 0.95 < below_unseen(sure, 35).low
    texts = np.tile(np.linspace(0.2, 0.9, 40), 6)
    found = group_agreement(
        np.stack([texts, texts], axis=1)[None], [str(i // 40) for i in range(240)]
    )
    assert found is not None
    assert found.alike.low == pytest.approx((1 + 6 / 9.8415) / 2, abs=1e-4)
    assert below_unseen(Estimate(0.3, 0.25, 0.35, nan), 50).low == 0.25, "never raised"
