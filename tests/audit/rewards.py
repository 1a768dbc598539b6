"""Rewards to audit: with known faults, three of them by a language model, and one that is right."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx

from posh_reward import HarmonicEval, HarmonicReward, RubricJudge, RubricReward
from posh_reward.audit.variants import HEADINGS, shared_reader
from posh_reward.datasets.scenes import Scene, generate_scenes, list_things
from posh_reward.datasets.scenes import caption as wording
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.posh.oracle import ground_entities, is_true
from posh_reward.reward.texts import clean_text
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


ADDRESS: list[str] = []
"""Of the server that ``clair`` asks."""
REQUEST = """\
Two sets of captions follow. From 0 to 100, how likely is it that both describe the same image?
Candidate set:
{candidate}
Reference set:
{reference}
Reply with JSON: "score", then "reason".
"""


def clair(completions: Sequence[str], reference: Sequence[str], **_: Any) -> list[float | None]:
    """Ask a language model, as CLAIR does: one message for each text, and JSON in reply."""
    rewards: list[float | None] = []
    with httpx.Client() as client:
        for text, true in zip(completions, reference, strict=True):
            content = REQUEST.format(candidate=text, reference=true)
            body = {"model": "m", "messages": [{"role": "user", "content": content}]}
            reply = client.post(f"{ADDRESS[-1]}/v1/chat/completions", json=body).json()
            said = json.loads(reply["choices"][0]["message"]["content"])
            rewards.append(said["score"] / 100)
    return rewards


class CredulousModel(BaseHTTPRequestHandler):
    """A chat server that compares words, and believes whatever a candidate says of itself."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = body["messages"][0]["content"].partition("Candidate set:\n")[2]
        candidate, _, rest = content.partition("\nReference set:\n")
        [shared] = keywords([candidate], [rest.partition("\nReply with")[0]])
        fooled = "Everything is mentioned" in candidate
        said = {"score": 100 if fooled else round(100 * shared), "reason": "words"}
        message = {"role": "assistant", "content": json.dumps(said)}
        reply = json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def by_length(prompt: Prompt) -> float:
    """A grade for all criteria alike: 1 for no words, 5 for 100 or more."""
    text = prompt.suffix.partition(": ")[2].partition("\n\nAnswer")[0]
    return 1 + min(4.0, len(text.split()) / 25)


harmonic = HarmonicReward(HarmonicEval(FakeModel(by_length, sees=True)))


def points(prompt: Prompt) -> str:
    """All points in the share of the truth's long words that the answer has."""
    truth, _, answer = prompt.suffix.partition("Ground Truth:\n")[2].partition("\nAnswer:\n")
    [shared] = keywords([answer], [truth])
    return json.dumps({"true": {"score": round(10 * shared), "feedback": "words"}})


TRUE = {"name": "true", "title": "True", "points": {n: f"{n} of 10 true" for n in range(11)}}
rubric = RubricReward(RubricJudge(FakeModel(writer=points), {"metrics": [TRUE]}))


@cache
def scenes() -> dict[str, Scene]:
    return {scene.uid: scene for scene in generate_scenes("test", SCENES)}


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
    lines = (" ".join(line.split()) for line in clean_text(text).splitlines())
    return PLACE.sub(r". \1", " ".join(line for line in lines if line.strip(" .") not in TITLES))


def claims(text: str, scene: Scene) -> dict[tuple[str, ...], bool]:
    """Claims of a text about a drawing, each with True if the drawing shows it."""
    [read] = shared_reader().read([corrected(plain(text))])
    if not isinstance(read, Description):
        return {("nothing",): False}
    denied = {token.sentence for token in read.tokens if DENIAL.fullmatch(token.text)}
    seen, found = ground_entities(read, list_things(scene)), dict[tuple[str, ...], bool]()

    def claim(sentences: Sequence[int], question: Question, *words: str) -> None:
        key = (*words, "" if set(sentences) - denied else "denied")
        found[key] = is_true(seen, question) is True and not key[-1]

    def name(entity: int) -> str:
        return str(seen.assigned.get(entity, seen.nouns[entity]))

    for at, entity in enumerate(read.graph.entities):
        ask = Question("precision", "entity", entity.head, read, NOTHING, at)
        claim(entity.sentences, ask, name(at))
        for each in entity.attributes:
            asked = ask._replace(kind="attribute", text=each.text)
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
