"""The training pairs for the judge's weights, with people's judgments."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posh_reward.audit.variants import CONTINUATIONS
from posh_reward.embedded.english.word_classes import PREPOSITIONS, split_words
from posh_reward.graph.reader import Reader
from posh_reward.types import Description, Span
from posh_reward.words import FUNCTION_WORDS
from research.calibration import people as sets
from research.calibration.people import Pair, Ratings
from research.calibration.perturb import falsify
from research.calibration.truth import truth
from research.eval_planted import TOKEN, blind_list

FOLDS = 5
MAX_CAPTIONS = 250  # captions of known truth of each kind
ARTWORKS = Path(__file__).parent / "artworks.json"
FALSE_TEXTS_PER_SCENE = 2
SENTENCE = re.compile(r"(?<=[.!?])\s+")

Ints = NDArray[np.int64]


@dataclass
class Examples:
    """All pairs, and the numbers of each kind's pairs. Folds are by image and by artwork."""

    pairs: list[Pair] = field(default_factory=list)
    fold: list[int] = field(default_factory=list)
    ratings: dict[str, tuple[Ratings, Ints]] = field(default_factory=dict)
    """Name of a set -> the set, and the numbers of its pairs."""
    marks: list[tuple[int, str, list[Span]]] = field(default_factory=list)
    """(Pair, "mistakes", "omissions" or "foil", spans that people marked)."""
    faithful: list[int] = field(default_factory=list)
    """Generations without mistakes."""
    same: list[int] = field(default_factory=list)
    """Texts against themselves."""
    blind: list[int] = field(default_factory=list)
    """Texts written without the image, against a reference: a list of common nouns, a chain of
    common words after stock sentences, and a list of vague objects."""
    disordered: list[int] = field(default_factory=list)
    """A reference's words in another order, against it."""
    halves: list[int] = field(default_factory=list)
    """First halves of references against the whole."""
    sentences: list[int] = field(default_factory=list)
    """Single sentences of references against the whole."""
    false: list[int] = field(default_factory=list)
    """Texts whose sentences have true words and say nothing true."""
    padded: list[int] = field(default_factory=list)
    """First halves of references with such sentences in place of the rest, against the whole."""
    truth: dict[str, Ints] = field(default_factory=dict)
    """Captions of known truth, by kind (``calibration/truth.py``)."""

    def add(self, pair: Pair, group: str) -> int:
        """Add a pair, to the fold of its group; return its number."""
        self.pairs.append(pair)
        self.fold.append(fold_of(group))
        return len(self.pairs) - 1


def fold_of(group: str) -> int:
    """Return the fold of an image or an artwork, always the same."""
    return int(hashlib.sha256(group.encode()).hexdigest(), 16) % FOLDS


def examples(
    folder: Path,
    sample: int | None = None,
    most: int = MAX_CAPTIONS,
    scenes: Sequence[Path] = (),
) -> Examples:
    """Read all sets: people's judgments, planted mistakes, captions and scenes of known truth."""
    data, people = Examples(), folder / "human"
    artworks = (ARTWORKS, folder / "planted" / "planted_dev.json")
    for read in sets.SETS:
        ratings = read(people, sample)
        images = dict(zip(ratings.of.tolist(), ratings.images, strict=True))
        numbers = [data.add(pair, images[i]) for i, pair in enumerate(ratings.pairs)]
        data.ratings[ratings.name] = ratings, np.array(numbers)
    _, foil = data.ratings["DiscourseFOIL"]
    for wrong, right in zip(foil[::2].tolist(), foil[1::2].tolist(), strict=True):
        spans = changes(data.pairs[wrong][0].strip(), data.pairs[right][0].strip())
        data.marks.append((wrong, "foil", spans))
    items = [item for path in artworks for item in json.loads(path.read_text(encoding="utf-8"))]
    common = common_words([item["reference"] for item in items])
    reader = Reader()
    for item in items:
        add_artwork(data, item, common)
        add_false_sentences(data, item, reader)
    for path in scenes:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[:sample]):
            add_scene(data, json.loads(line), f"{path.stem} {number}")
    kinds: dict[str, list[int]] = {}
    for case in truth(folder / "known_truth", reader, most):
        number = data.add((case.text, case.reference), case.image)
        kinds.setdefault(case.kind, []).append(number)
    data.truth = {kind: np.array(numbers) for kind, numbers in kinds.items()}
    return data


FALSE = ("everything wrong but the nouns", "nouns in order, false verbs, one sentence")
"""Continuations (``audit/variants.py``) that nothing should be paid for."""
VAGUE = (
    "There are a covering, an item, a surface, a structure, light, a line, a covering, clothing, "
    "furniture, a container, something tall, a garment, a part, a person, an animal, an area, "
    "a figure, something red, people, an object, a body, a place, a plant, a color, a shape."
)
"""Words that are true of most images."""
STOCK = (
    "A man and a woman stand in front of us. The man holds a book and the woman wears a dress. "
    "Behind them, a window looks onto trees under a blue sky."
)


def content_words(text: str) -> list[str]:
    """Return a text's words without function words and prepositions."""
    return [w for w in split_words(text) if w not in FUNCTION_WORDS and w not in PREPOSITIONS]


def common_words(texts: Sequence[str], most: int = 150) -> list[str]:
    """Return the content words that occur in the most texts."""
    counts = Counter(word for text in texts for word in dict.fromkeys(content_words(text)))
    return [word for word, _ in counts.most_common(most)]


def disordered(text: str) -> list[str]:
    """Return a text's words shuffled, as a bag of keywords, and shuffled within sentences."""

    def shuffled(part: str) -> str:
        words = [word for word in TOKEN.findall(part) if word.isalnum()]
        return " ".join(random.Random(0).sample(words, len(words))) + "."

    within = " ".join(map(shuffled, SENTENCE.split(text)))
    return [shuffled(text), " ".join(content_words(text)) + ".", within]


def add_artwork(data: Examples, item: Any, common: Sequence[str] = ()) -> None:
    """Add one artwork's texts; ``common`` are the words of a blind chain."""
    group, reference = item["id"], item["reference"]
    data.same.append(data.add((reference, reference), group))
    data.faithful.append(data.add((item["faithful"], reference), group))
    mistaken = data.add((item["mistaken_text"], reference), group)
    data.marks.append((mistaken, "mistakes", [(s, e) for s, e, _ in item["mistake_spans"]]))
    omitting = data.add((item["omitting"], reference), group)
    data.marks.append((omitting, "omissions", [(s, e) for s, e in item["omission_spans"]]))
    chain = f"{STOCK} " + "'s ".join(common) + "."
    for text in (blind_list(), chain, VAGUE):
        data.blind.append(data.add((text, reference), group))
    for text in disordered(reference):
        data.disordered.append(data.add((text, reference), group))
    data.halves.append(data.add((first_half(reference), reference), group))
    for sentence in SENTENCE.split(reference):
        data.sentences.append(data.add((sentence, reference), group))


def add_false_sentences(data: Examples, item: Any, reader: Reader) -> None:
    """Add an artwork's texts in sentences of true words that say nothing true."""
    group, reference = item["id"], item["reference"]
    half = first_half(reference)
    texts = [item["faithful"], reference, reference[len(half) :]]
    faithful, whole, rest = (
        falsify(read, group) for read in reader.read(texts) if isinstance(read, Description)
    )
    for text, other in ((faithful, reference), (whole, item["faithful"])):
        data.false.append(data.add((text, other), group))
    pads = [rest]
    [read] = reader.read([reference[len(half) :]])
    if isinstance(read, Description):
        rng = random.Random(group)
        pads += [pad for way in FALSE if (pad := CONTINUATIONS[way](read, rng))]
    data.padded += [data.add((f"{half} {pad}", reference), group) for pad in pads]


def add_scene(data: Examples, scene: Any, group: str) -> None:
    """Add an honest description, and texts in which each sentence is false, of one kind or another.

    What is false is marked as mistaken, and what stands around it is not.
    """
    reference, honest = scene["reference"], scene["honest"]
    data.faithful.append(data.add((" ".join(honest), reference), group))
    for number in range(FALSE_TEXTS_PER_SCENE):
        text, spans = "", []
        for place, sentence in enumerate(honest):
            wrong = [each["text"] for each in scene["false"] if each["sentence"] == place]
            said = wrong[number % len(wrong)] if wrong else sentence
            start = len(text) + bool(text)
            spans += [(start + a, start + b) for a, b in changes(said, sentence)]
            text = f"{text} {said}".strip()
        data.marks.append((data.add((text, reference), group), "mistakes", spans))


def first_half(text: str) -> str:
    """Return the first half of a text's sentences."""
    sentences = SENTENCE.split(text)
    return " ".join(sentences[: max(1, len(sentences) // 2)])


def changes(text: str, corrected: str) -> list[Span]:
    """Return the tokens of a text that its correction does not have."""
    tokens, others = ([*TOKEN.finditer(t)] for t in (text, corrected))
    words, theirs = ([token.group().lower() for token in some] for some in (tokens, others))
    matcher = SequenceMatcher(None, words, theirs, autojunk=False)
    return [
        token.span()
        for how, start, end, _, _ in matcher.get_opcodes()
        if how in ("replace", "delete")
        for token in tokens[start:end]
    ]
