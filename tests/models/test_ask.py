"""Between a metric and a model: one answer a prompt, kept under all that it depends on."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from posh_reward.models import asker
from posh_reward.models.asker import BLIND, Asker
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Note, Prompt, ignore
from posh_reward.store import Store
from posh_reward.types import LABELS, Failure, PromptImage, Verdict

BOAT, DOG = PromptImage("b0a7", object()), PromptImage("d06", object())


def seen(prompt: Prompt) -> float:
    """5 for the boat, 1 for any other image."""
    return 5.0 if BOAT in prompt.images else 1.0


def test_one_question_about_two_images_is_two_questions(tmp_path: Path) -> None:
    question = Prompt("", "Is there a boat?")
    prompts = [question._replace(images=(each,)) for each in (BOAT, DOG)]
    for asked in (2, 0):  # the second time from the store
        model = FakeModel(seen, sees=True)
        verdicts = Asker(model, Store(tmp_path / "store")).choose(prompts, LABELS)
        assert [verdict.grade for verdict in verdicts] == [5.0, 1.0]
        assert len(model.prompts) == asked


class Noting(FakeModel):
    """Notes each answer, and is interrupted before the last."""

    notes = True

    def choose(
        self, prompts: Sequence[Prompt], labels: Sequence[str], note: Note = ignore
    ) -> list[Verdict]:
        for place, verdict in enumerate(super().choose(prompts, labels)[:-1]):
            note(place, verdict)
        raise KeyboardInterrupt


@pytest.mark.parametrize("seconds", [0.0, 60.0])  # stored one by one; stored at the end
def test_an_interrupted_call_keeps_what_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(asker, "KEEP_SECONDS", seconds)
    prompts = [Prompt("", f"Is there a boat {number}?") for number in range(9)]
    with pytest.raises(KeyboardInterrupt):
        Asker(Noting(seen), Store(tmp_path / "store")).choose(prompts, LABELS)
    model = FakeModel(seen)
    assert len(Asker(model, Store(tmp_path / "store")).choose(prompts, LABELS)) == 9
    assert model.prompts == prompts[-1:]


def test_questions_about_one_image_reach_the_model_together() -> None:
    model = FakeModel(seen, sees=True)
    prompts = [Prompt("", thing, (each,)) for thing in "abc" for each in (BOAT, DOG)]
    Asker(model).choose([*prompts, Prompt("", "b")], LABELS)
    assert [prompt.images for prompt in model.prompts] == [(), *[(BOAT,)] * 3, *[(DOG,)] * 3]


def test_a_model_that_does_not_see_fails_what_it_would_have_to_see() -> None:
    model = FakeModel(lambda prompt: 4.0)
    blind, sound = Asker(model).choose([Prompt("", "A boat?", (BOAT,)), Prompt("", "A?")], LABELS)
    assert blind.failure == BLIND
    assert model.usage.cache_hits == 0, "a refusal is not an answer from the store"
    assert sound.grade == 4.0
    assert model.usage.failures == {str(BLIND): 1}


def test_a_model_is_awake_while_it_is_asked_and_sleeps_after_an_error() -> None:
    model = FakeModel()
    with Asker(model).awake([]):
        assert model.events == [], "there is nothing to ask"
    with suppress(ZeroDivisionError), Asker(model).awake([Prompt("", "a")]):
        raise ZeroDivisionError
    assert model.events == ["wake", "sleep"]


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    down = Failure("engine", "down")
    prompt, store = Prompt("a cat", '"cat"?'), Store(tmp_path / "store")
    assert Asker(FakeModel(lambda _: down), store).choose([prompt], LABELS)[0].failure == down
    assert Asker(FakeModel(), store).choose([prompt], LABELS)[0].grade == 5.0
