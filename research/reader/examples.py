"""Texts and sentences with what the text says of the sentence: where training learns from."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args

from research.reader.windows import choose_runs, choose_windows, find_stems, split_sentences

ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)
LABELS = ("entailment", "neutral", "contradiction")
HELD_OUT_SHARE = 10  # one in ten is never trained on
SELF_SENTENCES = 2  # of a reference, each entailed by it
FOREIGN_SENTENCES = 3  # of other scenes, each neutral
REVERSED_SHARE = 0.3  # of falsifications that are contradicted as premises, not as hypotheses
DISTANT_SENTENCES = (
    2  # of a description, neutral to a sentence of the reference that shares nothing
)


Span = tuple[int, int]
"""Start and end characters."""
WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class Example:
    """A sentence, the texts that it is read against, and what they say of it together."""

    premises: tuple[str, ...]
    hypothesis: str
    label: int
    kind: str
    group: str = ""
    """Sentences of one group differ in little and are ranked: entailed over contradicted."""
    changed: tuple[Span, ...] | None = None
    """Where the hypothesis is false; None if that is not known."""


Scene = dict[str, Any]
Reading = Literal["three", "both", "runs", "whole"]
"""Against the three sentences that share most, the one and the three, four runs, or all."""
READINGS: tuple[Reading, ...] = get_args(Reading)


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


def read_snli(data: Path, held_out: bool) -> list[Example]:
    """SNLI's development pairs without Flickr8k's judged captions, or their held-out tenth."""
    judged = set(judged_captions(data))
    examples = []
    for row in read_rows(data / "known_truth" / "snli_dev.jsonl"):
        premise = row["premise"]
        kept = sha256(premise.encode()).digest()[0] % HELD_OUT_SHARE == 0
        if kept == held_out and normalize(premise) not in judged:
            label = LABELS.index(row["label"])
            examples.append(Example((premise,), row["hypothesis"], label, "snli"))
    return examples


def normalize(caption: str) -> str:
    return " ".join(caption.lower().replace(".", " ").split())


def judged_captions(data: Path) -> Iterator[str]:
    for row in read_rows(data / "human" / "flickr8k_expert_dev.jsonl"):
        yield from map(normalize, row["references"])
        yield from (normalize(candidate["caption"]) for candidate in row["candidates"])


def read_sugarcrepe(data: Path) -> list[Example]:
    """Captions as premises of themselves, of false ones, and of ones that say more."""
    examples = []
    for row in read_rows(data / "known_truth" / "sugarcrepe_dev.jsonl"):
        true, false = row["true"], row["false"]
        if row["kind"].startswith("add"):
            examples.append(Example((true,), false, NEUTRAL, row["kind"]))
            examples.append(Example((false,), true, ENTAILMENT, row["kind"]))
        else:
            changed = find_changes(true, false)
            examples.append(Example((true,), false, CONTRADICTION, row["kind"], true, changed))
            examples.append(Example((true,), true, ENTAILMENT, row["kind"], true, ()))
    return examples


def read_scenes(files: Sequence[Path], held_out: bool = False) -> list[Scene]:
    """The scenes of files; in those of many hands each tenth line is held out."""
    scenes: list[Scene] = []
    for file in files:
        rows = read_rows(file)
        if file.name.startswith("long_truth"):
            scenes += [] if held_out else rows
        else:
            scenes += [row for number, row in enumerate(rows, 1) if (number % 10 == 0) == held_out]
    return scenes


def choose_premises(reference: str, sentence: str, reading: Reading) -> tuple[str, ...]:
    """Return what a sentence is read against, one forward each."""
    if reading == "whole":
        return (reference,)
    if reading == "runs":
        return tuple(choose_runs(reference, sentence))
    windows = choose_windows(reference, sentence)
    return tuple(windows if reading == "both" else windows[-1:])


def scene_examples(scenes: Sequence[Scene], seed: int, reading: Reading) -> list[Example]:
    """What scenes teach; the sentences taken from elsewhere are drawn anew with each seed."""
    draw = random.Random(seed)
    examples: list[Example] = []
    for scene in scenes:
        own = split_sentences(scene["reference"])
        others = [other for other in scenes if other is not scene]
        labelled = list(truth_examples(scene))
        for sentence in draw.sample(own, min(SELF_SENTENCES, len(own))):
            labelled.append((sentence, ENTAILMENT, "itself", "", ()))
        for other in draw.sample(others, min(FOREIGN_SENTENCES, len(others))):
            labelled.append((draw.choice(other["honest"]), NEUTRAL, "foreign", "", None))
        for sentence, label, kind, group, changed in labelled:
            premises = choose_premises(scene["reference"], sentence, reading)
            examples.append(Example(premises, sentence, label, kind, group, changed))
        examples += sentence_examples(scene, draw)
        examples += distant_examples(scene, draw)
    return examples


Labelled = tuple[str, int, str, str, tuple[Span, ...] | None]
"""A sentence, its label, kind and group, and where it is false."""


def truth_examples(scene: Scene) -> Iterator[Labelled]:
    """Each sentence about a scene."""
    for index, sentence in enumerate(scene["honest"]):
        yield sentence, ENTAILMENT, "honest", f"{scene['id']} {index}", ()
    for item in scene["rewordings"]:
        yield (
            item["text"],
            ENTAILMENT,
            "reworded",
            f"{scene['id']} {item['sentence']}",
            (),
        )
    for item in scene["false"]:
        changed = find_changes(scene["honest"][item["sentence"]], item["text"])
        group = f"{scene['id']} {item['sentence']}"
        yield item["text"], CONTRADICTION, item["kind"], group, changed


def find_changes(true: str, false: str) -> tuple[Span, ...]:
    """Return where a sentence's words differ from those of the true one, or follow a lost word."""
    words = [match.group().lower() for match in WORDS.finditer(true)]
    matches = list(WORDS.finditer(false))
    blocks = SequenceMatcher(None, words, [match.group().lower() for match in matches], False)
    spans = []
    for kind, _, _, start, end in blocks.get_opcodes():
        if kind != "equal" and matches:
            first = min(start, len(matches) - 1)
            last = max(first, end - 1)
            spans.append((matches[first].start(), matches[last].end()))
    return tuple(spans)


def sentence_examples(scene: Scene, draw: random.Random) -> Iterator[Example]:
    """A scene's sentences against one another: cheap minimal pairs.

    An honest sentence entails its second wording; a falsification contradicts one of
    them, drawn, in a drawn direction.
    """
    wordings = {index: [sentence] for index, sentence in enumerate(scene["honest"])}
    for item in scene["rewordings"]:
        first, second = wordings[item["sentence"]][0], item["text"]
        yield Example((first,), second, ENTAILMENT, "sentence", changed=())
        wordings[item["sentence"]].append(second)
    for item in scene["false"]:
        true, false = draw.choice(wordings[item["sentence"]]), item["text"]
        if draw.random() < REVERSED_SHARE:
            yield Example((false,), true, CONTRADICTION, "sentence")
        else:
            changed = find_changes(wordings[item["sentence"]][0], false)
            yield Example((true,), false, CONTRADICTION, "sentence", changed=changed)


def distant_examples(scene: Scene, draw: random.Random) -> Iterator[Example]:
    """Sentences of a description with sentences of the reference that share no word: neutral."""
    for sentence in draw.sample(scene["honest"], DISTANT_SENTENCES):
        stems = find_stems(sentence)
        apart = [one for one in split_sentences(scene["reference"]) if not stems & find_stems(one)]
        if apart:
            yield Example((draw.choice(apart),), sentence, NEUTRAL, "distant")
