"""HarmonicEval: five criteria of a text about an image, and their weighted mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from posh_reward.errors import InputError
from posh_reward.metrics.harmonic.criteria import (
    ANSWERS,
    CRITERIA,
    EDITION,
    IMAGE_CRITERIA,
    REASON_EDITION,
    HarmonicItem,
    Task,
    check_criteria,
    check_task,
    prompt,
    why,
)
from posh_reward.metrics.metric import check_lists, mean, signature, usable
from posh_reward.models.asker import DOUBTFUL, READING_VERSION, Asker
from posh_reward.models.labels import distribution
from posh_reward.models.model import Model, Prompt, model_of, savable
from posh_reward.models.prompt_images import images_of
from posh_reward.store import Store, store_of
from posh_reward.types import LABELS, Failure, PromptImage, Usage, Verdict


@dataclass(frozen=True, slots=True)
class CriterionScore:
    """One criterion of one text."""

    criterion: str
    mean: float | None
    """1-5, higher is better: the expected score; None if the judgment failed."""
    sigma: float | None
    """Standard deviation of the score, 0 (sure) to 2."""
    weight: float | None = None
    """Its share of the overall score; None if any criterion of the text failed."""
    failure: Failure | None = None
    mass: float | None = None
    """Probability, before renormalising, that the reply was a score at all; None if it failed."""
    reason: str | None = None
    """The model's reason, if it was asked for one (section 4.3). Text of a model: escape it."""


@dataclass(frozen=True, slots=True)
class HarmonicScores:
    """HarmonicEval of one text. All scores are 1-5, higher is better."""

    overall: float | None
    """The weighted mean of the criteria; None if one of them failed."""
    signature: str
    """Everything that another run needs to reproduce the figures."""
    criteria: tuple[CriterionScore, ...] = ()
    """In the order in which they were asked for; empty if the text could not be asked about."""
    failure: Failure | None = None
    """Reason for a missing overall score; None if there is one."""
    text: str = ""
    """The stripped text."""

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Criteria whose replies are more likely no score than one: their figures say little."""
        return tuple(e.criterion for e in self.criteria if e.mass is not None and e.mass < DOUBTFUL)

    @property
    def means(self) -> dict[str, float | None]:
        """Criterion -> score."""
        return {each.criterion: each.mean for each in self.criteria}

    @property
    def sigmas(self) -> dict[str, float | None]:
        """Criterion -> standard deviation of its score."""
        return {each.criterion: each.sigma for each in self.criteria}


LONGEST_REASON = 256  # tokens
AT_ONCE = 64  # texts whose images are held in memory at a time


class HarmonicEval:
    """The metric. It needs no reference, but a model that sees, unless no criterion looks.

    Args:
        model: a name, a settings file or a mapping (``models.model.load_model``), or a ``Model``.
        gamma: how much surer criteria count: 1 for equal weights, 0.5 for inverse variances, 0 for
            the surest criterion alone. 0.75 is the paper's.
        store: a file (or a ``Store``) that keeps the model's answers across runs and processes.
        criteria: those that are asked about, one question each. For short captions the paper has
            two, correctness and "comprehensiveness" (Table 8): ``completeness`` by its name, but
            its C.1 heads the prompt of ``clarity`` so.
        explain: asks for the reason of each score, too (section 4.3): one more reply each.

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
        explain: bool = False,
    ) -> None:
        if not 0 <= gamma <= 1:
            raise InputError(f"gamma is {gamma}: give a number from 0 to 1, such as 0.75")
        self.gamma = gamma
        self.criteria = check_criteria(criteria)
        self.explain = explain
        self._looks = not set(IMAGE_CRITERIA).isdisjoint(criteria)
        self.model = model_of(model, sees=self._looks)
        self.store = store_of(store)
        self._asker = Asker(self.model, self.store)

    @property
    def signature(self) -> str:
        """``harmonic|model:...|gamma:0.75|replies:2|version:...``, as for captions."""
        return self.signature_for("captioning")

    def signature_for(self, task: str) -> str:
        """The signature of a task's scores; tasks other than captioning are named in it."""
        fields = {"model": self.model.name, "gamma": repr(float(self.gamma))}
        if self.criteria != CRITERIA:
            fields["criteria"] = ",".join(self.criteria)
        if task != "captioning":
            fields["task"] = task
        if EDITION > 1:
            fields["wording"] = str(EDITION)
        if self.explain:
            fields["reasons"] = str(REASON_EDITION)
        fields["replies"] = str(READING_VERSION)
        return signature(self.name, fields)

    @property
    def usage(self) -> Usage:
        """The model's running total."""
        return self.model.usage

    def figures(self, scores: Sequence[HarmonicScores]) -> dict[str, float]:
        """Return a training log's figures of one call: means over the texts that have the figure.

        ``overall``, each criterion (1-5, higher is better), and its ``_sigma``. NaN where no text
        has the figure.
        """
        means = {"overall": mean([score.overall for score in scores])}
        for name in self.criteria:
            means[name] = mean([score.means.get(name) for score in scores])
        for name in self.criteria:
            means[f"{name}_sigma"] = mean([score.sigmas.get(name) for score in scores])
        return means

    def columns(self, scores: Sequence[HarmonicScores]) -> dict[str, list[float | None]]:
        """Return a training log's columns of each text: ``overall`` and each criterion."""
        overall = {"overall": [score.overall for score in scores]}
        return overall | {name: [s.means.get(name) for s in scores] for name in self.criteria}

    def score(
        self,
        texts: Sequence[str | None],
        images: Sequence[object],
        task: str = "captioning",
        *,
        questions: Sequence[str | None] | None = None,
    ) -> list[HarmonicScores]:
        """Score each text about its image, in order.

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
        kind = check_task(task)
        lists = {"texts": texts, "images": images}
        if kind in ANSWERS:
            if questions is None:
                raise InputError(f"task {task} needs questions: pass questions=, one for each text")
            lists["questions"] = questions
        elif questions is not None:
            raise InputError(f"task {task} has no questions: leave them out, or choose {ANSWERS}")
        check_lists(**lists)
        blank = [""] * len(texts)
        with self._asker.awake([text for text in texts if isinstance(text, str)]):
            return self._scores_of(texts, images, blank if questions is None else questions, kind)

    def _scores_of(
        self,
        texts: Sequence[object],
        images: Sequence[object],
        questions: Sequence[object],
        task: Task,
    ) -> list[HarmonicScores]:
        signed = self.signature_for(task)
        by_key: dict[tuple[str, str, str], HarmonicScores] = {}
        scores: list[HarmonicScores] = []
        for start in range(0, len(texts), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            some = self._read(texts[part], images[part], questions[part])
            new = {e.key: e for e in some if isinstance(e, HarmonicItem) and e.key not in by_key}
            by_key.update(zip(new, self._judge(list(new.values()), task, signed), strict=True))
            scores += [
                HarmonicScores(None, signed, failure=each)
                if isinstance(each, Failure)
                else by_key[each.key]
                for each in some
            ]
        return scores

    def _read(
        self, texts: Sequence[object], images: Sequence[object], questions: Sequence[object]
    ) -> list[HarmonicItem | Failure]:
        prompt_images = images_of(images) if self._looks else [None] * len(texts)
        return list(map(_item, texts, prompt_images, questions))

    def _judge(
        self, items: Sequence[HarmonicItem], task: Task, signed: str
    ) -> list[HarmonicScores]:
        prompts = [prompt(name, item, task) for item in items for name in self.criteria]
        verdicts = self._asker.choose(prompts, LABELS) if prompts else []
        reasons = iter(self._reasons(prompts, verdicts))
        rest = iter(verdicts)
        scores = [self._scores(item.text, rest, signed) for item in items]
        return [
            replace(each, criteria=tuple(replace(c, reason=next(reasons)) for c in each.criteria))
            for each in scores
        ]

    def _reasons(self, prompts: Sequence[Prompt], verdicts: Sequence[Verdict]) -> list[str | None]:
        """The reason for each score; a reason that is missing never costs a score."""
        masses = [distribution(each) for each in verdicts]
        questions = {
            place: why(prompts[place], 1 + max(range(len(each)), key=each.__getitem__))
            for place, each in enumerate(masses)
            if self.explain and not isinstance(each, Failure)
        }
        replies = self._asker.write(list(questions.values()), LONGEST_REASON) if questions else []
        texts = {p: each.text for p, each in zip(questions, replies, strict=True)}
        return [
            None if (text := texts.get(p)) is None else savable(text) for p in range(len(prompts))
        ]

    def _scores(self, text: str, verdicts: Iterator[Verdict], signed: str) -> HarmonicScores:
        criteria_scores = tuple(criterion_score(name, next(verdicts)) for name in self.criteria)
        failed = next((each for each in criteria_scores if each.failure is not None), None)
        if failed is not None and failed.failure is not None:
            why = replace(failed.failure, detail=f"{failed.criterion}: {failed.failure.detail}")
            return HarmonicScores(None, signed, criteria_scores, why, text)
        weights = harmonic_weights([each.sigma or 0.0 for each in criteria_scores], self.gamma)
        overall = weighted_mean([each.mean or 0.0 for each in criteria_scores], weights)
        weighted = zip(criteria_scores, weights, strict=True)
        whole = tuple(replace(each, weight=weight) for each, weight in weighted)
        return HarmonicScores(overall, signed, whole, None, text)


def criterion_score(name: str, verdict: Verdict) -> CriterionScore:
    """A criterion's score from the distribution over its labels, or its failure.

    A reply without any label is a failure, even where the model's reading takes it for the lowest
    label: its sigma would be 0, and it would get all the weight.
    """
    masses = distribution(verdict)
    if isinstance(masses, Failure):
        return CriterionScore(name, None, None, failure=masses)
    return CriterionScore(name, *mean_and_sigma(masses), mass=verdict.mass)


def _item(
    text: object, image: PromptImage | Failure | None, question: object
) -> HarmonicItem | Failure:
    words, item = usable(text, "the text"), usable(question, "the question")
    for each in (words, image, item):
        if isinstance(each, Failure):
            return each
    assert isinstance(words, str)
    assert isinstance(item, str)
    assert not isinstance(image, Failure)
    return HarmonicItem(words, image, item)


def mean_and_sigma(probabilities: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of a distribution over the scores 1, 2, ..., by Eqs. 1 and 4."""
    whole = math.fsum(probabilities)
    shares = [(score, each / whole) for score, each in enumerate(probabilities, start=1)]
    mean = math.fsum(score * share for score, share in shares)
    return mean, math.sqrt(math.fsum((score - mean) ** 2 * share for score, share in shares))


def harmonic_weights(sigmas: Sequence[float], gamma: float) -> list[float]:
    """Weights proportional to sigma ** (-2 (1 - gamma) / gamma), which sum to 1 (Eq. 3).

    Where the formula has no value the weights are its limits. With gamma 0, all weight goes to the
    least sigma; with a sigma of 0 and gamma below 1, to the criteria that have it. Equal ones share
    alike.

    Args:
        sigmas: standard deviations, each 0 or more; at least one.
        gamma: 1: equal weights. 0.5: inverse variances. 0: the surest criterion alone.
    """
    if gamma == 1:
        return [1 / len(sigmas)] * len(sigmas)
    least = min(sigmas)
    power = 2 * (1 - gamma) / gamma if gamma else math.inf
    if least == 0 or math.isinf(power):
        shares = [float(sigma == least) for sigma in sigmas]
    else:
        # Ratios of logarithms: powers of a small sigma are too large for a float.
        shares = [math.exp(-power * (math.log(sigma) - math.log(least))) for sigma in sigmas]
    whole = math.fsum(shares)
    return [share / whole for share in shares]


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """The mean (Eq. 2); rounding never takes it out of the range of the values."""
    mean = math.fsum(value * weight for value, weight in zip(values, weights, strict=True))
    return min(max(mean, min(values)), max(values))
