"""From captions to verified questions: what is kept is true, what is dropped says why."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from posh_reward.datasets.scenes import Scene, caption, generate_scenes
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.other_metrics.prove.pair_maker import (
    CaptionQuestions,
    PairMaker,
    PairVerifier,
    QuestionCandidate,
    QuestionPair,
    matches_answer,
    read_candidates,
)
from posh_reward.other_metrics.prove.program_language import Value
from posh_reward.other_metrics.prove.prove import Prove
from posh_reward.other_metrics.prove.sandbox import Sandbox
from posh_reward.other_metrics.prove.tuples import build_nodes, read_tuples
from posh_reward.types import Failure, Reply
from tests.other_metrics.prove.hostile import REFUSED, STOPPED, body
from tests.other_metrics.prove.scripted import Question, extractor, questions, scripted_writer


@pytest.mark.parametrize(
    ("value", "question", "answer", "same"),
    [
        ("red", "What color is the dress?", "It is red.", True),
        ("black", "What color is the dress?", "It is red.", False),
        ({"color": "blue, white"}, "What color are the planes?", "They are blue and white.", True),
        (2, "How many dogs?", "Two dogs.", True),
        ("three", "How many dogs?", "Two dogs.", False),
        (["rug", "floor"], "Where does it lie?", "It lies on a rug.", False),
        ({"rug": {"spatial": ["on"]}}, "Where does it lie?", "It lies on a rug.", True),
        (True, "Is there a dog?", "Yes, there is a dog.", True),
        (True, "Is there a dog?", "No, there is no dog.", False),
        (False, "Is there a dog?", "There isn't a dog.", True),
        ([], "Is there a dog?", "Yes.", False),
        ("two white planes", "Where are two planes?", "The planes are on two carts.", False),
    ],
)
def test_a_programs_answer_is_compared_with_the_stated_one(
    value: Value, question: str, answer: str, same: bool
) -> None:
    assert matches_answer(value, question, answer) == same


def test_a_graph_has_attributes_by_kind_and_relations_by_target() -> None:
    tuples = [("cat", "black"), ("cat", "white"), ("cat", "on", "mat"), ("cat", "eats off", "mat")]
    assert build_nodes(tuples) == {
        "cat": {
            "attributes": {"color": "black, white"},
            "relations_to": {"mat": {"spatial": ["on"], "action": ["eats off"]}},
        },
        "mat": {"attributes": {}, "relations_to": {}},
    }


CAPTION = "A woman in a red dress holds two white flowers. A dog sits on a rug."
IMAGE = Image.new("RGB", (8, 8))
PROGRAMS = Sandbox(seconds=0.2)
"""One process for most tests; it ends with this one."""
GOOD = {
    "question": "What color is the dress?",
    "answer": "The dress is red.",
    "program": body("return sg.get_attributes('dress').get('color')"),
}
COUNT = {
    "question": "How many flowers does she hold?",
    "answer": "She holds two flowers.",
    "program": body("return sg.get_attributes('flowers').get('count')"),
}


def writes(*rows: object) -> FakeModel:
    return FakeModel(writer=lambda prompt: json.dumps(rows), name="writer")


def made(*rows: object, **others: Any) -> CaptionQuestions:
    maker = PairMaker(writes(*rows), **others)
    maker.programs = PROGRAMS
    return maker.make([CAPTION], [IMAGE] if "entailment" in others else None)[0]


def truths(
    maker: PairMaker, scenes: list[Scene], asked: Callable[[Scene], list[Question]]
) -> Iterator[tuple[Question, Value, str | None]]:
    for scene, found in zip(scenes, maker.make([*map(caption, scenes)]), strict=True):
        assert found.failure is None
        for question, pair in zip(asked(scene), found.pairs, strict=False):
            assert pair.question == question.question
            yield question, pair.value, pair.dropped
    maker.close()


def first(scene: Scene) -> list[Question]:
    return list(islice(questions(scene), 1))


def test_a_program_decides_between_two_answers() -> None:
    """The caption has three birds: "three" agrees with what the program counts, "two" does not."""
    program = body("return sg.get_attributes('birds').get('count')")
    row = {"question": "How many birds are there?", "program": program}
    maker = PairMaker(writes({**row, "answer": "Three birds."}, {**row, "answer": "Two birds."}))
    [questions_of_caption] = maker.make(["There are three white birds."])
    maker.close()
    assert [pair.dropped for pair in questions_of_caption.pairs] == [None, "mismatch"]


@pytest.mark.parametrize("count", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_programs_find_the_truth_of_drawings(count: int) -> None:
    """The scene graphs are the drawings' own, so that nothing is left to a parser."""
    scenes = [s for s in generate_scenes("train", count + 10) if first(s)][:count]
    maker = PairMaker(scripted_writer(scenes, most=1), tuples=extractor(scenes))
    found = list(truths(maker, scenes, first))
    assert len(found) == count
    assert [(q.truth, None) for q, _, _ in found] == [(v, dropped) for _, v, dropped in found]


def test_no_program_over_a_parsed_caption_finds_what_is_not_so() -> None:
    scenes = [s for s in generate_scenes("train", 15) if first(s)]
    maker = PairMaker(scripted_writer(scenes, lies=True))
    found = list(truths(maker, scenes, lambda scene: [*questions(scene)]))
    values = [value for _, value, _ in found]
    assert [v for q, v, _ in found if v not in (None, q.truth)] == []
    assert all(dropped == "mismatch" for _, v, dropped in found if v is None)
    assert values.count(None) <= 0.1 * len(values)


def test_no_lie_of_the_writer_survives() -> None:
    scenes = list(generate_scenes("validation", 12))
    maker = PairMaker(scripted_writer(scenes, lies=True), tuples=extractor(scenes))
    everything = maker.make([*map(caption, scenes)])
    maker.close()
    for scene, each in zip(scenes, everything, strict=True):
        asked = list(questions(scene))
        assert {pair.answer for pair in each.survivors} <= {q.answer for q in asked}
        assert each.drops.get("mismatch", 0) == len(asked)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"question": "What?"}, "unreadable"),
        ({**GOOD, "program": REFUSED["import"]}, "refused"),
        ({**GOOD, "program": STOPPED["list that grows while it is read"]}, "failed"),
        ({**GOOD, "program": STOPPED["a list's missing item"]}, "failed"),
        ({**GOOD, "answer": "The dress is black."}, "mismatch"),
        ({**GOOD, "program": body("return None")}, "mismatch"),
        ({**GOOD, "program": body("return 'dress'")}, "mismatch"),
        ({**COUNT, "answer": "She holds three flowers."}, "mismatch"),
        ({**GOOD, "question": "What color is the red dress?"}, "mismatch"),
        (
            {"question": "Is the dress red?", "answer": "The dress is red.",
             "program": body("return 'red' in sg.get_attributes('dress').get('color')")},
            "trivial",
        ),
        ({**GOOD, "program": body("return 'red'")}, "constant"),
        ({**GOOD, "program": body("return sg.get_attributes('cape').get('color', 'red')")},
         "constant"),
        ({**GOOD, "program": body("return 'red' if sg.get_entities() else ''")}, "constant"),
        ({"question": "Is there a cape?", "answer": "Yes.", "program": body("return True")},
         "constant"),
        ({"question": "Is there a cape?", "answer": "No, there is none.",
          "program": body("return 'cape' in sg.get_entities()")}, "constant"),
    ],
)  # fmt: skip
def test_a_bad_pair_is_dropped_for_its_reason_and_alone(row: object, reason: str) -> None:
    found = made(row, COUNT)
    assert found.drops == {reason: 1}
    assert found.pairs[0].why
    assert [pair.question for pair in found.survivors] == [COUNT["question"]]


def test_endless_programs_use_up_what_their_reply_may_compute() -> None:
    endless = {**GOOD, "program": STOPPED["loops in loops"]}
    before = PROGRAMS.spent
    found = made(COUNT, *[endless] * 9, COUNT)
    assert found.drops == {"failed": 3, "unrun": 7}
    assert [pair.value for pair in found.survivors] == ["two"]
    assert PROGRAMS.spent - before < 4 * 0.2 + 0.6, "nine would take 1.8 seconds"
    assert made(COUNT).drops == {}, "another reply is not at fault"


def review(prompt: Prompt) -> float | Failure:
    """Labels D, C, B, A from 1 to 4: finds colors trivial, and cannot count."""
    return Failure("engine", "it broke") if "two" in prompt.suffix else 3


def test_a_reviewer_drops_pairs_and_its_failure_drops_them_too() -> None:
    found = made(GOOD, COUNT, reviewer=FakeModel(review))
    assert [pair.dropped for pair in found.pairs] == ["trivial", "unjudged"]
    assert "it broke" in found.pairs[1].why


def test_a_judge_that_sees_drops_what_the_image_does_not_show() -> None:
    def look(prompt: Prompt) -> float:
        assert len(prompt.images) == 1
        return 1.9 if "two" in prompt.suffix else 1.1

    found = made(GOOD, COUNT, entailment=FakeModel(look, sees=True))
    assert [pair.dropped for pair in found.pairs] == ["unentailed", None]


@pytest.mark.parametrize(
    ("reply", "sound", "broken"),
    [
        (f"Sure!\n```json\n{json.dumps([GOOD, COUNT])}\n```\nEnjoy {{}}", 2, 1),
        (json.dumps([GOOD, COUNT])[:-30], 1, 0),  # cut off
        (json.dumps({"pairs": [GOOD]}), 0, 1),
        ("no JSON", 0, 1),
        ("{" * 5000, 0, 1),
        (json.dumps([{**GOOD, "answer": 3}, {**GOOD, "question": " "}]), 0, 2),
        (json.dumps([{**GOOD, "program": "x" * 9999}]), 0, 1),
        (json.dumps([GOOD] * 90), 50, 0),
    ],
)
def test_any_reply_is_read_as_far_as_it_goes(reply: str, sound: int, broken: int) -> None:
    found = read_candidates(reply)
    assert sum(isinstance(each, QuestionCandidate) for each in found) == sound
    assert sum(isinstance(each, Failure) for each in found) == broken


def test_texts_of_the_writer_lose_what_steers_a_terminal_or_cannot_be_saved() -> None:
    row = {**GOOD, "question": "What\u001b[31m\ncolor\u202e?", "answer": "It is \ud83d red."}
    [read] = read_candidates(json.dumps([{**row, "program": body("return '\ud83d'")}]))
    assert isinstance(read, QuestionCandidate)
    assert (read.question, read.answer) == ("What [31m color ?", "It is   red.")
    assert read.program == body("return '?'").strip("\n")


@given(st.text(max_size=300) | st.text('[]{}",: \\question', max_size=200))
def test_any_reply_gives_candidates_or_reasons(text: str) -> None:
    assert all(isinstance(each, QuestionCandidate | Failure) for each in read_candidates(text))
    assert read_candidates(text)
    found = read_tuples(Reply(text))
    assert isinstance(found, Failure) or all(1 <= len(each) <= 3 for each in found)


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
    words = ("cat", "dog", "x")
    prove = Prove(encoder=lambda texts: [[float(text == w) for w in words] for text in texts])
    [score] = prove.score(
        ["?"], ["?"], [""], ["?"],
        graphs={"answer": [[["dog"], ["cat"]]], "response": ['[["dog"]]'], "caption": [[["dog"]]]},
    )  # fmt: skip
    assert (score.helpfulness, score.truthfulness, score.average) == (0.5, 1.0, 0.75)
    assert "|graphs:answer,caption,response|" in score.signature
