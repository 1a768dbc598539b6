"""What is decided by words alone: whether answers agree, what is trivial, kinds of attributes."""

import pytest

from posh_reward.metrics.prove.pair_maker import agrees
from posh_reward.metrics.prove.program_language import Value
from posh_reward.metrics.prove.tuples import nodes_of


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
    assert agrees(value, question, answer) == same


def test_a_graph_has_attributes_by_kind_and_relations_by_target() -> None:
    tuples = [("cat", "black"), ("cat", "white"), ("cat", "on", "mat"), ("cat", "eats off", "mat")]
    assert nodes_of(tuples) == {
        "cat": {
            "attributes": {"color": "black, white"},
            "relations_to": {"mat": {"spatial": ["on"], "action": ["eats off"]}},
        },
        "mat": {"attributes": {}, "relations_to": {}},
    }
