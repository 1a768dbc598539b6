"""A text that is no description earns nothing; texts by people always count as one."""

from __future__ import annotations

import json
import random
import re
import string
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from posh_reward.embedded.english.run_ons import HEDGE
from posh_reward.embedded.english.word_order import disorder
from posh_reward.reward.texts import clean_text, repeated_share, says_nothing, without_thoughts

REFERENCE = "A tall woman in a red dress holds a basket."


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("A dog.", "A dog."),
        ("<think>A cat? No.</think>A dog.", "A dog."),
        ("<THINKING>one</THINKING>A <think>two\n</think>dog.", "A dog."),
        ("A cat? No.\n</think>A dog.", "A dog."),
        ("<think>A dog, that never ends", ""),
        ("a < b and think > c", "a < b and think > c"),
    ],
)
def test_thoughts_are_not_the_answer(text: str, answer: str) -> None:
    assert without_thoughts(text) == answer


@pytest.mark.parametrize(
    "text",
    ["", " \t\n", "\u200b\u200b\u2060", "\ufeff", "\u3164\u3164", "\u2800", "...", "* * * —", "🖼️"],
)
def test_what_nobody_can_read_says_nothing(text: str) -> None:
    assert says_nothing(text, REFERENCE)


def test_gibberish_says_nothing() -> None:
    rng = random.Random(7)
    for _ in range(100):
        letters = (
            "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9))) for _ in "abcdef"
        )
        assert says_nothing(" ".join(letters), REFERENCE)
    assert says_nothing("漢字 仮名 交じり", REFERENCE)


@pytest.mark.parametrize(
    "text",
    [
        "A kouros.",
        "Two men.",
        "3",
        "The scroll reads “Ecce ancilla domini, fiat mihi secundum verbum tuum”.",
        "An inscription: ANNO DOMINI MDCLXIV PINXIT.",
        "On the sign stands «Rue de la Paix», in blue.",
    ],
)
def test_short_texts_and_quoted_inscriptions_say_something(text: str) -> None:
    assert not says_nothing(text, REFERENCE)


def test_repeated_sequences_are_counted() -> None:
    sentence = "A woman in red holds a basket of apples. "
    assert repeated_share(sentence) == 0
    assert repeated_share(sentence * 3) == pytest.approx(0.625)
    assert repeated_share("too short") == 0


def human_texts(data: Path) -> list[tuple[str, str]]:
    """Everything at hand that people wrote of images, each with a text about some other one."""
    planted = json.loads((data / "planted" / "planted_dev.json").read_text(encoding="utf-8"))
    texts = [item[name] for item in planted for name in ("reference", "faithful", "omitting")]
    museum = json.loads((data / "nga" / "nga_descriptions.json").read_text(encoding="utf-8"))
    texts += [item["description"] for item in museum]
    for name in ("flickr8k_expert", "thumb"):
        lines = (data / "human" / f"{name}_dev.jsonl").read_text(encoding="utf-8").splitlines()
        texts += [text for line in lines for text in json.loads(line)["references"]]
    lines = (data / "iiw" / "iiw_400_dev.jsonl").read_text(encoding="utf-8").splitlines()
    texts += [json.loads(line)["IIW"] for line in lines]
    return list(pairwise(texts))


def test_no_description_by_people_is_taken_for_nothing(shared_data: Path) -> None:
    found = human_texts(shared_data / "data")
    assert len(found) > 5000
    assert not [text for text, other in found if says_nothing(text, other)]
    assert not [text for text, _ in found if repeated_share(text) > 0.15]
    assert not [text for text, _ in found if disorder(text)]


PLAIN_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


def test_descriptions_by_people_lose_at_most_a_mark(shared_data: Path) -> None:
    texts = {text for text, _ in human_texts(shared_data / "data")}
    texts = {text.replace("; ", ". ") for text in texts if not HEDGE.search(text)}
    # Blanks and quotation marks have one form: a change of form is no loss.
    texts = {re.sub(r" {2,}", " ", text.translate(PLAIN_QUOTES)) for text in texts}
    changed = {text: seen for text in texts if (seen := clean_text(text)) != text}
    assert len(changed) <= len(texts) / 100
    lost = Counter(
        a for text, seen in changed.items() for a, b in zip(text, seen, strict=True) if a != b
    )
    assert not [mark for mark in lost if mark.isalnum()]
