"""Vectors as features of the embedded judge, with an encoder whose vectors a person can check."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from posh_reward import PoSh
from posh_reward.embedded.judge import EmbeddedJudge
from posh_reward.embedded.judge.alignment import Alignment
from posh_reward.embedded.judge.encoder_features import (
    EncodedDescription,
    EncoderFeatures,
    load_weights,
)
from posh_reward.embedded.judge.index import DescriptionIndex
from posh_reward.models.encoders import TokenVectors
from posh_reward.settings import TRUST_VARIABLE
from posh_reward.types import Description, Question
from tests.embedded.judge.test_embedded_judge import read

AXES = {"toddler": (1.0, 0.0), "child": (0.8, 0.6), "dog": (0.0, 1.0)}
"""The cosine of toddler and child is 0.8, of child and dog 0.6."""
SLEEPS = "A/DET/det/1 {who}/NOUN/nsubj/2 sleeps/VERB/ROOT/2 ./PUNCT/punct/2"


def axes(sentences: Sequence[str]) -> list[TokenVectors]:
    """Vectors of the words in ``AXES``, three long; of any other, zeros."""
    return [on_axes(sentence) for sentence in sentences]


def on_axes(sentence: str) -> TokenVectors:
    words = sentence.rstrip(".").split(" ")
    starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])]).tolist()
    vectors = [AXES.get(word, (0.0, 0.0)) for word in words]
    spans = tuple((start, start + len(word)) for start, word in zip(starts, words, strict=True))
    return TokenVectors(spans, 3 * np.array(vectors, dtype=np.float32))


def question(source: Description, target: Description) -> Question:
    """Is the source's first entity in the target?"""
    head = source.graph.entities[0].head
    return Question("precision", "entity", head, source, target, 0)


def features(who: str, whom: str, name: float) -> dict[str, float]:
    source, target = (read(SLEEPS.format(who=each)) for each in (who, whom))
    encoder_features = EncoderFeatures(
        EncodedDescription(source, axes), EncodedDescription(target, axes)
    )
    alignment = Alignment(DescriptionIndex(source), DescriptionIndex(target))
    return encoder_features.compute_features(alignment, question(source, target), {"name": name})


def test_cosines_become_facts_shared_out_by_how_far_the_name_was_found() -> None:
    found = features("toddler", "child", name=0.25)
    assert found["near_unfound"] == pytest.approx(0.75 * 0.8)
    assert found["near_found"] == pytest.approx(0.25 * 0.8)
    assert found["least_word_near_unfound"] == pytest.approx(0.75 * 0.8)
    assert found["sentences_near_unfound"] == pytest.approx(0.75 * 0.8)
    assert features("child", "dog", name=0.0)["near_unfound"] == pytest.approx(0.6)


def test_what_has_no_name_has_no_affinity() -> None:
    source = target = read(SLEEPS.format(who="toddler"))
    encoder_features = EncoderFeatures(
        EncodedDescription(source, axes), EncodedDescription(target, axes)
    )
    alignment = Alignment(DescriptionIndex(source), DescriptionIndex(target))
    asked = question(source, target)
    assert encoder_features.compute_features(alignment, asked, {"nameless": 1.0}) == {}


def test_a_near_word_raises_the_grade_and_a_far_one_does_not() -> None:
    judge = EmbeddedJudge(encoder=axes)
    source = read(SLEEPS.format(who="toddler"))
    near, far = (read(SLEEPS.format(who=who)) for who in ("child", "dog"))
    grades = [v.grade or 0 for v in judge.grade([question(source, near), question(source, far)])]
    assert grades[0] > grades[1] + 0.5


def test_order_and_company_of_questions_do_not_matter() -> None:
    texts = [read(SLEEPS.format(who=who)) for who in AXES]
    questions = [question(a, b) for a in texts for b in texts]
    alone = [EmbeddedJudge(encoder=axes).grade([each])[0] for each in questions]
    assert EmbeddedJudge(encoder=axes).grade(questions[::-1])[::-1] == alone


def test_the_encoder_and_its_weights_are_in_the_signature_and_the_default_has_none(
    tmp_path: Path,
) -> None:
    plain, judge = EmbeddedJudge(), EmbeddedJudge(encoder=axes)
    assert judge.name.startswith(f"{plain.name}+encoder:{__name__}:axes/")
    weights, _ = load_weights(None)
    own = tmp_path / "own.json"
    own.write_text(json.dumps({**weights, "entity": {**weights["entity"], "bias": -3.0}}))
    other = EmbeddedJudge(encoder=axes, weights=str(own))
    assert other.name != judge.name
    assert judge.name in PoSh(judge=judge).signature
    again = pickle.loads(pickle.dumps(judge))
    assert again.name == judge.name


def test_a_trusted_settings_file_names_the_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRUST_VARIABLE, "1")
    settings = tmp_path / "judge.yaml"
    settings.write_text(f"name: embedded\nencoder: {__name__}:axes\n")
    assert f"{__name__}:axes" in PoSh(judge=str(settings)).signature


def test_an_encoder_that_gives_no_vectors_fails_its_pair_alone() -> None:
    def broken(sentences: Sequence[str]) -> list[TokenVectors]:
        encoded = axes(sentences)
        return [replace(each, spans=()) for each in encoded] if "dog" in sentences[0] else encoded

    posh = PoSh(judge=EmbeddedJudge(encoder=broken))
    bad, good = posh.score(["A dog sleeps.", "A child sleeps."], ["A toddler sleeps."] * 2)
    assert bad.failure is not None
    assert good.f1 is not None
