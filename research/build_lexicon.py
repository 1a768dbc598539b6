"""Compile WordNet 3.0 into the compact table that the embedded judge reads.

    apt-get install wordnet-base
    python -m research.build_lexicon /usr/share/wordnet \
        posh_reward/embedded/english/wordnet.zip

Kept: single-word lemmas with their first senses and tag counts, hypernyms, neighbours (similar,
derived, grouped synsets), antonyms, the words of each definition, and irregular forms. Left out:
proper names (instances) and whatever no kept lemma leads to. Deterministic: the same WordNet gives
the same bytes.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import log
from pathlib import Path

from posh_reward.embedded.english.wordnet import find_lemmas

FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
MOST_SENSES = 14
MOST_GLOSS_WORDS = 12
WORD = re.compile(r"[a-z]+")
STOP = frozenset(
    "a an the of or and in on at by to for with from as that which who whom whose this these "
    "those it its is are was were be been being has have had having not no but if than then "
    "so such into onto used usually especially often any some one other etc very more most "
    "something someone somebody can may will would when where while what there their they them "
    "he his him she her you your we our us about up out over also all each every only".split()
)

Key = tuple[str, int]  # WordNet's name of a synset: part of speech and byte offset


@dataclass
class Synset:
    """One line of a data file."""

    file: int
    lemmas: list[str]
    gloss: str
    parents: list[Key] = field(default_factory=list)
    near: list[Key] = field(default_factory=list)
    opposite: list[Key] = field(default_factory=list)
    instance: bool = False


POINTERS = {"@": "parents", "!": "opposite", **dict.fromkeys("&$+\\<^", "near")}
"""WordNet's symbol of a relation -> the field of ``Synset``."""


def parse_synset(line: str) -> tuple[Key, Synset]:
    """Read one line of ``data.*`` (format: wndb(5))."""
    body, _, gloss = line.partition(" | ")
    parts = body.split(" ")
    offset, file, pos, count = int(parts[0]), int(parts[1]), parts[2], int(parts[3], 16)
    names = [re.sub(r"\(.*\)", "", parts[4 + 2 * i]) for i in range(count)]
    synset = Synset(file, [name.lower() for name in names], definition(gloss))
    at = 4 + 2 * count
    for i in range(int(parts[at])):
        symbol, target, target_pos = parts[at + 1 + 4 * i : at + 4 + 4 * i]
        if symbol == "@i":
            synset.instance = True
        elif symbol in POINTERS:
            getattr(synset, POINTERS[symbol]).append((target_pos, int(target)))
    return ("a" if pos == "s" else pos, offset), synset


def definition(gloss: str) -> str:
    """Strip examples and remarks from a gloss: that of ``leafless`` -> ``having no leaves``."""
    return re.sub(r"\(.*?\)", " ", gloss.split('"')[0]).lower()


def read_synsets(folder: Path) -> dict[Key, Synset]:
    """Read all synsets of the four data files."""
    synsets = {}
    for name in FILES.values():
        for line in (folder / f"data.{name}").read_text(encoding="latin-1").splitlines():
            if not line.startswith("  "):
                key, synset = parse_synset(line)
                synsets[key] = synset
    return synsets


def read_counts(folder: Path) -> dict[tuple[str, str, int], int]:
    """Read the count of each (lemma, part of speech, sense number) in the tagged corpus."""
    kinds = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
    counts = {}
    for line in (folder / "cntlist.rev").read_text(encoding="latin-1").splitlines():
        key, number, count = line.split(" ")
        lemma, _, rest = key.partition("%")
        counts[lemma, kinds[rest[0]], int(number)] = int(count)
    return counts


def read_senses(folder: Path, synsets: dict[Key, Synset]) -> dict[str, list[tuple[Key, int]]]:
    """Read the senses of each single-word lemma, in all parts of speech, with their tag counts."""
    counts = read_counts(folder)
    senses: dict[str, list[tuple[Key, int]]] = defaultdict(list)
    for pos, name in FILES.items():
        for line in (folder / f"index.{name}").read_text(encoding="latin-1").splitlines():
            if line.startswith("  "):
                continue
            parts = line.split()
            lemma, total = parts[0], int(parts[2])
            if not WORD.fullmatch(lemma):
                continue
            offsets = [int(offset) for offset in parts[-total:]][:MOST_SENSES]
            for number, offset in enumerate(offsets, 1):
                key = (pos, offset)
                if not synsets[key].instance:
                    senses[lemma].append((key, counts.get((lemma, pos, number), 0)))
    return {lemma: senses[lemma] for lemma in sorted(senses)}


def add_genus(synsets: dict[Key, Synset], senses: dict[str, list[tuple[Key, int]]]) -> None:
    """Make a compound's head word a parent: ``male_child`` makes a boy a child.

    Only where the head word has a sense in the same lexicographer's file, so that a hot dog does
    not become an animal.
    """
    for key, synset in synsets.items():
        if key[0] != "n" or synset.instance:
            continue
        for lemma in synset.lemmas:
            head = senses.get(lemma.rpartition("_")[2], []) if "_" in lemma else []
            alike = (k for k, _ in head if k[0] == "n" and synsets[k].file == synset.file)
            genus = next(alike, key)
            if genus != key and key not in synsets[genus].parents and genus not in synset.parents:
                synset.parents.append(genus)


def reachable(synsets: dict[Key, Synset], seeds: Iterable[Key]) -> list[Key]:
    """Return the seeds and all their ancestors, in a fixed order."""
    keys = set(seeds)
    stack = list(keys)
    while stack:
        for parent in synsets[stack.pop()].parents:
            if parent not in keys:
                keys.add(parent)
                stack.append(parent)
    return sorted(keys, key=lambda key: ("nvar".index(key[0]), key[1]))


def information(synsets: dict[Key, Synset], keys: list[Key]) -> list[int]:
    """Return Seco's information content from counts of hyponyms: 0 for the top, 255 for a leaf."""
    # Seco et al. (2004): 1 - log(hyponyms + 1) / log(all synsets); a synset counts as its own.
    below = dict.fromkeys(keys, 0)
    for key in keys:
        for ancestor in set(reachable(synsets, [key])):
            below[ancestor] += 1
    sizes = {pos: sum(key[0] == pos for key in keys) for pos in FILES}
    return [round(255 * (1 - log(below[key]) / log(max(2, sizes[key[0]])))) for key in keys]


def rows(lists: Iterable[Iterable[int]], code: str = "I") -> tuple[array[int], array[int]]:
    """Flatten lists to (starts, values): row ``i`` is ``values[starts[i]:starts[i + 1]]``."""
    starts, values = array("I", [0]), array(code)
    for items in lists:
        values.extend(items)
        starts.append(len(values))
    return starts, values


def exceptions(folder: Path, words: dict[str, int]) -> dict[str, tuple[str, ...]]:
    """Map irregular forms to their lemmas: ``geese`` -> ``goose``."""
    table: dict[str, set[str]] = defaultdict(set)
    for name in FILES.values():
        for line in (folder / f"{name}.exc").read_text(encoding="latin-1").splitlines():
            form, *lemmas_ = line.split()
            table[form] |= {lemma for lemma in lemmas_ if lemma in words and form != lemma}
    return {form: tuple(sorted(lemmas_)) for form, lemmas_ in table.items() if lemmas_}


def defining_words(
    gloss: str, words: dict[str, int], irregular: dict[str, tuple[str, ...]]
) -> list[int]:
    """Return the lemmas of a definition's content words: ``having no leaves`` -> ``leaf``."""
    forms = [form for form in WORD.findall(gloss) if form not in STOP]
    lemmas_ = [lemma for form in forms for lemma in find_lemmas(form, words, irregular)[:1]]
    return [words[lemma] for lemma in dict.fromkeys(lemmas_)][:MOST_GLOSS_WORDS]


def compile_table(folder: Path) -> dict[str, bytes]:
    """Compile the members of the archive, by name."""
    synsets = read_synsets(folder)
    senses = read_senses(folder, synsets)
    add_genus(synsets, senses)
    keys = reachable(synsets, (key for rows_ in senses.values() for key, _ in rows_))
    number = {key: i for i, key in enumerate(keys)}
    words = {lemma: i for i, lemma in enumerate(senses)}

    def links(name: str) -> list[list[int]]:
        return [
            sorted({number[k] for k in getattr(synsets[key], name) if k in number}) for key in keys
        ]

    irregular = exceptions(folder, words)
    pairs = (f"{form} {lemma}" for form in sorted(irregular) for lemma in irregular[form])
    counts = array("H", [min(count, 65535) for s in senses.values() for _, count in s])
    members: dict[str, bytes] = {
        "words.txt": "\n".join(words).encode(),
        "exceptions.txt": "\n".join(pairs).encode(),
        "information.B": bytes(information(synsets, keys)),
        "file.B": bytes(synsets[key].file for key in keys),
        "counts.H": little(counts),
    }
    lists = {
        "senses": [[number[key] for key, _ in s] for s in senses.values()],
        "parents": links("parents"),
        "near": links("near"),
        "opposite": links("opposite"),
        "gloss": [defining_words(synsets[key].gloss, words, irregular) for key in keys],
    }
    for name, values in lists.items():
        starts, flat = rows(values)
        members[f"{name}.starts.I"] = little(starts)
        members[f"{name}.I"] = little(flat)
    return members


def little(values: array[int]) -> bytes:
    """Return the values as little-endian bytes, on any machine."""
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def main() -> None:
    """Compile WordNet's folder into the archive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wordnet", type=Path, help="folder of data.noun, index.noun ...")
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    members = compile_table(options.wordnet)
    with zipfile.ZipFile(options.output, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name), members[name], zipfile.ZIP_DEFLATED, 9)
    print(f"{options.output}: {options.output.stat().st_size:,} bytes")
    print({name: len(data) for name, data in sorted(members.items())})


if __name__ == "__main__":
    main()
