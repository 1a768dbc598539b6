"""Words that the judge treats by what they do."""

from __future__ import annotations

from posh_reward.lexicon.function_words import DEPICTION


def test_words_for_an_image_as_such_depict() -> None:
    assert {"image", "picture", "photo", "painting"} <= DEPICTION
