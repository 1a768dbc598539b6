"""The texts of a study: complete in every language, and edited without losing anything."""

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from posh_reward.errors import InputError
from posh_reward.study.packets.draw import Design
from posh_reward.study.packets.make import make_packet
from posh_reward.study.packets.rater_answers import sheets_in
from posh_reward.study.packets.study_records import (
    AXES,
    LANGUAGES,
    SIDES,
    read_texts,
    shipped_texts,
    texts_source,
)
from tests.study.packets.studies import coarse, items, packet, saved


def leaves(content: Any, where: str = "") -> dict[str, str]:
    if isinstance(content, dict):
        return {k: v for n, c in content.items() for k, v in leaves(c, f"{where}.{n}").items()}
    if isinstance(content, list):
        return {k: v for n, c in enumerate(content) for k, v in leaves(c, f"{where}.{n}").items()}
    return {where: str(content)}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_text_with_its_words_in_braces(language: str) -> None:
    english, other = (leaves(yaml.safe_load(texts_source(name))) for name in ("en", language))
    assert english.keys() == other.keys()
    for name, text in english.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", other[name])), name
        assert other[name] or name == ".contact"
    if language != "en":
        same = {name for name in english if english[name] == other[name]}
        assert same <= {".contact", ".page.image_button"}
    texts = shipped_texts(language)
    assert texts.page["go_on"] in texts.page["loaded"]  # the button's name once a file is loaded
    assert tuple(texts.questions) == AXES
    assert tuple(texts.marking) == SIDES


def test_an_edited_file_changes_what_it_names_and_nothing_else() -> None:
    texts = read_texts("language: nl\nheading: {coarse: Onze studie}\nquestions:\n  overall:\n"
                       "    text: Welke leest u liever voor?\n")  # fmt: skip
    dutch = shipped_texts("nl")
    assert texts.heading["coarse"] == "Onze studie"
    assert texts.questions["overall"].text == "Welke leest u liever voor?"
    assert texts.heading["granular"] == dutch.heading["granular"]
    assert texts.questions["mistakes"] == dutch.questions["mistakes"]


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ("headings: x", "no 'headings', only language, heading"),
        ("questions: {overall: {txt: x}}", "no 'questions.overall.txt'"),
        ("heading: x", "'heading' of the texts must be a table"),
        ("page: {done: all done}", r"'page.done' .* \{done\}, \{total\}"),
        ("choices: [a, b]", "'choices"),
        ("choices: [a, a, b, c, d]", "the same"),
        ("steps: {coarse: x}", "steps.coarse"),
        ("- x", "not a table"),
        ("a: [", "not YAML"),
    ],
)
def test_a_fault_in_an_edited_file_is_named(own: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_texts(own)


def test_a_study_in_another_language_reads_its_answers() -> None:
    texts = replace(shipped_texts("fr"), contact="Anne <anne@musee.example>")
    made = make_packet(items(4), Design(7, 1, 0, 0), None, {}, texts=texts)
    page = made.files["rater-01.html"].decode()
    assert '<html lang="fr">' in page
    assert "Anne &lt;anne@musee.example&gt;" in page
    assert "Erreurs importantes" in page
    assert "Begin" not in page.split("<script")[0]
    assert "N° 1 bien meilleure" in made.files["label-studio/coarse.xml"].decode()
    assert "Regardez" not in made.files["READ-ME-FIRST.txt"].decode()  # there are no images
    one = coarse(made.key, made.key.raters["rater-01"].tasks[0])
    [sheet] = sheets_in(saved(made.key, "rater-01", [{**one, "overall": None}]), made.key)
    assert sheet.unfinished[0] == "task 1 (Qualité d'ensemble)"


def test_a_study_without_references_shows_none_and_asks_for_none() -> None:
    bare = replace(items(4), items=tuple(replace(item, reference="") for item in items(4).items))
    with pytest.raises(InputError, match="an image or a correct description"):
        packet(found=bare)


@pytest.fixture
def images(tmp_path: Any) -> Any:
    image = pytest.importorskip("PIL.Image")
    from posh_reward.study.packets.make import Album

    image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    return Album([tmp_path])
