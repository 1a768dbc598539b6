"""Candidates -> pairs that are kept, or dropped for a reason (paper, section 3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from posh_reward.metrics.prove.asking import chosen, prompted
from posh_reward.metrics.prove.checks import agrees, as_text, is_trivial, taboo_word
from posh_reward.metrics.prove.entailment import Entailment
from posh_reward.metrics.prove.programs.confined import UNRUN, Confined, ProgramResult, run_programs
from posh_reward.metrics.prove.programs.scene import Nodes, Value
from posh_reward.metrics.prove.writing import Candidate
from posh_reward.models.asker import Asker
from posh_reward.models.encoders import Encoder, unit_vectors
from posh_reward.models.labels import distribution
from posh_reward.types import Failure, PromptImage, Verdict

SIFTING = "2"
"""Raised when other pairs are dropped, or for other reasons; part of the signature."""
Drop = Literal[
    "unreadable", "refused", "failed", "unrun", "mismatch", "constant", "taboo", "trivial",
    "incomplete", "unnatural", "unentailed", "unjudged", "duplicate",
]  # fmt: skip
"""Why a candidate is dropped.

unreadable: the writer's object is not a question with an answer and a program.
refused: the program uses what programs may not use.
failed: the program stopped with an error, or had to be stopped.
unrun: earlier programs of the same reply used up its processor time.
mismatch: the program does not give the answer that the writer stated.
constant: it gives the same answer over an empty graph, or over a graph of something else.
taboo: it has a word that is not wanted.
trivial, incomplete, unnatural: the reviewer's reasons (paper, Fig. 10); "trivial" is also found by
words, without a reviewer.
unentailed: the image does not show it.
unjudged: the reviewer, the judge of images, or the process that runs programs failed.
duplicate: an earlier pair of the same image is the same.
"""
DROPS: tuple[Drop, ...] = get_args(Drop)
REVIEW: dict[str, Drop | None] = {"D": "unnatural", "C": "incomplete", "B": "trivial", "A": None}
"""The reviewer's letters, worst first."""
STRANGER: Nodes = {
    "glorp": {
        "attributes": {"color": "vermeil", "count": "ninety"},
        "relations_to": {"zant": {"spatial": ["athwart"], "action": ["quaffs"]}},
    },
    "zant": {"attributes": {}, "relations_to": {}},
}
"""A graph that has nothing in common with any caption's."""
ELSEWHERE: tuple[Nodes, ...] = ({}, STRANGER)
"""Graphs over which a program that reads the caption's graph has to find something else."""
EVEN = 0.5
"""An image that shows a pair less probably than this does not show it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with its answer and the program that verifies it."""

    question: str
    answer: str
    program: str
    value: Value = None
    """What the program found."""
    dropped: Drop | None = None
    """None: it is kept."""
    why: str = ""
    """More about the reason, for people."""


@dataclass(frozen=True, slots=True)
class Made:
    """All candidates about one image, or why there are none."""

    pairs: tuple[Pair, ...]
    failure: Failure | None = None

    @property
    def kept(self) -> tuple[Pair, ...]:
        """The verified pairs."""
        return tuple(pair for pair in self.pairs if pair.dropped is None)

    @property
    def drops(self) -> dict[Drop, int]:
        """How many were dropped, by reason."""
        counted = Counter(pair.dropped for pair in self.pairs)
        return {reason: counted[reason] for reason in DROPS if counted[reason]}


def verified(
    candidates: Sequence[Candidate | Failure], nodes: Nodes, confined: Confined
) -> list[Pair]:
    """Candidates with what their programs find in the scene; dropped if that is another answer."""
    sound = [each for each in candidates if isinstance(each, Candidate)]
    found = iter(run_programs(confined, [each.program for each in sound], nodes))
    pairs = [
        Pair("", "", "", None, "unreadable", str(each))
        if isinstance(each, Failure)
        else _checked(Pair(each.question, each.answer, each.program), next(found))
        for each in candidates
    ]
    for other in ELSEWHERE:
        pairs = _varying(pairs, other, confined)
    return pairs


def _checked(pair: Pair, found: ProgramResult | Failure) -> Pair:
    if isinstance(found, Failure):
        return replace(pair, dropped=_of_program(found), why=str(found))
    pair = replace(pair, value=found.value)
    if not agrees(found.value, pair.question, pair.answer):
        return replace(pair, dropped="mismatch", why=f"found {as_text(found.value) or 'nothing'!r}")
    return pair


def _varying(pairs: Sequence[Pair], other: Nodes, confined: Confined) -> list[Pair]:
    """Drops pairs whose programs find the same in another graph: they do not verify anything."""
    left = [pair.program for pair in pairs if pair.dropped is None]
    found = iter(run_programs(confined, left, other))
    return [pair if pair.dropped else _varied(pair, next(found), other) for pair in pairs]


def _varied(pair: Pair, found: ProgramResult | Failure, other: Nodes) -> Pair:
    if found is UNRUN:
        return replace(pair, dropped="unrun", why=str(found))
    if found == ProgramResult(pair.value):
        graph = "a graph of something else" if other else "an empty graph"
        return replace(pair, dropped="constant", why=f"the same is found in {graph}")
    return pair


def _of_program(failure: Failure) -> Drop:
    if failure is UNRUN:
        return "unrun"
    if failure.kind == "engine":  # the process is broken, which says nothing of the program
        return "unjudged"
    return "refused" if failure.kind == "reply" else "failed"


def worded(pairs: Sequence[Pair], taboo: frozenset[str]) -> list[Pair]:
    """Drops pairs with unwanted words, and those whose answer adds none to the question."""
    return [pair if pair.dropped else _worded(pair, taboo) for pair in pairs]


def _worded(pair: Pair, taboo: frozenset[str]) -> Pair:
    word = taboo_word(pair.question, pair.answer, taboo)
    if word is not None:
        return replace(pair, dropped="taboo", why=word)
    if is_trivial(pair.question, pair.answer):
        return replace(pair, dropped="trivial", why="the answer adds no word to the question")
    return pair


def reviewed(pairs: Sequence[Pair], asker: Asker) -> list[Pair]:
    """Drops what a model finds trivial, incomplete or unnatural."""
    left = [pair for pair in pairs if pair.dropped is None]
    prompts = [prompted("review", {"question": p.question, "answer": p.answer}) for p in left]
    verdicts = iter(chosen(asker, prompts, tuple(REVIEW)))
    return [pair if pair.dropped else _reviewed(pair, next(verdicts)) for pair in pairs]


def _reviewed(pair: Pair, verdict: Verdict) -> Pair:
    shares = distribution(verdict)
    if isinstance(shares, Failure):
        return replace(pair, dropped="unjudged", why=str(shares))
    likeliest = max(range(len(shares)), key=shares.__getitem__)
    return replace(pair, dropped=tuple(REVIEW.values())[likeliest])


def entailed(
    pairs: Sequence[Pair], entailment: Entailment, images: Sequence[PromptImage | Failure]
) -> list[Pair]:
    """Drops what the image does not show.

    Args:
        pairs: candidates.
        entailment: the judge.
        images: one for each pair.
    """
    asked = [
        (f'the answer to "{pair.question}" is "{pair.answer}"', image)
        for pair, image in zip(pairs, images, strict=True)
        if pair.dropped is None
    ]
    found = iter(entailment.probabilities(asked))
    return [pair if pair.dropped else _entailed(pair, next(found)) for pair in pairs]


def _entailed(pair: Pair, found: float | Failure) -> Pair:
    if isinstance(found, Failure):
        return replace(pair, dropped="unjudged", why=str(found))
    if found < EVEN:
        return replace(pair, dropped="unentailed", why=f"probability {found:.2f}")
    return pair


def once_each(pairs: Sequence[Pair], encoder: Encoder, alike: float) -> list[Pair]:
    """Drops pairs about one image that are the same as an earlier kept one (after SemDeDup)."""
    left = [place for place, pair in enumerate(pairs) if pair.dropped is None]
    vectors = unit_vectors(encoder, [f"{pairs[i].question} {pairs[i].answer}" for i in left])
    similar = vectors @ vectors.T if left else vectors
    sifted, kept = list(pairs), list[int]()
    for row, place in enumerate(left):
        same = [earlier for earlier in kept if similar[row, earlier] >= alike]
        if same:
            first = pairs[left[same[0]]].question
            sifted[place] = replace(pairs[place], dropped="duplicate", why=f"of {first!r}")
        else:
            kept.append(row)
    return sifted
