"""Train the embedded pipeline from the treebanks, in one command.

    OMP_NUM_THREADS=1 python -m research.train_parser.train ../shared/data \
        posh_reward/embedded/pipeline

Reads UD English EWT (train; dev for the printed figures) and PUD, converts them to ClearNLP labels
on spaCy's tokens, adds generated museum sentences, trains the sentence splitter (spaCy) and the
network (torch, one core; a second round adds raw text as parsed by the first), builds the lemma
tables, and writes a spaCy pipeline of about 9 MB that needs only numpy and spaCy. Deterministic on
one machine, unless ``--minutes`` is given.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import spacy
import torch
from spacy.language import Language

from posh_reward.embedded.lemmatizer import TableLemmatizer
from posh_reward.embedded.parser import BiaffineParser, Parameters
from research.train_parser.conllu import Tree
from research.train_parser.documents import as_doc, group_documents, museum_texts, prose, treebank
from research.train_parser.evaluate import figures, line, parse_all
from research.train_parser.network import Network, Schedule, examples, fit, outputs
from research.train_parser.pipeline_components import add_senter, confident, lemma_tables
from research.train_parser.templates import Grammar

VERSION = "1.0.0"
TEMPLATES = (1800, 2200)  # generated sentences per round
Outputs = tuple[list[tuple[str, str]], list[str]]
"""(part of speech, fine tag) pairs and labels, in the order of the network's outputs."""


def generate(count: int, seed: int = 0) -> list[tuple[str, Tree]]:
    """Generate template sentences, ten per document."""
    grammar = Grammar(seed)
    return [(f"template-{i // 10}", grammar.sentence()) for i in range(count)]


META: dict[str, Any] = {
    "name": "embedded",
    "version": VERSION,
    "description": "English parser with ClearNLP labels for museum descriptions",
    "license": "CC BY-SA 4.0",
    "spacy_version": ">=3.8.7,<3.9.0",
    "sources": [
        {"name": "UD_English-EWT", "license": "CC BY-SA 4.0"},
        {"name": "UD_English-PUD", "license": "CC BY-SA 3.0"},
        {"name": "ImageInWords, unlabelled", "license": "CC BY 4.0"},
        {"name": "National Gallery of Art descriptions, unlabelled", "license": "CC0"},
        {"name": "GAP, unlabelled", "license": "Apache-2.0"},
    ],
}


def with_parser(nlp: Language, weights: Parameters, outputs: Outputs) -> Language:
    """Add the network at the end of the pipeline."""
    component = nlp.add_pipe("biaffine_parser", name="parser")
    assert isinstance(component, BiaffineParser)
    component.weights = weights
    component.tags, component.labels = outputs
    return nlp


def with_lemmatizer(nlp: Language, lemmas: TableLemmatizer) -> Language:
    """Add the lemma tables at the end."""
    component = nlp.add_pipe("table_lemmatizer", name="lemmatizer")
    assert isinstance(component, TableLemmatizer)
    component.forms, component.words = lemmas.forms, lemmas.words
    return nlp


def raw_sentences(nlp: Language, texts: Sequence[str]) -> list[list[str]]:
    """Return the words of each sentence that the splitter finds."""
    return [
        [token.text for token in sentence if not token.is_space]
        for doc in nlp.pipe(texts)
        for sentence in doc.sents
    ]


def replace_pipeline(nlp: Language, target: Path) -> None:
    """Write next to ``target``, then rename, so that no reader sees an incomplete pipeline."""
    fresh, old = target.with_name(target.name + ".new"), target.with_name(target.name + ".old")
    for folder in (fresh, old):
        shutil.rmtree(folder, ignore_errors=True)
    nlp.to_disk(fresh)
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def network_for(
    gold: Sequence[Tree],
    raw: Sequence[Sequence[str]],
    names: Outputs,
    minutes: float | None,
    report: Callable[[Parameters], str],
) -> Parameters:
    """Train on gold and templates; then also on raw text as parsed after the first round."""
    torch.manual_seed(0)
    network = Network(len(names[0]), len(names[1]))
    first, second = (
        examples([*gold, *(tree for _, tree in generate(count, seed))], *names)
        for seed, count in enumerate(TEMPLATES)
    )
    fit(network, first, Schedule(15, minutes), report)
    silver = confident(network, raw)
    sure = [head >= 0 for example in silver for head in example.heads]
    print(f"silver: {len(silver)} sentences, {sum(sure)} of {len(sure)} words sure", flush=True)
    return fit(network, [*second, *silver], Schedule(10, minutes, 1e-3, seed=1), report)


def main() -> None:
    """Train and write the pipeline."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=Path, help="folder with ud_ewt, ud_pud, iiw, nga, gap")
    options.add_argument("output", type=Path, help="folder of the pipeline")
    options.add_argument("--minutes", type=float, help="limit of each round (default: none)")
    flags = options.parse_args()
    torch.set_num_threads(1)
    nlp = spacy.blank("en")
    folder = flags.data / "ud_ewt"
    trees = treebank(folder / "train.conllu", nlp)
    trees += treebank(flags.data / "ud_pud" / "pud.conllu", nlp)
    split = trees + generate(1000, seed=2)
    add_senter(nlp, [as_doc(nlp, group) for group in group_documents(split, (1, 3, 6, 10))])
    gold = [tree for _, tree in trees]
    dev = [as_doc(nlp, [tree]) for _, tree in treebank(folder / "dev.conllu")]
    names = outputs(gold)

    def report(weights: Parameters) -> str:
        trial = with_parser(spacy.blank("en"), weights, names)
        return line("EWT dev", figures(dev, parse_all(trial, dev, split=False))[0])

    museum, snippets = museum_texts(flags.data), prose(flags.data)
    raw = raw_sentences(nlp, museum + random.Random(0).sample(snippets, 300))
    weights = network_for(gold, raw, names, flags.minutes, report)
    with_lemmatizer(with_parser(nlp, weights, names), lemma_tables(gold, museum + snippets))
    nlp.meta.update(META)
    replace_pipeline(nlp, flags.output)


if __name__ == "__main__":
    main()
