"""Rows of a corpus, whatever engine brings them."""

import numpy as np
import pytest

from posh_reward import HarmonicEval, InputError, JudgeError, PoSh
from posh_reward.adapters.corpora import ScoreRows
from posh_reward.models.fake_model import FakeModel
from posh_reward.types import Failure, Scores

REFERENCE = "A short man in a green coat sleeps under a tree."
TEXTS = ["A red dog.", None, "A man sleeps."]


class Broken(PoSh):
    """A judge that fails at everything but one text."""

    def score(self, generations: object, references: object, images: object = None) -> list[Scores]:
        assert isinstance(generations, list)
        why = Failure("engine", "out of memory")
        fine = Scores(0.5, 0.5, 0.5, "s")
        return [fine if text == "fine" else Scores.failed(why, "s") for text in generations]


def batch(texts: list[str | None]) -> dict[str, object]:
    references = np.array([REFERENCE] * len(texts), dtype=object)
    return {"id": np.arange(len(texts)), "text": np.array(texts, dtype=object), "truth": references}


COLUMNS = {"generation": "text", "reference": "truth"}


def test_batches_get_columns_with_one_schema() -> None:
    stage = ScoreRows(columns=COLUMNS)
    scored = stage(batch(TEXTS))
    assert list(scored) == [
        "id", "text", "truth", "posh_precision", "posh_recall", "posh_f1", "posh_failure",
        "posh_signature",
    ]  # fmt: skip
    direct = PoSh().score(TEXTS, [REFERENCE] * 3)
    assert scored["posh_f1"].to_pylist() == [each.f1 for each in direct]
    assert scored["posh_failure"].to_pylist() == [None, "the generation is missing", None]
    lost = stage(batch([None]))
    types = {name: str(scored[name].type) for name in scored if name.startswith("posh")}
    assert types == {name: str(lost[name].type) for name in types}
    assert set(types.values()) == {"double", "string"}


def test_a_judge_that_is_gone_ends_the_job_with_its_reason() -> None:
    stage = ScoreRows(Broken, COLUMNS, most_failed=5)
    stage.score(batch(["a"] * 4))
    stage.score(batch(["fine"]))  # it works again
    stage.score(batch(["a"] * 4))
    with pytest.raises(JudgeError, match="failed at 5 consecutive rows; the last reason: out of m"):
        stage.score(batch(["a"]))


def test_siblings_and_poor_columns() -> None:
    stage = ScoreRows(lambda: HarmonicEval(FakeModel(sees=True)))
    rows = {"generation": ["A dog."], "image": [b"no image"]}
    assert stage.score(rows)["harmonic_failure"][0].startswith("the image cannot be read")
    with pytest.raises(InputError, match="no column 'generation', only text: pass columns="):
        stage.score({"text": ["A dog."]})
