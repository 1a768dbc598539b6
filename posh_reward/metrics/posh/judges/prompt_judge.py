"""A judge that asks a language model: questions -> prompts -> verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from posh_reward.metrics.posh.presets import check_preset, prompt, rewrite_prompt
from posh_reward.metrics.posh.search import Pace
from posh_reward.models.asker import Asker
from posh_reward.models.model import Model
from posh_reward.store import Store
from posh_reward.types import LABELS, Phrase, Question, Reply, Usage, Verdict

REWRITE_TOKENS = 20  # longest rewrite, in tokens (paper, A.1.4)


class PromptJudge:
    """A judge that asks a model, by prompts; a witness, too, if the model takes images.

    Raises:
        InputError: the preset is unknown.
    """

    def __init__(self, model: Model, preset: str = "released", store: Store | None = None) -> None:
        self.model = model
        self.preset = check_preset(preset)
        self._asker = Asker(model, store)

    @property
    def pace(self) -> Pace:
        """Batched for a model that prefers few calls, lazy for one that prefers few tokens."""
        return "batched" if self.model.few_calls else "lazy"

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def usage(self) -> Usage:
        """Questions, and their cost in tokens and seconds."""
        return self.model.usage

    @property
    def store(self) -> Store | None:
        """File that keeps answers, if any."""
        return self._asker.store

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """One verdict per question, in order; a failure is a verdict with its reason."""
        self.model.usage.images += sum(each.image is not None for each in questions)
        return self._asker.choose([prompt(each, self.preset) for each in questions], LABELS)

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        """A fluent form of each phrase, in order."""
        prompts = [rewrite_prompt(each, self.preset) for each in phrases]
        return self._asker.write(prompts, REWRITE_TOKENS)

    def sleep(self) -> None:
        """Put the model to sleep."""
        self.model.sleep()

    def wake(self) -> None:
        self.model.wake()

    def close(self) -> None:
        self.model.close()
