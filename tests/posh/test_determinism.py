"""Equal pairs get equal scores, to the last bit, in whatever company they are scored."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from types import FrameType
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from posh_reward import PoSh
from posh_reward.embedded.english import likeness, meaning
from posh_reward.graph.reader import describe_doc
from posh_reward.posh.batch import run_batched
from posh_reward.posh.examine import Examination, examine
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.posh.means import mean_score
from posh_reward.posh.rewriter import Rewriter
from posh_reward.posh.search import Pace
from posh_reward.types import Clusters, Description, Failure, Phrase, Question, Reply, Scores
from tests.parses import VOCAB, columns

ROOT = Path(__file__).resolve().parents[2]
JUDGES = ("fake", "fake-model", "embedded")
Pair = tuple[str, str]

SHORE = (
    "A tall man in a red coat stands on the left side of a wooden pier. The man holds a lantern. "
    "Two small boats with white sails drift behind him, and one boat carries a sleeping dog. "
    "Grey clouds cover the sky above the calm water."
)
KITCHEN = (
    "An old woman peels apples at a heavy oak table. Her blue apron is stained, and her hair is "
    "tied with a ribbon. A cat watches the woman from a chair. Behind the chair, copper pans hang "
    "on the wall. The pans are polished and the floor is tiled."
)
PAIRS: tuple[Pair, ...] = (
    ("A man in a red coat stands on a pier. Two boats drift behind the man.", SHORE),
    ("A man with a lantern sits on a stone pier. A boat with a red sail is near a dog.", SHORE),
    ("A woman in a blue apron peels apples. A small cat sleeps on the oak table.", KITCHEN),
    ("Copper pans hang on the wall. A woman cuts bread, and a dog watches her.", KITCHEN),
    (KITCHEN, SHORE),
    (SHORE, SHORE),
    ("Nothing.", KITCHEN),
)


def in_full(scores: Scores) -> str:
    """All that a score says; numbers as JSON are exact."""
    return json.dumps(asdict(scores))


def scored(judge: str, pairs: tuple[Pair, ...], pairs_at_once: int = 256) -> dict[Pair, str]:
    posh = PoSh(judge, pairs_at_once=pairs_at_once)
    generations, references = zip(*pairs, strict=True)
    scores = posh.score(generations, references)
    return dict(zip(pairs, map(in_full, scores), strict=True))


def score_share() -> None:
    """Score the pairs on standard input with each judge, in a process of its own."""
    pairs = tuple((generation, reference) for generation, reference in json.load(sys.stdin))
    print(json.dumps([list(scored(judge, pairs).values()) for judge in JUDGES]))


@pytest.fixture(scope="module")
def alone() -> dict[str, dict[Pair, str]]:
    """Each judge's scores, every pair in a batch of its own."""
    return {judge: scored(judge, PAIRS, pairs_at_once=1) for judge in JUDGES}


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("pairs_at_once", [3, 256])
def test_order_and_batch_do_not_matter(
    judge: str, pairs_at_once: int, alone: dict[str, dict[Pair, str]]
) -> None:
    shuffled = tuple(Random(pairs_at_once).sample(PAIRS, len(PAIRS)))
    assert scored(judge, shuffled, pairs_at_once) == alone[judge]


@pytest.mark.parametrize("judge", JUDGES)
def test_what_was_scored_before_does_not_matter(
    judge: str, alone: dict[str, dict[Pair, str]]
) -> None:
    posh = PoSh(judge)
    for pairs in (PAIRS[2:], PAIRS[::-1]):
        scores = posh.score(*zip(*pairs, strict=True))
        assert [in_full(each) for each in scores] == [alone[judge][pair] for pair in pairs]


@pytest.mark.slow
def test_a_share_of_the_pairs_in_another_process(alone: dict[str, dict[Pair, str]]) -> None:
    share = PAIRS[1::2]
    worker = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import score_share; score_share()"],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "1"},  # ours is random
        input=json.dumps(share), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    for judge, scores in zip(JUDGES, json.loads(worker.stdout), strict=True):
        assert scores == [alone[judge][pair] for pair in share]


NOUNS = "woman man dog shawl barrow cabbage umbrella child tower wall bridge river".split()


def text(seed: int) -> str:
    """Sentences with numbers, other ones for each seed."""
    rng = random.Random(seed)
    return " ".join(
        f"A {rng.choice(NOUNS)} of {rng.randrange(10_000)} and {rng.randrange(10_000)} red "
        f"{rng.choice(NOUNS)}s stand on a {rng.choice(NOUNS)}."
        for _ in range(5)
    )


@contextmanager
def interrupted(seconds: float, error: type[BaseException]) -> Iterator[None]:
    """Raises ``error`` in this thread after some seconds, wherever it is then."""

    def raise_error(_number: int, frame: FrameType | None) -> None:
        if frame is not None and "hypothesis" in frame.f_code.co_filename:
            # It watches the collector: an error inside its callback would be lost.
            signal.setitimer(signal.ITIMER_REAL, 0.0001)
            return
        raise error

    before = signal.signal(signal.SIGALRM, raise_error)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need the main thread"
)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_scores_after_an_interrupt_are_those_without(error: type[BaseException]) -> None:
    pairs = [([text(seed)], [text(seed + 1)]) for seed in range(8)]
    expected = [PoSh().score(*pair)[0] for pair in pairs]
    posh, rng, raised = PoSh(), random.Random(0), 0
    for _ in range(2):  # the second time nothing has to be loaded
        begun = time.perf_counter()
        for pair in pairs:
            posh.score(*pair)
    each_takes = (time.perf_counter() - begun) / len(pairs)
    for _ in range(6):
        for pair, score in zip(pairs, expected, strict=True):
            if rng.random() < 0.5:  # words that have to be looked up again, as in a new process
                for cached in (likeness.index_keys, likeness.query_keys, meaning.find_senses):
                    cached.cache_clear()
            try:
                with interrupted(rng.uniform(0.02, 1) * each_takes, error):
                    posh.score(*pair)
            except error:
                raised += 1
            assert posh.score(*pair)[0] == score
    assert raised > 10


SENTENCES = (
    "A/DET/det/1 tall/ADJ/amod/2 man/NOUN/nsubj/3 wears/VERB/ROOT/3 a/DET/det/6 dark/ADJ/amod/6 "
    "robe/NOUN/dobj/3 on/ADP/prep/3 and/CCONJ/cc/7 off/ADP/conj/7 stage/NOUN/pobj/9",
    "Her/PRON/poss/1 mother/NOUN/nsubj/2 is/AUX/ROOT/2 kind/ADJ/acomp/2 and/CCONJ/cc/3 "
    "old/ADJ/conj/3 to/ADP/prep/2 our/PRON/poss/8 right/NOUN/pobj/6",
    "The/DET/det/1 man/NOUN/poss/3 's/PART/case/1 hand/NOUN/nsubj/4 holds/VERB/ROOT/4 "
    "cups/NOUN/dobj/4 out/ADP/prt/4 with/ADP/prep/4 us/PRON/pobj/7",
    "Men/NOUN/nsubj/3 and/CCONJ/cc/0 dogs/NOUN/conj/0 run/VERB/ROOT/3 off/ADV/compound/5 "
    "white/ADJ/amod/6 walls/NOUN/dobj/3 in/ADP/prep/3 from/ADP/prep/7 our/PRON/poss/10 "
    "left/NOUN/pobj/8",
)


@st.composite
def disturbed(draw: st.DrawFn) -> Description:
    """Hand-built sentences with labels swapped, leaves rehung and clusters at random."""
    sentences = draw(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4))
    words, pos, deps, heads, _ = columns(*sentences)
    token = st.integers(0, len(words) - 1)
    for first, second in draw(st.lists(st.tuples(token, token), max_size=6)):
        deps[first], deps[second] = deps[second], deps[first]
    for leaf, head in draw(st.lists(st.tuples(token, token), max_size=4)):
        if leaf not in heads:
            heads[leaf] = head
    doc = Doc(VOCAB, words=words, pos=pos, deps=deps, heads=heads)
    return describe_doc(doc, draw(clusters(len(words))))


@st.composite
def clusters(draw: st.DrawFn, size: int) -> Clusters:
    token = st.integers(0, size - 1)
    mention = st.tuples(token, token).map(lambda ends: (min(ends), max(ends)))
    return tuple(map(tuple, draw(st.lists(st.lists(mention, max_size=4), max_size=4))))


def grade(question: Question) -> float:
    """Any grade, but always the same for one question."""
    asked = f"{question.kind}|{question.identifier}|{question.text}|{question.other}"
    return 1.0 + sha256(asked.encode()).digest()[0] / 64


def grade_or_fail(question: Question) -> float | Failure:
    """As ``grade``, but one question in eight fails."""
    drawn = grade(question)
    return Failure("reply", question.identifier) if drawn * 64 % 8 == 0 else drawn


class Failing(FakeJudge):
    """Fails at some questions and at some phrases, always the same ones."""

    def __init__(self) -> None:
        super().__init__(grade_or_fail)

    def rewrite(self, questions: Sequence[Phrase]) -> list[Reply]:
        failed = Reply(None, Failure("reply", "too long"))
        return [failed if len(r.text) % 8 == 0 else Reply(f"the {r.text}") for r in questions]


def examined(
    text: Description, *, pace: Pace = "lazy", judge: FakeJudge | None = None
) -> Examination:
    judge = judge or FakeJudge(grade)
    other = Description("A man.", replace(text.graph, entities=(), relations=()))
    steps = examine(text, other, "precision", pace=pace)
    return run_batched([steps], judge, Rewriter(judge))[0]


@given(disturbed())
def test_the_pace_of_asking_changes_nothing_however_odd_the_parse(text: Description) -> None:
    lazy, batched, eager = (examined(text, pace=pace) for pace in get_args(Pace))
    assert lazy == batched == eager
    mean = mean_score(lazy.elements)
    assert mean is not None
    assert 0.2 <= mean <= 1.0


@given(disturbed())
def test_the_pace_changes_nothing_where_judgments_fail(text: Description) -> None:
    lazy, batched, eager = (examined(text, pace=pace, judge=Failing()) for pace in get_args(Pace))
    assert lazy == batched == eager


@given(disturbed())
def test_elements_lie_in_their_text_and_keep_their_order(text: Description) -> None:
    once, again = (examined(text) for _ in range(2))
    assert once.elements == again.elements
    for element in once.elements:
        assert element.spans == tuple(sorted(set(element.spans)))
        assert all(0 <= start < end <= len(text.text) for start, end in element.spans)
    counted = [entity for entity in text.graph.entities if not entity.flagged]
    assert sum(element.kind == "entity" for element in once.elements) == len(counted)
