"""HarmonicEval: five criteria of a text about an image, and their weighted mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, get_args

from posh_reward.errors import InputError
from posh_reward.metrics.metric import (
    as_lists,
    build_signature,
    check_lengths,
    mean,
    read_usable_text,
)
from posh_reward.metrics.wording import load_sections
from posh_reward.models.asker import READING_VERSION, CachingModel
from posh_reward.models.model import (
    DOUBTFUL_MASS,
    Model,
    Prompt,
    make_savable,
    read_distribution,
    resolve_model,
)
from posh_reward.models.prompt_images import load_prompt_images
from posh_reward.store import Store, open_store
from posh_reward.types import LABELS, Failure, PromptImage, Usage, Verdict

Task = Literal["captioning", "vqa", "vdu", "reg"]
TASKS: tuple[Task, ...] = get_args(Task)
"""Captions; answers about images; answers about images of documents; referring expressions for the
object in an image's red box."""
TARGET_WORDS: dict[Task, str] = {
    "captioning": "caption",
    "vqa": "answer",
    "vdu": "answer",
    "reg": "expression",
}
"""Task -> word for its texts in prompts."""
ANSWER_TASKS: tuple[Task, ...] = ("vqa", "vdu")  # tasks whose texts answer a question

CRITERIA = ("correctness", "completeness", "clarity", "fluency", "conciseness")
IMAGE_CRITERIA = ("correctness", "completeness")
"""Criteria judged with the image and the question; the others see the text alone (C.4)."""
WORDING_EDITION = 1  # of our part: raise it with any change; signatures show it from 2 on
REASON_EDITION = 1  # of the request for a reason


@dataclass(frozen=True, slots=True)
class HarmonicItem:
    """One text to be judged."""

    text: str
    image: PromptImage | None = None  # None if no criterion uses it
    question: str = ""  # that the text answers, in tasks with questions

    @property
    def key(self) -> tuple[str, str, str]:
        """Key by which equal items are judged once."""
        return self.text, self.question, self.image.digest if self.image else ""


def check_task(task: str) -> Task:
    if task not in TASKS:
        raise InputError(f"task is {task!r}: choose one of {', '.join(TASKS)}")
    return task


def check_criteria(criteria: Sequence[str]) -> tuple[str, ...]:
    unknown = [each for each in criteria if each not in CRITERIA]
    if isinstance(criteria, str) or not criteria or unknown:
        raise InputError(f"criteria is {criteria!r}: use a list of {', '.join(CRITERIA)}")
    if len(set(criteria)) < len(criteria):
        raise InputError(f"criteria is {list(criteria)}: name each once")
    return tuple(criteria)


def build_prompt(criterion: str, item: HarmonicItem, task: Task) -> Prompt:
    """Prompt for one criterion; all texts of a task share its prefix."""
    target = TARGET_WORDS[task]
    ours = load_sections("other_metrics/harmonic", "ours")
    layout = ours[target if criterion in IMAGE_CRITERIA else "text"]
    opening = load_sections("other_metrics/harmonic", "paper")[criterion].format(target=target)
    own = "\n\n" + layout.format(text=item.text, question=item.question)
    if criterion not in IMAGE_CRITERIA or item.image is None:
        return Prompt(opening, own)
    return Prompt(opening, own, (item.image,))


def build_reason_prompt(question: Prompt, score: int) -> Prompt:
    """Prompt that asks for the reason of a score, in the paper's words (section 4.3)."""
    request = load_sections("other_metrics/harmonic", "ours")["why"].format(score=score)
    return question._replace(suffix=f"{question.suffix}\n\n{request}")


@dataclass(frozen=True, slots=True)
class CriterionScore:
    """Score of one text on one criterion."""

    criterion: str
    mean: float | None
    """1-5, higher is better: the expected score; None if the judgment failed."""
    sigma: float | None
    """Standard deviation of the score, 0 (sure) to 2."""
    weight: float | None = None
    """Share in the overall score; None if any criterion of the text failed."""
    failure: Failure | None = None
    mass: float | None = None
    """Probability of all score labels before renormalising; None if the judgment failed."""
    reason: str | None = None
    """The model's reason, if requested (section 4.3). Written by a model: escape it."""


@dataclass(frozen=True, slots=True)
class HarmonicScores:
    """HarmonicEval of one text. All scores are 1-5, higher is better."""

    overall: float | None
    """Weighted mean of the criteria; None if one failed."""
    signature: str
    """Settings and versions needed to reproduce the scores."""
    criteria: tuple[CriterionScore, ...] = ()
    """In the order of the metric's criteria; empty if the text or image is unusable."""
    failure: Failure | None = None
    """Reason for a missing overall score; None if there is a score."""
    generation: str = ""
    """The stripped text."""

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Criteria with a ``mass`` below ``DOUBTFUL_MASS``: their scores mean little."""
        return tuple(
            e.criterion for e in self.criteria if e.mass is not None and e.mass < DOUBTFUL_MASS
        )

    @property
    def means(self) -> dict[str, float | None]:
        return {each.criterion: each.mean for each in self.criteria}

    @property
    def sigmas(self) -> dict[str, float | None]:
        return {each.criterion: each.sigma for each in self.criteria}


MAX_REASON_TOKENS = 256
MAX_TEXTS_IN_MEMORY = 64  # texts whose images are in memory at a time


class HarmonicEval:
    """The metric. It needs no reference, but a vision model, unless no criterion uses the image.

    Args:
        model: a name, a settings file or a mapping (``models.model.load_model``), or a ``Model``.
        gamma: weighting by certainty: 1 for equal weights, 0.5 for inverse variances, 0 for the
            most certain criterion alone. The paper uses 0.75.
        store: a file (or a ``Store``) that keeps the model's answers across runs and processes.
        criteria: criteria to judge, with one question each. For short captions the paper uses two,
            correctness and "comprehensiveness" (Table 8): by its name this is ``completeness``,
            but C.1 uses it as the heading of the prompt for ``clarity``.
        explain: also ask for the reason of each score (section 4.3), one more reply each.

    Raises:
        InputError: a name is unknown, gamma is not between 0 and 1, or criteria need the image
            and the model does not take images.
        ConfigError: the model's settings are invalid.
    """

    name = "harmonic"
    """First word of signatures and log names."""

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
            raise InputError(f"gamma is {gamma}: use a number from 0 to 1, such as 0.75")
        self.gamma = gamma
        self.criteria = check_criteria(criteria)
        self.explain = explain
        self._uses_images = not set(IMAGE_CRITERIA).isdisjoint(criteria)
        self.model = resolve_model(model, sees=self._uses_images)
        self.store = open_store(store)
        self._asker = CachingModel(self.model, self.store)

    @property
    def signature(self) -> str:
        """``harmonic|model:...|gamma:0.75|replies:2|version:...``, for captioning."""
        return self.signature_for("captioning")

    def signature_for(self, task: str) -> str:
        """Signature of a task's scores; it names tasks other than captioning."""
        fields = {"model": self.model.name, "gamma": repr(float(self.gamma))}
        if self.criteria != CRITERIA:
            fields["criteria"] = ",".join(self.criteria)
        if task != "captioning":
            fields["task"] = task
        if WORDING_EDITION > 1:
            fields["wording"] = str(WORDING_EDITION)
        if self.explain:
            fields["reasons"] = str(REASON_EDITION)
        fields["replies"] = str(READING_VERSION)
        return build_signature(self.name, fields)

    @property
    def usage(self) -> Usage:
        return self.model.usage

    def figures(self, scores: Sequence[HarmonicScores]) -> dict[str, float]:
        """Means over the texts that have the figure, for a training log; NaN if none has.

        ``overall``, each criterion (1-5, higher is better), and its ``_sigma``.
        """
        means = {name: mean(values) for name, values in self.columns(scores).items()}
        for name in self.criteria:
            means[f"{name}_sigma"] = mean([score.sigmas.get(name) for score in scores])
        return means

    def columns(self, scores: Sequence[HarmonicScores]) -> dict[str, list[float | None]]:
        columns = {"overall": [score.overall for score in scores]}
        for name in self.criteria:
            columns[name] = [score.means.get(name) for score in scores]
        return columns

    def score(
        self,
        texts: Sequence[str | None],
        images: Sequence[object],
        task: str = "captioning",
        *,
        questions: Sequence[str | None] | None = None,
    ) -> list[HarmonicScores]:
        """Score each text about its image, in order.

        A text that cannot be scored gets a ``failure`` and no overall score, and does not affect
        the others; its ``criteria`` still have the scores that succeeded. Equal texts about equal
        images are judged once.

        Args:
            texts: texts to score, empty ones included.
            images: one per text, in any form that
                ``models.prompt_images.load_prompt_image`` takes. For ``reg``, a red box marks the
                object that the text refers to.
            task: ``captioning``; ``vqa`` and ``vdu``, answers about images and about images of
                documents; ``reg``, referring expressions.
            questions: the questions that the texts answer; for ``vqa`` and ``vdu`` only.

        Raises:
            InputError: the lists differ in length, the task is unknown, or questions are missing or
                not part of the task.
            JudgeError: the model does not work at all.
        """
        kind = check_task(task)
        lists: dict[str, Sequence[object]] = {"texts": texts}
        if kind in ANSWER_TASKS:
            if questions is None:
                raise InputError(f"task {task} needs questions: pass questions=, one for each text")
            lists["questions"] = questions
        elif questions is not None:
            raise InputError(
                f"task {task} has no questions: leave them out, or choose {ANSWER_TASKS}"
            )
        read, *asked = as_lists(**lists)
        check_lengths(texts=read, images=images)
        own_questions = asked[0] if asked else [""] * len(read)
        with self._asker.awake([text for text in read if isinstance(text, str)]):
            return self._score_in_parts(read, images, own_questions, kind)

    def _score_in_parts(
        self,
        texts: Sequence[object],
        images: Sequence[object],
        questions: Sequence[object],
        task: Task,
    ) -> list[HarmonicScores]:
        signed = self.signature_for(task)
        by_key: dict[tuple[str, str, str], HarmonicScores] = {}
        scores: list[HarmonicScores] = []
        for start in range(0, len(texts), MAX_TEXTS_IN_MEMORY):
            part = slice(start, start + MAX_TEXTS_IN_MEMORY)
            items = self._read_items(texts[part], images[part], questions[part])
            new: dict[tuple[str, str, str], HarmonicItem] = {}
            for item in items:
                if isinstance(item, HarmonicItem) and item.key not in by_key:
                    new[item.key] = item
            judged = self._judge_items(list(new.values()), task, signed)
            by_key.update(zip(new, judged, strict=True))
            for item in items:
                if isinstance(item, Failure):
                    scores.append(HarmonicScores(None, signed, failure=item))
                else:
                    scores.append(by_key[item.key])
        return scores

    def _read_items(
        self, texts: Sequence[object], images: Sequence[object], questions: Sequence[object]
    ) -> list[HarmonicItem | Failure]:
        prompt_images = load_prompt_images(images) if self._uses_images else [None] * len(texts)
        return list(map(_build_item, texts, prompt_images, questions))

    def _judge_items(
        self, items: Sequence[HarmonicItem], task: Task, signed: str
    ) -> list[HarmonicScores]:
        prompts = [build_prompt(name, item, task) for item in items for name in self.criteria]
        if not prompts:
            return []
        verdicts = self._asker.choose(prompts, LABELS)
        reasons = self._ask_reasons(prompts, verdicts)
        scores: list[HarmonicScores] = []
        size = len(self.criteria)
        for place, item in enumerate(items):
            own = slice(place * size, (place + 1) * size)
            scores.append(self._build_scores(item.text, verdicts[own], reasons[own], signed))
        return scores

    def _ask_reasons(
        self, prompts: Sequence[Prompt], verdicts: Sequence[Verdict]
    ) -> list[str | None]:
        """Ask for the reason of each score, if requested; a score without one stays valid."""
        reasons: list[str | None] = [None] * len(prompts)
        questions: dict[int, Prompt] = {}
        for place, verdict in enumerate(verdicts):
            masses = read_distribution(verdict)
            if self.explain and not isinstance(masses, Failure):
                score = 1 + max(range(len(masses)), key=masses.__getitem__)
                questions[place] = build_reason_prompt(prompts[place], score)
        if not questions:
            return reasons
        replies = self._asker.write(list(questions.values()), MAX_REASON_TOKENS)
        for place, reply in zip(questions, replies, strict=True):
            if reply.text is not None:
                reasons[place] = make_savable(reply.text)
        return reasons

    def _build_scores(
        self, text: str, verdicts: Sequence[Verdict], reasons: Sequence[str | None], signed: str
    ) -> HarmonicScores:
        criteria: list[CriterionScore] = []
        for name, verdict, reason in zip(self.criteria, verdicts, reasons, strict=True):
            criteria.append(replace(criterion_score(name, verdict), reason=reason))
        for each in criteria:
            if each.failure is not None:
                failure = each.failure.about(f"{each.criterion}:")
                return HarmonicScores(None, signed, tuple(criteria), failure, text)
        weights = harmonic_weights([each.sigma or 0.0 for each in criteria], self.gamma)
        overall = weighted_mean([each.mean or 0.0 for each in criteria], weights)
        whole = [replace(each, weight=share) for each, share in zip(criteria, weights, strict=True)]
        return HarmonicScores(overall, signed, tuple(whole), None, text)


def criterion_score(name: str, verdict: Verdict) -> CriterionScore:
    """Score of a criterion from the distribution over its labels, or its failure.

    A reply without any label is a failure, even if the model's reader takes it for the lowest
    label: its sigma would be 0, and it would get all the weight.
    """
    masses = read_distribution(verdict)
    if isinstance(masses, Failure):
        return CriterionScore(name, None, None, failure=masses)
    return CriterionScore(name, *mean_and_sigma(masses), mass=verdict.mass)


def _build_item(
    text: object, image: PromptImage | Failure | None, question: object
) -> HarmonicItem | Failure:
    words, item = read_usable_text(text, "the text"), read_usable_text(question, "the question")
    for each in (words, image, item):
        if isinstance(each, Failure):
            return each
    assert isinstance(words, str)
    assert isinstance(item, str)
    assert not isinstance(image, Failure)
    return HarmonicItem(words, image, item)


def mean_and_sigma(probabilities: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of a distribution over the scores 1, 2, ... (Eqs. 1 and 4)."""
    whole = math.fsum(probabilities)
    shares = [(score, each / whole) for score, each in enumerate(probabilities, start=1)]
    mean = math.fsum(score * share for score, share in shares)
    variance = math.fsum((score - mean) ** 2 * share for score, share in shares)
    return mean, math.sqrt(variance)


def harmonic_weights(sigmas: Sequence[float], gamma: float) -> list[float]:
    """Weights proportional to sigma ** (-2 (1 - gamma) / gamma), which sum to 1 (Eq. 3).

    Where the formula is undefined, its limit is used: with gamma 0, or if a sigma is 0 and gamma is
    below 1, criteria with the smallest sigma share all the weight equally.
    """
    if gamma == 1:
        return [1 / len(sigmas)] * len(sigmas)
    least = min(sigmas)
    power = 2 * (1 - gamma) / gamma if gamma else math.inf
    if least == 0 or math.isinf(power):
        shares = [float(sigma == least) for sigma in sigmas]
    else:
        # In logarithms, since powers of a small sigma would overflow.
        shares = [math.exp(-power * (math.log(sigma) - math.log(least))) for sigma in sigmas]
    whole = math.fsum(shares)
    return [share / whole for share in shares]


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Weighted mean (Eq. 2), clipped to the range of the values against rounding."""
    mean = math.fsum(value * weight for value, weight in zip(values, weights, strict=True))
    return min(max(mean, min(values)), max(values))
