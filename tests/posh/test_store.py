"""Two runs of the metric with one store: nothing is judged twice, and nothing changes."""

from pathlib import Path

import pytest

from posh_reward import PoSh, Scores
from posh_reward.models.asker import READING_VERSION
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.posh.fake_judge import fake_model
from posh_reward.posh.judge import PromptJudge
from posh_reward.store import Store

GENERATIONS = ["A tall man in a red coat holds a cup.", "Two dogs sleep. The small dog is brown."]
REFERENCES = ["A man in a coat holds a red cup.", "A brown dog sleeps beside a white dog."]


def run(path: Path | None, model: FakeModel, preset: str = "released") -> list[Scores]:
    store = None if path is None else Store(path)
    judge = PromptJudge(model, preset, store)
    return PoSh(judge, preset=preset, store=store).score(GENERATIONS, REFERENCES)


def test_answers_that_were_read_in_another_way_are_not_recalled(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    posh = PoSh("fake-model", store=store)
    posh.score(GENERATIONS, REFERENCES)
    for kind, space in (("verdict", "1|1/2/3/4/5"), ("rewrite", "1")):
        old = f"fake-model-1|{space}"
        assert not store.get(kind, old, [p.key for p in prompts_of(posh)])
    assert f"|replies:{READING_VERSION}|" in posh.signature
    assert "|replies:" not in PoSh("embedded").signature


def prompts_of(posh: PoSh) -> list[Prompt]:
    assert isinstance(posh.judge, PromptJudge)
    assert isinstance(posh.judge.model, FakeModel)
    return posh.judge.model.prompts


@pytest.mark.parametrize("preset", ["released", "prefix-first"])
def test_a_second_run_asks_nothing_and_scores_the_same(tmp_path: Path, preset: str) -> None:
    first, second = fake_model(), fake_model()
    plain = run(None, fake_model(), preset)
    assert run(tmp_path / "store", first, preset) == plain
    assert run(tmp_path / "store", second, preset) == plain
    assert first.prompts
    assert second.prompts == []


def test_presets_and_judges_share_a_file_and_no_answers(tmp_path: Path) -> None:
    models = {
        ("released", "a"): fake_model(name="a"),
        ("prefix-first", "a"): fake_model(name="a"),
        ("released", "b"): fake_model(lambda prompt: 1.0, name="b"),
    }
    for (preset, _), model in models.items():
        alone = fake_model(model._grader, model.name)
        assert run(tmp_path / "store", model, preset) == run(None, alone, preset)
        assert model.prompts
