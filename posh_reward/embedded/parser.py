"""The embedded parser: a deep biaffine parser (Dozat and Manning, 2017) in numpy.

Hashed word, affix and shape features, two bidirectional LSTM layers, one classifier for part of
speech and fine tag together, and biaffine scores of heads and labels, decoded to a tree with one
root. A rule then corrects verbs that were read as nouns. It needs sentence boundaries, and was
trained in ``research/train_parser``.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD, POS, TAG
from spacy.language import Language
from spacy.tokens import Doc

from posh_reward.embedded.english.wordnet import load_wordnet
from posh_reward.types import WORD_CACHE_SIZE

Array = NDArray[Any]

Parameters = dict[str, Array]

MAX_ROOTS_TRIED = 3  # the likeliest ones, where the best heads alone are not a tree


def decode_tree(scores: Array) -> Array:
    """Return the heads of the best tree with one root, as columns of the scores: (words,).

    ``scores`` are (words, 1 + words), of each word with each head; column 0 is the root.
    """
    size = len(scores)
    scores = scores.astype(np.float64)
    scores[np.arange(size), np.arange(1, size + 1)] = -np.inf
    heads: Array = scores.argmax(axis=1)
    # Each word's best head alone nearly always makes a tree.
    if (heads == 0).sum() == 1 and not find_cycle(np.concatenate([[0], heads])):
        return heads
    square = np.full((size + 1, size + 1), -np.inf)  # (dependent, head), the root first in both
    square[1:] = scores
    best, best_score = heads, -np.inf
    # Chu-Liu-Edmonds allows any number of roots: run it with each likely root as the only one.
    for root in np.argsort(-scores[:, 0])[:MAX_ROOTS_TRIED]:
        # Only this word may attach to the root.
        one_root = square.copy()
        one_root[:, 0] = -np.inf
        one_root[root + 1] = -np.inf
        one_root[root + 1, 0] = scores[root, 0]
        heads_of_root = find_maximum_spanning_tree(one_root)[1:]
        total = scores[np.arange(size), heads_of_root].sum()
        if total > best_score:
            best, best_score = heads_of_root, total
    return best


def find_cycle(heads: Array) -> list[int]:
    """Return the nodes of a cycle, from which heads do not lead to node 0; empty if none exists."""
    leads_to_root = {0}
    for start in range(len(heads)):
        path: list[int] = []
        node = start
        while node not in leads_to_root:
            if node in path:
                return path[path.index(node) :]
            path.append(node)
            node = int(heads[node])
        leads_to_root.update(path)
    return []


def find_maximum_spanning_tree(scores: Array) -> Array:
    """Return the best head of each node, by ``scores[dependent, head]``; node 0 is the root.

    Chu-Liu-Edmonds: a cycle of best heads becomes one node of a smaller problem. An arc into the
    cycle is worth its gain over the arc of the cycle that it replaces. If nodes 1 and 2 are each
    other's best head with a score of 9, and the root is worth 5 to node 1 and 1 to node 2, then
    entering at node 1 is worth 5 - 9 = -4 and at node 2 it is 1 - 9 = -8: the root becomes the head
    of node 1, which stays the head of node 2.
    """
    heads: Array = scores.argmax(axis=1)
    heads[0] = 0
    cycle = np.array(find_cycle(heads))
    if not len(cycle):
        return heads
    others = np.setdiff1d(np.arange(len(scores)), cycle)  # the root first
    gains = scores[np.ix_(cycle, others)] - scores[cycle, heads[cycle]][:, None]
    leaving = scores[np.ix_(others, cycle)]
    smaller = np.full((len(others) + 1, len(others) + 1), -np.inf)  # the cycle last
    smaller[:-1, :-1] = scores[np.ix_(others, others)]
    smaller[-1, :-1] = gains.max(axis=0)
    smaller[:-1, -1] = leaving.max(axis=1)
    chosen = find_maximum_spanning_tree(smaller)
    of_others, entered_from = chosen[:-1], chosen[-1]
    in_cycle = cycle[leaving.argmax(axis=1)]  # the best head of each other node within the cycle
    heads[others] = np.where(of_others == len(others), in_cycle, others[of_others % len(others)])
    heads[cycle[gains[:, entered_from].argmax()]] = others[entered_from]
    return heads


TABLE_ROWS = {"word": 12000, "prefix": 4000, "suffix2": 1500, "suffix3": 5000, "suffix4": 7000,
        "shape": 600}  # fmt: skip
"""Rows of each feature's embedding table. Row 0 stood for dropped words in training."""
LSTM_LAYERS = 2
MAX_WORDS_PER_SENTENCE = 200
"""Words after which a sentence is cut. Scores and decoding are quadratic in its length: a
generation that repeated one word 3,000 times ran out of memory."""
SENTENCES_AT_ONCE = 64


def word_shape(word: str) -> str:
    """Return the classes of characters, with runs cut at two: *Mustard-yellow2* -> ``Xxx-xxd``."""
    classes = ""
    for character in word:
        kind = "d" if character.isdigit() else character
        if character.isalpha():
            kind = "X" if character.isupper() else "x"
        if not classes.endswith(kind * 2):
            classes += kind
    return classes


@lru_cache(maxsize=WORD_CACHE_SIZE)
def find_feature_rows(word: str, first: bool = False) -> tuple[int, ...]:
    """Return a word's 7 embedding rows: its form under two hashes, prefix, suffixes, shape."""
    low = word.lower()
    texts = (("word", low, 0), ("word", low, 7), ("prefix", low[:3], 1), ("suffix2", low[-2:], 2),
             ("suffix3", low[-3:], 3), ("suffix4", low[-4:], 4),
             ("shape", word_shape(word) + "^" * first, 5))  # fmt: skip
    rows = []
    for name, text, seed in texts:
        # Row 0 is that of dropped words.
        rows.append(1 + zlib.crc32(text.encode(), seed) % (TABLE_ROWS[name] - 1))
    return tuple(rows)


def embed_rows(rows: Array, weights: Parameters) -> Array:
    """Embed rows: (words, 7) -> (words, features)."""
    word = weights["word"][rows[:, 0]] + weights["word"][rows[:, 1]]
    others = [weights[name][rows[:, i]] for i, name in enumerate(list(TABLE_ROWS)[1:], 2)]
    return np.concatenate([word, *others], axis=1)


def sigmoid(x: Array) -> Array:
    """Logistic function by tanh, which does not overflow."""
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


@dataclass(frozen=True)
class Packing:
    """Sentences, longest first, laid out word by word: all first words, all second words, ...

    Nothing is padded: at step i of the LSTM, the sentences with an i-th word are a slice.
    """

    sizes: Array  # number of sentences with a first, second, ... word
    places: Array  # place of each word, in sentence order
    mirror: Array  # per place: the place of its mirror image in the reversed sentence


def pack_sentences(lengths: Array) -> Packing:
    """Lay out sentences of these lengths, longest first."""
    sizes = (lengths[None, :] > np.arange(lengths[0])[:, None]).sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    places = [starts[:length] + i for i, length in enumerate(lengths)]
    mirror = np.empty(int(lengths.sum()), dtype=np.int64)
    for place in places:
        mirror[place] = place[::-1]
    return Packing(sizes, np.concatenate(places), mirror)


def run_lstm(x: Array, sizes: Array, weights: Parameters, name: str) -> Array:
    """Run one direction of an LSTM over packed (words, features)."""
    # The input's share of all gates in one product; only the recurrent share needs a step each.
    gates = x @ weights[f"weight_ih_{name}"].T  # (words, 4 x width): input, forget, cell, output
    gates += weights[f"bias_ih_{name}"] + weights[f"bias_hh_{name}"]
    recurrent = np.ascontiguousarray(weights[f"weight_hh_{name}"].T)  # multiplied at every step
    width = recurrent.shape[0]
    hidden = np.zeros((int(sizes[0]), width), dtype=np.float32)
    cell = np.zeros_like(hidden)
    result = np.empty((len(x), width), dtype=np.float32)
    start = 0
    for size in sizes:
        # Longest first, so the sentences that still have a word are the first ``size`` rows.
        gate = hidden[:size] @ recurrent  # (size, 4 x width)
        gate += gates[start : start + size]
        keep = sigmoid(gate[:, : 2 * width])  # input and forget gates
        cell = keep[:, width:] * cell[:size]
        cell += keep[:, :width] * np.tanh(gate[:, 2 * width : 3 * width])
        hidden = sigmoid(gate[:, 3 * width :]) * np.tanh(cell)
        result[start : start + size] = hidden
        start += size
    return result


def run_bilstm(x: Array, layout: Packing, weights: Parameters) -> Array:
    """Run the bidirectional layers: packed (words, features) -> (words, 2 x width)."""
    for layer in range(LSTM_LAYERS):
        forward = run_lstm(x, layout.sizes, weights, f"l{layer}")
        backward = run_lstm(x[layout.mirror], layout.sizes, weights, f"l{layer}_reverse")
        x = np.concatenate([forward, backward[layout.mirror]], axis=1)
    return x


def project_states(x: Array, weights: Parameters, name: str) -> Array:
    """Apply a linear layer with a leaky rectifier."""
    y: Array = x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return np.maximum(y, 0.1 * y)


def append_one(x: Array) -> Array:
    """Append a constant feature of 1, for the biases of a biaffine product."""
    return np.concatenate([x, np.ones((len(x), 1), dtype=np.float32)], axis=1)


def choose_heads(states: Array, lengths: Array, weights: Parameters) -> list[Array]:
    """Return the heads of each sentence's words: 0 for the root, i + 1 for word i."""
    root = project_states(weights["root"], weights, "arc_head")
    governors = project_states(states, weights, "arc_head")
    dependents = append_one(project_states(states, weights, "arc_dep")) @ weights["arc"]
    ends = np.cumsum(lengths)[:-1]
    pairs = zip(np.split(dependents, ends), np.split(governors, ends), strict=True)
    heads = []
    for own, others in pairs:
        heads.append(decode_tree(own @ np.concatenate([root, others]).T))
    return heads


def score_labels(states: Array, heads: Array, weights: Parameters) -> Array:
    """Score labels: (words, labels). ``heads`` are rows of ``states``; -1 is the root."""
    dependents = append_one(project_states(states, weights, "label_dep"))
    everyone = np.concatenate([states, weights["root"]])
    governors = append_one(project_states(everyone, weights, "label_head"))[heads]
    labels, width, _ = weights["label"].shape
    flat = weights["label"].transpose(1, 0, 2).reshape(width, labels * width)
    # One product for all labels; only the chosen governor is scored, not all pairs.
    products = (dependents @ flat).reshape(len(states), labels, width)
    scores: Array = (products @ governors[:, :, None])[:, :, 0]
    return scores


Tag = tuple[str, str]  # part of speech, fine tag
SINGULAR_DETERMINERS = frozenset("a an one another every each".split())
"""Determiners that no plural noun follows."""
FINITE_TAGS = frozenset(("VBZ", "VBD", "VBP", "MD"))
PLURAL_MODIFIERS = frozenset("sports arms goods sales clothes glasses".split())  # a sports car
VERB_FILES = range(29, 44)  # WordNet's lexicographer files of verbs


def correct_parse(
    words: Sequence[str], rows: Array, labels: Sequence[str], tags: Sequence[Tag]
) -> Array:
    """Return a sentence's parse with a verb that was read as a noun as its root.

    ``rows`` are (words, 3): indices of head (a root is its own), of label and of tag.
    """
    heads, label_indices, tag_indices = rows.T.tolist()
    own_labels = [labels[i] for i in label_indices]
    own_tags = [tags[i] for i in tag_indices]
    verb = find_misread_verb(words, heads, own_labels, own_tags)
    if verb is None:
        return rows
    better = reread_as_verb(verb, heads, own_labels, own_tags)
    if better is None:
        return rows
    new_heads, new_labels, new_tags = better
    columns = [new_heads, list(map(labels.index, new_labels)), list(map(tags.index, new_tags))]
    parse: Array = np.array(columns).T
    return parse


def find_misread_verb(
    words: Sequence[str], heads: Sequence[int], labels: Sequence[str], tags: Sequence[Tag]
) -> int | None:
    """Return the index of a verb that was read as a noun, after the subject that opens a sentence.

    Neither "a" + singular + plural is a noun phrase ("a ewe *sniffs*") nor "the" + singular +
    plural + noun ("the woman *holds* flowers"). ``heads`` and ``labels`` are those of each word.
    """
    subject = 1
    while subject < len(words) and tags[subject][0] == "ADJ":
        subject += 1
    verb = subject + 1
    if verb >= len(words) or tags[subject][1] != "NN" or tags[verb] != ("NOUN", "NNS"):
        return None
    after = heads[verb]
    if any(tag in FINITE_TAGS and i != after for i, (_, tag) in enumerate(tags)):
        return None
    opening, word = words[0].lower(), words[verb].lower()
    has_object = after > verb or labels[subject] == "nsubj"
    fits = opening in SINGULAR_DETERMINERS or (opening == "the" and has_object)
    if fits and word not in PLURAL_MODIFIERS and _is_verb(word):
        return verb
    return None


def _is_verb(word: str) -> bool:
    if not word.endswith("s"):
        return False
    net = load_wordnet()
    senses = chain.from_iterable(map(net.senses, net.lemmas(word)))
    return any(net.file[synset] in VERB_FILES for synset, _ in senses)


def reread_as_verb(
    verb: int, heads: Sequence[int], labels: Sequence[str], tags: Sequence[Tag]
) -> tuple[list[int], list[str], list[Tag]] | None:
    """Make the verb the root of heads, labels and tags; None if another word has to be the root."""
    subject, former = verb - 1, heads[verb]
    root = next(i for i, head in enumerate(heads) if head == i)
    if root not in (verb, former):
        return None
    new_heads, new_labels, new_tags = list(heads), list(labels), list(tags)
    for i in range(verb):
        if heads[i] >= verb:
            new_heads[i] = subject
    new_heads[subject], new_labels[subject] = verb, "nsubj"
    new_heads[verb], new_labels[verb], new_tags[verb] = verb, "ROOT", ("VERB", "VBZ")
    if former != verb:
        new_heads[former], new_labels[former] = verb, "dobj"
        if tags[former][0] == "VERB":
            new_tags[former] = ("NOUN", "NNS")
        for i, label in enumerate(labels):
            if heads[i] == former and label == "punct":
                new_heads[i] = verb
    return new_heads, new_labels, new_tags


class BiaffineParser:
    """spaCy component that sets tags, parts of speech, heads and labels."""

    def __init__(self, weights: Parameters, tags: Sequence[tuple[str, str]], labels: Sequence[str]):
        self.weights = weights
        self.tags = list(tags)  # (part of speech, fine tag), in the order of the outputs
        self.labels = list(labels)

    def __call__(self, doc: Doc) -> Doc:
        """Parse one Doc in place."""
        return next(iter(self.pipe([doc])))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 16) -> Iterator[Doc]:
        """Parse Docs in place, the sentences of a batch at once."""
        docs = iter(stream)
        while batch := list(islice(docs, batch_size)):
            spans = list(map(split_sentences, batch))
            texts: list[list[str]] = []
            for doc, own in zip(batch, spans, strict=True):
                for span in own:
                    texts.append([doc[i].text for i in span])
            predictions = iter(self.predict_corrected(texts))
            for doc, own in zip(batch, spans, strict=True):
                self._annotate(doc, own, list(islice(predictions, len(own))))
            yield from batch

    def predict_corrected(self, texts: Sequence[Sequence[str]]) -> list[Array]:
        """Return ``predict``'s rows, with verbs that were read as nouns corrected."""
        parses = []
        for words, rows in zip(texts, self.predict(texts), strict=True):
            parses.append(correct_parse(words, rows, self.labels, self.tags))
        return parses

    def predict(self, texts: Sequence[Sequence[str]]) -> list[Array]:
        """Return (words, 3) per sentence: indices of head (a root is its own), label and tag."""
        # Sentences of similar length together, so that few steps of the LSTM serve a short slice.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        results: dict[int, Array] = {}
        for start in range(0, len(order), SENTENCES_AT_ONCE):
            chunk = order[start : start + SENTENCES_AT_ONCE]
            predictions = self._predict_sorted([texts[i] for i in chunk])
            results.update(zip(chunk, predictions, strict=True))
        return [results[i] for i in range(len(texts))]

    def _predict_sorted(self, texts: Sequence[Sequence[str]]) -> list[Array]:
        weights = self.weights
        lengths = np.array(list(map(len, texts)))
        rows: list[tuple[int, ...]] = []
        for text in texts:
            rows += [find_feature_rows(word, i == 0) for i, word in enumerate(text)]
        layout = pack_sentences(lengths)
        width = sum(weights[name].shape[1] for name in TABLE_ROWS)
        x = np.empty((len(rows), width), dtype=np.float32)
        x[layout.places] = embed_rows(np.array(rows), weights)  # packed: word by word
        states = run_bilstm(x, layout, weights)[layout.places]  # (words, 2 x width), by sentence
        choices = choose_heads(states, lengths, weights)
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)  # of each word's sentence
        heads = np.concatenate(choices)
        is_root = heads == 0
        labels = score_labels(states, np.where(is_root, -1, starts + heads - 1), weights)
        root = self.labels.index("ROOT")
        labels[:, root] = -np.inf  # the root alone gets this label, whatever its scores
        best = np.where(is_root, root, labels.argmax(axis=1))
        tags = (states @ weights["tag.weight"].T + weights["tag.bias"]).argmax(axis=1)
        own = np.arange(len(rows)) - starts
        result = np.stack([np.where(is_root, own, heads - 1), best, tags], axis=1)
        return np.split(result, np.cumsum(lengths)[:-1])

    def _annotate(self, doc: Doc, spans: list[list[int]], predictions: list[Array]) -> None:
        # The head of white space is the token before it.
        if not len(doc):
            return
        strings = doc.vocab.strings
        # spaCy's arrays are of uint64: a head is the offset to it, and wraps if negative.
        values = np.zeros((len(doc), 4), dtype=np.uint64)  # HEAD, DEP, TAG, POS
        values[:, 0] = np.array(-1 * (np.arange(len(doc)) > 0)).astype(np.uint64)
        values[:, 1:] = [strings.add("dep"), strings.add("_SP"), strings.add("SPACE")]
        deps = np.array(list(map(strings.add, self.labels)), dtype=np.uint64)
        fine = np.array([strings.add(tag) for _, tag in self.tags], dtype=np.uint64)
        coarse = np.array([strings.add(pos) for pos, _ in self.tags], dtype=np.uint64)
        for span, rows in zip(spans, predictions, strict=True):
            words = np.array(span)
            heads, labels, tags = rows.T
            values[words, 0] = (words[heads] - words).astype(np.uint64)
            values[words, 1:] = np.stack([deps[labels], fine[tags], coarse[tags]], axis=1)
        doc.from_array([HEAD, DEP, TAG, POS], values)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the weights (half precision, no pickle) and the names of outputs."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        halves = {name: array.astype(np.float16) for name, array in self.weights.items()}
        np.savez(folder / "weights.npz", **halves)  # type: ignore[arg-type]
        names = {"tags": self.tags, "labels": self.labels}
        (folder / "names.json").write_text(json.dumps(names, indent=1), encoding="utf-8")

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> BiaffineParser:
        """Read the files of ``to_disk``."""
        folder = Path(path)
        with np.load(folder / "weights.npz", allow_pickle=False) as file:
            self.weights = {name: file[name].astype(np.float32) for name in file.files}
        names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
        self.tags = [(pos, tag) for pos, tag in names["tags"]]
        self.labels = list(names["labels"])
        return self


def split_sentences(doc: Doc) -> list[list[int]]:
    """Return each sentence's tokens without white space.

    Blank lines and ``MAX_WORDS_PER_SENTENCE`` words end a sentence, too.
    """
    spans: list[list[int]] = []
    starts = True
    for token in doc:
        starts = starts or token.is_sent_start is True
        if token.is_space:
            starts = starts or token.text.count("\n") > 1
            continue
        if starts or len(spans[-1]) == MAX_WORDS_PER_SENTENCE:
            spans.append([])
        spans[-1].append(token.i)
        starts = False
    return spans


@Language.factory(  # type: ignore[untyped-decorator]
    "biaffine_parser", assigns=["token.tag", "token.pos", "token.dep", "token.head"]
)
def make_parser(nlp: Language, name: str) -> BiaffineParser:
    """An empty component, filled by ``from_disk``."""
    return BiaffineParser({}, [], [])
