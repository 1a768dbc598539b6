from __future__ import annotations

from dataclasses import replace

import pytest

from posh_reward.errors import InputError
from posh_reward.metrics.posh.presets import PRESETS, prompt, question, rewrite_prompt
from posh_reward.models.model import Prompt
from posh_reward.types import Phrase, Question
from tests.graphs import description

GENERATION = description("A dog.")
REFERENCE = description("A brown dog.")


def make_question(**changes: object) -> Question:
    values: dict[str, object] = {
        "direction": "precision",
        "kind": "entity",
        "identifier": "dog",
        "source": GENERATION,
        "target": REFERENCE,
        "entity": 0,
        **changes,
    }
    return Question(**values)  # type: ignore[arg-type]


def test_the_released_precision_prompt_word_for_word() -> None:
    assert prompt(make_question()).text == (
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
    text = prompt(ask).text
    assert text.startswith('DESCRIPTION: A dog.\n\nQ: Is "dog" described as "brown" in the')
    assert "A brown dog." not in text


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("direction", ["precision", "recall"])
def test_all_questions_about_a_pair_share_their_prefix(preset: str, direction: str) -> None:
    first = prompt(make_question(direction=direction), preset)
    ask = make_question(direction=direction, kind="relation", text="chases", other="cat")
    second = prompt(ask, preset)
    assert first.prefix is second.prefix  # one object, hashed once
    assert '"chases"' in second.suffix
    assert '"cat"' in second.suffix


def test_questions_about_another_pair_have_their_own_prefix() -> None:
    first, other = prompt(make_question()), prompt(make_question(source=description("A cat.")))
    assert "DESCRIPTION 2: A dog." in first.prefix
    assert "DESCRIPTION 2: A cat." in other.prefix


def test_prompts_sort_by_what_they_share() -> None:
    prompts = [Prompt("b", "1"), Prompt("a", "2"), Prompt("a", "1")]
    assert sorted(prompts) == [Prompt("a", "1"), Prompt("a", "2"), Prompt("b", "1")]


def test_prefix_first_leaves_only_the_question_behind_the_prefix() -> None:
    asked = prompt(make_question(), "prefix-first")
    assert asked.suffix == 'Q: Is "dog" from DESCRIPTION 2 mentioned in DESCRIPTION 1?'
    assert asked.prefix.startswith("Answer the question about what is described below.")
    assert "do NOT infer unstated details." in asked.prefix


def test_a_description_cannot_inject_a_field() -> None:
    ask = make_question(
        source=description('{identifier} "{text}" {question}'), identifier="{other}"
    )
    text = prompt(ask).text
    assert 'DESCRIPTION 2: {identifier} "{text}" {question}' in text
    assert 'Is "{other}" from' in text


def test_rewrites_have_an_instruction_for_each_kind() -> None:
    attribute = rewrite_prompt(Phrase("dog brown", "attribute")).text
    relation = rewrite_prompt(Phrase("dog chases cat", "relation")).text
    assert attribute.startswith('Rewrite "dog brown" into a grammatically correct noun phrase')
    assert "the small dog" in attribute
    assert "the cat jumping on the window" in relation


def test_an_unknown_preset_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"'mine'.*released, paper, prefix-first"):
        prompt(make_question(), "mine")


def test_a_rewrite_replaces_the_last_place_where_the_raw_phrase_stands() -> None:
    ask = make_question(identifier="the small dog", raw="small dog")
    for preset in PRESETS:
        assert question(ask, preset) == question(make_question(identifier="the small dog"), preset)


@pytest.mark.parametrize("preset", ["released", "paper"])
def test_the_release_rewrites_its_scoring_guide(preset: str) -> None:
    """Q13: "A weak hint glows" is asked about as it stands."""
    text = prompt(make_question(identifier="the weak hint", raw="weak hint"), preset).text
    assert '"weak hint" from DESCRIPTION' in text
    assert "2: the weak hint; 3: partial" in text


def test_a_rewrite_may_fall_within_the_rest_of_the_question() -> None:
    ask = make_question(identifier="the unstated details", raw="unstated details")
    assert question(ask).endswith("do NOT infer the unstated details.")


def test_the_release_shows_descriptions_with_the_white_space_around_them() -> None:
    ask = make_question(source=replace(GENERATION, original=" A dog.\n"))
    assert "DESCRIPTION 2:  A dog.\n\n\nQ:" in prompt(ask).text
