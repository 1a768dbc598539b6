"""Scene graphs against drawn ones: cases by hand."""

from __future__ import annotations

from math import isnan
from typing import Any

import pytest

from posh_reward.errors import InputError
from posh_reward.graph.reader import Reader
from posh_reward.study.agreement.agreement_report import AgreementSettings
from posh_reward.study.agreement.graph_match import (
    gold_on_tokens,
    graph_figures,
    graph_on_tokens,
    graphs_report,
)
from posh_reward.types import Failure


def settings(resamples: int) -> AgreementSettings:
    return AgreementSettings(resamples=resamples, quiet=True)


SENTENCE = "A brown dog chases a cat. The dog barks."


DOG, CAT, AGAIN, BROWN, CHASES, BARKS = [8, 11], [21, 24], [30, 33], [2, 7], [12, 18], [34, 39]


def gold(**changes: Any) -> dict[str, Any]:
    return {
        "entities": [{"mentions": [DOG, AGAIN]}, {"mentions": [CAT]}],
        "attributes": [{"spans": [BROWN], "entity": 0}, {"spans": [BARKS], "entity": 0}],
        "relations": [{"spans": [CHASES], "subject": 0, "object": 1}],
    } | changes


def test_graph_figures_by_hand() -> None:
    apart = gold(entities=[{"mentions": [DOG]}, {"mentions": [CAT]}, {"mentions": [AGAIN]}])
    swapped = gold(
        attributes=[{"spans": [BROWN], "entity": 1}, {"spans": [BARKS], "entity": 1}],
        relations=[{"spans": [CHASES], "subject": 1, "object": 0}],
    )
    placed = [gold_on_tokens(each, SENTENCE, "g") for each in (gold(), apart, swapped)]
    found = graph_figures(placed[1], placed[0])  # the second dog is taken for another one
    assert found["entities f1"] == 1
    assert found["entities coref"] == pytest.approx(2 / 3)
    assert found["relations head"] == 1
    found = graph_figures(placed[2], placed[0])
    assert (found["attributes f1"], found["attributes head"]) == (1, 0)
    assert (found["relations f1"], found["relations head"], found["relations tail"]) == (1, 0, 0)
    nothing = gold_on_tokens({"entities": [], "attributes": [], "relations": []}, SENTENCE, "g")
    found = graph_figures(nothing, placed[0])
    assert found["entities recall"] == found["entities f1"] == 0
    assert isnan(found["entities precision"])
    assert isnan(found["entities coref"])


def test_our_graph_of_a_plain_sentence_is_the_drawn_one() -> None:
    [read] = Reader().read([SENTENCE])
    assert not isinstance(read, Failure)
    figures = graph_figures(
        graph_on_tokens(read.graph, SENTENCE), gold_on_tokens(gold(), SENTENCE, "g")
    )
    assert all(value == 1 for value in figures.values())


def test_a_report_on_graphs() -> None:
    report = graphs_report([{"text": SENTENCE, **gold()}], Reader(), "set", settings(5))
    assert report.lines[0].cells["relations tail"].estimate.value == 1
    assert report.paper[0].figures["entities f1"] == 0.909
    broken = gold(attributes=[{"spans": [BROWN], "entity": 9}])
    with pytest.raises(InputError, match=r"row 1: not a scene graph .*is not the number of an ent"):
        graphs_report([{"text": SENTENCE, **broken}], Reader(), "set", settings(5))
