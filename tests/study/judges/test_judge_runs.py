"""Judges over the same pairs: same questions, floor, store; and what is said of them."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path

import pytest

from posh_reward import PoSh
from posh_reward.errors import ConfigError, InputError
from posh_reward.metrics.posh.judges.fake_judge import (
    FakeJudge,
    fake_model,
    raw_phrase,
    shared_words,
)
from posh_reward.metrics.posh.judges.judge import load_judge
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.study.judges import judge_runs
from posh_reward.study.judges.judge_report import (
    JudgeComparison,
    as_json,
    decision,
    judge_report,
    terminal_text,
)
from posh_reward.study.judges.judge_runs import (
    JudgeChoice,
    QuestionLog,
    RunSettings,
    ScoredPair,
    judge_choice,
    run_judges,
)
from posh_reward.types import Verdict

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
    from posh_reward.metrics.posh.judges.judge import PromptJudge

    monkeypatch.setattr(
        judge_runs,
        "load_judge",
        lambda judge, preset, store: PromptJudge(WaveringModel(writer=raw_phrase), preset),
    )
    runs = run_judges([judge_choice("a"), judge_choice("b")], PAIRS, RunSettings(quiet=True))
    report = judge_report(runs, PAIRS, resamples=0)
    assert report.floor is not None
    assert report.floor.questions["all"].difference.value > 0
    assert report.comparisons[0].questions["all"].difference.value == 0


def test_answers_in_the_store_are_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from posh_reward.metrics.posh.judges.judge import PromptJudge

    models = []

    def load(judge: str, preset: str, store: object) -> PromptJudge:
        models.append(fake_model(name=judge))
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
    from posh_reward.types import Failure

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
        contrary = FakeJudge(lambda question: 6 - shared_words(question), "contrary")
        return contrary if judge == "contrary" else load_judge(judge, preset)

    monkeypatch.setattr(judge_runs, "load_judge", load)
    names = ("embedded", "embedded@prefix-first", "contrary")
    report = judge_report(
        run_judges(list(map(judge_choice, names)), PAIRS, QUIET), PAIRS, resamples=100
    )
    same, contrary = (decision(line, report.floor) for line in report.comparisons)
    assert same.verdict == "not settled", "few texts"
    assert "Not settled whether embedded@prefix-first may replace embedded" in same.sentence
    assert "siblings are ordered alike in 100 % [76, 100] of pairs by f1" in same.sentence
    sure = with_low(report.comparisons[0], 0.96)
    assert decision(sure).verdict == "yes"
    assert "embedded@prefix-first may replace embedded for training" in decision(sure).sentence
    lossy = with_low(replace(sure, pair_failures=1), 0.96, compared=0.98)
    assert "Not settled" in decision(lossy).sentence, "what has no score may be what differs"
    assert "; 6 % of the pairs have no score from both" in decision(lossy).sentence
    assert contrary.verdict == "no"
    assert "contrary may not replace embedded" in contrary.sentence
    few = judge_report(
        run_judges([judge_choice("embedded"), judge_choice("fake")], PAIRS[:6], QUIET),
        PAIRS[:6],
        resamples=100,
    )
    assert "intervals over 6 or more references" in decision(few.comparisons[0]).sentence
    lonely = judge_report(
        run_judges([judge_choice("embedded"), judge_choice("fake")], PAIRS[::3], QUIET),
        PAIRS[::3],
        resamples=100,
    )
    assert "no reference has two texts" in decision(lonely.comparisons[0]).sentence
    tied = with_low(report.comparisons[0], nan, value=nan)
    assert decision(tied).verdict == "not settled"
    assert "no reference has two texts that a judge orders" in decision(tied).sentence
    one_way = {**sure.groups, "precision and recall": tied.groups["precision and recall"]}
    assert decision(replace(sure, groups=one_way)).verdict == "not settled"


def test_the_terminal_shows_the_questions_that_differ_most() -> None:
    runs = run_judges([judge_choice("embedded"), judge_choice("fake")], PAIRS, QUIET)
    shown = terminal_text(judge_report(runs, PAIRS, resamples=20))
    assert "siblings alike" in shown
    assert re.search(r"^\d\.\d\d and \d\.\d\d: Is .*\?\n  about: A ", shown, re.MULTILINE)
