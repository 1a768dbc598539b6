"""The goldens: the public release's results for 50 pairs, as our records.

Each line of ``goldens.jsonl`` is one pair: its texts, the parses given to the release, and the
release's graphs, questions, grades and scores.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.models.fake_model import Recorder
from posh_reward.posh.examine import Steps, examine
from posh_reward.posh.search import Pace
from posh_reward.posh.wording import build_question, build_rewrite_prompt
from posh_reward.types import (
    Attribute,
    Clusters,
    Description,
    Entity,
    Failure,
    Phrase,
    Question,
    Relation,
    Reply,
    SceneGraph,
    Verdict,
)

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

Golden = dict[str, Any]
Pair = tuple[Description, Description]  # (Generation, reference)
SIDES = ("generation", "reference")
COLUMNS = ("words", "spaces", "pos", "tags", "lemmas", "heads", "deps", "sent_starts")
"""Token annotations of a parse: the arguments of a ``Doc``."""


def load(path: Path) -> list[Golden]:
    """Read a file of goldens, one JSON object per line."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def recorded_parse(golden: Golden, side: str, vocab: Vocab) -> tuple[Doc, Clusters]:
    """Return the Doc and the clusters given to the release for one text."""
    from spacy.tokens import Doc

    columns = golden["parsed"][side]
    doc = Doc(vocab, **{name: columns[name] for name in COLUMNS})
    return doc, tuple(tuple((a, b) for a, b in cluster) for cluster in columns["clusters"])


def expected_graph(golden: Golden, side: str) -> SceneGraph:
    """Return the release's scene graph of one text."""
    graph = golden["graphs"][side]
    entities = tuple(map(expected_entity, graph["entities"]))
    return SceneGraph(entities, tuple(Relation(**{**r, **evidence(r)}) for r in graph["relations"]))


def read_golden(golden: Golden) -> Pair:
    """Return the two texts with the release's graphs."""
    generation, reference = (Description(golden[s], expected_graph(golden, s)) for s in SIDES)
    return generation, reference


def expected_entity(entity: dict[str, Any]) -> Entity:
    """Convert one of the release's entities to our record."""
    attributes = tuple(Attribute(a["text"], **evidence(a)) for a in entity["attributes"])
    heads = tuple(entity["heads"])
    return Entity(**{**entity, **evidence(entity), "heads": heads, "attributes": attributes})


def evidence(element: dict[str, Any]) -> dict[str, Any]:
    """Return an element's place in its text, hashable."""
    return {
        "sentences": tuple(element["sentences"]),
        "spans": tuple((start, end) for start, end in element["spans"]),
    }


def both_ways(pairs: Sequence[Pair], *, pace: Pace = "lazy") -> list[Steps]:
    """Examine pairs: precision, then recall of each."""
    return [
        steps
        for generation, reference in pairs
        for steps in (
            examine(generation, reference, "precision", pace=pace),
            examine(reference, generation, "recall", pace=pace),
        )
    ]


class ReplayJudge(Recorder):
    """Judge that repeats the answers of the release's judge, and records its questions."""

    def __init__(self, *goldens: Golden) -> None:
        super().__init__("replay")
        self.texts: dict[str, set[str]] = {"precision": set(), "recall": set()}
        self._grades = {(g["generation"], g["reference"]): g["grades"] for g in goldens}
        self._phrases = {phrase: text for g in goldens for phrase, text in g["rewrites"].items()}

    def grade(self, requests: Sequence[Question]) -> list[Verdict]:
        """Return the recorded distribution of each question; a failure if there is none."""
        return [self._recording(request) for request in requests]

    def _recording(self, request: Question) -> Verdict:
        text, texts = build_question(request), (request.source.text, request.target.text)
        self.texts[request.direction].add(text)
        pair = texts if request.direction == "precision" else texts[::-1]
        probabilities = self._grades[pair][request.direction].get(text)
        never = Failure("error", f"not recorded: {text}")
        return Verdict(tuple(probabilities)) if probabilities else Verdict(None, never)

    def rewrite(self, requests: Sequence[Phrase]) -> list[Reply]:
        """Return the recorded phrases."""
        texts = [self._phrases.get(build_rewrite_prompt(request).text) for request in requests]
        never = Failure("error", "no rewrite recorded")
        return [Reply(text, None if text else never) for text in texts]
