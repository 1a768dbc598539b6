"""How agreement with people is measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tools.eval_people import (
    Judged,
    bag_of_words,
    flickr8k,
    interval,
    joined,
    main,
    pearson,
    share_above,
    tau_c,
)


def test_references_become_sentences_of_one_text() -> None:
    assert joined(["a dog runs", "A dog . "]) == "a dog runs. A dog."


def test_a_bag_of_words_counts_shared_words() -> None:
    assert bag_of_words(("A red dog.", "a dog")) == {
        "precision": pytest.approx(2 / 3), "recall": 1.0, "f1": pytest.approx(0.8),
    }  # fmt: skip
    assert bag_of_words(("", "a dog"))["f1"] == 0


def test_agreement() -> None:
    people = np.array([1.0, 2.0, 3.0, 4.0])
    assert tau_c(people, people) == pytest.approx(1)
    assert pearson(-people, people) == pytest.approx(-1)
    corrected = np.array([0.0, 1.0, 0.0, 1.0])
    assert share_above(np.array([0.1, 0.2, 0.3, 0.3]), corrected) == 0.5


def test_the_interval_holds_the_figure() -> None:
    people = np.arange(40.0)
    scores = people + np.random.default_rng(1).normal(0, 10, 40)
    images = [str(i // 2) for i in range(40)]
    judged = Judged("set", [], np.arange(40), images, {"f1": people}, pearson)
    low, high = interval(judged, "f1", scores)
    assert low < pearson(scores, people) < high


def write_sets(folder: Path) -> None:
    """Tiny sets of the same form as the public ones."""
    words = ["A dog runs.", "A man sits.", "Two cats sleep."]
    candidates = [{"caption": w, "ratings": [4.0 - i, 3.0 - i]} for i, w in enumerate(words)]
    flickr = [{"image": str(i), "references": words[:2], "candidates": candidates} for i in (1, 2)]
    foil = [{"image": "1", "reference": words[0], "hallucinated": words[1], "corrected": words[0]}]
    thumb = [
        {"image": str(i), "system": "x", "caption": w, "P": 5 - i, "R": 4 - i, "total": 4.5 - i,
         "references": words[:2]}
        for i, w in enumerate(words)
    ]  # fmt: skip
    for name, rows in (("flickr8k_expert", flickr), ("discourse_foil", foil), ("thumb", thumb)):
        text = "\n".join(json.dumps(row) for row in rows)
        (folder / f"{name}_dev.jsonl").write_text(text, encoding="utf-8")


def test_every_rating_is_a_row(tmp_path: Path) -> None:
    write_sets(tmp_path)
    judged = flickr8k(tmp_path)
    assert len(judged.pairs) == 6
    assert judged.of.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert len(flickr8k(tmp_path, sample=1).pairs) == 3


def test_one_command_prints_all_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sets(tmp_path)
    main([str(tmp_path), "--store", str(tmp_path / "parsed.db")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "embedded" in line][:7] == [
        *["Flickr8k-Expert"] * 3, "DiscourseFOIL", *["THumB"] * 3,
    ]  # fmt: skip
    assert sum("bag of words" in line for line in lines) == 7
