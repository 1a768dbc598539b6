"""Candidates -> pairs, each kept or dropped for a reason (paper, section 3.1)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from posh_reward.metrics.prove.equations import Entailment
from posh_reward.metrics.prove.programs.program_scene import Nodes, Value
from posh_reward.metrics.prove.programs.sandbox import UNRUN, ProgramResult, Sandbox, run_programs
from posh_reward.metrics.prove.prove_prompts import QuestionCandidate, prompt_of, verdicts_of
from posh_reward.metrics.prove.tuples import KINDS, OTHER
from posh_reward.models.asker import Asker
from posh_reward.models.encoders import Encoder, content_words, unit_vectors
from posh_reward.models.labels import distribution
from posh_reward.types import Failure, PromptImage, Verdict

AGREEING = 0.8  # minimum share of a program's words that occur in the question or answer
NEGATIONS = frozenset("no not never none nothing nobody without t".split())  # t: from "isn't"
KIND_NAMES = frozenset([*KINDS, OTHER, "type", "texture", "spatial", "action"])
"""Kinds of attributes and relations: keys in a program's value, not content."""


def agrees(value: Value, question: str, answer: str) -> bool:
    """Return True if a program's value matches the stated answer.

    The paper compares sentence embeddings, with a threshold that it does not publish. To embeddings
    "red" and "black" are similar, so we compare words: most words of the value, including every
    number, must occur in the pair, and at least one in the answer only.
    """
    if isinstance(value, bool):
        return value == says_yes(answer)
    in_question, in_answer = set(content_words(question)), set(content_words(answer))
    pair = in_question | in_answer
    result = [w for w in content_words(as_text(value)) if w in pair or w not in KIND_NAMES]
    if not result or any(word.isdecimal() and word not in pair for word in result):
        return False
    share = sum(word in pair for word in result) / len(result)
    return share >= AGREEING and any(word in in_answer - in_question for word in result)


def says_yes(answer: str) -> bool:
    """Return True if an answer begins with "yes" or has no negation."""
    words = re.findall(r"\w+", answer.casefold())
    return bool(words) and (words[0] == "yes" or not NEGATIONS.intersection(words))


def as_text(value: Value) -> str:
    """All texts and numbers in a program's value, joined by blanks."""
    return " ".join(_texts(value))


def _texts(value: Value) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif value is not None:
        yield str(value)


def is_trivial(question: str, answer: str) -> bool:
    """Return True if the answer adds no word: "What is the concrete bar made of?" "Concrete"."""
    return not set(content_words(answer)) - set(content_words(question))


def taboo_word(question: str, answer: str, taboo: frozenset[str]) -> str | None:
    """First taboo word in the pair; None if there is none."""
    words = re.findall(r"\w+", f"{question} {answer}".casefold())
    return next((word for word in words if word in taboo), None)


SIFTING = "3"  # raise it with any change of what is dropped or why; part of the signature
Drop = Literal[
    "unreadable", "refused", "failed", "unrun", "mismatch", "constant", "taboo", "trivial",
    "incomplete", "unnatural", "unentailed", "unjudged", "duplicate",
]  # fmt: skip
"""Reasons to drop a candidate.

unreadable: the writer's object is not a question with an answer and a program.
refused: the program uses a construct that is not allowed.
failed: the program raised an error or exceeded its limits.
unrun: earlier programs of the same reply used up its processor time.
mismatch: the program's value differs from the stated answer.
constant: the program returns the same value over an empty or an unrelated graph.
taboo: the pair contains a taboo word.
trivial, incomplete, unnatural: the reviewer's reasons (paper, Fig. 10); "trivial" is also found
without a reviewer, by comparing words.
unentailed: the image does not show it.
unjudged: the reviewer, the entailment judge, or the process that runs programs failed.
duplicate: it repeats an earlier pair of the same image.
"""
DROPS: tuple[Drop, ...] = get_args(Drop)
REVIEW: dict[str, Drop | None] = {"D": "unnatural", "C": "incomplete", "B": "trivial", "A": None}
"""The reviewer's letters, worst first -> reason to drop, None for a good pair."""
STRANGER: Nodes = {
    "glorp": {
        "attributes": {"color": "vermeil", "count": "ninety"},
        "relations_to": {"zant": {"spatial": ["athwart"], "action": ["quaffs"]}},
    },
    "zant": {"attributes": {}, "relations_to": {}},
}
"""A graph unrelated to any caption."""
ELSEWHERE: tuple[Nodes, ...] = ({}, STRANGER)
"""Graphs over which a program must return a different value than over the caption's."""
EVEN = 0.5  # probability of entailment below which a pair is dropped


@dataclass(frozen=True, slots=True)
class QuestionPair:
    """A question with its answer and the program that verifies it."""

    question: str
    answer: str
    program: str
    value: Value = None  # returned by the program
    dropped: Drop | None = None  # None: kept
    why: str = ""  # details of the reason


@dataclass(frozen=True, slots=True)
class CaptionQuestions:
    """All candidates about one image, or the reason why there are none."""

    pairs: tuple[QuestionPair, ...]
    failure: Failure | None = None

    @property
    def survivors(self) -> tuple[QuestionPair, ...]:
        return tuple(pair for pair in self.pairs if pair.dropped is None)

    @property
    def drops(self) -> dict[Drop, int]:
        """Reason -> number of candidates dropped for it."""
        counts = Counter(pair.dropped for pair in self.pairs)
        return {reason: counts[reason] for reason in DROPS if counts[reason]}


def verify_candidates(
    candidates: Sequence[QuestionCandidate | Failure], nodes: Nodes, sandbox: Sandbox
) -> list[QuestionPair]:
    """Run the candidates' programs over the scene; drop those that do not verify the answer."""
    sound = [each for each in candidates if isinstance(each, QuestionCandidate)]
    results = iter(run_programs(sandbox, [each.program for each in sound], nodes))
    pairs = [
        QuestionPair("", "", "", None, "unreadable", str(each))
        if isinstance(each, Failure)
        else _check(QuestionPair(each.question, each.answer, each.program), next(results))
        for each in candidates
    ]
    # A constant verifies nothing: over other graphs, a program must return something else.
    for other in ELSEWHERE:
        left = [pair.program for pair in pairs if pair.dropped is None]
        results = iter(run_programs(sandbox, left, other))
        pairs = [p if p.dropped else _compare(p, next(results), other) for p in pairs]
    return pairs


def _check(pair: QuestionPair, result: ProgramResult | Failure) -> QuestionPair:
    if isinstance(result, Failure):
        # An engine failure is that of the process, not of the program.
        reasons: dict[str, Drop] = {"engine": "unjudged", "reply": "refused"}
        dropped = "unrun" if result is UNRUN else reasons.get(result.kind, "failed")
        return replace(pair, dropped=dropped, why=str(result))
    pair = replace(pair, value=result.value)
    if agrees(result.value, pair.question, pair.answer):
        return pair
    return replace(pair, dropped="mismatch", why=f"found {as_text(result.value) or 'nothing'!r}")


def _compare(pair: QuestionPair, result: ProgramResult | Failure, other: Nodes) -> QuestionPair:
    if result is UNRUN:
        return replace(pair, dropped="unrun", why=str(result))
    if result == ProgramResult(pair.value):
        graph = "a graph of something else" if other else "an empty graph"
        return replace(pair, dropped="constant", why=f"the same is found in {graph}")
    return pair


def sift_words(pairs: Sequence[QuestionPair], taboo: frozenset[str]) -> list[QuestionPair]:
    """Drop pairs with taboo words, and those whose answer adds no word to the question."""
    return [pair if pair.dropped else _sift_words(pair, taboo) for pair in pairs]


def _sift_words(pair: QuestionPair, taboo: frozenset[str]) -> QuestionPair:
    word = taboo_word(pair.question, pair.answer, taboo)
    if word is not None:
        return replace(pair, dropped="taboo", why=word)
    if is_trivial(pair.question, pair.answer):
        return replace(pair, dropped="trivial", why="the answer adds no word to the question")
    return pair


def review(pairs: Sequence[QuestionPair], asker: Asker) -> list[QuestionPair]:
    """Drop pairs that a model calls trivial, incomplete or unnatural."""
    left = [pair for pair in pairs if pair.dropped is None]
    prompts = [prompt_of("review", {"question": p.question, "answer": p.answer}) for p in left]
    verdicts = iter(verdicts_of(asker, prompts, tuple(REVIEW)))
    return [pair if pair.dropped else _review(pair, next(verdicts)) for pair in pairs]


def _review(pair: QuestionPair, verdict: Verdict) -> QuestionPair:
    shares = distribution(verdict)
    if isinstance(shares, Failure):
        return replace(pair, dropped="unjudged", why=str(shares))
    likeliest = max(range(len(shares)), key=shares.__getitem__)
    return replace(pair, dropped=tuple(REVIEW.values())[likeliest])


def sift_images(
    pairs: Sequence[QuestionPair], entailment: Entailment, images: Sequence[PromptImage | Failure]
) -> list[QuestionPair]:
    """Drop pairs that the image does not show; ``images`` has one for each pair."""
    statements = [
        (f'the answer to "{pair.question}" is "{pair.answer}"', image)
        for pair, image in zip(pairs, images, strict=True)
        if pair.dropped is None
    ]
    results = iter(entailment.probabilities(statements))
    return [pair if pair.dropped else _sift_image(pair, next(results)) for pair in pairs]


def _sift_image(pair: QuestionPair, result: float | Failure) -> QuestionPair:
    if isinstance(result, Failure):
        return replace(pair, dropped="unjudged", why=str(result))
    if result < EVEN:
        return replace(pair, dropped="unentailed", why=f"probability {result:.2f}")
    return pair


def once_each(pairs: Sequence[QuestionPair], encoder: Encoder, alike: float) -> list[QuestionPair]:
    """Drop pairs that repeat an earlier kept pair of the same image (after SemDeDup)."""
    left = [place for place, pair in enumerate(pairs) if pair.dropped is None]
    vectors = unit_vectors(encoder, [f"{pairs[i].question} {pairs[i].answer}" for i in left])
    similar = vectors @ vectors.T if left else vectors
    pairs_left, firsts = list(pairs), list[int]()
    for row, place in enumerate(left):
        # Only kept pairs count: along a chain of near-duplicates, comparing with dropped ones would
        # drop pairs that are unlike any kept one.
        same = [earlier for earlier in firsts if similar[row, earlier] >= alike]
        if same:
            first = pairs[left[same[0]]].question
            pairs_left[place] = replace(pairs[place], dropped="duplicate", why=f"of {first!r}")
        else:
            firsts.append(row)
    return pairs_left
