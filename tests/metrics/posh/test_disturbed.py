"""Texts whose parses are nonsense: labels swapped, leaves rehung, clusters at random."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from posh_reward.graph.reader import describe
from posh_reward.metrics.posh.aggregate import mean_score
from posh_reward.metrics.posh.examine import Examination, examine
from posh_reward.metrics.posh.judges.fake_judge import FakeJudge
from posh_reward.metrics.posh.posh import Rewriter, run_together
from posh_reward.metrics.posh.search import Pace
from posh_reward.types import Clusters, Description, Failure, Phrase, Question, Reply
from tests.parses import VOCAB, columns

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
    return describe(doc, draw(clusters(len(words))))


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
    steps = examine(
        text,
        Description("A man.", replace(text.graph, entities=(), relations=())),
        "precision",
        pace=pace,
    )
    return run_together([steps], judge, Rewriter(judge))[0]


@given(disturbed())
def test_the_pace_of_asking_changes_nothing_however_odd_the_parse(
    text: Description,
) -> None:
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
