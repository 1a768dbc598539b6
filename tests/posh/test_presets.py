from dataclasses import replace
from typing import Any

import pytest

from posh_reward.posh.wording import PRESETS, build_prompt, build_question
from posh_reward.types import Question
from tests.graphs import description

GENERATION = description("A dog.")
REFERENCE = description("A brown dog.")


def make_question(**changes: Any) -> Question:
    ask = Question("precision", "entity", "dog", GENERATION, REFERENCE, 0)
    return ask._replace(**changes)


def test_the_released_precision_prompt_word_for_word() -> None:
    assert build_prompt(make_question()).text == (
        "DESCRIPTION 1: A brown dog.\n\nDESCRIPTION 2: A dog.\n\n"
        'Q: Is "dog" from DESCRIPTION 2 mentioned in DESCRIPTION 1? '
        "Consider synonyms & paraphrases but do NOT infer unstated details.\n\n"
        "Scoring guide → 1: absent; 2: weak hint; 3: partial; 4: clear; "
        "5: explicit & unambiguous.\n\nRespond ONLY with an integer 1-5."
    )


def test_the_released_recall_prompt_shows_the_generation_alone() -> None:
    ask = make_question(
        direction="recall", kind="attribute", text="brown", source=REFERENCE, target=GENERATION
    )
    text = build_prompt(ask).text
    assert text.startswith('DESCRIPTION: A dog.\n\nQ: Is "dog" described as "brown" in the')
    assert "A brown dog." not in text


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("direction", ["precision", "recall"])
def test_all_questions_about_a_pair_share_their_prefix(preset: str, direction: str) -> None:
    first = build_prompt(make_question(direction=direction), preset)
    ask = make_question(direction=direction, kind="relation", text="chases", other="cat")
    second = build_prompt(ask, preset)
    assert first.prefix is second.prefix  # one object, hashed once
    assert '"chases"' in second.suffix
    assert '"cat"' in second.suffix


def test_a_description_cannot_inject_a_field() -> None:
    told = description('{identifier} "{text}" {question}')
    text = build_prompt(make_question(source=told, identifier="{other}")).text
    assert 'DESCRIPTION 2: {identifier} "{text}" {question}' in text
    assert 'Is "{other}" from' in text


def test_a_rewrite_replaces_the_last_place_where_the_raw_phrase_stands() -> None:
    ask = make_question(identifier="the small dog", raw="small dog")
    for preset in PRESETS:
        assert build_question(ask, preset) == build_question(
            make_question(identifier="the small dog"), preset
        )


@pytest.mark.parametrize("preset", ["released", "paper"])
def test_the_release_rewrites_its_scoring_guide(preset: str) -> None:
    """Q13: "A weak hint glows" is asked about as it stands."""
    text = build_prompt(make_question(identifier="the weak hint", raw="weak hint"), preset).text
    assert '"weak hint" from DESCRIPTION' in text
    assert "2: the weak hint; 3: partial" in text


def test_the_release_shows_descriptions_with_the_white_space_around_them() -> None:
    ask = make_question(source=replace(GENERATION, original=" A dog.\n"))
    assert "DESCRIPTION 2:  A dog.\n\n\nQ:" in build_prompt(ask).text
