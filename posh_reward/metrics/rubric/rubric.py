"""Rubrics: files of metrics with their points, steps and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

from posh_reward.errors import ConfigError, InputError
from posh_reward.settings import ENDINGS, brief, guess, read_settings

OPENING = (
    "You are an expert judge. Your task is to evaluate a given answer based on a ground truth and "
    "question using the criteria provided below."
)
MOST_METRICS = 100
LONGEST_NAME = 60  # characters of a metric's name


@dataclass(frozen=True, slots=True)
class RubricMetric:
    """One thing that gets points."""

    name: str
    """Its key in replies."""
    title: str
    points: Mapping[int, str]
    """Points -> when they are given, best first. No others can be given."""

    @property
    def highest(self) -> int:
        """Most points."""
        return max(self.points)

    @property
    def lowest(self) -> int:
        """Fewest points."""
        return min(self.points)


@dataclass(frozen=True, slots=True)
class Example:
    """An answer that the prompt shows with its points."""

    truth: str
    answer: str
    scores: Mapping[str, int]
    feedback: Mapping[str, str]
    question: str | None = None
    """None for the rubric's own."""


@dataclass(frozen=True, slots=True)
class Rubric:
    """Everything that a judge is told; higher points are better."""

    name: str
    metrics: tuple[RubricMetric, ...]
    steps: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    question: str | None = None
    """Answered by the texts, where a call has no questions."""
    opening: str = OPENING

    @property
    def highest(self) -> int:
        """Most points in total."""
        return sum(metric.highest for metric in self.metrics)

    @property
    def lowest(self) -> int:
        """Fewest points in total."""
        return sum(metric.lowest for metric in self.metrics)


def rubric_names() -> list[str]:
    """The shipped rubrics."""
    folder = resources.files(__package__ or "") / "rubrics"
    return sorted(Path(each.name).stem for each in folder.iterdir() if each.name.endswith(".yaml"))


def load_rubric(which: str | PathLike[str] | Mapping[str, Any] | Rubric) -> Rubric:
    """The rubric of a name, a YAML or JSON file, or a mapping.

    Raises:
        InputError: there is no rubric of that name.
        ConfigError: the file cannot be read, or does not describe a rubric; the message says where.
    """
    if isinstance(which, Rubric):
        return which
    if isinstance(which, Mapping):
        return rubric_of(which, "rubric")
    path = Path(which)
    if path.suffix.lower() in ENDINGS:
        return rubric_of(read_settings(path, "the rubric"), path.stem)
    if str(which) not in rubric_names():
        raise InputError(
            f"there is no rubric {brief(str(which))}{guess(str(which), rubric_names())}: give a "
            f".yaml or .json file, or one of {', '.join(rubric_names())}"
        )
    with resources.as_file(resources.files(__package__ or "") / f"rubrics/{which}.yaml") as file:
        return rubric_of(read_settings(file), str(which))


def rubric_of(settings: Mapping[str, Any], name: str) -> Rubric:
    """The rubric that settings describe.

    Args:
        settings: ``metrics``, and if wanted ``steps``, ``examples``, ``question``, ``opening``.
        name: of the rubric, for signatures and messages.

    Raises:
        ConfigError: they do not describe a rubric; the message says where.
    """
    there = _Fields(settings, name)
    there.only("metrics", "steps", "examples", "question", "opening")
    listed = there.number_lines("metrics")
    if len(listed) > MOST_METRICS:
        raise ConfigError(f"{name} has {len(listed):,} metrics: list {MOST_METRICS} at most")
    metrics = tuple(_metric(each, f"{name}: metric {number}") for number, each in listed)
    if not metrics:
        raise ConfigError(f"{name} has no metrics: list at least one, with its points")
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names):
        raise ConfigError(f"{name}: two metrics have the same name: {', '.join(names)}")
    examples = (
        _example(each, metrics, f"{name}: example {number}")
        for number, each in there.number_lines("examples")
    )
    steps = tuple(_text(each, f"{name}: step {n}") for n, each in there.number_lines("steps"))
    wording = {key: there.text(key) for key in ("question", "opening") if settings.get(key)}
    return Rubric(name, metrics, steps, tuple(examples), **wording)


@dataclass(frozen=True, slots=True)
class _Fields:
    """A mapping from a file, and where it stands there."""

    values: Mapping[str, Any]
    where: str

    def only(self, *keys: str) -> None:
        if not isinstance(self.values, Mapping):
            raise ConfigError(f"{self.where} is {brief(self.values)}: give a mapping")
        for key in self.values:
            if key not in keys:
                raise ConfigError(
                    f"{self.where}: there is no setting {brief(key)}{guess(key, keys)}: choose "
                    f"among {', '.join(keys)}"
                )

    def text(self, key: str) -> str:
        return _text(self.values.get(key), f"{self.where}: {key}")

    def number_lines(self, key: str) -> Sequence[tuple[int, Any]]:
        listed = self.values.get(key) or []
        if not isinstance(listed, list):
            raise ConfigError(f"{self.where}: {key} is {brief(listed)}: give a list")
        return list(enumerate(listed, start=1))

    def mapping(self, key: str) -> Mapping[Any, Any]:
        content = self.values.get(key)
        if not isinstance(content, Mapping):
            raise ConfigError(f"{self.where}: {key} is {brief(content)}: give a mapping")
        return content


def _metric(settings: Mapping[str, Any], where: str) -> RubricMetric:
    there = _Fields(settings, where)
    there.only("name", "title", "points")
    points = {_points(key, where): text for key, text in there.mapping("points").items()}
    for key, text in points.items():
        _text(text, f"{where}: points {key}")
    if len(points) < 2:
        raise ConfigError(f"{where} has {len(points)} points to give: list at least two")
    ordered = dict(sorted(points.items(), reverse=True))
    return RubricMetric(_name(there.text("name"), where), there.text("title"), ordered)


def _name(name: str, where: str) -> str:
    """A name that is itself in JSON and on a screen."""
    if not name.isprintable() or len(name) > LONGEST_NAME or any(mark in name for mark in '"\\'):
        raise ConfigError(
            f"{where}: name is {brief(name)}: give at most {LONGEST_NAME} printable characters, "
            "without quotes and backslashes"
        )
    return name


def _example(settings: Mapping[str, Any], metrics: Sequence[RubricMetric], where: str) -> Example:
    there = _Fields(settings, where)
    there.only("question", "truth", "answer", "scores", "feedback")
    scores, feedback = there.mapping("scores"), there.mapping("feedback")
    for metric in metrics:
        if scores.get(metric.name) not in list(metric.points):
            raise ConfigError(
                f"{where}: {metric.name} has {brief(scores.get(metric.name))} points: give one of "
                f"{', '.join(map(str, metric.points))}"
            )
        _text(feedback.get(metric.name), f"{where}: feedback on {metric.name}")
    question = there.text("question") if "question" in settings else None
    return Example(there.text("truth"), there.text("answer"), scores, feedback, question)


def _points(key: object, where: str) -> int:
    try:
        return int(str(key))
    except ValueError:
        raise ConfigError(f"{where}: {brief(key)} points: give a whole number") from None


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where} is {brief(value)}: give a text")
    return value.strip()
