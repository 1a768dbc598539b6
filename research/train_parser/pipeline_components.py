"""Train the lemmatizer's tables and the sentence splitter, and select silver trees."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed, minibatch
from thinc.api import Adam

from posh_reward.embedded.lemmatizer import ENDING_RULES, TableLemmatizer, find_lemma
from posh_reward.embedded.parser import find_feature_rows
from research.train_parser.conllu import Word
from research.train_parser.documents import bare
from research.train_parser.network import Network, TrainingRow, padded_rows

KEEP_FORM = ("PRON", "DET", "PROPN", "NUM", "PUNCT", "SYM", "X")
"""Parts of speech whose lemma is the word itself in ``en_core_web``: *her*, not *she*."""
INFLECTED = tuple(ending for rules in ENDING_RULES.values() for ending, _ in rules)


def lemma_tables(sentences: Sequence[Sequence[Word]], texts: Iterable[str]) -> TableLemmatizer:
    """Collect lemmas from treebank and text, and the forms that the rules would get wrong."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    words: set[str] = set()
    for sentence in sentences:
        for word in sentence:
            low = word.form.lower().replace("\u2019", "'")
            if word.upos in KEEP_FORM or word.lemma == "_":
                continue
            counts.setdefault((word.upos, word.tag, low), Counter())[word.lemma.lower()] += 1
            if word.lemma.isalpha():
                words.add(word.lemma.lower())
    tokens = Counter(token for text in texts for token in text.split())
    words |= {
        token for token, count in tokens.items()
        if count > 1 and token.isalpha() and token.islower() and not token.endswith(INFLECTED)
    }  # fmt: skip
    forms = {}
    for (pos, tag, low), lemmas in counts.items():
        best = lemmas.most_common(1)[0][0]
        if find_lemma(low, pos, tag, {}, frozenset(words)) != best:
            forms[f"{tag} {low}"] = best
    return TableLemmatizer(forms, frozenset(words))


MODEL = {
    "@architectures": "spacy.Tagger.v2",
    "nO": None,
    "tok2vec": {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "pretrained_vectors": None,
        "width": 32,
        "depth": 3,
        "embed_size": 2000,
        "window_size": 1,
        "maxout_pieces": 2,
        "subword_features": True,
    },
}


def add_senter(nlp: Language, docs: Sequence[Doc], epochs: int = 4, seed: int = 0) -> None:
    """Add a ``senter`` at the front and train it on gold Docs of several sentences."""
    fix_random_seed(seed)
    rng = random.Random(seed)
    nlp.add_pipe("senter", first=True, config={"model": MODEL})
    examples = [Example(bare(doc), doc) for doc in docs]
    optimizer = Adam(0.001, L2=0.01, L2_is_weight_decay=True, grad_clip=1.0, use_averages=True)
    senter = nlp.get_pipe("senter")
    senter.initialize(lambda: examples[:100], nlp=nlp)
    for epoch in range(epochs):
        rng.shuffle(examples)
        losses: dict[str, float] = {}
        for batch in minibatch(examples, 24):
            senter.update(batch, sgd=optimizer, drop=0.1, losses=losses)
        print(f"senter epoch {epoch} loss {losses['senter']:.1f}", flush=True)
    senter.model.use_params(optimizer.averages).__enter__()


MIN_SURE = 0.9
MAX_WORDS = 60


def confident(network: Network, sentences: Sequence[Sequence[str]]) -> list[TrainingRow]:
    """Parse the sentences of 4 to ``MAX_WORDS`` words; mask heads of unsure words with -1."""
    network.eval()
    inputs = sorted((s for s in sentences if 4 <= len(s) <= MAX_WORDS), key=len, reverse=True)
    rows: list[TrainingRow] = []
    with torch.no_grad():
        for start in range(0, len(inputs), 32):
            rows += _batch(network, inputs[start : start + 32])
    return rows


def _batch(network: Network, sentences: Sequence[Sequence[str]]) -> list[TrainingRow]:
    features = [[find_feature_rows(w, i == 0) for i, w in enumerate(s)] for s in sentences]
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    states, tag_scores = network(padded_rows(features), lengths)
    arcs = network.arcs(states)
    beyond = torch.arange(arcs.shape[2]) > lengths[:, None]
    arcs = arcs.masked_fill(beyond[:, None, :], -1e9).softmax(-1)
    arc_sure, heads = arcs.max(-1)
    real = torch.arange(arcs.shape[1]) < lengths[:, None]
    label_sure, labels = network.labels(states, heads, real).softmax(-1).max(-1)
    tag_sure, tags = tag_scores[real].softmax(-1).max(-1)
    sure = arc_sure[real] * label_sure * tag_sure > MIN_SURE
    heads_sure = torch.where(sure, heads[real], -1)
    columns = [part.split(lengths.tolist()) for part in (heads_sure, labels, tags)]
    return [
        TrainingRow(features[i], [w.lower() for w in sentence], *(c[i].tolist() for c in columns))
        for i, sentence in enumerate(sentences)
    ]
