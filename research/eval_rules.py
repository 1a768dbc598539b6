"""Measure what the reward's rules against padding cost texts by people, and padded ones.

    python -m research.eval_rules ../shared/data research/calibration/artworks.json --reader judge

Texts by people are scored against another of the same image (captions, rewordings), or against the
whole of which they are a part (sentences, first halves). Prints the mean reward by f1 without and
with the rules, the largest loss, and how many texts lost more than .005; then both for a reference
whose words are in another order, and for its first half followed by the rest in that order; then
what ten words more pay behind the first half of an honest text, and what it costs the whole, if all
words of one kind are false.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from posh_reward import PoSh, Shaping
from posh_reward.audit.variants import CONTINUATIONS, WORD_EDITS
from posh_reward.graph.reader import Reader
from posh_reward.reward.guards import Guards
from posh_reward.reward.shaping import shape_reward
from posh_reward.types import Description
from research.calibration.perturb import falsify
from research.compare_rewards.pays import half
from research.eval_planted import NOUNS, SENTENCE

RULES = Shaping()
NO_RULES = Shaping(guards=replace(Guards.off(), silence=True, image_cap=Guards().image_cap))
REWARD_TOLERANCE = 0.005  # of a reward in [0.2, 1]

ADJECTIVES = (
    "large small dark light long short old young high low wide narrow round flat soft heavy thin "
    "thick bright pale deep rough smooth"
).split()
COLOURS = "red blue green yellow black white brown grey pink orange purple golden".split()
PREPOSITIONS = ["stands in", "lies under", "is behind", "hangs above", "is near", "faces"]
VERBS = "run walk stand sit look hold wear rest lean turn face fall move sleep wait".split()

Pair = tuple[str, str]  # text, reference
Rewards = list[tuple[float, float]]  # without and with the rules


def _long_shuffled(words: list[str]) -> str:
    """Shuffle the long words among their places."""
    long = [i for i, word in enumerate(words) if len(word) > 3]
    moved = dict(zip(long, random.Random(0).sample(long, len(long)), strict=True))
    return " ".join(words[moved.get(i, i)] for i in range(len(words)))


def _in_threes(words: list[str]) -> str:
    long = [word.strip(".,;") for word in words if len(word) > 3]
    return " ".join(f"The {' '.join(long[i : i + 3])}." for i in range(0, len(long), 3))


def _phrases_shuffled(words: list[str]) -> str:
    """Shuffle the phrases of each sentence, which end before a preposition or a comma."""
    rng, sentences = random.Random(0), []
    for sentence in SENTENCE.split(" ".join(words)):
        phrases = re.split(r",? (?=(?:in|on|at|of|with|under|over|by|from|to|and)\b)", sentence)
        sentences.append(" ".join(rng.sample(phrases, len(phrases))))
    return " ".join(sentences)


def _false_sentences(words: list[str]) -> str:
    """Exchange nouns and adjectives between the sentences: true words, untrue claims."""
    [description] = Reader().read([" ".join(words)])
    assert isinstance(description, Description)
    return falsify(description, "orders")


def _in_frames(words: list[str]) -> str:
    """Join nouns by verbs and prepositions at random: "The heavy sky wears the quay."."""
    rng = random.Random(0)
    [description] = Reader().read([" ".join(words)])
    assert isinstance(description, Description)
    nouns, adjectives, verbs = (
        [t.lemma for t in description.tokens if t.pos == pos and t.text.isalpha()]
        for pos in ("NOUN", "ADJ", "VERB")
    )
    sentences = []
    for first, second in zip(
        rng.sample(nouns, len(nouns)), rng.sample(nouns, len(nouns)), strict=True
    ):
        link = rng.choice([f"{verb}s" for verb in verbs] + PREPOSITIONS)
        sentences.append(f"The {rng.choice(adjectives)} {first} {link} the {second}.")
    return " ".join(sentences)


ORDERS: dict[str, Callable[[list[str]], str]] = {
    "left out": lambda words: "",
    "shuffled around its articles": WORD_EDITS["shuffled around articles"],
    "its long words shuffled among the others": _long_shuffled,
    "long words, an article each": WORD_EDITS["an article each"],
    "long words, joined by *of the*": WORD_EDITS["chain of prepositions"],
    "long words, by commas": WORD_EDITS["long words by commas"],
    'long words, in threes ("The sky quay tide.")': _in_threes,
    "phrases shuffled within sentences": _phrases_shuffled,
    "in its sentences, but with other nouns and adjectives of its own": _false_sentences,
    'in sentences like "The heavy sky wears the quay."': _in_frames,
}


def texts_by_people(data: Path, items: list[Any]) -> dict[str, list[Pair]]:
    """Return texts by people with their references, by kind."""
    museum = json.loads((data / "nga" / "nga_descriptions.json").read_text(encoding="utf-8"))
    long = [row["IIW"] for row in _rows(data / "iiw" / "iiw_400_dev.jsonl")]
    human = data / "human"
    return {
        "rewordings of artworks": [(item["faithful"], item["reference"]) for item in items],
        "with five mistakes": [(item["mistaken_text"], item["reference"]) for item in items],
        "half left out": [(item["omitting"], item["reference"]) for item in items],
        "one true sentence": [
            (sentence, item["reference"])
            for item in items
            for sentence in SENTENCE.split(item["reference"])
        ],
        "first half of museum descriptions": _halves([each["description"] for each in museum]),
        "first half of long descriptions": _halves(long),
        "captions of Flickr8k": list(_captions(human / "flickr8k_expert_dev.jsonl")),
        "captions of COCO": list(_captions(human / "thumb_dev.jsonl")),
    }


def padded_texts(items: list[Any]) -> dict[str, list[Pair]]:
    """Return texts that omit half, with words added that describe nothing; and words alone."""
    rng = random.Random(0)
    chain = "'s ".join(NOUNS + ADJECTIVES + VERBS) + "."

    def shuffled(item: Any) -> str:
        words = item["reference"].split()
        return " ".join(rng.sample(words, len(words)))

    def added(text: str) -> Callable[[Any], str]:
        return lambda item: f"{item['omitting']} {text}"

    ways: dict[str, Callable[[Any], str]] = {
        f"half left out, + a chain of {len(chain.split())} words": added(chain),
        f'+ "They are [{len(ADJECTIVES)} adjectives]."': added(f"They are {_listed(ADJECTIVES)}."),
        f'+ "It is [{len(COLOURS)} colours]."': added(f"It is {_listed(COLOURS)}."),
        f'+ "We [verb]." {len(VERBS)} times': added(" ".join(f"We {verb}." for verb in VERBS)),
        "+ 54 bullets": added("\n" + "\n".join(f"- {noun}" for noun in NOUNS[:54])),
        "the chain alone": lambda item: chain,
        "the reference's long words, by commas": lambda item: ", ".join(
            word for word in item["reference"].split() if len(word) > 4
        ),
        "the reference's words, shuffled": shuffled,
    }
    return {name: [(way(item), item["reference"]) for item in items] for name, way in ways.items()}


def _captions(path: Path) -> Iterator[Pair]:
    # Each caption by a person, with the next of its image as the reference.
    for texts in {row["image"]: row["references"] for row in _rows(path)}.values():
        yield from zip(texts, texts[1:] + texts[:1], strict=True)


def _halves(texts: list[str]) -> list[Pair]:
    return [(half(text), text) for text in texts]


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def in_order(items: list[Any], order: Callable[[list[str]], str]) -> tuple[list[Pair], list[Pair]]:
    """Return each reference's words in an order, and its first half with the rest in that order."""
    whole, behind = [], []
    for text in (item["reference"] for item in items):
        first = half(text)
        whole.append((order(text.split()), text))
        behind.append((f"{first} {order(text[len(first) :].split())}", text))
    return whole, behind


def honest_texts(data: Path, items: list[Any]) -> list[Pair]:
    """Return rewordings of artworks, and as many museum descriptions, with their references."""
    museum = json.loads((data / "nga" / "nga_descriptions.json").read_text(encoding="utf-8"))
    texts = [each["description"] for each in museum[: len(items)]]
    return [(item["faithful"], item["reference"]) for item in items] + [(t, t) for t in texts]


def false_words(posh: PoSh, pairs: list[Pair]) -> Iterator[str]:
    """Yield a line for each kind of false words: change of the reward by ten words, and whole."""

    def rewards(texts: list[Pair]) -> list[float]:
        return [after for _, after in paid(posh, texts)]

    halves = [half(text) for text, _ in pairs]
    first = rewards([(h, reference) for h, (_, reference) in zip(halves, pairs, strict=True)])
    whole = rewards(pairs)
    yield "| words | ten more words | error | the whole | texts |"
    yield "| --- | --- | --- | --- | --- |"
    for kind, perturb in {"true": _as_it_is, **CONTINUATIONS}.items():
        more, change = [], []
        for number, (text, reference) in enumerate(pairs):
            rng = random.Random(number)
            added, false = (
                perturb(part, rng)
                for part in posh.graph_reader.read([text[len(halves[number]) :], text])
                if isinstance(part, Description)
            )
            if added and false:
                longer, falser = rewards(
                    [(f"{halves[number]} {added}", reference), (false, reference)]
                )
                more.append(10 * (longer - first[number]) / len(added.split()))
                change.append(falser - whole[number])
        if len(more) > 1:
            error = stdev(more) / len(more) ** 0.5
            changes = f"{fmean(more):+.4f} | {error:.4f} | {fmean(change):+.3f}"
            yield f"| {kind} | {changes} | {len(more)} |"


def _as_it_is(description: Description, rng: random.Random) -> str | None:
    return description.text


def row(kind: str, rewards: Rewards) -> str:
    """Return a line of the table from each text's reward without and with the rules."""
    changes = [after - before for before, after in rewards]
    moved = sum(abs(change) > REWARD_TOLERANCE for change in changes)
    before, after = (fmean(column) for column in zip(*rewards, strict=True))
    return (
        f"| {kind} | {before:.3f} | {after:.3f} | {min(changes):+.3f} | {moved} of {len(changes)} |"
    )


def paid(posh: PoSh, pairs: list[Pair]) -> Rewards:
    """Return each text's reward without and with the rules."""
    scores = posh.score([text for text, _ in pairs], [reference for _, reference in pairs])
    both = [(shape_reward(each, NO_RULES), shape_reward(each, RULES)) for each in scores]
    return [(b, a) for b, a in both if b is not None and a is not None]


def main() -> None:
    """Print the tables, in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with texts by people")
    parser.add_argument("artworks", type=Path, help="further artworks with planted mistakes")
    parser.add_argument("--reader", help="reader of sentences, as for posh-reward score")
    options = parser.parse_args()
    planted = (options.artworks, options.data / "planted" / "planted_dev.json")
    items = [item for path in planted for item in json.loads(path.read_text(encoding="utf-8"))]
    posh = PoSh(reader=options.reader)
    print("| text | without the rules | with them | most that one lost | lost more than .005 |")
    print("| --- | --- | --- | --- | --- |")
    for kind, pairs in (texts_by_people(options.data, items) | padded_texts(items)).items():
        print(row(kind, paid(posh, pairs)), flush=True)
    print(flush=True)
    for line in false_words(posh, honest_texts(options.data, items[-12:])):
        print(line, flush=True)
    print("\n| the reference's words | the whole | its first half, then the rest so |")
    print("| --- | --- | --- |")
    for kind, order in ORDERS.items():
        means = [
            " : ".join(f"{fmean(column):.3f}" for column in zip(*paid(posh, pairs), strict=True))
            for pairs in in_order(items, order)
        ]
        print(f"| {kind} | {' | '.join(means)} |", flush=True)


if __name__ == "__main__":
    main()
