"""PROVE over files: questions from captions, scores of responses; both go on after a kill."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from posh_reward.errors import InputError, JudgeError
from posh_reward.models.fake_model import FakeModel
from posh_reward.models.model import Prompt
from posh_reward.other_metrics.prove.pair_maker import PairMaker, PairVerifier
from posh_reward.other_metrics.prove.prove import Prove
from posh_reward.other_metrics.rows import (
    PAIR_TEXTS,
    RESPONSE_TEXTS,
    average_values,
    make_pairs,
    score_responses,
    summarise_candidates,
    verify_pairs,
)
from posh_reward.tables.engine import Columns, TableSettings
from posh_reward.tables.tables import Row
from posh_reward.types import Failure, Reply
from tests.cli.running import rows_in, write_rows
from tests.other_metrics.prove.hostile import body

CAPTIONS = ["A woman in a red dress.", "A man in a red dress.", "A girl in a red dress."]
GOOD = {
    "question": "What color is the dress?",
    "answer": "The dress is red.",
    "program": body("return sg.get_attributes('dress').get('color')"),
}
REPLY = json.dumps([GOOD, {**GOOD, "answer": "It is blue."}])
CAPTION = Columns({"caption": "caption"})
RESPONSES = Columns({name: name for name in RESPONSE_TEXTS})
QUIET = TableSettings(CAPTION, quiet=True, batch=1)
SCORING = TableSettings(RESPONSES, quiet=True)


class Mortal(FakeModel):
    """Writes some replies, then raises as an interrupted run does."""

    def __init__(self, life: int) -> None:
        super().__init__(writer=lambda prompt: REPLY, name="writer")
        self._life = life

    def write(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Reply]:
        self._life -= len(prompts)
        if self._life < 0:
            raise KeyboardInterrupt
        return super().write(prompts, max_tokens)


def captions(folder: Path) -> str:
    rows: list[Row] = [{"id": f"c{i}", "caption": text} for i, text in enumerate(CAPTIONS)]
    return str(write_rows(folder / "in.jsonl", rows))


def make(folder: Path, writer: FakeModel, how: TableSettings = QUIET) -> list[Row]:
    maker = PairMaker(writer)
    try:
        return make_pairs(maker, captions(folder), str(folder / "out.jsonl"), how)
    finally:
        maker.close()


def test_proves_average_does_not_reward_silence() -> None:
    """One good reply and two empty ones: ((1 + 0 + 0) / 3 + 1) / 2 = 2/3, as in Table 1."""
    values = average_values([1, 0, 0], [1, None, None])
    assert sum(values) / 3 == pytest.approx(2 / 3)
    assert average_values([1, 0], [None, None]) == []
    assert average_values([0.2, 0.6], [0.4, 1]) == pytest.approx([0.3, 0.8]), "no row is silent"


def test_kept_pairs_become_rows_and_drops_are_counted(tmp_path: Path) -> None:
    rows = make(tmp_path, Mortal(9), TableSettings(Columns(CAPTION.texts, "id"), quiet=True))
    kept = rows_in(tmp_path / "out.jsonl")
    assert [row["id"] for row in kept] == ["c0/1", "c1/1", "c2/1"]
    assert kept[0] == {"id": "c0/1", "caption": CAPTIONS[0], **GOOD} | {
        "program": GOOD["program"].strip("\n")
    }
    assert rows_in(tmp_path / "out.jsonl.made.jsonl") == rows
    assert summarise_candidates(rows) == (
        "3 captions (0 failed), 6 candidates, 3 kept\n  mismatch: 3"
    )


def test_an_interrupted_run_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    whole = make(tmp_path / "other", Mortal(9))
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, Mortal(2))
    assert len(rows_in(tmp_path / "out.jsonl.made.jsonl")) == 2
    second = Mortal(1)
    assert make(tmp_path, second) == whole
    assert len(second.prompts) == 1
    assert make(tmp_path, Mortal(0)) == whole, "nothing is left to do"


def test_what_was_made_otherwise_is_not_gone_on_with(tmp_path: Path) -> None:
    make(tmp_path, Mortal(9))
    with pytest.raises(InputError, match=r"not as prove-pairs\|writer:other.*--overwrite"):
        make(tmp_path, FakeModel(writer=lambda prompt: REPLY, name="other"))
    CAPTIONS[0], before = "A boy in a red dress.", CAPTIONS[0]
    try:
        with pytest.raises(InputError, match=r"row 1 of .* must have changed"):
            make(tmp_path, Mortal(9))
        again = make(tmp_path, Mortal(9), TableSettings(CAPTION, quiet=True, overwrite=True))
    finally:
        CAPTIONS[0] = before
    assert again[0]["caption"] == "A boy in a red dress."


def test_a_writer_that_is_gone_ends_the_run_and_keeps_no_rows(tmp_path: Path) -> None:
    gone = FakeModel(writer=lambda prompt: Failure("engine", "no answer"), name="writer")
    with pytest.raises(JudgeError, match="no answer"):
        make(tmp_path, gone)
    assert len(make(tmp_path, Mortal(9))) == 3


def responses(folder: Path) -> str:
    Image.new("RGB", (8, 8), "red").save(folder / "red.png")
    rows = [
        {"response": text, "answer": "The dress is red.", "question": "What color is the dress?",
         "caption": "A woman in a red dress.", "image": "red.png", "model": model}
        for text, model in (("The dress is red.", "a"), ("It has a hat.", "a"), (None, "b"))
    ]  # fmt: skip
    return str(write_rows(folder / "in.jsonl", rows))


def test_responses_are_scored_row_by_row_and_summed_up_by_model(tmp_path: Path) -> None:
    out = tmp_path / "scores.jsonl"
    means = score_responses(Prove(), responses(tmp_path), str(out), SCORING)
    rows = rows_in(out)
    best, worse, none = rows
    assert best["helpfulness"] == pytest.approx(1)
    assert best["truthfulness"] > worse["truthfulness"]
    assert best["answer_tuples"][0]["closest"] == ["dress", "red"]
    assert (none["helpfulness"], none["failure"]["detail"]) == (None, "the response is missing")
    first, second, unscored = str(means).splitlines()
    assert unscored.endswith(": the response is missing")
    assert first.startswith("a: helpfulness 0.")
    assert first.endswith("; higher is better")
    assert second.startswith("b: helpfulness none (of 0)")
    again = score_responses(Prove(), responses(tmp_path), str(out), SCORING)
    assert str(again) == str(means)
    assert rows_in(out) == rows


def test_pairs_are_verified_again_over_graphs_of_the_table(tmp_path: Path) -> None:
    graph = {"dress": {"attributes": {"color": "red"}}}
    rows: list[Row] = [{**GOOD, "caption": "", "caption_graph": graph},
            {**GOOD, "answer": "It is blue.", "caption": "", "caption_graph": json.dumps(graph)},
            {**GOOD, "caption": CAPTIONS[0]}]  # fmt: skip
    how = TableSettings(Columns({n: n for n in (*PAIR_TEXTS, "caption_graph")}), quiet=True)
    verifier, out = PairVerifier(), tmp_path / "out.jsonl"
    source = str(write_rows(tmp_path / "in.jsonl", rows))
    try:
        summary = verify_pairs(verifier, source, str(out), how)
        again = verify_pairs(verifier, source, str(out), how)
    finally:
        verifier.close()
    assert str(summary) == str(again) == "3 pairs, 2 verified\n  mismatch: 1"
    assert [row["dropped"] for row in rows_in(out)] == [None, "mismatch", None]
    assert rows_in(out)[0]["value"] == "red"
