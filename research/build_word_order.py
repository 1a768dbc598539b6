"""Count which parts of speech follow each other, for the reward's measure of disorder.

    python -m research.build_word_order ../shared/data posh_reward/embedded/english/word_order.zip

Reads the training part of UD English EWT (CC BY-SA 4.0), ImageInWords (CC BY 4.0) and descriptions
of the National Gallery of Art (CC0). The same texts give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from array import array
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from math import log2
from pathlib import Path

from posh_reward.embedded.english.word_order import (
    MAX_BITS_PER_PAIR,
    STEPS_PER_BIT,
    UNKNOWN_TAG,
    tag_text,
)

PRIOR_PAIRS = 5
"""Pseudo-count of pairs with independent tags that is added to each first tag's pairs."""
DATE = (2026, 1, 1, 0, 0, 0)


def texts(data: Path) -> Iterable[str]:
    """Yield all sentences of the treebank, and all descriptions."""
    prefix = "# text = "
    for line in (data / "ud_ewt" / "train.conllu").read_text(encoding="utf-8").splitlines():
        if line.startswith(prefix):
            yield line.removeprefix(prefix)
    for line in (data / "iiw" / "iiw_400_dev.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)["IIW"]
    museum = (data / "nga" / "nga_descriptions.json").read_text(encoding="utf-8")
    yield from (work["description"] for work in json.loads(museum))


def table(some: Iterable[str]) -> tuple[list[str], array[int]]:
    """Return the tags, and for each pair how many bits likelier the first makes the second."""
    pairs = Counter(pair for text in some for pair in pairwise(tag_text(text)))
    first, second = Counter[str](), Counter[str]()
    for (before, after), count in pairs.items():
        first[before] += count
        second[after] += count
    names = sorted({*first, *second, UNKNOWN_TAG})
    total = second.total() + 0.5 * len(names)
    bits = array("b")
    for before in names:
        for after in names:
            alone = (second[after] + 0.5) / total
            following = (pairs[before, after] + PRIOR_PAIRS * alone) / (first[before] + PRIOR_PAIRS)
            bounded = max(-MAX_BITS_PER_PAIR, min(MAX_BITS_PER_PAIR, log2(following / alone)))
            bits.append(round(bounded * STEPS_PER_BIT))
    return names, bits


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of ud_ewt, iiw and nga")
    parser.add_argument("output", type=Path, help="a zip")
    flags = parser.parse_args()
    names, bits = table(texts(flags.data))
    with zipfile.ZipFile(flags.output, "w") as archive:
        for name, content in (("tags.txt", "\n".join(names).encode()), ("bits.b", bits.tobytes())):
            archive.writestr(zipfile.ZipInfo(name, DATE), content, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
