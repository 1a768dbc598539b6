"""Rubrics as files, and the prompts that they make."""

from typing import Any

import pytest

from posh_reward import ConfigError
from posh_reward.metrics.rubric_judge import load_rubric

METRICS: list[dict[str, Any]] = [
    {"name": "truth", "title": "No mistakes", "points": {1: "None.", -1: "Some."}},
]


def test_the_papers_rubric_has_its_ranges() -> None:
    rubric = load_rubric("animals")
    ranges = {metric.name: (metric.lowest, metric.highest) for metric in rubric.metrics}
    assert ranges == {"M1": (0, 2), "M2": (0, 3), "M3": (0, 5), "M4": (0, 2), "M5": (0, 3)}
    assert (rubric.lowest, rubric.highest, len(rubric.examples)) == (0, 15, 3)


def test_no_example_is_an_item_of_the_papers_test() -> None:
    """Tables A7 and A8: a judge that has seen an answer's points does not judge it."""
    items = (
        "Bustard Eagle Paradise Stork Parrot Flamingo Ostrich Crane Macaw Gull Albatross".split()
    )
    items += "Finch Penguin Roadrunner Parakeet Hummingbird Cockatoo Peafowl Peacock Toucan".split()
    items += ["Booby"]
    for example in load_rubric("animals").examples:
        text = f"{example.truth} {example.answer}".casefold()
        assert [name for name in items if name.casefold() in text] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "rubric: metrics .* field required"),
        ({"metrics": []}, "metrics is .* at least 1 item"),
        ({"metric": METRICS, "metrics": METRICS}, "metric is .* not permitted"),
        ({"metrics": {"a": 1}}, "metrics is .* valid tuple"),
        ({"metrics": METRICS * 2}, "two metrics have the same name: truth, truth"),
        ({"metrics": METRICS * 101}, "at most 100 items"),
        ({"metrics": [METRICS[0] | {"name": "\x1b[2J"}]}, r"metrics 1 name is '.x1b.2J': use prin"),
        ({"metrics": [METRICS[0] | {"name": 'a": 1, "b'}]}, "without quotes"),
        ({"metrics": [METRICS[0] | {"points": {"two": "x", 1: "y"}}]}, "points two .* integer"),
        ({"metrics": [METRICS[0] | {"points": {1: "x"}}]}, "at least 2"),
        ({"metrics": [METRICS[0] | {"title": 3}]}, "metrics 1 title is 3: input should be"),
        ({"metrics": METRICS, "steps": [""]}, "steps 1 is '': .* at least 1 character"),
        (
            {
                "metrics": METRICS,
                "examples": [{"truth": "t", "answer": "a", "scores": {"truth": 5}, "feedback": {}}],
            },
            "example 1: truth has 5 points: use one of 1, -1",
        ),
    ],
)
def test_what_is_wrong_with_a_rubric_is_said_where_it_is(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_rubric(settings)
