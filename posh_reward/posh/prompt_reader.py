"""A sentence reader that asks a language model: one more question for each sentence."""

from __future__ import annotations

from collections.abc import Sequence

from posh_reward.metrics.wording import load_sections
from posh_reward.models.asker import CachingModel
from posh_reward.models.model import Model, Prompt
from posh_reward.posh.wording import build_opening, check_preset
from posh_reward.store import Store
from posh_reward.types import LABELS, VALUES, Sentence, Usage, Verdict

WORDING_VERSION = "sentence-1"  # raise it with any change of ``prompts/sentence.txt``
VALUE_LABELS = LABELS[: len(VALUES)]


class PromptReader:
    """Asks a model, by the preset's opening, so that a judge's questions share its prefix."""

    def __init__(self, model: Model, preset: str = "released", store: Store | None = None) -> None:
        self.model = model
        self.preset = check_preset(preset)
        self._asker = CachingModel(model, store)

    @property
    def name(self) -> str:
        return f"{WORDING_VERSION}/{self.model.name}"

    @property
    def usage(self) -> Usage:
        return self.model.usage

    @property
    def store(self) -> Store | None:
        """File that keeps answers, if any."""
        return self._asker.store

    def read(self, sentences: Sequence[Sentence]) -> list[Verdict]:
        """One distribution per sentence, in order; a reply without a label is a failure."""
        prompts = [build_sentence_prompt(each, self.preset) for each in sentences]
        return self._asker.choose(prompts, VALUE_LABELS)

    def sleep(self) -> None:
        self.model.sleep()

    def wake(self) -> None:
        self.model.wake()

    def close(self) -> None:
        self.model.close()


def build_sentence_prompt(sentence: Sentence, preset: str = "released") -> Prompt:
    """Return the message: both descriptions as in the preset, the sentence, and the guide."""
    question = load_sections("posh", "sentence")["sentence"]
    prefix = build_opening("precision", sentence.source, sentence.target, preset)
    return Prompt(prefix, question.replace("{sentence}", sentence.text))
