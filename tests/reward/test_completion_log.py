"""What a trainer logs of each completion."""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward import PoSh, PoshReward
from posh_reward.errors import InputError
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.reward.completion_log import (
    DETAIL_COLUMNS,
    ROW_COLUMNS,
    LongText,
    list_unsupported,
    pack_scores,
    unpack_scores,
)
from posh_reward.types import Element, Failure, ImageGrade, Scores, SentenceVerdict

REFERENCE = "A woman in a red coat stands near a table."
TEXTS = ["A woman in a green coat sleeps.", "A woman stands near a table.", None]


class Trainer:
    """TRL's trainer, as far as a reward asks it: its logs, and what ends a text."""

    eos_token_ids = (9,)
    _tokenizer = SimpleNamespace(pad_token_id=0)

    def __init__(self, *, log_completions: bool = True, training: bool = True) -> None:
        self.log_completions = log_completions
        self.model = SimpleNamespace(training=training)
        self.logged: dict[str, list[Any]] = defaultdict(list)

    def log_metric(self, name: str, value: float) -> None:
        pass

    def call(self, reward: PoshReward) -> dict[str, list[Any]]:
        reward(
            prompts=[""] * 3, completions=TEXTS, completion_ids=[[1, 9], [1, 2], [1, 2]],
            uuid=["a", "b", "c"], reference=[REFERENCE] * 3,
            trainer_state=SimpleNamespace(global_step=7),
            log_metric=self.log_metric,
            log_extra=lambda name, values: self.logged[name].extend(values),
        )  # fmt: skip
        return self.logged


def test_each_row_says_what_was_scored_on_what_and_what_was_found() -> None:
    logged = Trainer().call(PoshReward())
    assert logged["posh_id"] == ["a", "b", "c"]
    assert logged["posh_step"] == [7, 7, 7]
    assert logged["posh_mode"] == ["train"] * 3
    assert logged["posh_cut"] == [False, True, True]
    assert logged["posh_reference"] == [REFERENCE] * 3
    assert "coat: green" in logged["posh_mistakes"][0].split("; ")
    assert "coat: red" in logged["posh_missing"][1].split("; ")
    assert logged["posh_mistakes"][2] == logged["posh_missing"][2] == ""
    assert "A woman in a green coat sleeps." in logged["posh_contradicted"][0]
    assert unpack_scores(logged["posh_scores"][2]).failure is not None


def test_evaluation_is_told_from_training() -> None:
    assert Trainer(training=False).call(PoshReward())["posh_mode"] == ["eval"] * 3


def test_details_are_left_out_where_no_completions_are_logged() -> None:
    logged = Trainer(log_completions=False).call(PoshReward())
    assert {f"posh_{name}" for name in ROW_COLUMNS} < set(logged)
    assert not {f"posh_{name}" for name in DETAIL_COLUMNS} & set(logged)


def test_a_guard_that_lowers_a_reward_is_named() -> None:
    listed = "A hat, a boat, a cup, a tree, a dog, a coat, a wall and a rose."
    logged: dict[str, list[Any]] = {}
    PoshReward()(
        completions=[listed, REFERENCE], reference=[REFERENCE] * 2,
        log_extra=lambda name, values: logged.update({name: values}),
    )  # fmt: skip
    assert "list " in logged["posh_lowered"][0]
    assert logged["posh_lowered"][1] == ""


def test_a_terminal_shows_the_ends_and_files_all() -> None:
    text = LongText("a" * 50 + "\n" + "b" * 50)
    assert len(str(text)) <= 60
    travelled = pickle.loads(pickle.dumps(text))  # between ranks
    assert len(travelled) == len(text) == 101
    assert pyarrow.array([travelled]).to_pylist() == ["a" * 50 + "\n" + "b" * 50]
    assert json.loads(json.dumps([travelled])) == [text]


IMAGE = ImageGrade(4.5, 1.25, Failure("text", "dark"))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(str.strip)
grades = st.one_of(st.none(), st.floats(1, 5).map(lambda grade: round(grade, 4)))
elements = st.builds(
    Element, st.sampled_from(["precision", "recall"]),
    st.sampled_from(["entity", "attribute", "relation"]), texts, grades,
    st.lists(st.tuples(st.integers(0, 9), st.integers(9, 20)), max_size=3).map(tuple), texts,
    other=st.one_of(st.none(), texts), direct=st.booleans(),
    failure=st.one_of(st.none(), st.just(Failure("engine", "gone"))),
    image_grade=st.sampled_from([None, IMAGE]),
    decided_by=st.sampled_from([None, "supported", "contradicted"]),
)  # fmt: skip


@given(st.lists(elements, max_size=5).map(tuple), texts, texts)
def test_packed_scores_come_back_as_they_were(
    drawn: tuple[Element, ...], generation: str, reference: str
) -> None:
    scores = Scores(
        0.5, None, None, "posh|x", drawn, Failure("text", "no"), 1, generation, reference,
        sentences=(SentenceVerdict((0, 3), 0.5, 0.25, 0.25),),
    )  # fmt: skip
    assert unpack_scores(pack_scores(scores)) == scores


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"elements": [[1]]}', '{"elements": 3}'])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        unpack_scores(text)


def test_unsupported_details_are_named_by_kind() -> None:
    scores = PoSh(FakeJudge(lambda request: 1.0)).score(["A red cup on a table."], ["A dog."])[0]
    assert list_unsupported(scores, "precision") == "cup; cup: red; cup on table; table"
    assert list_unsupported(replace(scores, elements=()), "precision") == ""
