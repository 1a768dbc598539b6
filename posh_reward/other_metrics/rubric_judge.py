"""Rubric judge: points on several metrics, each with a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from posh_reward.errors import ConfigError, InputError
from posh_reward.metrics.metric import (
    as_lists,
    build_signature,
    mean,
    read_reference,
    read_usable_text,
)
from posh_reward.metrics.wording import load_sections
from posh_reward.models.asker import READING_VERSION, CachingModel
from posh_reward.models.model import Model, Prompt, make_savable, resolve_model
from posh_reward.settings import SETTINGS_SUFFIXES, read_settings, shorten, suggest_name
from posh_reward.store import Store, open_store
from posh_reward.types import Failure, Reply, Usage

DEFAULT_OPENING = (
    "You are an expert judge. Your task is to evaluate a given answer based on a ground truth and "
    "question using the criteria provided below."
)
Text = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)]
STRICT_CONFIG = ConfigDict(frozen=True, extra="forbid")


class RubricMetric(BaseModel):
    """One criterion that earns points."""

    model_config = STRICT_CONFIG
    name: Annotated[Text, StringConstraints(max_length=60)]
    """Its key in replies."""
    title: Text
    points: Annotated[dict[int, Text], Field(min_length=2)]
    """Allowed points -> condition that earns them, best first."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not name.isprintable() or any(mark in name for mark in '"\\'):
            raise ValueError("use printable characters without quotes and backslashes")
        return name

    @field_validator("points")
    @classmethod
    def _sort_best_first(cls, points: dict[int, str]) -> dict[int, str]:
        return dict(sorted(points.items(), reverse=True))

    @property
    def highest(self) -> int:
        return max(self.points)

    @property
    def lowest(self) -> int:
        return min(self.points)


class Example(BaseModel):
    """An answer with its points, shown in the prompt."""

    model_config = STRICT_CONFIG
    truth: Text
    answer: Text
    scores: dict[str, StrictInt]
    feedback: dict[str, Text]
    question: Text | None = None
    """None: the rubric's own question."""


class Rubric(BaseModel):
    """Instructions to a judge; more points are better."""

    model_config = STRICT_CONFIG
    name: str
    metrics: Annotated[tuple[RubricMetric, ...], Field(min_length=1, max_length=100)]
    steps: tuple[Text, ...] = ()
    examples: tuple[Example, ...] = ()
    question: Text | None = None
    """The question that the texts answer, for calls without questions."""
    opening: Text = DEFAULT_OPENING

    @model_validator(mode="after")
    def _check_consistency(self) -> Rubric:
        names = [metric.name for metric in self.metrics]
        if len(set(names)) < len(names):
            raise ValueError(f"two metrics have the same name: {', '.join(names)}")
        for number, example in enumerate(self.examples, start=1):
            for metric in self.metrics:
                points = example.scores.get(metric.name)
                if points not in metric.points or metric.name not in example.feedback:
                    raise ValueError(
                        f"example {number}: {metric.name} has {points} points: use one of "
                        f"{', '.join(map(str, metric.points))}, with feedback"
                    )
        return self

    @property
    def highest(self) -> int:
        return sum(metric.highest for metric in self.metrics)

    @property
    def lowest(self) -> int:
        return sum(metric.lowest for metric in self.metrics)


def list_rubrics() -> list[str]:
    folder = resources.files("posh_reward") / "other_metrics/rubric/rubrics"
    return sorted(Path(each.name).stem for each in folder.iterdir() if each.name.endswith(".yaml"))


def load_rubric(which: str | PathLike[str] | Mapping[str, Any] | Rubric) -> Rubric:
    """Load a rubric from a name, a YAML or JSON file, or a mapping.

    Raises:
        InputError: no rubric has that name.
        ConfigError: the file is unreadable or does not describe a rubric; the message says where.
    """
    if isinstance(which, Rubric):
        return which
    if isinstance(which, Mapping):
        return parse_rubric(which, "rubric")
    path = Path(which)
    if path.suffix.lower() in SETTINGS_SUFFIXES:
        return parse_rubric(read_settings(path, "the rubric"), path.stem)
    if str(which) not in list_rubrics():
        raise InputError(
            f"unknown rubric {shorten(str(which))}{suggest_name(str(which), list_rubrics())}: "
            f"use a .yaml or .json file, or one of {', '.join(list_rubrics())}"
        )
    with resources.as_file(
        resources.files("posh_reward") / f"other_metrics/rubric/rubrics/{which}.yaml"
    ) as file:
        return parse_rubric(read_settings(file), str(which))


def parse_rubric(settings: Mapping[str, Any], name: str) -> Rubric:
    """Read a rubric from settings; ``name`` is shown in signatures and messages."""
    try:
        return Rubric.model_validate({**settings, "name": name})
    except ValidationError as error:
        first = error.errors()[0]
        parts = []
        for part in first["loc"]:
            parts.append(f"{part + 1}" if isinstance(part, int) else part)  # counted from 1
        place = " ".join(parts)
        why = first["msg"].removeprefix("Value error, ")
        at = f"{place} is {shorten(first['input'])}: " if place else ""
        raise ConfigError(f"{name}: {at}{why[:1].lower()}{why[1:]}") from None


@dataclass(frozen=True, slots=True)
class MetricPoints:
    """Points on one metric."""

    metric: str
    title: str
    points: int
    """Higher is better."""
    lowest: int
    highest: int
    feedback: str
    """The judge's reason. Written by a model: escape it in web pages."""


@dataclass(frozen=True, slots=True)
class RubricScores:
    """Points of one text on all metrics of a rubric."""

    total: int | None
    """Sum of the points, higher is better; None if judging failed."""
    share: float | None
    """The total, scaled from 0 (fewest points) to 1 (most)."""
    signature: str
    """Settings and versions needed to reproduce the points."""
    metric_points: tuple[MetricPoints, ...] = ()
    """One per metric, in the rubric's order; empty if judging failed."""
    failure: Failure | None = None
    """Reason for missing points; None if there are points."""
    repaired: bool = False
    """True if the points come from a second reply, because the first was unusable."""
    generation: str = ""
    """The stripped text."""

    @property
    def points(self) -> dict[str, int]:
        return {each.metric: each.points for each in self.metric_points}


MAX_FEEDBACK_CHARACTERS = 2_000  # of a reason; longer ones are cut


class ReplyError(ValueError):
    """Unusable reply. The judge is shown the message and asked again."""


def read_points(reply: str, rubric: Rubric) -> tuple[MetricPoints, ...]:
    """Read one number of points per metric from a reply.

    Text or a code fence around the JSON object is ignored. The object must have exactly the
    rubric's metrics as keys, each scored with points that the rubric allows.
    """
    values = _parse_object(reply)
    names = [metric.name for metric in rubric.metrics]
    missing = [name for name in names if name not in values]
    if missing:
        raise ReplyError(f"{', '.join(missing)} missing")
    for name in values:
        if name not in names:
            raise ReplyError(f"{shorten(name)} is not a criterion")
    return tuple(_read_metric_points(metric, values[metric.name]) for metric in rubric.metrics)


def _parse_object(reply: str) -> Mapping[str, Any]:
    start = reply.find("{")
    if start < 0:
        raise ReplyError("there is no JSON object in it")
    decoder = json.JSONDecoder(
        object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant
    )
    try:
        values, _ = decoder.raw_decode(reply, start)
    except ReplyError:
        raise
    except RecursionError:
        raise ReplyError("its JSON is nested too deeply") from None
    except ValueError as error:
        raise ReplyError(f"its JSON is broken: {error}") from None
    assert isinstance(values, dict)
    return values


def _reject_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ReplyError("it gives a name twice")
    return values


def _reject_constant(name: str) -> float:
    raise ReplyError(f"{name} is not a number of points")


def _read_metric_points(metric: RubricMetric, content: object) -> MetricPoints:
    if not isinstance(content, dict) or set(content) != {"score", "feedback"}:
        raise ReplyError(f'{metric.name} is not an object of "score" and "feedback"')
    score, feedback = content["score"], content["feedback"]
    if isinstance(score, bool) or not isinstance(score, int | float) or score not in metric.points:
        allowed = ", ".join(map(str, sorted(metric.points)))
        raise ReplyError(f"the score of {metric.name} is {shorten(score)}, not one of {allowed}")
    if not isinstance(feedback, str):
        raise ReplyError(f"the feedback on {metric.name} is not a text")
    reason = make_savable(feedback.strip()[:MAX_FEEDBACK_CHARACTERS])
    return MetricPoints(
        metric.name, metric.title, int(score), metric.lowest, metric.highest, reason
    )


WORDING_EDITION = 1  # of the wording: raise it with any change; signatures show it from 2 on
MAX_QUOTE_CHARACTERS = 2_000  # of an unusable reply quoted back to the judge
DEFAULT_QUESTION = "Describe the image."  # if neither the call nor the rubric has a question


def build_opening(rubric: Rubric) -> str:
    """Beginning shared by all prompts of a rubric."""
    criteria = map(_format_criterion, count(1), rubric.metrics)
    steps = map("{}. {}".format, count(1), rubric.steps)
    examples = [_format_example(rubric, example) for example in rubric.examples]
    return _read_section("judge").format(
        opening=rubric.opening,
        criteria="\n\n".join(criteria),
        steps="\n".join(steps),
        form=describe_reply_format(rubric),
        examples="\n\n".join(examples),
    )


def digest_prompts(opening_text: str, rubric: Rubric) -> str:
    """Eight hexadecimal digits that change with the text of a rubric's prompts."""
    return sha256(f"{opening_text}\0{rubric.question}".encode()).hexdigest()[:8]


def build_prompt(
    opening_text: str, rubric: Rubric, answer: str, truth: str, question: str | None
) -> Prompt:
    """Prompt that asks for the points of one answer below a text from ``build_opening``."""
    return Prompt(opening_text, "\n\n" + _format_item(rubric, answer, truth, question))


def build_repair_prompt(question: Prompt, reply: str, reason: str) -> Prompt:
    """Prompt that quotes an unusable reply with the reason, and asks again."""
    request = _read_section("repair").format(reply=reply[:MAX_QUOTE_CHARACTERS], reason=reason)
    return question._replace(suffix=f"{question.suffix}\n\n{request}")


def describe_reply_format(rubric: Rubric) -> str:
    """JSON form that a reply must have."""
    lines = []
    for metric in rubric.metrics:
        allowed = ", ".join(map(str, sorted(metric.points)))
        lines.append(f'  "{metric.name}": {{"score": <one of {allowed}>, "feedback": "<why>"}}')
    return "{\n" + ",\n".join(lines) + "\n}"


def _format_criterion(number: int, metric: RubricMetric) -> str:
    head = f"{number}. {metric.name}: {metric.title} ({metric.lowest}-{metric.highest} points)"
    lines = [head]
    for points, text in metric.points.items():
        lines.append(f"   - {points} point{'' if points == 1 else 's'}: {text}")
    return "\n".join(lines)


def _format_example(rubric: Rubric, example: Example) -> str:
    reply = {}
    for metric in rubric.metrics:
        score, feedback = example.scores[metric.name], example.feedback[metric.name]
        reply[metric.name] = {"score": score, "feedback": feedback}
    item = _format_item(rubric, example.answer, example.truth, example.question)
    return f"{item}\n{_read_section('reply').format(reply=json.dumps(reply, ensure_ascii=False))}"


def _format_item(rubric: Rubric, answer: str, truth: str, question: str | None) -> str:
    question = question or rubric.question or DEFAULT_QUESTION
    return _read_section("item").format(question=question, truth=truth, answer=answer)


def _read_section(name: str) -> str:
    return load_sections("other_metrics/rubric", "paper")[name]


MAX_REPLY_TOKENS = 1024  # five metrics take about 200

Points = tuple[MetricPoints, ...]


class RubricJudge:
    """A language model that scores texts by a rubric.

    Args:
        model: a name, a settings file or a mapping (``models.model.load_model``), or a ``Model``.
        rubric: the name of a shipped rubric ("animals" is the paper's), a YAML or JSON file, a
            mapping, or a ``Rubric``.
        store: a file (or a ``Store``) that keeps the model's replies across runs and processes.

    Raises:
        InputError: a name is unknown.
        ConfigError: the rubric or the model's settings are invalid.
    """

    name = "rubric"
    """First word of signatures and log names."""

    def __init__(
        self,
        model: str | Mapping[str, Any] | Model,
        rubric: str | PathLike[str] | Mapping[str, Any] | Rubric = "animals",
        store: str | PathLike[str] | Store | None = None,
    ) -> None:
        self.model = resolve_model(model)
        self.rubric = load_rubric(rubric)
        self.store = open_store(store)
        self._opening = build_opening(self.rubric)
        self._asker = CachingModel(self.model, self.store)

    @property
    def signature(self) -> str:
        """``rubric|model:...|rubric:animals-1a2b3c4d|replies:2|version:...``."""
        which = f"{self.rubric.name}-{digest_prompts(self._opening, self.rubric)}"
        fields = {"model": self.model.name, "rubric": which}
        if WORDING_EDITION > 1:
            fields["wording"] = str(WORDING_EDITION)
        return build_signature(self.name, fields | {"replies": str(READING_VERSION)})

    @property
    def usage(self) -> Usage:
        return self.model.usage

    def figures(self, scores: Sequence[RubricScores]) -> dict[str, float]:
        """Means over the texts that have points, for a training log; NaN if none has.

        ``share`` of the points (0-1), ``total``, each metric, and ``repaired_share``.
        """
        scored = [score for score in scores if score.failure is None]
        means = {"share": mean([score.share for score in scored])}
        means["total"] = mean([score.total for score in scored])
        for metric in self.rubric.metrics:
            means[metric.name] = mean([score.points[metric.name] for score in scored])
        means["repaired_share"] = mean([score.repaired for score in scored])
        return means

    def columns(self, scores: Sequence[RubricScores]) -> dict[str, list[float | None]]:
        columns: dict[str, list[float | None]] = {"total": [score.total for score in scores]}
        for metric in self.rubric.metrics:
            columns[metric.name] = [score.points.get(metric.name) for score in scores]
        return columns

    def score(
        self,
        texts: Sequence[str | None],
        references: Sequence[str | None],
        questions: Sequence[str | None] | None = None,
    ) -> list[RubricScores]:
        """Judge each text against its reference, in order.

        A text that cannot be judged gets a ``failure`` and no points, and does not affect the
        others. After an unusable reply, the model is told the error and asked once more. Equal
        texts are judged once.

        Args:
            texts: answers to be judged, empty ones included.
            references: ground truth of each text.
            questions: the question that each text answers; by default the rubric's.

        Raises:
            InputError: the lists differ in length, or one is a bare string.
            JudgeError: the model does not work at all.
        """
        lists = {"texts": texts, "references": references}
        if questions is not None:
            lists["questions"] = questions
        given, truths, *asked = as_lists(**lists)
        answers = [read_usable_text(text, "the text") for text in given]
        own_questions = asked[0] if asked else [None] * len(answers)
        prompts = list(map(self._build_prompt, answers, truths, own_questions))
        results = iter(self._judge_prompts([each for each in prompts if isinstance(each, Prompt)]))
        scores: list[RubricScores] = []
        for answer, each in zip(answers, prompts, strict=True):
            if isinstance(each, Failure):
                scores.append(RubricScores(None, None, self.signature, failure=each))
            else:
                scores.append(self._build_scores(str(answer), *next(results)))
        return scores

    def _build_prompt(
        self, answer: str | Failure, truth: object, question: object
    ) -> Prompt | Failure:
        question = None if question is None else read_usable_text(question, "the question")
        reference = read_usable_text(read_reference(truth), "the reference")
        for each in (answer, reference, question):
            if isinstance(each, Failure):
                return each
        assert isinstance(answer, str)
        assert isinstance(reference, str)
        assert not isinstance(question, Failure)
        return build_prompt(self._opening, self.rubric, answer, reference, question)

    def _judge_prompts(self, prompts: Sequence[Prompt]) -> list[tuple[Points | Failure, bool]]:
        """Points for each prompt, and True if they come from a second reply."""
        with self._asker.awake(prompts):
            first = self._ask(prompts)
            again: dict[Prompt, Prompt] = {}
            for question, (reply, points) in zip(prompts, first, strict=True):
                if isinstance(points, Failure) and reply.text is not None:
                    again[question] = build_repair_prompt(question, reply.text, points.detail)
            second = dict(zip(again, self._ask(list(again.values())), strict=True))
        results: list[tuple[Points | Failure, bool]] = []
        for question, (_, points) in zip(prompts, first, strict=True):
            if question in second:
                results.append((second[question][1], True))
            else:
                results.append((points, False))
        return results

    def _ask(self, prompts: Sequence[Prompt]) -> list[tuple[Reply, Points | Failure]]:
        replies = self._asker.write(prompts, MAX_REPLY_TOKENS)
        return [(reply, self._read_reply(reply)) for reply in replies]

    def _read_reply(self, reply: Reply) -> Points | Failure:
        if reply.text is None:
            return reply.failure or Failure("reply", "the model gave neither points nor a reason")
        try:
            return read_points(reply.text, self.rubric)
        except ReplyError as error:
            return Failure("reply", f"the reply cannot be used: {error}")

    def _build_scores(self, answer: str, points: Points | Failure, repaired: bool) -> RubricScores:
        if isinstance(points, Failure):
            return RubricScores(None, None, self.signature, failure=points, generation=answer)
        total = sum(each.points for each in points)
        share = (total - self.rubric.lowest) / (self.rubric.highest - self.rubric.lowest)
        return RubricScores(total, share, self.signature, points, None, repaired, answer)
