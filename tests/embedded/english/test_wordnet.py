"""English or another language, for warnings and for the reward."""

from __future__ import annotations

import pytest

from posh_reward.embedded.english.wordnet import is_english


@pytest.mark.parametrize(
    "text",
    [
        "", "A red dog.", "🐶 1 2 3", "Two dogs run fast under a large green tree.",
        "A naïve café scene with a “quoted” word.", "Naked branches, bare soil",
        "Tall large headed giraffe looking out past some trees.",
    ],
)  # fmt: skip
def test_english_and_very_short_texts_pass(text: str) -> None:
    assert is_english(text)


@pytest.mark.parametrize(
    "text",
    [
        "Ein brauner Hund schläft auf dem Rasen im Garten.",
        "Un chien brun dort sur l'herbe verte.",
        "茶色い犬が芝生で寝ている。", "Коричневая собака",
        "Eine Frau in einem Kleid", "Un hombre con un sombrero rojo está sentado.",
        "Eine Frau in einem Kleid steht am Fenster und liest ein Buch.",
        "Un perro marrón duerme sobre la hierba.", "Ein Hund schläft.",
        "Eine Frau in einem roten Kleid steht auf der Brücke und hält einen Schirm in der Hand.",
    ],
)  # fmt: skip
def test_other_languages_do_not_read_like_english(text: str) -> None:
    assert not is_english(text)
