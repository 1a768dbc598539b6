"""Rubrics: metrics with their points, steps and examples, read from files."""

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
    """One criterion that earns points."""

    name: str
    """Its key in replies."""
    title: str
    points: Mapping[int, str]
    """Allowed points -> condition that earns them, best first."""

    @property
    def highest(self) -> int:
        """Highest possible points."""
        return max(self.points)

    @property
    def lowest(self) -> int:
        """Lowest possible points."""
        return min(self.points)


@dataclass(frozen=True, slots=True)
class Example:
    """An answer with its points, shown in the prompt."""

    truth: str
    answer: str
    scores: Mapping[str, int]
    feedback: Mapping[str, str]
    question: str | None = None
    """None: the rubric's own question."""


@dataclass(frozen=True, slots=True)
class Rubric:
    """Instructions to a judge; more points are better."""

    name: str
    metrics: tuple[RubricMetric, ...]
    steps: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    question: str | None = None
    """The question that the texts answer, for calls without questions."""
    opening: str = OPENING

    @property
    def highest(self) -> int:
        """Highest possible total."""
        return sum(metric.highest for metric in self.metrics)

    @property
    def lowest(self) -> int:
        """Lowest possible total."""
        return sum(metric.lowest for metric in self.metrics)


def rubric_names() -> list[str]:
    folder = resources.files(__package__ or "") / "rubrics"
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
        return rubric_of(which, "rubric")
    path = Path(which)
    if path.suffix.lower() in ENDINGS:
        return rubric_of(read_settings(path, "the rubric"), path.stem)
    if str(which) not in rubric_names():
        raise InputError(
            f"unknown rubric {brief(str(which))}{guess(str(which), rubric_names())}: use a .yaml "
            f"or .json file, or one of {', '.join(rubric_names())}"
        )
    with resources.as_file(resources.files(__package__ or "") / f"rubrics/{which}.yaml") as file:
        return rubric_of(read_settings(file), str(which))


def rubric_of(settings: Mapping[str, Any], name: str) -> Rubric:
    """Read a rubric from settings.

    Args:
        settings: ``metrics``, and optionally ``steps``, ``examples``, ``question``, ``opening``.
        name: shown in signatures and messages.

    Raises:
        ConfigError: they do not describe a rubric; the message says where.
    """
    _check_keys(settings, name, ("metrics", "steps", "examples", "question", "opening"))
    listed = _numbered(settings, "metrics", name)
    if not 1 <= len(listed) <= MOST_METRICS:
        raise ConfigError(f"{name} has {len(listed):,} metrics: list 1 to {MOST_METRICS}")
    metrics = tuple(_metric(each, where) for where, each in listed)
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names):
        raise ConfigError(f"{name}: two metrics have the same name: {', '.join(names)}")
    steps = [_text(each, where) for where, each in _numbered(settings, "steps", name)]
    listed = _numbered(settings, "examples", name)
    examples = [_example(each, metrics, where) for where, each in listed]
    optional = [key for key in ("question", "opening") if settings.get(key)]
    wording = {key: _text(settings[key], f"{name}: {key}") for key in optional}
    return Rubric(name, metrics, tuple(steps), tuple(examples), **wording)


def _metric(settings: object, where: str) -> RubricMetric:
    fields = _check_keys(settings, where, ("name", "title", "points"))
    listed = _mapping(fields.get("points"), f"{where}: points")
    points = {_points(key, where): text for key, text in listed.items()}
    for key, text in points.items():
        _text(text, f"{where}: points {key}")
    if len(points) < len(listed):  # such as 1 and "1", which YAML keeps apart
        raise ConfigError(f"{where}: points lists a number twice: {', '.join(map(brief, listed))}")
    if len(points) < 2:
        raise ConfigError(f"{where}: points has {len(points)} entries: list at least two")
    name = _text(fields.get("name"), f"{where}: name")
    if not name.isprintable() or len(name) > LONGEST_NAME or any(mark in name for mark in '"\\'):
        raise ConfigError(
            f"{where}: name is {brief(name)}: use at most {LONGEST_NAME} printable characters, "
            "without quotes and backslashes"
        )
    title = _text(fields.get("title"), f"{where}: title")
    return RubricMetric(name, title, dict(sorted(points.items(), reverse=True)))


def _example(settings: object, metrics: Sequence[RubricMetric], where: str) -> Example:
    fields = _check_keys(settings, where, ("question", "truth", "answer", "scores", "feedback"))
    scores, feedback = (_mapping(fields.get(k), f"{where}: {k}") for k in ("scores", "feedback"))
    for metric in metrics:
        points = scores.get(metric.name)
        if type(points) is not int or points not in metric.points:
            raise ConfigError(
                f"{where}: {metric.name} has {brief(points)} points: use one of "
                f"{', '.join(map(str, metric.points))}"
            )
        _text(feedback.get(metric.name), f"{where}: feedback on {metric.name}")
    truth, answer = (_text(fields.get(k), f"{where}: {k}") for k in ("truth", "answer"))
    question = _text(fields["question"], f"{where}: question") if "question" in fields else None
    return Example(truth, answer, scores, feedback, question)


def _points(key: object, where: str) -> int:
    try:
        return int(str(key))
    except ValueError:
        raise ConfigError(f"{where}: {brief(key)} points: use a whole number") from None


def _check_keys(settings: object, where: str, keys: Sequence[str]) -> Mapping[Any, Any]:
    mapping = _mapping(settings, where)
    for key in mapping:
        if key not in keys:
            raise ConfigError(
                f"{where}: unknown setting {brief(key)}{guess(key, keys)}: choose among "
                f"{', '.join(keys)}"
            )
    return mapping


def _mapping(value: object, where: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} is {brief(value)}: use a mapping")
    return value


def _numbered(settings: Mapping[str, Any], key: str, where: str) -> list[tuple[str, Any]]:
    """Items of a list, each with its place for messages, such as "animals: step 2"."""
    items = settings.get(key) or []
    if not isinstance(items, list):
        raise ConfigError(f"{where}: {key} is {brief(items)}: use a list")
    return [(f"{where}: {key[:-1]} {number}", item) for number, item in enumerate(items, start=1)]


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where} is {brief(value)}: use a text")
    return value.strip()
