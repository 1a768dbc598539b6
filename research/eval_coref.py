"""Evaluate a coreference resolver.

    python -m research.eval_coref planted ../shared/data/planted/planted_dev.json
    python -m research.eval_coref planted ../shared/data/planted/planted_dev.json \
        --parses ../shared/goldens/goldens.jsonl
    python -m research.eval_coref litbank ../shared/data/litbank/conll
    python -m research.eval_coref gap ../shared/data/gap/gap-test.tsv

planted, litbank: precision, recall and F1 of MUC, B-cubed and CEAF-e, and the CoNLL F1, with exact
spans and with mentions matched by head (the last token of the noun run that posh.md, section 1,
narrows a mention to). Singleton clusters are ignored on both sides. gap: F1 of "the pronoun refers
to this name", also by the pronoun's gender. Higher is better everywhere.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

from posh_reward.graph.coreference import Coreferencer, load_coref
from posh_reward.graph.parse import load_parser
from tools.goldens import load, recorded_parse

if TYPE_CHECKING:
    from spacy.tokens import Doc


Cluster = frozenset[Hashable]
METRICS = ("MUC", "B3", "CEAFe")


@dataclass(frozen=True)
class Ratio:
    """Precision and recall as counts, which can be summed over texts."""

    hit_precision: float = 0.0
    all_precision: float = 0.0
    hit_recall: float = 0.0
    all_recall: float = 0.0

    def __add__(self, other: Ratio) -> Ratio:
        return Ratio(
            self.hit_precision + other.hit_precision,
            self.all_precision + other.all_precision,
            self.hit_recall + other.hit_recall,
            self.all_recall + other.all_recall,
        )

    @property
    def precision(self) -> float:
        """Share of the found that is correct; 0 if nothing was found."""
        return self.hit_precision / self.all_precision if self.all_precision else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold that was found; 0 without gold."""
        return self.hit_recall / self.all_recall if self.all_recall else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def all_scores(gold: Sequence[Cluster], ours: Sequence[Cluster]) -> dict[str, Ratio]:
    """Return the three metrics of one text."""
    return {"MUC": muc(gold, ours), "B3": b_cubed(gold, ours), "CEAFe": ceaf_e(gold, ours)}


def conll_f1(scores: dict[str, Ratio]) -> float:
    """Return the mean of the three F1 (CoNLL-2012)."""
    return sum(scores[name].f1 for name in METRICS) / len(METRICS)


def muc(gold: Sequence[Cluster], ours: Sequence[Cluster]) -> Ratio:
    """Count the coreference links within clusters that the other side keeps."""
    return Ratio(*common_links(ours, gold), *common_links(gold, ours))


def common_links(clusters: Sequence[Cluster], others: Sequence[Cluster]) -> tuple[float, float]:
    """Return the links of ``clusters`` that ``others`` keep, and all links of ``clusters``."""
    # A cluster of n mentions needs n - 1 links; cut into k pieces by the other side it keeps n - k.
    owner = {mention: i for i, cluster in enumerate(others) for mention in cluster}
    links = total = 0
    for cluster in clusters:
        pieces = {owner.get(mention, ("alone", mention)) for mention in cluster}
        links += len(cluster) - len(pieces)
        total += len(cluster) - 1
    return links, total


def b_cubed(gold: Sequence[Cluster], ours: Sequence[Cluster]) -> Ratio:
    """Sum over mentions the overlap of a mention's two clusters, one from each side."""
    return Ratio(*shared_mentions(ours, gold), *shared_mentions(gold, ours))


def shared_mentions(clusters: Sequence[Cluster], others: Sequence[Cluster]) -> tuple[float, float]:
    """Return the summed share of each mention's cluster that ``others`` keep, and the mentions."""
    owner = {mention: i for i, cluster in enumerate(others) for mention in cluster}
    shared, total = 0.0, 0
    for cluster in clusters:
        sizes = Counter(owner[mention] for mention in cluster if mention in owner)
        shared += sum(size * size for size in sizes.values()) / len(cluster)
        total += len(cluster)
    return shared, total


def ceaf_e(gold: Sequence[Cluster], ours: Sequence[Cluster]) -> Ratio:
    """Match clusters one to one, maximising 2|G & F| / (|G| + |F|)."""
    if not gold or not ours:
        return Ratio(0.0, len(ours), 0.0, len(gold))
    similarity = np.array([[2 * len(g & f) / (len(g) + len(f)) for f in ours] for g in gold])
    best = float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())
    return Ratio(best, len(ours), best, len(gold))


Clusters = Sequence[Sequence[tuple[int, int]]]


def read_planted(
    path: Path, parser: str, parses: Path | None
) -> Iterator[tuple[str, Doc, Clusters]]:
    """Yield planted references, parsed or as recorded in the goldens, with their clusters."""
    from spacy.vocab import Vocab

    items = json.loads(path.read_text(encoding="utf-8"))
    vocab = Vocab()
    goldens = load(parses) if parses else []
    docs = {each["reference"]: recorded_parse(each, "reference", vocab)[0] for each in goldens}
    nlp = None if parses else load_parser(parser)
    for item in items:
        text = item["reference"].strip()
        doc = docs[text] if nlp is None else nlp(text)
        spans: list[list[tuple[int, int]]] = item["coref_spans"]
        yield item["id"], doc, [[token_span(doc, *span) for span in cluster] for cluster in spans]


def token_span(doc: Doc, start: int, end: int) -> tuple[int, int]:
    """Return the first and last token that a character span touches."""
    span = doc.char_span(start, end, alignment_mode="expand")
    return span.start, span.end - 1


def litbank(path: Path, parser: str) -> Iterator[tuple[str, Doc, Clusters]]:
    """Yield LitBank's documents, with its tokens and sentences, and clusters of two or more."""
    from spacy.tokens import Doc

    nlp = load_parser(parser)
    for file in sorted(path.glob("*.conll")):
        words, starts, clusters = read_conll(file.read_text(encoding="utf-8"))
        doc = Doc(nlp.vocab, words=words, sent_starts=starts)
        for _, component in nlp.pipeline:
            doc = component(doc)
        yield file.stem, doc, [cluster for cluster in clusters if len(cluster) > 1]


def read_conll(text: str) -> tuple[list[str], list[bool], list[list[tuple[int, int]]]]:
    """Read words, sentence starts and clusters of one document in CoNLL-2012 columns."""
    words: list[str] = []
    starts: list[bool] = []
    clusters: dict[str, list[tuple[int, int]]] = {}
    open_at: dict[str, list[int]] = {}
    new = True
    for line in text.splitlines():
        fields = line.split("\t")
        if line.startswith("#") or len(fields) < 5:
            new = True
            continue
        words.append(fields[3])
        starts.append(new)
        new = False
        for opening, label, closing in re.findall(r"(\()?(\d+)(\))?", fields[-1]):
            if opening:
                open_at.setdefault(label, []).append(len(words) - 1)
            if closing:
                clusters.setdefault(label, []).append((open_at[label].pop(), len(words) - 1))
    return words, starts, list(clusters.values())


def head_of(doc: Doc, span: tuple[int, int]) -> int:
    """Return a mention's head: the last token of its first noun run, or a pronoun."""
    first, last = span
    if first + 1 < last and doc[first + 1].text == "of":
        return first
    token = first
    while token <= last:
        if doc[token].pos_ in ("NOUN", "PROPN"):
            while token < last and doc[token + 1].pos_ in ("NOUN", "PROPN"):
                token += 1
            if token == last or (doc[token + 1].tag_ != "POS" and doc[token + 1].text != "-"):
                return token
        token += 1
    return next((i for i in range(first, last + 1) if doc[i].pos_ == "PRON"), last)


def head_matched(doc: Doc, clusters: Clusters) -> list[Cluster]:
    """Represent mentions by heads; of two with the same head, the longer one by its span."""
    # Shortest first, so that the inner mention gets the head: "man" represents "the man", not "the
    # man and his dog".
    keys: dict[object, tuple[int, int]] = {}
    spans = sorted({s for c in clusters for s in c}, key=lambda s: s[1] - s[0])
    name_of: dict[tuple[int, int], object] = {}
    for span in spans:
        head = head_of(doc, span)
        name_of[span] = span if head in keys else head
        keys.setdefault(head, span)
    return [frozenset(name_of[span] for span in cluster) for cluster in clusters]


def exact(doc: Doc, clusters: Clusters) -> list[Cluster]:
    """Represent mentions by their spans."""
    return [frozenset(cluster) for cluster in clusters]


MATCHES = {"exact spans": exact, "head-matched": head_matched}


def evaluate(
    coref: Coreferencer, items: Iterator[tuple[str, Doc, Clusters]], verbose: bool
) -> None:
    """Print the scores over all items."""
    totals = {match: dict.fromkeys(METRICS, Ratio()) for match in MATCHES}
    seconds = words = texts = 0.0
    for name, doc, gold in items:
        began = time.perf_counter()
        ours = coref.resolve([doc])[0]
        seconds, words, texts = seconds + time.perf_counter() - began, words + len(doc), texts + 1
        line = [name]
        for match, view in MATCHES.items():
            scores = all_scores(view(doc, gold), view(doc, ours))
            totals[match] = {metric: totals[match][metric] + scores[metric] for metric in METRICS}
            line.append(f"{match} {conll_f1(scores):.3f}")
        if verbose:
            print("  ".join(line))
            show(doc, gold, ours)
    print(
        f"{coref.name}: {texts:.0f} texts, {words:.0f} tokens, "
        f"{1000 * 200 * seconds / words:.2f} ms per 200 tokens"
    )
    for match, scores in totals.items():
        print(f"{match}: CoNLL F1 {conll_f1(scores):.3f}")
        for metric, ratio in scores.items():
            print(f"  {metric:6} P {ratio.precision:.3f}  R {ratio.recall:.3f}  F1 {ratio.f1:.3f}")


def show(doc: Doc, gold: Clusters, ours: Clusters) -> None:
    """Print the clusters on which gold and system differ."""

    def texts(cluster: Sequence[tuple[int, int]]) -> str:
        return " | ".join(f"{doc[a : b + 1].text} [{a}]" for a, b in sorted(cluster))

    same = {frozenset(c) for c in gold} & {frozenset(c) for c in ours}
    for title, clusters in (("gold ", gold), ("found", ours)):
        for cluster in clusters:
            if frozenset(cluster) not in same:
                print(f"   {title}  {texts(cluster)}")


def gap(coref: Coreferencer, path: Path, parser: str) -> None:
    """Print F1 of "the pronoun refers to this name", overall and by the pronoun's gender."""
    counts: dict[str, list[int]] = {"all": [0, 0, 0], "he": [0, 0, 0], "she": [0, 0, 0]}
    nlp = load_parser(parser)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row, doc in zip(rows, nlp.pipe(row["Text"] for row in rows), strict=True):
        clusters = coref.resolve([doc])[0]
        gender = "she" if row["Pronoun"].lower() in ("she", "her", "hers", "herself") else "he"
        pronoun = token_span(doc, *offsets(row, "Pronoun"))
        for letter in "AB":
            name = token_span(doc, *offsets(row, letter))
            linked = any(
                pronoun in cluster and any(name[0] <= head_of(doc, m) <= name[1] for m in cluster)
                for cluster in clusters
            )
            true = row[f"{letter}-coref"] == "TRUE"
            for key in ("all", gender):
                for i, hit in enumerate((linked and true, linked, true)):
                    counts[key][i] += hit
    for key, (hits, ours, true) in counts.items():
        print(
            f"{coref.name}, GAP {key}: P {hits / max(ours, 1):.3f}  R {hits / max(true, 1):.3f}"
            f"  F1 {2 * hits / max(ours + true, 1):.3f}"
        )


def offsets(row: dict[str, str], column: str) -> tuple[int, int]:
    """Return the characters that a GAP column's text covers."""
    start = int(row[f"{column}-offset"])
    return start, start + len(row[column])


def main() -> None:
    """Command line."""
    cli = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cli.add_argument("data", choices=("planted", "litbank", "gap"))
    cli.add_argument("path", type=Path)
    cli.add_argument("--coref", default="rules")
    cli.add_argument("--parser", default="embedded")
    cli.add_argument("--parses", type=Path, help="goldens.jsonl, to use its parses instead")
    cli.add_argument("--verbose", action="store_true", help="print clusters that differ")
    args = cli.parse_args()
    coref = load_coref(args.coref)
    if args.data == "gap":
        gap(coref, args.path, args.parser)
    elif args.data == "litbank":
        evaluate(coref, litbank(args.path, args.parser), args.verbose)
    else:
        evaluate(coref, read_planted(args.path, args.parser, args.parses), args.verbose)


if __name__ == "__main__":
    main()
