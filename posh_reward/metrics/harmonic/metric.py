"""HarmonicEval: five criteria of a text about an image, and their weighted mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from posh_reward.errors import InputError
from posh_reward.metrics.harmonic.asking import (
    ANSWERS,
    CRITERIA,
    EDITION,
    SEEN,
    Asked,
    Task,
    check_criteria,
    check_task,
    prompt,
)
from posh_reward.metrics.harmonic.scores import CriterionScore, HarmonicScores
from posh_reward.metrics.harmonic.weighting import (
    harmonic_weights,
    mean_and_sigma,
    weighted_mean,
)
from posh_reward.metrics.inputs import check_lists, usable
from posh_reward.metrics.metric import mean, signature
from posh_reward.models.asker import READING_VERSION, Asker
from posh_reward.models.labels import distribution
from posh_reward.models.load_model import model_of
from posh_reward.models.model import Model
from posh_reward.models.prompt_images import images_of
from posh_reward.store import Store, store_of
from posh_reward.types import LABELS, Failure, PromptImage, Usage, Verdict

AT_ONCE = 64
"""Texts whose images are held in memory at a time."""


class HarmonicEval:
    """The metric. It needs no reference, but a model that sees, unless no criterion looks.

    Args:
        model: a name, a settings file or a mapping (``models.load_model``), or a ``Model``.
        gamma: how much surer criteria count: 1 for equal weights, 0.5 for inverse variances, 0 for
            the surest criterion alone. 0.75 is the paper's.
        store: a file (or a ``Store``) that keeps the model's answers across runs and processes.
        criteria: those that are asked about, one question each. The paper asks of short captions
            only ``correctness`` and ``completeness`` (Table 8).

    Raises:
        InputError: a name is unknown, gamma is not between 0 and 1, or criteria need the image
            and the model does not take images.
        ConfigError: settings of the model cannot be used.
    """

    name = "harmonic"
    """First word of signatures, and what names in logs begin with."""

    def __init__(
        self,
        model: str | Mapping[str, Any] | Model,
        gamma: float = 0.75,
        store: str | PathLike[str] | Store | None = None,
        *,
        criteria: Sequence[str] = CRITERIA,
    ) -> None:
        if not 0 <= gamma <= 1:
            raise InputError(f"gamma is {gamma}: give a number from 0 to 1, such as 0.75")
        self.gamma = gamma
        self.criteria = check_criteria(criteria)
        self._looks = not set(SEEN).isdisjoint(criteria)
        self.model = model_of(model, sees=self._looks)
        self.store = store_of(store)
        self._asker = Asker(self.model, self.store)

    @property
    def signature(self) -> str:
        """``harmonic|model:...|gamma:0.75|replies:2|version:...``, as for captions."""
        return self.signature_for("captioning")

    def signature_for(self, task: str) -> str:
        """What the scores of a task carry; other tasks than captions are named in it."""
        fields = {"model": self.model.name, "gamma": repr(float(self.gamma))}
        if self.criteria != CRITERIA:
            fields["criteria"] = ",".join(self.criteria)
        if task != "captioning":
            fields["task"] = task
        if EDITION > 1:
            fields["wording"] = str(EDITION)
        fields["replies"] = str(READING_VERSION)
        return signature(self.name, fields)

    @property
    def usage(self) -> Usage:
        """What the model has been asked so far."""
        return self.model.usage

    def figures(self, scores: Sequence[HarmonicScores]) -> dict[str, float]:
        """What a training log shows of one call: means over the texts that have the figure.

        ``overall``, each criterion (1-5, higher is better), and its ``_sigma``. NaN where no text
        has the figure.
        """
        found = {"overall": mean([score.overall for score in scores])}
        for name in self.criteria:
            found[name] = mean([score.means.get(name) for score in scores])
        for name in self.criteria:
            found[f"{name}_sigma"] = mean([score.sigmas.get(name) for score in scores])
        return found

    def columns(self, scores: Sequence[HarmonicScores]) -> dict[str, list[float | None]]:
        """What a training log shows of each text: ``overall`` and each criterion."""
        found = {"overall": [score.overall for score in scores]}
        return found | {name: [s.means.get(name) for s in scores] for name in self.criteria}

    def score(
        self,
        texts: Sequence[str | None],
        images: Sequence[object],
        task: str = "captioning",
        *,
        questions: Sequence[str | None] | None = None,
    ) -> list[HarmonicScores]:
        """Scores each text about its image, in order.

        A text that cannot be scored has a ``failure`` and no overall score; it never touches its
        neighbours. What was judged before one criterion failed is kept in ``criteria``. Equal
        texts about equal images are judged once.

        Args:
            texts: to be scored. An empty one is judged like any other.
            images: of each text, in any form that ``models.prompt_images.image_of`` takes. In task
                ``reg`` what the text is about has a red box around it.
            task: ``captioning``; ``vqa`` and ``vdu``, answers about images and about images of
                documents; ``reg``, expressions that tell one thing from others.
            questions: that the texts answer, in the tasks ``vqa`` and ``vdu``.

        Raises:
            InputError: lists differ in length, the task is unknown, or questions are missing or
                are given to a task without.
            JudgeError: the model cannot work at all.
        """
        chosen = check_task(task)
        given = {"texts": texts, "images": images}
        if chosen in ANSWERS:
            if questions is None:
                raise InputError(f"task {task} needs questions: pass questions=, one for each text")
            given["questions"] = questions
        elif questions is not None:
            raise InputError(f"task {task} has no questions: leave them out, or choose {ANSWERS}")
        check_lists(**given)
        blank = [""] * len(texts)
        with self._asker.awake([text for text in texts if isinstance(text, str)]):
            return self._scored(texts, images, blank if questions is None else questions, chosen)

    def _scored(
        self,
        texts: Sequence[object],
        images: Sequence[object],
        questions: Sequence[object],
        task: Task,
    ) -> list[HarmonicScores]:
        signed = self.signature_for(task)
        known: dict[tuple[str, str, str], HarmonicScores] = {}
        found: list[HarmonicScores] = []
        for start in range(0, len(texts), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            some = self._read(texts[part], images[part], questions[part])
            new = {e.key: e for e in some if isinstance(e, Asked) and e.key not in known}
            known.update(zip(new, self._judge(list(new.values()), task, signed), strict=True))
            found += [
                HarmonicScores(None, signed, failure=each)
                if isinstance(each, Failure)
                else known[each.key]
                for each in some
            ]
        return found

    def _read(
        self, texts: Sequence[object], images: Sequence[object], questions: Sequence[object]
    ) -> list[Asked | Failure]:
        """What is asked of each text."""
        prompt_images = images_of(images) if self._looks else [None] * len(texts)
        return list(map(_asked, texts, prompt_images, questions))

    def _judge(self, asked: Sequence[Asked], task: Task, signed: str) -> list[HarmonicScores]:
        prompts = [prompt(name, each, task) for each in asked for name in self.criteria]
        verdicts = iter(self._asker.choose(prompts, LABELS) if prompts else ())
        return [self._scores(each.text, verdicts, signed) for each in asked]

    def _scores(self, text: str, verdicts: Iterator[Verdict], signed: str) -> HarmonicScores:
        """The scores of a text from its next verdicts."""
        judged = tuple(criterion_score(name, next(verdicts)) for name in self.criteria)
        failed = next((each for each in judged if each.failure is not None), None)
        if failed is not None and failed.failure is not None:
            why = replace(failed.failure, detail=f"{failed.criterion}: {failed.failure.detail}")
            return HarmonicScores(None, signed, judged, why, text)
        weights = harmonic_weights([each.sigma or 0.0 for each in judged], self.gamma)
        overall = weighted_mean([each.mean or 0.0 for each in judged], weights)
        weighted = zip(judged, weights, strict=True)
        whole = tuple(replace(each, weight=weight) for each, weight in weighted)
        return HarmonicScores(overall, signed, whole, None, text)


def criterion_score(name: str, verdict: Verdict) -> CriterionScore:
    """A criterion's score from the distribution over its labels, or its failure.

    A reply without any label is a failure, even where the model's reading takes it for the lowest
    label: its sigma would be 0, and it would get all the weight.
    """
    said = distribution(verdict)
    if isinstance(said, Failure):
        return CriterionScore(name, None, None, failure=said)
    return CriterionScore(name, *mean_and_sigma(said))


def _asked(text: object, image: PromptImage | Failure | None, question: object) -> Asked | Failure:
    words, asked = usable(text, "the text"), usable(question, "the question")
    for each in (words, image, asked):
        if isinstance(each, Failure):
            return each
    assert isinstance(words, str)
    assert isinstance(asked, str)
    assert not isinstance(image, Failure)
    return Asked(words, image, asked)
