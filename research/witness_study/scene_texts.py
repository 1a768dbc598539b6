"""Texts about drawn scenes, with known false and missing details."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from posh_reward.datasets.scenes import (
    BACKDROPS,
    COLORS,
    GARMENTS,
    HANDHELD,
    MAX_BIRDS,
    POSES,
    SIZES,
    THINGS,
    Scene,
    Subject,
    caption,
)
from posh_reward.posh.oracle import Oracle
from posh_reward.types import Question, Verdict


class ErringWitness(Oracle):
    """The oracle, with a share ``rate`` of its answers flipped, always the same ones."""

    def __init__(self, dataset: str, rate: float) -> None:
        super().__init__(dataset)
        self._rate = rate

    @property
    def name(self) -> str:
        """The oracle's name, and the error rate."""
        return f"{super().name}-erring-{self._rate:g}"

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        """Return the oracle's verdicts, some of them flipped."""
        verdicts = super().grade(requests)
        return [self._report(*each) for each in zip(requests, verdicts, strict=True)]

    def _report(self, request: Question, verdict: Verdict) -> Verdict:
        if verdict.probabilities is None or request.image is None:
            return verdict
        fields = (request.kind, request.identifier, request.text, request.other,
                 request.source.text, request.image.digest)  # fmt: skip
        rng = random.Random(hashlib.sha256(repr(fields).encode()).digest())
        return Verdict(verdict.probabilities[::-1]) if rng.random() < self._rate else verdict


TEXTS_PER_IMAGE = 6  # with 0 to 5 false details
LEFT_OUT = (0.0, 0.25, 0.5)  # probabilities of leaving out an optional detail
OPTIONAL: tuple[Mapping[str, None], ...] = (
    {"hat": None},
    {"held": None, "held_color": None},
    {"size": None},
    {"behind": None, "behind_color": None},
)
"""Optional parts of a description."""
Fact = tuple[int, str, object]  # slot, property and value


@dataclass(frozen=True)
class SceneText:
    """A text about an image."""

    image: int
    text: str
    truth: float  # share of its details that are true of the drawing


def scene_texts(scenes: Sequence[Scene]) -> list[SceneText]:
    """Write ``TEXTS_PER_IMAGE`` texts about each image."""
    return [
        SceneText(image, caption(content), truth(content, scene))
        for image, scene in enumerate(scenes)
        for content in texts_of(scene)
    ]


def texts_of(scene: Scene) -> Iterator[Scene]:
    """Yield the content of each text."""
    for mistakes in range(TEXTS_PER_IMAGE):
        rng = random.Random(f"{scene.uid}/told/{mistakes}")
        share = rng.choice(LEFT_OUT)
        slots = [each and shorten(each, share, rng) for each in scene.slots]
        for _ in range(mistakes):
            slot = rng.choice([slot for slot, each in enumerate(slots) if each])
            subject = slots[slot]
            assert subject is not None
            slots[slot] = falsify(subject, scene.slots[slot], rng)
        yield Scene(f"{scene.uid}/{mistakes}", tuple(slots))


def shorten(subject: Subject, share: float, rng: random.Random) -> Subject:
    """Leave out some of a subject's details."""
    for without in OPTIONAL:
        if rng.random() < share:
            subject = replace(subject, **without)  # type: ignore[arg-type]  # the optional ones
    return subject


def falsify(subject: Subject, other: Subject | None, rng: random.Random) -> Subject:
    """Make one more of a subject's details false, if any is left as in ``other``."""
    changes = [
        (name, values)
        for name, values in choices(subject).items()
        if getattr(subject, name) is not None and getattr(subject, name) == getattr(other, name)
    ]
    if not changes:
        return subject
    name, values = rng.choice(changes)
    others = [value for value in values if value != getattr(subject, name)]
    return replace(subject, **{name: rng.choice(others)})


def choices(subject: Subject) -> dict[str, Sequence[Any]]:
    """Return the possible values of each detail of such a subject."""
    if subject.is_person:
        skirted = subject.noun in ("woman", "girl")
        alike = [each for each in GARMENTS if (each in ("woman", "girl")) == skirted]
        return {
            "noun": alike, "color": COLORS, "pose": POSES, "hat": COLORS, "held": HANDHELD,
            "held_color": COLORS, "behind": BACKDROPS, "behind_color": COLORS,
        }  # fmt: skip
    if subject.noun == "bird":
        return {"color": COLORS, "count": range(1, MAX_BIRDS + 1)}
    return {"noun": [each for each in THINGS if each != "bird"], "color": COLORS, "size": SIZES}


def facts(scene: Scene) -> set[Fact]:
    """Return the details of a scene's full description."""
    return {
        (slot, name, value)
        for slot, subject in enumerate(scene.slots)
        if subject is not None
        for name, value in asdict(subject).items()
        if value is not None and (name != "count" or subject.noun == "bird")
    }


def truth(content: Scene, drawing: Scene) -> float:
    """Return the share of a content's details that the drawing has."""
    details = facts(content)
    return len(details & facts(drawing)) / len(details)
