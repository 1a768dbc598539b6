"""Who sees what: blind, balanced, and never twice."""

from collections import Counter, defaultdict
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward.errors import InputError
from posh_reward.study.packets.draw import Design, draw, identical_pairs
from posh_reward.study.packets.study_records import StudyItem
from tests.study.packets.studies import items

FOUR = ("llava", "molmo", "claude", "gpt4o")


@given(
    count=st.integers(12, 40), raters=st.integers(9, 12), models=st.integers(2, 3),
    seed=st.integers(0, 2**64), share=st.sampled_from([0, 0.15, 0.5, 1]),
)  # fmt: skip
def test_every_draw_is_fair(count: int, raters: int, models: int, seed: int, share: float) -> None:
    found = items(count, FOUR[:models]).items
    design = Design(seed, coarse=raters, granular=raters, repeated=share, times=3)
    drawn = draw(found, design)
    for form, per_item in (("coarse", models * (models - 1) // 2), ("granular", models)):
        group = {name: rater for name, rater in drawn.items() if rater.form == form}
        asked = Counter((t.item, frozenset(t.models)) for r in group.values() for t in r.tasks)
        assert len(asked) == count * per_item, "everything is asked"
        several = [times for times in asked.values() if times > 1]
        assert set(several) <= {3}
        assert len(several) == round(share * len(asked))
        for rater in group.values():
            seen = Counter((task.item, model) for task in rater.tasks for model in task.models)
            assert set(seen.values()) == {1}, "no generation is seen twice"
    ids = [task.id for rater in drawn.values() for task in rater.tasks]
    assert len(ids) == len(set(ids))


def test_no_side_or_place_goes_with_an_item_or_a_model() -> None:
    left: Counter[str] = Counter()
    places: dict[str, list[int]] = defaultdict(list)
    for seed in range(600):
        drawn = draw(items(4).items, Design(seed, coarse=1, repeated=0, times=1))
        for place, task in enumerate(drawn["rater-01"].tasks):
            left[task.item] += task.models[0] == "sft"
            places[task.item].append(place)
    assert all(250 < times < 350 for times in left.values()), left
    assert all(1.35 < sum(each) / len(each) < 1.65 for each in places.values())


def test_four_models_three_raters() -> None:
    """The tightest case: six pairs of an item, of which a rater can be shown only two."""
    drawn = draw(items(25, FOUR).items, Design(1, coarse=3, repeated=0))
    pairs = Counter(frozenset(t.models) for r in drawn.values() for t in r.tasks)
    assert pairs == {frozenset(pair): 25 for pair in combinations(FOUR, 2)}
    with pytest.raises(InputError, match="2 raters are too few"):
        draw(items(3, FOUR).items, Design(1, coarse=2, repeated=0))


def test_equal_texts_are_not_asked_and_not_seen_twice() -> None:
    same = StudyItem("x", "A dog.", {"a": "A cat.", "b": "A cat.", "c": "A cow."})
    drawn = draw([same], Design(0, coarse=2, repeated=0))
    asked = [task.models for rater in drawn.values() for task in rater.tasks]
    assert sorted(map(sorted, asked)) == [["a", "c"], ["b", "c"]]
    assert [len(rater.tasks) for rater in drawn.values()] == [1, 1]
    assert [task.models for task in identical_pairs([same])] == [("a", "b")]
    with pytest.raises(InputError, match="2 tasks for 3 raters"):
        draw([same], Design(0, coarse=3, repeated=0))
    with pytest.raises(InputError, match="nothing to ask"):
        draw([StudyItem("x", "A dog.", {"a": "A cat.", "b": "A cat."})], Design(0))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"coarse": 0}, "needs raters"),
        ({"repeated": 1.5}, "use a share"),
        ({"times": 0}, "use 1 or more"),
        ({"coarse": 2}, "3 raters cannot share a task if there are only 2"),
    ],
)
def test_what_cannot_be_laid_out_is_refused(changes: dict[str, int], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Design(seed=0, **changes)
