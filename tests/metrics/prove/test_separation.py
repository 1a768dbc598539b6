"""With nothing downloaded, better replies still score higher: the figures of docs/prove.md."""

import json
from pathlib import Path

import pytest

from posh_reward import Prove
from posh_reward.datasets.scenes import caption, generate
from posh_reward.metrics.prove.prove import ProveScores
from tests.metrics.prove.scripted import questions


def test_true_answers_score_above_lies_on_both_counts() -> None:
    asked = [(q, caption(s)) for s in generate("validation", 12) for q in questions(s)]
    prove = Prove()
    answers, captions = [q.answer for q, _ in asked], [caption for _, caption in asked]
    texts = [q.question for q, _ in asked]
    true = prove.score(answers, answers, texts, captions)
    lies = prove.score([q.lie for q, _ in asked], answers, texts, captions)
    assert len(asked) > 20
    assert {(each.helpfulness, each.truthfulness) for each in true} == {(1.0, 1.0)}
    for each in lies:
        assert each.helpfulness is not None
        assert each.truthfulness is not None
        assert max(each.helpfulness, each.truthfulness) < 0.9


@pytest.mark.slow
def test_planted_mistakes_cost_truth_and_omissions_help(shared_data: Path) -> None:
    works = json.loads((shared_data / "data" / "planted" / "planted_dev.json").read_text("utf-8"))
    references = [work["reference"] for work in works]
    prove = Prove()

    def scored(key: str) -> list[ProveScores]:
        texts = [work[key] for work in works]
        return prove.score(texts, references, [""] * len(works), references)

    faithful, mistaken, omitting = map(scored, ("faithful", "mistaken_text", "omitting"))
    truer = [
        f.truthfulness > m.truthfulness
        for f, m in zip(faithful, mistaken, strict=True)
        if f.truthfulness is not None and m.truthfulness is not None
    ]
    fuller = [
        f.helpfulness > o.helpfulness
        for f, o in zip(faithful, omitting, strict=True)
        if f.helpfulness is not None and o.helpfulness is not None
    ]
    assert len(truer) == len(fuller) == len(works)
    assert sum(truer) >= 0.8 * len(works)
    assert all(fuller)
