"""Pairs are verified again: the paper's own programs over the authors' graphs, edited pairs."""

import json
import re
from collections.abc import Iterator

import pytest

from posh_reward.metrics.prove.pair_maker import PairVerifier, QuestionPair
from posh_reward.metrics.prove.prove import Prove
from posh_reward.types import Failure
from tests.metrics.prove.hostile import body

GRAPH = {
    "cargo carts": {"attributes": {"count": "several", "state": "grouped together"}},
    "planes": {
        "attributes": {"color": ["blue", "white"]},
        "relations_to": {"concrete": {"spatial": ["parked on"]}},
    },
    "castle fencing": {"relations_to": {"platform": {"spatial": ["in front of"]}}},
    "Warhammer figures": {"relations_to": {"platform": {"spatial": ["on"]}}},
    "figures' heads": {"attributes": {"shape": "branch up", "type": "tree-like"}},
}


def search(condition: str, *then: str) -> str:
    loop = ["for entity in sg.get_entities():", f"    if {condition}:"]
    return body(*loop, *(f"        {line}" for line in then), "return None")


FIGURE_3 = [
    (
        "Describe the condition of the cargo carts.",
        "The cargo carts are grouped together on both the left and the right in front of the "
        "jetBlue plane.",
        search("'cargo carts' in entity", "return sg.describe(sg.subgraph([entity]))"),
    ),
    (
        "What color are the planes on the concrete?",
        "The planes on the concrete are blue and white.",
        search("'planes' == entity", "return sg.get_attrs(entity).get('color')"),
    ),
    (
        "What is located on the platform in front of the fake castle fencing?",
        "Miniature Warhammer fantasy figures are located on the platform in front of the fake "
        "castle fencing.",
        search("'platform' in entity", "return sg.get_incoming_rels(entity)"),
    ),
    (
        "Can you tell me about the common characteristic of the figures' heads?",
        "The figures' heads are tree-like and branch up.",
        search("\"figures' head\" in entity", "attrs = sg.get_attrs(entity)",
               "return {k: attrs[k] for k in ['shape', 'type']}"),
    ),
]  # fmt: skip
"""The paper's examples, as printed."""


@pytest.fixture(scope="module")
def verifier() -> Iterator[PairVerifier]:
    runner = PairVerifier()
    yield runner
    runner.close()


@pytest.mark.parametrize(("question", "answer", "program"), FIGURE_3)
def test_the_papers_own_programs_verify_their_answers(
    verifier: PairVerifier, question: str, answer: str, program: str
) -> None:
    [pair] = verifier.verify([question], [answer], [program], [""], [json.dumps(GRAPH)])
    assert isinstance(pair, QuestionPair)
    assert (pair.dropped, pair.why) == (None, "")


def test_a_pair_that_does_not_hold_is_dropped_with_its_reason(verifier: PairVerifier) -> None:
    questions, answers, programs = map(list, zip(*FIGURE_3, strict=True))
    answers[1] = "The planes on the concrete are red and black."
    programs[2] = body("return sg.nothing()")
    answers[3] = ""
    pairs = verifier.verify(questions, answers, programs, [""] * 4, [GRAPH] * 4)
    assert [pair.dropped for pair in pairs if isinstance(pair, QuestionPair)] == [
        None, "mismatch", "refused", "unreadable"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "detail"),
    [("{", "is not JSON"), (5, "is neither"), ([["a", "b", "c", "d"]], "is neither"),
     ({"dog": {"attributes": {"color": 5}}}, r"is neither .*\(at dog.attributes.color\)")],
)  # fmt: skip
def test_what_is_no_graph_is_a_failure_of_its_row(
    verifier: PairVerifier, cell: object, detail: str
) -> None:
    [failure] = verifier.verify(["Q?"], ["A."], ["def f(sg): return 1"], [""], [cell])
    assert isinstance(failure, Failure)
    assert re.match(f"the caption has a graph that {detail}", failure.detail)


def test_the_authors_tuples_stand_for_a_text() -> None:
    """The response has one of the two tuples of this answer: (1 + 0) / 2."""
    prove = Prove(
        encoder=lambda texts: [[float(t == w) for w in ("cat", "dog", "x")] for t in texts]
    )
    [score] = prove.score(
        ["?"], ["?"], [""], ["?"],
        graphs={"answer": [[["dog"], ["cat"]]], "response": ['[["dog"]]'], "caption": [[["dog"]]]},
    )  # fmt: skip
    assert (score.helpfulness, score.truthfulness, score.average) == (0.5, 1.0, 0.75)
    assert "|graphs:answer,caption,response|" in score.signature
