"""Evaluate a pipeline on treebanks and on the hand-annotated museum sentences.

    python -m research.train_parser.evaluate ../shared/data

Gold tokens. ``single``: each sentence is a Doc. ``documents``: Docs of up to eight sentences of one
document, which the pipeline splits itself. As in spaCy's scorer, UAS and LAS ignore punctuation;
POS and tag count every token. All are percentages; higher is better.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from posh_reward.graph.parse import load_parser
from research.train_parser.conllu import Tree, read_conllu
from research.train_parser.documents import as_doc, bare, group_documents, treebank

HERE = Path(__file__).parent
PLANTED_GOLD = HERE / "planted_gold.conllu"
KEEP_LEMMA = ("PRON", "DET", "PROPN", "NUM", "PUNCT", "SYM", "X")
"""Treebank and ``en_core_web`` differ here (*her*: *she*), so these lemmas are not counted."""


FIGURES = ("POS", "tag", "lemma", "UAS", "LAS")


def parse_all(nlp: Language, gold: Sequence[Doc], split: bool) -> list[Doc]:
    """Parse gold tokens; with ``split`` the pipeline finds the sentences."""
    docs = [bare(doc) for doc in gold]
    for doc in docs:
        if not split:
            for token in doc:
                token.is_sent_start = token.i == 0
    for name, pipe in nlp.pipeline:
        if name == "senter" and not split:
            continue
        docs = list(pipe.pipe(docs)) if hasattr(pipe, "pipe") else [pipe(doc) for doc in docs]
    return docs


def figures(gold: Sequence[Doc], guess: Sequence[Doc]) -> tuple[dict[str, float], str]:
    """Return percentages of correct tokens, and a table of LAS recall by gold label."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    pairs = (zip(*docs, strict=True) for docs in zip(gold, guess, strict=True))
    for a, b in chain.from_iterable(pairs):
        same_head = a.head.i == b.head.i
        checks = {"POS": a.pos == b.pos, "tag": a.tag == b.tag}
        if a.pos_ not in KEEP_LEMMA:
            checks["lemma"] = a.lemma_.lower() == b.lemma_.lower()
        if a.dep_ != "punct":
            checks["UAS"] = same_head
            checks["LAS"] = same_head and a.dep_ == b.dep_
            checks[f"label {a.dep_}"] = checks["LAS"]
        for name, good in checks.items():
            total[name] += 1
            right[name] += good
    spans = [_sentences(docs) for docs in (gold, guess)]
    result = {name: 100 * right[name] / total[name] for name in FIGURES
              if total[name]}  # fmt: skip
    result["sentences F1"] = 200 * len(spans[0] & spans[1]) / (len(spans[0]) + len(spans[1]))
    rows = [name.split()[1] for name, _ in total.most_common() if name.startswith("label")]
    table = " ".join(
        f"{label} {100 * right[f'label {label}'] / total[f'label {label}']:.0f}"
        f" ({total[f'label {label}']})"
        for label in rows
    )
    return result, table


def _sentences(docs: Sequence[Doc]) -> set[tuple[int, int, int]]:
    return {(i, span.start, span.end) for i, doc in enumerate(docs) for span in doc.sents}


def words_per_second(nlp: Language, texts: Sequence[str]) -> float:
    """Time the pipeline from raw text to Docs, two texts at a time; the best of three rounds."""
    best = 0.0
    for _ in range(3):
        start, words = time.process_time(), 0
        for i in range(0, len(texts) - 1, 2):
            docs = list(nlp.pipe(texts[i : i + 2]))
            words += sum(len(doc) for doc in docs)
        best = max(best, words / (time.process_time() - start))
    return best


def planted_gold(path: Path = PLANTED_GOLD) -> list[tuple[str, Tree]]:
    """Read the hand-annotated sentences, which have ClearNLP labels."""
    return [(sentence.document, list(sentence.words)) for sentence in read_conllu(path)]


def line(name: str, values: dict[str, float]) -> str:
    """Format one row of the report."""
    return f"{name:28s}" + "  ".join(f"{key} {value:.2f}" for key, value in values.items())


def main() -> None:
    """Print the figures of a pipeline."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=Path, help="folder with ud_ewt")
    options.add_argument("--parser", default="embedded")
    options.add_argument("--labels", action="store_true", help="LAS by label too")
    flags = options.parse_args()
    nlp = load_parser(flags.parser)
    sets = {f"EWT {name}": treebank(flags.data / "ud_ewt" / f"{name}.conllu")
            for name in ("dev", "test")}  # fmt: skip
    if PLANTED_GOLD.exists():
        sets["planted"] = planted_gold()
    for name, trees in sets.items():
        for mode, sizes in (("single", (1,)), ("documents", (8,))):
            gold = [as_doc(nlp, group) for group in group_documents(trees, sizes)]
            values, table = figures(gold, parse_all(nlp, gold, mode == "documents"))
            print(line(f"{name}, {mode}", values), flush=True)
            if flags.labels and mode == "single":
                print("   ", table)
    texts = [doc.text for doc in (as_doc(nlp, g) for g in group_documents(sets["EWT dev"], (12,)))]
    print(f"words/s {words_per_second(nlp, texts[:60]):.0f}")


if __name__ == "__main__":
    main()
