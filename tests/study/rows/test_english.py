"""Whether a text reads like English, for warnings."""

from __future__ import annotations

import pytest

from posh_reward.study.rows.standings import reads_like_english


@pytest.mark.parametrize(
    "text",
    [
        "", "A red dog.", "🐶 1 2 3", "Two dogs run fast under a large green tree.",
        "A naïve café scene with a “quoted” word.", "Naked branches, bare soil",
    ],
)  # fmt: skip
def test_english_and_very_short_texts_pass(text: str) -> None:
    assert reads_like_english(text)


@pytest.mark.parametrize(
    "text",
    [
        "Ein brauner Hund schläft auf dem Rasen im Garten.",
        "Un chien brun dort sur l'herbe verte.",
        "茶色い犬が芝生で寝ている。", "Коричневая собака",
        "Un perro marrón duerme sobre la hierba.",
    ],
)  # fmt: skip
def test_other_languages_do_not_read_like_english(text: str) -> None:
    assert not reads_like_english(text)
