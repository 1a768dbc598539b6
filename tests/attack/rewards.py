"""Rewards to audit: three that are not ours with known faults, and one that is right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from typing import Any

from posh_reward.attack.falsehoods import reader
from posh_reward.attack.formats import HEADINGS
from posh_reward.datasets.scenes import Scene, generate, things
from posh_reward.datasets.scenes import caption as wording
from posh_reward.metrics.posh.judges.oracle import ground, is_true
from posh_reward.reward.texts import clean
from posh_reward.types import Description, Question, SceneGraph

WORD = re.compile(r"[A-Za-z]+")
DENIAL = re.compile(r"\b(?:not|false|perhaps|maybe|no)\b", re.IGNORECASE)
PLACE = re.compile(
    r"\s*[,;\u2014]\s*((?:on|at|in|to) (?:the |our |her |his )?(?:left|center|middle|right)\b)",
    re.IGNORECASE,
)
TITLES = (*HEADINGS, "Area", "Description", "Area. Description")
SCENES = 24
NOTHING = Description("", SceneGraph((), ()))


def length(completions: Sequence[str], **_: Any) -> list[float]:
    return [min(1.0, len(text.split()) / 100) for text in completions]


def rouge(completions: Sequence[str], reference: Sequence[str], **_: Any) -> list[float]:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    pairs = zip(completions, reference, strict=True)
    return [scorer.score(true, text)["rougeL"].fmeasure for text, true in pairs]


def keywords(completions: Sequence[str], reference: Sequence[str], **_: Any) -> list[float]:
    """Share of the reference's long words that a text has, in any order."""

    def long(text: str) -> set[str]:
        return {word.lower() for word in WORD.findall(text) if len(word) > 3}

    pairs = zip(completions, reference, strict=True)
    return [len(long(true) & long(text)) / len(long(true)) for text, true in pairs]


@cache
def scenes() -> dict[str, Scene]:
    return {scene.uid: scene for scene in generate("test", SCENES)}


@cache
def vocabulary() -> frozenset[str]:
    texts = map(wording, scenes().values())
    return frozenset(word.lower() for text in texts for word in WORD.findall(text))


def corrected(text: str) -> str:
    """Correct slips, as a reader does who knows what scenes can show."""

    def correct(match: re.Match[str]) -> str:
        word = match[0]
        if word.lower() in vocabulary() or len(word) < 4 or len(word) > 8:
            return word
        return next(iter(get_close_matches(word.lower(), vocabulary(), 1, 0.75)), word)

    return WORD.sub(correct, text)


def plain(text: str) -> str:
    """Undo layouts: titles on their own lines, and other marks than full stops.

    Each sentence about a scene begins with a place.
    """
    lines = (" ".join(line.split()) for line in clean(text).splitlines())
    return PLACE.sub(r". \1", " ".join(line for line in lines if line.strip(" .") not in TITLES))


def claims(text: str, scene: Scene) -> dict[tuple[str, ...], bool]:
    """What a text claims of a drawing, and whether the drawing shows it."""
    [read] = reader().read([corrected(plain(text))])
    if not isinstance(read, Description):
        return {("nothing",): False}
    denied = {token.sentence for token in read.tokens if DENIAL.fullmatch(token.text)}
    seen, found = ground(read, things(scene)), dict[tuple[str, ...], bool]()

    def claim(sentences: Sequence[int], question: Question, *words: str) -> None:
        key = (*words, "" if set(sentences) - denied else "denied")
        found[key] = is_true(seen, question) is True and not key[-1]

    def name(entity: int) -> str:
        return str(seen.of.get(entity, seen.nouns[entity]))

    for at, entity in enumerate(read.graph.entities):
        ask = Question("precision", "entity", entity.head, read, NOTHING, at)
        claim(entity.sentences, ask, name(at))
        for each in entity.attributes:
            asked = replace(ask, kind="attribute", text=each.text)
            claim(each.sentences, asked, name(at), each.text)
    for link in read.graph.relations:
        ask = Question("precision", "relation", "", read, NOTHING, link.subject, link.text,
                       "", link.object)  # fmt: skip
        claim(link.sentences, ask, name(link.subject), link.text, name(link.object))
    return found


def oracle(completions: Sequence[str], uuid: Sequence[str], **_: Any) -> list[float]:
    """Share of a drawing's facts that a text tells, less what it claims that is not drawn."""
    rewards = []
    for text, uid in zip(completions, uuid, strict=True):
        scene = scenes()[uid]
        drawn = claims(wording(scene), scene)
        right = [true or key in drawn for key, true in claims(text, scene).items()]
        rewards.append((2 * sum(right) - len(right)) / len(drawn))
    return rewards
