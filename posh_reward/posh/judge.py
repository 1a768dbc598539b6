"""Judges and witnesses: the protocols, and the judge that asks a language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from posh_reward.models.asker import CachingModel
from posh_reward.models.model import Model, Sleepable
from posh_reward.posh.search import Pace
from posh_reward.posh.wording import (
    build_prompt,
    build_rewrite_prompt,
    build_sentence_prompt,
    check_preset,
)
from posh_reward.store import Store
from posh_reward.types import LABELS, VALUES, Phrase, Question, Reply, Sentence, Usage, Verdict


class Answerer(Sleepable, Protocol):
    """A source of answers: a judge, a witness or a sentence reader."""

    @property
    def name(self) -> str:
        """Model and revision, for signatures: the same name gives the same answers."""

    @property
    def usage(self) -> Usage:
        """Questions, tokens and seconds so far."""

    def close(self) -> None:
        """Release everything; it is not used again."""


class Witness(Answerer, Protocol):
    """A source of answers about images: a judge that sees, or one that knows the drawing.

    A question that the image does not settle is a failure of kind ``reply``, never a guess.
    """

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        """One verdict per question, in order; a failure is a verdict with its reason."""


class SentenceReader(Answerer, Protocol):
    """A source of verdicts on whole sentences. A bad sentence does not affect the others."""

    def read(self, sentences: Sequence[Sentence]) -> list[Verdict]:
        """One distribution over ``types.VALUES`` per sentence, in order, or a failure."""


def takes_images(witness: Witness) -> bool:
    """Return True unless a witness says that it does not look at images."""
    return bool(getattr(witness, "takes_images", True))


class Judge(Witness, Protocol):
    """A source of answers about descriptions. A bad question does not affect the others."""

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        """A fluent form of each phrase, in order."""


def find_base_judge(judge: Judge) -> Judge:
    """Find the judge behind those that pass questions on to their ``judge``, such as a cascade."""
    return list_stages(judge)[-1]


def list_stages(judge: Judge) -> list[Judge]:
    """List all judges that answer: the first stages of cascades, and the base judge at the end."""
    first_stages: list[Judge] = []
    while hasattr(judge, "judge"):
        first = getattr(judge, "first", None)
        if first is not None:
            first_stages.append(first)
        judge = judge.judge
    return [*first_stages, judge]


MAX_REWRITE_TOKENS = 20  # (paper, A.1.4)
SENTENCE_LABELS = LABELS[: len(VALUES)]  # of ``prompts/sentence.txt``
SENTENCE_WORDING = "1"  # its version, in signatures; raise it with any change


class PromptJudge:
    """A judge that asks a model, by prompts.

    It reads whole sentences, too, and is a witness if its model takes images.
    """

    def __init__(self, model: Model, preset: str = "released", store: Store | None = None) -> None:
        self.model = model
        self.preset = check_preset(preset)
        self._asker = CachingModel(model, store)

    @property
    def pace(self) -> Pace:
        """Batched for a model that prefers few calls, lazy for one that prefers few tokens."""
        return "batched" if self.model.few_calls else "lazy"

    @property
    def takes_images(self) -> bool:
        """True if its model does."""
        return self.model.sees

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def usage(self) -> Usage:
        return self.model.usage

    @property
    def store(self) -> Store | None:
        """File that keeps answers, if any."""
        return self._asker.store

    def grade(self, questions: Sequence[Question]) -> list[Verdict]:
        self.model.usage.images += sum(each.image is not None for each in questions)
        return self._asker.choose([build_prompt(each, self.preset) for each in questions], LABELS)

    def read(self, sentences: Sequence[Sentence]) -> list[Verdict]:
        prompts = [build_sentence_prompt(each, self.preset) for each in sentences]
        return self._asker.choose(prompts, SENTENCE_LABELS)

    def rewrite(self, phrases: Sequence[Phrase]) -> list[Reply]:
        prompts = [build_rewrite_prompt(each, self.preset) for each in phrases]
        return self._asker.write(prompts, MAX_REWRITE_TOKENS)

    def sleep(self) -> None:
        self.model.sleep()

    def wake(self) -> None:
        self.model.wake()

    def close(self) -> None:
        self.model.close()
