"""Raters who prefer a model by a known amount, to try a study out before people spend their time.

The rule is that of ``plan``: on each item a model is better by an amount that raters share, each
rater adds an opinion, and cuts make one of five choices of it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from posh_reward.study.packets import wording
from posh_reward.study.packets.answers import AXES, signed
from posh_reward.study.packets.opinions import Opinions
from posh_reward.study.packets.raters import FASTEST
from posh_reward.study.packets.records import ANSWERS_FORMAT, Key, Task
from posh_reward.study.packets.words import words
from posh_reward.study.rows.journal import Row


@dataclass(frozen=True, slots=True)
class Crowd:
    """What simulated raters think."""

    preference: Mapping[str, float]
    """By axis, the mean preference for the later of two models, -2 to 2."""
    opinions: Opinions
    marks: Mapping[str, float]
    """By model, the chance that a word is marked."""
    seed: int = 0


def answer_file(key: Key, name: str, crowd: Crowd) -> bytes:
    """A rater's file, as the page would save it."""
    rater = key.raters[name]
    rng = random.Random(f"{crowd.seed} {name}")
    content: Row = {
        "format": ANSWERS_FORMAT,
        "packet": key.packet,
        "rater": name,
        "saved": "1970-01-01T00:00:00.000Z",
        "answers": [_answer(key, task, crowd, rng) for task in rater.tasks],
    }
    return signed(content, rater.token)


def _answer(key: Key, task: Task, crowd: Crowd, rng: random.Random) -> Row:
    said = (
        _preferences(key, task, crowd, rng)
        if len(task.models) == 2
        else _marks(key, task, crowd, rng)
    )
    item = key.items[task.item]
    texts = (item.reference, *(item.texts[model] for model in task.models))
    read = sum(len(words(text)) for text in texts)
    seconds = round(read / FASTEST * rng.uniform(3, 6), 1)
    return {"task": task.id, **said, "seconds": seconds, "comment": ""}


def _preferences(key: Key, task: Task, crowd: Crowd, rng: random.Random) -> Row:
    _, later = sorted(task.models, key=key.models.index)
    sign = 1 if task.models[0] == later else -1
    said: Row = {}
    for axis in AXES:
        # All raters of an item see the same quality: it is drawn from the item's name.
        shared = random.Random(f"{crowd.seed} {task.item} {sorted(task.models)} {axis}").gauss(0, 1)
        latent = crowd.opinions.shift(crowd.preference[axis])
        latent += crowd.opinions.shared**0.5 * shared
        latent += (1 - crowd.opinions.shared) ** 0.5 * rng.gauss(0, 1)
        said[axis] = sign * crowd.opinions.choice(latent)
    return said


def _marks(key: Key, task: Task, crowd: Crowd, rng: random.Random) -> Row:
    [model] = task.models
    item = key.items[task.item]
    texts = {"mistakes": item.texts[model], "omissions": item.reference}
    return {
        side: [span for span in words(texts[side]) if rng.random() < crowd.marks[model]]
        for side in wording.SIDES
    }
