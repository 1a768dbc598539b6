"""Guards take from a text only what they would not take from the reference (law E1)."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posh_reward import Guards, PoSh, PoshReward, Shaping
from posh_reward.errors import ConfigError
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.posh.means import harmonic_mean
from posh_reward.reward.guards import (
    GUARDS,
    Guard,
    ScoredText,
    describing_itself,
    kept_shares,
    list_active_guards,
    more_than_a_list,
)
from posh_reward.reward.shaping import build_shaping, read_shaping, shape_reward
from posh_reward.types import HIGHEST_GRADE, WORST_SCORE, Element, Scores

ROOT = Path(__file__).resolve().parents[2]
ENUMERATION = (
    "A dog, a cat, a bird, a fish, a horse, a cow, a sheep, a goat and a pig are on a lawn."
)
ALL_LIMITS = Guards(length_limit=1.0, repetition_limit=0.1)
ENTITIES = "dog cat bird horse cow sheep goat pig lawn river bridge lamp coat hat table".split()
PATTERNS = (
    "A {} and a {} are near a {}.", "The {}, the {}, the {}.", "We run.", "A red {} holds a {}.",
    "There is a {} in a {}.", "{} {} {}", "On the left there is a {}.", "of the {} in {} a by.",
)  # fmt: skip


@cache
def metric() -> PoSh:
    return PoSh(FakeJudge(lambda question: HIGHEST_GRADE), processes=1)


def drawn_text(pattern: str, entities: list[str]) -> str:
    return pattern.format(*entities)


TEXTS = st.lists(
    st.builds(drawn_text, st.sampled_from(PATTERNS), st.lists(st.sampled_from(ENTITIES),
                                                              min_size=3, max_size=3)),
    min_size=1, max_size=12,
).map(" ".join)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_a_text_is_its_own_best_description(text: str) -> None:
    [scores] = metric().score([text], [text])
    shares = kept_shares(scores, ALL_LIMITS)
    reward = shape_reward(scores, Shaping(guards=ALL_LIMITS))
    if shares.pop("silence") == 0:  # as "We run.", which names nothing in the image
        assert reward == WORST_SCORE
    else:
        assert set(shares.values()) == {1.0}
        assert reward == scores.f1


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_a_guard_takes_at_most_what_the_reference_keeps(text: str, reference: str) -> None:
    [scores] = metric().score([text], [reference])
    itself = ScoredText(describing_itself(scores))
    relative = [guard for guard in list_active_guards(ALL_LIMITS) if guard.relative]
    for guard in relative if scores.reference_elements else ():
        kept = kept_shares(scores, ALL_LIMITS)[guard.name]
        alone = guard.kept(ScoredText(scores), ALL_LIMITS)
        assert 0 <= alone <= kept + 1e-12 <= 1 + 1e-12
        assert 1 - kept <= guard.kept(itself, ALL_LIMITS) + 1e-12


def test_an_enumeration_that_is_the_reference_is_no_list() -> None:
    """By itself it would be the worst; as bare nouns for a detailed reference it is."""
    reward = PoshReward(metric())
    assert reward([None], [ENUMERATION], reference=[ENUMERATION]) == [1.0]
    detailed = (
        "A brown dog chases a small cat. A white bird and a wet fish rest. A tall horse pulls an "
        "old cow. A fat sheep, a black goat and a pink pig graze on the green lawn."
    )
    [listed] = reward([None], [ENUMERATION], reference=[detailed])
    assert listed == pytest.approx(WORST_SCORE)


def test_guards_that_are_off_leave_the_metric_alone(caplog: pytest.LogCaptureFixture) -> None:
    paper = PoshReward(metric(), Shaping(guards="off"))
    texts = ["", ENUMERATION, "quay " * 30, "A red hat."]
    references = ["A man in a red hat sits at a table."] * len(texts)
    with caplog.at_level(logging.WARNING):
        scores = metric().score(texts, references)
        found = paper([None] * len(texts), texts, reference=references)
    assert found == [score.f1 for score in scores]
    assert paper.signature.endswith("|shaping:guards=off")
    assert kept_shares(scores[1], Guards.off()) == {}


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: str(guard.name))
def test_each_guard_is_switched_by_its_limit(guard: Guard) -> None:
    [scores] = metric().score([ENUMERATION], ["A red hat."])
    assert guard.name in kept_shares(scores, ALL_LIMITS)
    without = replace(ALL_LIMITS, **{guard.limit: getattr(Guards.off(), guard.limit)})
    assert guard.name not in kept_shares(scores, without)


def test_the_log_says_which_guard_took_how_much() -> None:
    """Half of the completions are silent, so that guard takes half; no other takes anything."""
    logged: dict[str, float] = {}
    PoshReward(metric())(
        [None] * 2, ["", "A red hat."], reference=["A red hat."] * 2, log_metric=logged.__setitem__
    )
    taken = {name: value for name, value in logged.items() if "/guard_" in name}
    assert taken.pop("posh/guard_silence") == 0.5
    assert taken == dict.fromkeys(taken, 0.0)
    names = {f"posh/guard_{guard.name}" for guard in list_active_guards(Guards())} - {
        "posh/guard_silence"
    }
    assert taken.keys() == names


class Flags:
    guards = "off"
    detail_floor: float | None = None


def test_settings_of_guards_stand_beside_the_others() -> None:
    assert read_shaping({"detail_floor": 0.5}) == Shaping(guards=Guards(detail_floor=0.5))
    assert read_shaping({"guards": False}) == read_shaping({"guards": "off"}), "YAML's off"
    with pytest.raises(ConfigError, match="detail_floor has no effect with guards off"):
        read_shaping({"guards": "off", "detail_floor": 0.5})
    with pytest.raises(ConfigError, match="guards is 'of': use on, off"):
        Shaping(guards="of")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"bare_share is 2: use a number from 0 to 1"):
        Guards(bare_share=2)
    flags = Flags()
    assert build_shaping(flags).limits == Guards.off()
    flags.detail_floor = 0.5
    with pytest.raises(ConfigError, match="detail_floor has no effect"):
        build_shaping(flags)


def test_a_reference_without_elements_is_no_measure() -> None:
    """Else the text would keep what such a reference keeps, which is nothing."""
    [scores] = metric().score([ENUMERATION], ["A red hat."])
    bare = replace(
        scores,
        elements=tuple(each for each in scores.elements if each.direction == "precision"),
    )
    assert isinstance(bare, Scores)
    kept = kept_shares(bare, Guards())
    [listing] = [guard for guard in GUARDS if guard.name == "list"]
    assert kept["list"] == listing.kept(ScoredText(bare), Guards())


@pytest.mark.parametrize("page", ["docs/training.md", "docs/rewards.md"])
def test_every_guard_is_in_the_tables(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    names = [f"posh/guard_{guard.name}" if "training" in page else guard.name for guard in GUARDS]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_limits_of_no_guard_are_off() -> None:
    """Ranks compare signatures: two spellings of one reward have the same."""
    assert Shaping(guards=Guards.off()) == Shaping(guards="off")
    assert Shaping(guards=Guards()) == Shaping()
    [off] = {PoshReward(metric(), Shaping(guards=each)).signature for each in ("off", Guards.off())}
    assert off.endswith("|shaping:guards=off")


@given(st.floats(0.2, 1), st.floats(0.2, 1))
def test_without_guards_the_reward_is_the_papers_f1(p: float, r: float) -> None:
    [scores] = metric().score(["A red hat."], ["A red hat."])
    scores = replace(scores, precision=p, recall=r, f1=harmonic_mean(p, r))
    assert shape_reward(scores, Shaping(guards="off")) == pytest.approx(scores.f1, rel=1e-15)


def test_verbs_make_a_crowded_sentence_more_than_a_list() -> None:
    """The guard's own example: 10 entities, one or three verbs, nine prepositions."""

    def kept(verbs: int, sentences: int) -> float:
        words = "cat. " * 10 if sentences > 1 else "cat " * 10
        step = 5 if sentences > 1 else 4
        places = [((at * step, at * step + 3),) for at in range(10)]
        own = [Element("precision", "entity", "cat", 4.0, spans, "cat") for spans in places]
        for text, count in (("holds", verbs), ("of", 9)):
            own += [Element("precision", "relation", text, 4.0, places[0], "cat")] * count
        [scores] = metric().score(["A red hat."], ["A red hat."])
        made = replace(scores, generation=words, elements=tuple(own))
        return more_than_a_list(ScoredText(made), Guards())

    assert kept(verbs=3, sentences=1) == pytest.approx(6 / 10 / 0.65)
    assert kept(verbs=1, sentences=1) == pytest.approx(2 / 10 / 0.65 * (1 - 2 * (5 / 10 - 0.1)))
    assert kept(verbs=1, sentences=10) == 1, "each names one thing"
